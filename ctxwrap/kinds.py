"""The kinds of pack items: a table with one row per kind, and the visibility rules that name kinds."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ctxwrap.errors import SettingsError, unknown_name
from ctxwrap.redaction.visibility import MODEL_ONLY, TARGETS, Target, VisibilityRules, check_target

Severity = Literal["info", "low", "medium", "high", "blocking"]

Form = Literal["fixed", "messages", "memory", "text", "file", "offer", "passage"]
"""What an item of a kind is made of.

fixed: part of every request. messages: messages of the conversation. memory: memory items. text: a text of the session.
file: an entry of a working set. offer: a text that the caller offers, or an entry of a working set with another kind.
passage: a part of an earlier message.
"""


class Share(NamedTuple):
    """A part of the budget, claimed by one kind or by several together."""

    name: str
    """The field of `Shares` that changes it, if there is one, and its key in the `spent` of a budget."""
    part: float
    """Of the limit, by default."""
    of_conversation: float = 0.0
    """Of the limit for the whole conversation, where that applies; 0 if it does not apply to this share."""
    least: int = 0
    """Tokens that the share has by default where `part` has fewer, as far as they are at most `most` of the limit."""
    most: float = 0.0
    may_exceed: bool = False
    """Whether it may take more than `of_conversation`, on top of the limit for the conversation."""

    def tokens(self, limit: int) -> int:
        """The default under a limit: the smaller the budget, the greater is its part for what is worth it."""
        return int(max(self.part * limit, min(self.least, self.most * limit)))


NO_SHARE = Share("", 0.0)
"""Of what is sent in any case."""


class EvidenceMapping(NamedTuple):
    """A kind in the terms of Agent Context."""

    kind: str
    variants: tuple[tuple[str, str, str], ...] = ()
    """Other kinds for some items: what decides (role, tier, origin or source), a glob for its value, and the kind."""
    omission: str = "custom"
    """The reason for an omission whose own reason has no term."""
    ranked: bool = True
    """Whether items compete, so that a selection tells their ranking signals."""
    signals: Mapping[str, Any] = MappingProxyType({})
    """Ranking signals that all items of the kind have."""


class PackKind(NamedTuple):
    name: str
    form: Form
    evidence: EvidenceMapping
    share: Share = NO_SHARE
    claims: Literal["early", "late"] = "late"
    """Whether texts claim their share before memory, files and messages, or after them."""
    truncates: bool = False
    """Whether a text that exceeds the share is cut at its end; otherwise it is left out."""
    block: Literal["protocol", "boot", "pinned", "background", "found", "state", "messages"] = "background"
    """The block of the request that holds it. Texts stand in `pinned`, the operator's notes, or `background`, data."""
    store: Literal["session", "workingset", "ctxwrap", "user", "team"] = "session"
    """What a source is relative to."""
    source: str = ""
    """The source, if all items have the same one."""
    reason: str = ""
    """Why an item is in the pack. The log abbreviates it: a change also changes how older logs read."""
    label: str = ""
    """Its name in `pack.json` and `pack.md`, if it has another one there."""
    severity: Severity | None = None
    """How bad it is if an item exceeds the budget; None if that is not missing context."""
    noun: str = ""
    """What missing context calls an item."""
    visibility: tuple[Target, ...] = MODEL_ONLY
    """Who may see an item unless rules or the item itself say otherwise."""
    is_required: bool = False
    """Whether no rule may hide it from the model."""


EXCERPTS = "user_excerpts"
"""Passages of a user's other sessions."""

_MEMORY = Share("memory", 0.4, of_conversation=0.45)
_FILES = Share("working_set", 0.75)
_FACTS = "context/facts.jsonl"
_REMEMBERED = EvidenceMapping("working_memory", (("tier", "core", "durable_memory"),))


def _memory(name: str, source: str) -> PackKind:
    return PackKind(
        name=name,
        form="memory",
        evidence=_REMEMBERED,
        share=_MEMORY,
        block="state",
        source=source,
        reason="remembered",
        is_required=True,
    )


def _offer(name: str) -> PackKind:
    return PackKind(name=name, form="offer", evidence=EvidenceMapping(name), share=_FILES, store="workingset")


_ROWS = (
    PackKind(
        name="system",
        form="fixed",
        evidence=EvidenceMapping("system_prompt", ranked=False),
        block="protocol",
        store="ctxwrap",
        source="protocol",
        reason="tells the model what the blocks are",
        is_required=True,
    ),
    PackKind(
        name="memory",
        form="fixed",
        evidence=EvidenceMapping("runtime_state", ranked=False),
        share=_MEMORY,
        block="state",
        source="events.jsonl",
        reason="frames, and the runtime fields",
        is_required=True,
    ),
    PackKind(
        name="request",
        form="messages",
        evidence=EvidenceMapping(
            "user_message",
            (
                ("role", "system", "system_prompt"),
                ("role", "assistant", "session_history"),
                ("role", "tool", "tool_result"),
            ),
            ranked=False,
        ),
        block="messages",
        source="caller",
        reason="sent by the caller",
        is_required=True,
    ),
    PackKind(
        name="boot_header",
        form="fixed",
        evidence=EvidenceMapping("developer_instruction"),
        share=_FILES,
        block="boot",
        store="ctxwrap",
        source="working set",
        reason="tells the model where it is",
        is_required=True,
    ),
    _memory("facts", _FACTS),
    _memory("decisions", "context/decisions.jsonl"),
    _memory("todo", "context/todo.md"),
    _memory("refs", "context/refs.jsonl"),
    _memory("user_items", _FACTS)._replace(
        evidence=EvidenceMapping("durable_memory"),
        share=Share("user", 0.1),
        store="user",
    ),
    _memory("team_items", _FACTS)._replace(
        evidence=EvidenceMapping("team_memory"), share=Share("team", 0.05), store="team"
    ),
    PackKind(
        name="recent_messages",
        form="messages",
        evidence=EvidenceMapping("session_history", (("role", "tool", "tool_result"),), ranked=False),
        share=Share("recent", 0.25, of_conversation=0.4),
        block="messages",
        source="messages.jsonl",
        reason="recent history",
        is_required=True,
    ),
    PackKind(
        name="pinned",
        form="text",
        evidence=EvidenceMapping("manual_note", (("origin", "operator", "policy_note"),), signals={"user_pin": True}),
        share=Share("pinned", 0.15),
        claims="early",
        block="pinned",
        reason="pinned by the operator",
        label="system",
        severity="high",
        noun="the pinned text",
    ),
    PackKind(
        name="summary",
        form="text",
        evidence=EvidenceMapping("thread_summary"),
        share=Share("summary", 0.1),
        claims="early",
        truncates=True,
        reason="what was said before",
        severity="medium",
        noun="the summary",
    ),
    PackKind(
        name="working_set",
        form="file",
        evidence=EvidenceMapping("file_excerpt", (("source", "tool://*", "tool_result"),)),
        share=_FILES,
        store="workingset",
    ),
    _offer("knowledge_pack_item"),
    _offer("document_excerpt"),
    _offer("browser_state"),
    _offer("team_memory"),
    _offer("external_resource"),
    PackKind(name=EXCERPTS, form="offer", evidence=EvidenceMapping("retrieval_result"), share=_FILES, store="user"),
    PackKind(
        name="retrieved",
        form="passage",
        evidence=EvidenceMapping("retrieval_result", omission="low_relevance"),
        share=Share("retrieved", 0.04, of_conversation=0.25, least=1700, most=0.4, may_exceed=True),
        block="found",
        source="messages.jsonl",
        reason="found",
    ),
    PackKind(
        name="children",
        form="text",
        evidence=EvidenceMapping("artifact_ref", (("source", "*/result.md", "peer_agent_message"),)),
        share=Share("children", 0.1),
        reason="the result of a child",
        label="child_result",
        severity="low",
        noun="the result",
    ),
)

KINDS: dict[str, PackKind] = {row.name: row for row in _ROWS}

_UNKNOWN = PackKind(name="", form="text", evidence=EvidenceMapping("custom"), block="state")


def kind_named(name: str) -> PackKind:
    """The row of a kind; a log of a later version may name others, which have a row without a name."""
    return KINDS.get(name, _UNKNOWN)


def names_of(*forms: Form) -> tuple[str, ...]:
    return tuple(row.name for row in KINDS.values() if row.form in forms)


def offered_kinds() -> tuple[str, ...]:
    """The kinds of texts that a caller or a manifest may offer."""
    return tuple(row.name for row in KINDS.values() if row.form == "offer" and row.store == "workingset")


def is_file(name: str) -> bool:
    """Whether items of a kind are entries of a working set."""
    return kind_named(name).form in ("file", "offer")


def text_kinds(claims: Literal["early", "late"]) -> list[PackKind]:
    """The kinds of texts that claim their share early, or late, in the order of their claims."""
    return [row for row in KINDS.values() if row.form == "text" and row.claims == claims]


def default_share(kind: str) -> float:
    return KINDS[kind].share.part


def check_rules(rules: object) -> None:
    """Raise a SettingsError unless these are valid visibility rules."""
    if not isinstance(rules, Mapping):
        raise SettingsError(f"visibility must be a mapping from kinds or sources to targets, not {rules!r}")
    for name, targets in rules.items():
        if not isinstance(name, str) or (name not in KINDS and not {"/", "."} & {*name}):
            raise unknown_name("kind of context in visibility", name, KINDS)
        if isinstance(targets, str) or not isinstance(targets, Sequence):
            raise SettingsError(f"visibility[{name!r}] must be a list of targets, not {targets!r}")
        for target in targets:
            check_target(target)
        if kind_named(name).is_required and "model" not in targets:
            raise SettingsError(f"visibility[{name!r}] must name the model: every request contains it")


def seen_by(rules: VisibilityRules, kind: str, source: str, own: Sequence[str] | None = None) -> tuple[Target, ...]:
    """The targets that may see an item: those that the caller's rules name and, if the item names some, it does, too.

    A rule for the source comes before a rule for the kind, and that before the defaults of the item and of its kind.
    """
    row = kind_named(kind)
    if not rules and own is None:
        return row.visibility
    named = [source, kind, *(("memory",) if row.form == "memory" else ())]
    asked = next((rules[name] for name in named if name in rules), None)
    if asked is None:
        asked = row.visibility if own is None else own
    return tuple(target for target in TARGETS if target in asked and (own is None or target in own))
