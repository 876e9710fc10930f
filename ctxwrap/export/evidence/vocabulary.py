"""The vocabularies of Agent Context, and the base of its record types."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from ctxwrap.pack.receipt import EventClass
from ctxwrap.redaction import visibility
from ctxwrap.types import MissingStatus as MissingStatus
from ctxwrap.types import Severity as Severity

SCHEMA_VERSION = "0.1.1"

ContextKind = Literal[
    "user_message",
    "system_prompt",
    "developer_instruction",
    "session_history",
    "thread_summary",
    "working_memory",
    "durable_memory",
    "knowledge_pack_item",
    "document_excerpt",
    "file_excerpt",
    "artifact_ref",
    "tool_result",
    "browser_state",
    "runtime_state",
    "team_memory",
    "policy_note",
    "external_resource",
    "manual_note",
    "computed_summary",
    "peer_agent_message",
    "retrieval_result",
    "custom",
]
ContextScope = Literal["turn", "task", "session", "tool_invocation", "review", "handoff", "custom"]
Lifecycle = Literal[
    "draft", "available", "selected", "assembled", "injected", "compacted", "redacted", "expired", "archived"
]
ContentMode = Literal[
    "inline", "ref", "summary", "embedded_resource", "resource_link", "artifact_ref", "tool_result_ref", "opaque"
]
SurfaceKind = Literal[
    "turn_surface",
    "task_surface",
    "session_surface",
    "tool_surface",
    "review_surface",
    "handoff_surface",
    "custom",
]
SelectorType = Literal[
    "text_quote",
    "text_position",
    "byte_range",
    "line_range",
    "json_pointer",
    "css_selector",
    "xpath",
    "page_region",
    "media_time_range",
    "artifact_part",
    "message_part",
    "custom",
]
RankingSignal = Literal[
    "relevance",
    "recency",
    "authority",
    "user_pin",
    "policy_allow",
    "freshness",
    "coverage",
    "dedupe_score",
    "token_cost",
    "sensitivity",
    "tool_visibility",
    "runtime_need",
]
OmissionReason = Literal[
    "budget_limit",
    "low_relevance",
    "duplicate",
    "stale",
    "policy_blocked",
    "permission_missing",
    "unsupported_media",
    "too_large",
    "sensitive",
    "superseded_by_summary",
    "not_visible_to_target",
    "custom",
]
OverflowStrategy = Literal[
    "reject",
    "truncate_tail",
    "truncate_middle",
    "summarize_oldest",
    "summarize_low_priority",
    "defer_to_retrieval",
    "ask_for_choice",
    "policy_block",
    "custom",
]
InjectionPoint = Literal[
    "system_prompt",
    "developer_prompt",
    "message_history",
    "user_message_appendix",
    "tool_argument",
    "tool_visible_resource",
    "runtime_metadata",
    "ui_panel",
    "review_export",
    "peer_agent_message",
    "artifact_input",
    "custom",
]
CompactionMethod = Literal[
    "extractive_summary",
    "abstractive_summary",
    "structured_digest",
    "rolling_summary",
    "semantic_memory_update",
    "human_curated_summary",
    "provider_context_editing",
    "custom",
]
CompactionTrigger = Literal[
    "manual",
    "token_pressure",
    "session_length",
    "task_boundary",
    "handoff",
    "retention",
    "privacy",
    "provider_context_editing",
    "custom",
]
RedactionState = Literal["none", "masked", "removed", "summarized", "encrypted_ref", "policy_blocked", "unknown"]

EventType = EventClass
TargetName = visibility.Target
TARGETS = visibility.TARGETS

EXPORT_TARGET: TargetName = "evidence_export"


_OUTCOME = re.compile(
    r"(?:(?:turn|task|tool|run|step|action|final)_?)?"
    r"(?:status|state|complet(?:e|ed|ion)|finished|done|succe(?:ss|eded)|failed|outcome|result|answer|approv(?:ed|al))"
)
"""Field names for the outcome of a turn, task or tool, which the runtime may state and a context record may not."""


def states_outcome(name: str) -> bool:
    """Whether a field of this name states the outcome of a turn, task or tool."""
    return _OUTCOME.fullmatch(re.sub(r"[^a-z]+", "_", name.lower()).strip("_")) is not None


def _without_outcome(value: dict[str, Any]) -> dict[str, Any]:
    names = [name for name, _ in _fields(value) if states_outcome(name)]
    if names:
        raise ValueError(f"{names[0]!r} states an outcome, which only the runtime may do")
    return value


def _fields(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of a value and of all values inside it."""
    found: list[tuple[str, Any]] = []
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            found += each.items()
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return found


def _with_time_zone(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time needs a time zone, such as Z")
    return text


Id = Annotated[str, Field(min_length=1)]
Sha256 = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Natural = Annotated[int, Field(ge=0)]
Timestamp = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_with_time_zone),
]
Open = Annotated[dict[str, JsonValue], AfterValidator(_without_outcome)]
"""Fields that the standard does not define."""

Visibility = tuple[TargetName, ...]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out empty fields that are not required."""
        fields = type(self).model_fields
        values = handler(self).items()
        return {name: value for name, value in values if value not in _EMPTY or fields[name].is_required()}


_EMPTY: tuple[Any, ...] = (None, "", (), [], {})


class Versioned(Strict):
    schema_version: Literal["0.1.1"]


VERSION: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
