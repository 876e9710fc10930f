"""The thirteen records of Agent Context as strict types, which reject unknown fields, unknown terms and outcomes.

The standard publishes schemas for ten of them, which accept more. Window, injection and summary have none; their fields
are those in the standard's prose.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, JsonValue, model_validator

from ctxwrap.export.evidence.vocabulary import (
    CompactionMethod,
    CompactionTrigger,
    ContentMode,
    ContextKind,
    ContextScope,
    EventType,
    Id,
    InjectionPoint,
    Lifecycle,
    MissingStatus,
    Natural,
    OmissionReason,
    Open,
    OverflowStrategy,
    RankingSignal,
    RedactionState,
    SelectorType,
    Severity,
    Sha256,
    Strict,
    SurfaceKind,
    TargetName,
    Timestamp,
    Versioned,
    Visibility,
)


class RuntimeRef(Strict):
    """An object of the runtime, by its id."""

    kind: Literal["tenant", "agent", "session", "thread", "turn", "task", "run", "attempt"]
    id: str


class InRuntime(Versioned):
    """A record with the runtime's ids."""

    session_id: str = ""
    thread_id: str = ""
    turn_id: str = ""
    task_id: str = ""
    run_id: str = ""
    attempt_id: str = ""


class Envelope(InRuntime):
    """The context of a turn or a session: the records that belong to it."""

    context_id: Id
    scope: ContextScope
    lifecycle: Lifecycle
    created_at: Timestamp
    producer: str = ""
    actor_refs: tuple[Id, ...] = ()
    runtime_refs: tuple[RuntimeRef, ...] = ()
    surface_refs: tuple[Id, ...] = ()
    item_refs: tuple[Id, ...] = ()
    selection_refs: tuple[Id, ...] = ()
    budget_ref: Id | None = None
    window_refs: tuple[Id, ...] = ()
    assembly_refs: tuple[Id, ...] = ()
    injection_refs: tuple[Id, ...] = ()
    compaction_refs: tuple[Id, ...] = ()
    summary_refs: tuple[Id, ...] = ()
    missing_context_refs: tuple[Id, ...] = ()
    policy_refs: tuple[Id, ...] = ()
    evidence_refs: tuple[Id, ...] = ()
    """Events, and the envelopes of a session's turns."""
    telemetry_refs: tuple[Id, ...] = ()
    metadata: Open = Field(default_factory=dict)


class Surface(Versioned):
    """What was available for selection."""

    surface_id: Id
    scope: ContextScope
    surface_kind: SurfaceKind
    producer: str = ""
    available_source_refs: tuple[Id, ...] = ()
    available_item_refs: tuple[Id, ...] = ()
    capability_refs: tuple[Id, ...] = ()
    policy_refs: tuple[Id, ...] = ()
    visibility: Visibility = ()
    created_at: Timestamp
    expires_at: Timestamp | None = None
    metadata: Open = Field(default_factory=dict)


class Redactable(Versioned):
    redaction_state: RedactionState = "none"
    redaction_method: str = ""
    policy_refs: tuple[Id, ...] = ()

    @model_validator(mode="after")
    def _check_redaction(self) -> "Redactable":
        if self.redaction_state not in ("none", "unknown") and not (self.redaction_method and self.policy_refs):
            raise ValueError("a redacted record needs redaction_method and policy_refs")
        return self


class Item(Redactable):
    """One unit of context; its text is in the document's contents, if the target may see it."""

    item_id: Id
    context_kind: ContextKind
    title: str = ""
    content_mode: ContentMode
    content: JsonValue = None
    content_ref: Sha256 | None = None
    mime_type: str = ""
    language: str = ""
    source_refs: tuple[Id, ...] = ()
    token_estimate: Natural | None = None
    byte_size: Natural | None = None
    freshness: Open = Field(default_factory=dict)
    trust_level: str = ""
    sensitivity: str = ""
    visibility: Visibility
    priority: float | None = None
    created_at: Timestamp | None = None
    metadata: Open = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_content(self) -> "Item":
        if (self.content is not None) != (self.content_mode == "inline"):
            raise ValueError("an item has content if and only if its content_mode is inline")
        if (self.content_ref is not None) != (self.content_mode not in ("inline", "opaque")):
            raise ValueError("an item needs content_ref unless its content_mode is inline or opaque, and only then")
        return self


class Selector(Strict):
    """A part of a source."""

    type: SelectorType
    value: str


class ModelApi(Strict):
    """A provider's ids and token counts for a request."""

    kind: Literal["model_api"]
    response_id: str = ""
    message_id: str = ""
    prompt_cache_key: str = ""
    tool_call_id: str = ""
    input_tokens: Natural | None = None
    cached_input_tokens: Natural | None = None


class SourceRef(Versioned):
    """The source of an item."""

    source_id: Id
    uri: Id
    source_kind: Id
    selector: Selector | None = None
    digest: Sha256 | None = None
    authority: str = ""
    provenance_refs: tuple[Id, ...] = ()
    external_mappings: tuple[ModelApi, ...] = ()
    license: str = ""
    retrieved_at: Timestamp | None = None
    modified_at: Timestamp | None = None
    metadata: Open = Field(default_factory=dict)


class Omission(Strict):
    item_ref: Id
    reason: OmissionReason
    note: str = ""
    """The reason in the producer's words."""
    high_impact: bool | None = None
    """Whether the omission may change the answer."""


class Selection(Versioned):
    """Which candidates were selected, and why the others were not."""

    selection_id: Id
    surface_id: Id
    query: str = ""
    intent: str = ""
    candidate_item_refs: tuple[Id, ...] = ()
    selected_item_refs: tuple[Id, ...] = ()
    omitted_item_refs: tuple[Omission, ...] = ()
    ranking_signals: dict[Id, dict[RankingSignal, JsonValue]] = Field(default_factory=dict)
    selection_policy: str = ""
    budget_ref: Id | None = None
    rationale: str = ""
    actor_ref: str = ""
    model_ref: str = ""
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Truncation(Strict):
    item_ref: Id
    original_tokens: Natural
    tokens: Natural


class Budget(Versioned):
    """The limits of a request, and what it used."""

    budget_id: Id
    target: TargetName
    max_tokens: Natural | None = None
    reserved_tokens: Natural | None = None
    max_bytes: Natural | None = None
    max_items: Natural | None = None
    actual_tokens: Natural | None = None
    actual_bytes: Natural | None = None
    actual_items: Natural | None = None
    overflow_strategy: OverflowStrategy | None = None
    truncation_records: tuple[Truncation, ...] = ()
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Segment(Strict):
    segment_id: Id
    role: Id
    target: TargetName
    reserved_tokens: Natural | None = None
    actual_tokens: Natural
    item_refs: tuple[Id, ...] = ()
    order: Natural
    truncation_records: tuple[Truncation, ...] = ()


class Window(Versioned):
    """The final context window: its segments in order, and the reserved tokens."""

    window_id: Id
    target: TargetName
    budget_ref: Id
    max_tokens: Natural
    reserved_tokens: Natural
    segments: tuple[Segment, ...]
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Block(Strict):
    block_id: Id
    item_refs: tuple[Id, ...] = ()
    content_ref: Sha256 | None = None
    wrapper: str = ""
    position: Natural
    visibility: Visibility
    token_estimate: Natural | None = None
    hash: Sha256 | None = None
    redaction_state: RedactionState = "none"


class Assembly(Versioned):
    """The blocks built for a target, in order."""

    assembly_id: Id
    target: TargetName
    ordered_blocks: tuple[Block, ...]
    wrapping_policy: str = ""
    separator_policy: str = ""
    visibility: Visibility = ()
    budget_ref: Id | None = None
    source_item_refs: tuple[Id, ...] = ()
    redaction_state: RedactionState = "none"
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Injection(Versioned):
    """Where context became visible, and to which target; never inferred from a selection."""

    injection_id: Id
    assembly_id: Id
    target: TargetName
    injection_point: InjectionPoint
    block_refs: tuple[Id, ...]
    item_refs: tuple[Id, ...]
    native_id: str = ""
    """The provider's id of its reply."""
    visibility: Visibility
    final_ref: str = ""
    hash: Sha256 | None = None
    """Of the whole request."""
    external_mappings: tuple[ModelApi, ...] = ()
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Compaction(Versioned):
    """The replacement of longer context by a summary."""

    compaction_id: Id
    scope: ContextScope
    source_item_refs: Annotated[tuple[Id, ...], Field(min_length=1)]
    summary_ref: Id | None = None
    method: CompactionMethod
    trigger: CompactionTrigger | None = None
    coverage: Open = Field(default_factory=dict)
    loss_notes: tuple[str, ...] = ()
    validation: str = ""
    replacement_policy: Literal["sources_kept", "sources_archived", "sources_removed"]
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class Summary(Redactable):
    """A shorter text in place of its sources."""

    summary_id: Id
    summary_kind: Literal["thread_summary", "computed_summary"]
    content_ref: Sha256 | None = None
    source_item_refs: Annotated[tuple[Id, ...], Field(min_length=1)]
    coverage: Open = Field(default_factory=dict)
    loss_notes: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    freshness: Open = Field(default_factory=dict)
    validation: str = ""
    refresh_policy: str = ""
    visibility: Visibility
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)


class CandidateSource(Strict):
    uri: Id
    note: str = ""


class Missing(Versioned):
    """Context that is known to be missing; a request for it grants no permission."""

    missing_id: Id
    scope: ContextScope
    question: Id
    needed_for: str = ""
    severity: Severity
    candidate_sources: tuple[CandidateSource, ...] = ()
    blocked_actions: tuple[str, ...] = ()
    requested_from: str = ""
    status: MissingStatus
    resolution_refs: tuple[Id, ...] = ()
    created_at: Timestamp
    metadata: Open = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_resolution(self) -> "Missing":
        if (self.status == "resolved") != bool(self.resolution_refs):
            raise ValueError("a record has resolution_refs if and only if its status is resolved")
        return self


class Event(InRuntime):
    """An event about context."""

    event_id: Id
    event_type: EventType
    source: Id
    subject: str = ""
    time: Timestamp
    context_id: Id
    runtime_id: str = ""
    step_id: str = ""
    tool_call_id: str = ""
    action_id: str = ""
    evidence_id: str = ""
    data: Open = Field(default_factory=dict)
    policy_refs: tuple[Id, ...] = ()
    evidence_refs: tuple[Id, ...] = ()
    telemetry_refs: tuple[Id, ...] = ()
    metadata: Open = Field(default_factory=dict)


OBJECTS: Mapping[str, type[Versioned]] = {
    "context_envelope": Envelope,
    "context_surface": Surface,
    "context_item": Item,
    "context_source_ref": SourceRef,
    "context_selection": Selection,
    "context_budget": Budget,
    "context_window": Window,
    "context_assembly": Assembly,
    "context_injection": Injection,
    "context_compaction": Compaction,
    "context_summary": Summary,
    "missing_context": Missing,
    "context_event": Event,
}
"""Record types by the standard's names."""
