"""How the words of a pack are told in those of Agent Context: one table for each."""

from collections.abc import Iterable

from ctxwrap.evidence.vocabulary import TARGETS, ContentMode, ContextKind, InjectionPoint, OmissionReason, Target
from ctxwrap.memory.items import ORIGINS
from ctxwrap.visibility import REMEMBERED
from ctxwrap.workingset.watching import OUTPUT

KINDS: dict[str, ContextKind] = {
    "system": "system_prompt",
    "memory": "runtime_state",
    "request": "user_message",
    "boot_header": "developer_instruction",
    "pinned": "manual_note",
    "summary": "thread_summary",
    "facts": "working_memory",
    "decisions": "working_memory",
    "todo": "working_memory",
    "refs": "working_memory",
    "working_set": "file_excerpt",
    "retrieved": "retrieval_result",
    "recent_messages": "session_history",
    "children": "peer_agent_message",
    "knowledge_pack_item": "knowledge_pack_item",
    "document_excerpt": "document_excerpt",
    "browser_state": "browser_state",
    "team_memory": "team_memory",
    "external_resource": "external_resource",
}
"""What each kind of a pack is, as long as nothing more is known of it (`kind_of`)."""

_BY_ROLE: dict[tuple[str, str], ContextKind] = {
    ("request", "system"): "system_prompt",
    ("request", "assistant"): "session_history",
    ("request", "tool"): "tool_result",
    ("recent_messages", "tool"): "tool_result",
}

_MODES: dict[ContextKind, ContentMode] = {
    "tool_result": "tool_result_ref",
    "thread_summary": "summary",
    "computed_summary": "summary",
    "artifact_ref": "artifact_ref",
}

POINTS: dict[str, InjectionPoint] = {
    "protocol": "system_prompt",
    "boot": "system_prompt",
    "system": "system_prompt",
    "pinned": "system_prompt",
    "memory": "system_prompt",
    "background": "user_message_appendix",
    "message": "message_history",
    "found": "user_message_appendix",
    "offered": "user_message_appendix",
    "state": "user_message_appendix",
    "reminder": "user_message_appendix",
}
"""Where each block of a request stands."""

_OMISSIONS: tuple[tuple[str, OmissionReason], ...] = (
    ("over budget", "budget_limit"),
    ("older than the budget", "budget_limit"),
    ("not for the model to see", "not_visible_to_target"),
    ("may not be read", "permission_missing"),
    ("binary file", "unsupported_media"),
    ("not utf-8", "unsupported_media"),
    ("more than", "too_large"),
    ("more to the point", "low_relevance"),
)
"""What stands in a pack's reason for leaving something out, and the standard's word for it."""


def kind_of(kind: str, *, source: str = "", role: str = "", tier: str = "", origin: str = "") -> ContextKind:
    """A pack's kind, by what is known of the thing: who said it, where it lies in memory, whose words it is."""
    if kind in REMEMBERED and tier == "core":
        return "durable_memory"
    if kind == "working_set" and source.startswith(OUTPUT):
        return "tool_result"
    if kind == "pinned" and origin == "operator":
        return "policy_note"
    if kind == "children" and not source.endswith("/result.md"):
        return "artifact_ref"
    return _BY_ROLE.get((kind, role)) or KINDS.get(kind, "custom")


def mode_of(kind: ContextKind) -> ContentMode:
    """How an item of that kind refers to its content."""
    return _MODES.get(kind, "ref")


def omission_of(kind: str, reason: str) -> OmissionReason:
    told = reason.lower()
    known = next((word for words, word in _OMISSIONS if words in told), None)
    return known or ("low_relevance" if kind == "retrieved" else "custom")


def visibility_of(words: Iterable[str]) -> tuple[Target, ...]:
    """Those who may see something; a word that names nobody lets nobody see it."""
    given = set(words)
    return tuple(target for target in TARGETS if target in given)


def trust_of(origin: str) -> str:
    """The origin, if it is one; findings name who spoke, which is nobody's business."""
    return origin if origin in ORIGINS else "user"
