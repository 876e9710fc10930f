"""What the published schemas of Agent Context ask of a record: fields that must be there, and the types of the others.

They say no more than that, and let anything else pass. Three objects have none.
"""

from typing import Any

TEXT, OBJECT, COUNT = {"type": "string"}, {"type": "object"}, {"type": "integer", "minimum": 0}
MOMENT = {"type": "string", "format": "date-time"}
REF = {"type": ["string", "object"]}


def many(each: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": each}


def _of(required: str, **types: str) -> dict[str, Any]:
    """A schema: which fields a record must have, and by type the names of all that are typed."""
    kinds = {
        "texts": TEXT,
        "objects": OBJECT,
        "counts": COUNT,
        "moments": MOMENT,
        "refs": REF,
        "lists_of_texts": many(TEXT),
        "lists_of_objects": many(OBJECT),
        "lists_of_refs": many(REF),
        "numbers": {"type": "number"},
    }
    fields = {name: kinds[kind] for kind, names in types.items() for name in names.split()}
    return {"type": "object", "required": required.split(), "properties": {**fields, "schema_version": TEXT}}


SCOPES = ["turn", "task", "session", "tool_invocation", "review", "handoff", "custom"]

SCHEMAS = {
    "context_envelope": _of(
        "schema_version context_id scope lifecycle created_at",
        texts="context_id lifecycle",
        moments="created_at",
        refs="producer budget_ref",
        objects="metadata",
        lists_of_refs="actor_refs runtime_refs surface_refs item_refs selection_refs assembly_refs injection_refs "
        "compaction_refs missing_context_refs policy_refs evidence_refs telemetry_refs",
    ),
    "context_surface": _of(
        "schema_version surface_id scope created_at",
        texts="surface_id scope surface_kind",
        moments="created_at expires_at",
        refs="producer",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_refs="available_source_refs available_item_refs capability_refs policy_refs",
    ),
    "context_item": _of(
        "schema_version item_id context_kind content_mode visibility",
        texts="item_id context_kind title content_mode mime_type language trust_level sensitivity redaction_state",
        moments="created_at",
        refs="content_ref freshness",
        counts="token_estimate byte_size",
        numbers="priority",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_refs="source_refs",
    ),
    "context_source_ref": _of(
        "schema_version source_id uri source_kind",
        texts="source_id uri source_kind digest authority license",
        moments="retrieved_at modified_at",
        objects="metadata",
        lists_of_refs="provenance_refs",
        lists_of_objects="external_mappings",
    ),
    "context_selection": _of(
        "schema_version selection_id surface_id created_at",
        texts="selection_id surface_id query intent rationale",
        moments="created_at",
        refs="selection_policy budget_ref actor_ref model_ref",
        objects="ranking_signals metadata",
        lists_of_refs="candidate_item_refs selected_item_refs omitted_item_refs",
    ),
    "context_budget": _of(
        "schema_version budget_id target created_at",
        texts="budget_id target overflow_strategy",
        moments="created_at",
        counts="max_tokens reserved_tokens max_bytes max_items actual_tokens actual_bytes actual_items",
        objects="metadata",
        lists_of_objects="truncation_records window_segments",
    ),
    "context_assembly": _of(
        "schema_version assembly_id target ordered_blocks created_at",
        texts="assembly_id target redaction_state",
        moments="created_at",
        refs="wrapping_policy separator_policy budget_ref",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_objects="ordered_blocks",
        lists_of_refs="source_item_refs",
    ),
    "context_compaction": _of(
        "schema_version compaction_id scope source_item_refs method created_at",
        texts="compaction_id scope method trigger replacement_policy",
        moments="created_at",
        refs="summary_ref validation",
        objects="coverage metadata",
        lists_of_texts="loss_notes",
        lists_of_refs="source_item_refs",
    ),
    "missing_context": _of(
        "schema_version missing_id scope question severity status created_at",
        texts="missing_id scope question needed_for severity status",
        moments="created_at",
        refs="requested_from",
        objects="metadata",
        lists_of_texts="blocked_actions",
        lists_of_objects="candidate_sources",
        lists_of_refs="resolution_refs",
    ),
    "context_event": _of(
        "schema_version event_id event_type source time",
        texts="event_id event_type source subject context_id runtime_id session_id thread_id turn_id task_id run_id "
        "attempt_id step_id tool_call_id action_id evidence_id",
        moments="time",
        objects="data metadata",
        lists_of_refs="policy_refs evidence_refs telemetry_refs",
    ),
}
SCHEMAS["context_envelope"]["properties"]["scope"] = {"enum": SCOPES}
SCHEMAS["context_source_ref"]["properties"]["selector"] = {"type": ["object", "array", "string"]}
