"""Visibility: the targets that may see an item of a call's context, and the rules that decide it."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ctxwrap.errors import SettingsError, unknown_name

Target = Literal["model", "tool", "runtime", "ui", "user", "reviewer", "peer_agent", "evidence_export"]
TARGETS: tuple[Target, ...] = get_args(Target)

ALONE: tuple[Target, ...] = ("model",)
"""Who sees an item without a rule."""

REMEMBERED = ("facts", "decisions", "todo", "refs")
"""The kinds of memory items."""

_ALWAYS = ("system", "request", "boot_header", "memory", *REMEMBERED, "recent_messages")
"""Kinds that the model always sees; separate settings switch them off."""

OFFERED = ("knowledge_pack_item", "document_excerpt", "browser_state", "team_memory", "external_resource")
"""Kinds of context that come from the caller: offered for a call, or entries of a working set."""

FILES = ("working_set", *OFFERED)
"""The kinds of working-set entries."""

_KINDS = (*_ALWAYS, "pinned", "summary", *FILES, "retrieved", "children")

VisibilityRules = Mapping[str, Sequence[str]]
"""Targets by kind (`pinned`; `memory` covers all memory items) or by source (`notes/a.md`)."""


def check_target(value: object) -> Target:
    if isinstance(value, str) and value in TARGETS:
        return value
    raise unknown_name("target", value, TARGETS)


def check_rules(rules: object) -> None:
    """Raise a SettingsError for invalid rules."""
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
            raise SettingsError(f"visibility[{name!r}] must include the model")


def seen_by(rules: VisibilityRules, kind: str, source: str, own: Sequence[str] | None = None) -> tuple[Target, ...]:
    """The targets that may see an item: those of the caller's rules that the item's own list, if any, allows."""
    named = [source, kind, *(("memory",) if kind in REMEMBERED else ())]
    asked = next((rules[name] for name in named if name in rules), None)
    if asked is None:
        asked = ALONE if own is None else own
    return tuple(target for target in TARGETS if target in asked and (own is None or target in own))
