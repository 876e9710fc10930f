"""Who may see what of a call's context: the targets there are, and how callers and sources say whom a thing is for."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ctxwrap.errors import SettingsError, unknown_name

Target = Literal["model", "tool", "runtime", "ui", "user", "reviewer", "peer_agent", "evidence_export"]
TARGETS: tuple[Target, ...] = get_args(Target)

ALONE: tuple[Target, ...] = ("model",)
"""Who sees what nobody says anything about."""

REMEMBERED = ("facts", "decisions", "todo", "refs")
"""The kinds that memory is told by."""

_ALWAYS = ("system", "request", "boot_header", "memory", *REMEMBERED, "recent_messages")
"""What a call is made of: settings of their own switch it off, and the model sees it."""

OFFERED = ("knowledge_pack_item", "document_excerpt", "browser_state", "team_memory", "external_resource")
"""The kinds of context that only a caller has: offered for a call, or entries of a working set."""

FILES = ("working_set", *OFFERED)
"""The kinds of what a working set holds."""

_KINDS = (*_ALWAYS, "pinned", "summary", *FILES, "retrieved", "children")

VisibilityRules = Mapping[str, Sequence[str]]
"""Who may see something, by its kind (`pinned`; `memory` is all that is remembered) or by its source (`notes/a.md`)."""


def check_target(value: object) -> Target:
    if isinstance(value, str) and value in TARGETS:
        return value
    raise unknown_name("target", value, TARGETS)


def check_rules(rules: object) -> None:
    """Raise a SettingsError unless these are rules that can be kept."""
    if not isinstance(rules, Mapping):
        raise SettingsError(f"visibility must be a mapping from kinds or sources to targets, not {rules!r}")
    for name, targets in rules.items():
        if not isinstance(name, str) or (name not in _KINDS and not {"/", "."} & {*name}):
            raise unknown_name("kind of context in visibility", name, _KINDS)
        if isinstance(targets, str) or not isinstance(targets, Sequence):
            raise SettingsError(f"visibility[{name!r}] must be a list of targets, not {targets!r}")
        for target in targets:
            check_target(target)
        if name in _ALWAYS and "model" not in targets:
            raise SettingsError(f"visibility[{name!r}] must name the model: a call is made of it")


def seen_by(rules: VisibilityRules, kind: str, source: str, own: Sequence[str] | None = None) -> tuple[Target, ...]:
    """Who may see something: those whom the caller's rules name and, if it names some of its own, these, too."""
    named = [source, kind, *(("memory",) if kind in REMEMBERED else ())]
    asked = next((rules[name] for name in named if name in rules), None)
    if asked is None:
        asked = ALONE if own is None else own
    return tuple(target for target in TARGETS if target in asked and (own is None or target in own))
