"""The words of Agent Context: every vocabulary that its records may use, and no word beside them."""

from typing import Literal

from ctxwrap import visibility
from ctxwrap.stages.events import EventClass
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
Scope = Literal["turn", "task", "session", "tool_invocation", "review", "handoff", "custom"]
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
Target = visibility.Target
TARGETS = visibility.TARGETS

EXPORT: Target = "evidence_export"
