"""Checks of Agent Context records, alone or in an envelope, against the standard's schemas and sentences."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, get_args

from ctxwrap.conformance.checks import Check, Finding, at, describe
from ctxwrap.export.evidence.vocabulary import TARGETS, ContextKind, ContextScope, InjectionPoint
from ctxwrap.export.validation import schema_faults

TEXT, OBJECT, COUNT = {"type": "string"}, {"type": "object"}, {"type": "integer", "minimum": 0}
TIME = {"type": "string", "format": "date-time"}
REF = {"type": ["string", "object"]}


def list_of(each: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": each}


def _schema(required: str, **types: str) -> dict[str, Any]:
    """Build a schema from the required fields and, by type, the names of fields."""
    kinds = {
        "texts": TEXT,
        "objects": OBJECT,
        "counts": COUNT,
        "times": TIME,
        "refs": REF,
        "lists_of_texts": list_of(TEXT),
        "lists_of_objects": list_of(OBJECT),
        "lists_of_refs": list_of(REF),
        "numbers": {"type": "number"},
    }
    fields = {name: kinds[kind] for kind, names in types.items() for name in names.split()}
    return {"type": "object", "required": required.split(), "properties": {**fields, "schema_version": TEXT}}


SCHEMAS = {
    "context_envelope": _schema(
        "schema_version context_id scope lifecycle created_at",
        texts="context_id lifecycle",
        times="created_at",
        refs="producer budget_ref",
        objects="metadata",
        lists_of_refs="actor_refs runtime_refs surface_refs item_refs selection_refs assembly_refs injection_refs "
        "compaction_refs missing_context_refs policy_refs evidence_refs telemetry_refs",
    ),
    "context_surface": _schema(
        "schema_version surface_id scope created_at",
        texts="surface_id scope surface_kind",
        times="created_at expires_at",
        refs="producer",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_refs="available_source_refs available_item_refs capability_refs policy_refs",
    ),
    "context_item": _schema(
        "schema_version item_id context_kind content_mode visibility",
        texts="item_id context_kind title content_mode mime_type language trust_level sensitivity redaction_state",
        times="created_at",
        refs="content_ref freshness",
        counts="token_estimate byte_size",
        numbers="priority",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_refs="source_refs",
    ),
    "context_source_ref": _schema(
        "schema_version source_id uri source_kind",
        texts="source_id uri source_kind digest authority license",
        times="retrieved_at modified_at",
        objects="metadata",
        lists_of_refs="provenance_refs",
        lists_of_objects="external_mappings",
    ),
    "context_selection": _schema(
        "schema_version selection_id surface_id created_at",
        texts="selection_id surface_id query intent rationale",
        times="created_at",
        refs="selection_policy budget_ref actor_ref model_ref",
        objects="ranking_signals metadata",
        lists_of_refs="candidate_item_refs selected_item_refs omitted_item_refs",
    ),
    "context_budget": _schema(
        "schema_version budget_id target created_at",
        texts="budget_id target overflow_strategy",
        times="created_at",
        counts="max_tokens reserved_tokens max_bytes max_items actual_tokens actual_bytes actual_items",
        objects="metadata",
        lists_of_objects="truncation_records window_segments",
    ),
    "context_assembly": _schema(
        "schema_version assembly_id target ordered_blocks created_at",
        texts="assembly_id target redaction_state",
        times="created_at",
        refs="wrapping_policy separator_policy budget_ref",
        objects="metadata",
        lists_of_texts="visibility",
        lists_of_objects="ordered_blocks",
        lists_of_refs="source_item_refs",
    ),
    "context_compaction": _schema(
        "schema_version compaction_id scope source_item_refs method created_at",
        texts="compaction_id scope method trigger replacement_policy",
        times="created_at",
        refs="summary_ref validation",
        objects="coverage metadata",
        lists_of_texts="loss_notes",
        lists_of_refs="source_item_refs",
    ),
    "missing_context": _schema(
        "schema_version missing_id scope question severity status created_at",
        texts="missing_id scope question needed_for severity status",
        times="created_at",
        refs="requested_from",
        objects="metadata",
        lists_of_texts="blocked_actions",
        lists_of_objects="candidate_sources",
        lists_of_refs="resolution_refs",
    ),
    "context_event": _schema(
        "schema_version event_id event_type source time",
        texts="event_id event_type source subject context_id runtime_id session_id thread_id turn_id task_id run_id "
        "attempt_id step_id tool_call_id action_id evidence_id",
        times="time",
        objects="data metadata",
        lists_of_refs="policy_refs evidence_refs telemetry_refs",
    ),
}
SCHEMAS["context_envelope"]["properties"]["scope"] = {"enum": [*get_args(ContextScope)]}
SCHEMAS["context_source_ref"]["properties"]["selector"] = {"type": ["object", "array", "string"]}


_KINDS, _POINTS = frozenset(get_args(ContextKind)), frozenset(get_args(InjectionPoint))
_BY_ID = {
    "event_id": "context_event",
    "missing_id": "missing_context",
    "injection_id": "context_injection",
    "assembly_id": "context_assembly",
    "selection_id": "context_selection",
    "window_id": "context_window",
    "budget_id": "context_budget",
    "compaction_id": "context_compaction",
    "summary_id": "context_summary",
    "item_id": "context_item",
    "source_id": "context_source_ref",
    "surface_id": "context_surface",
    "context_id": "context_envelope",
}
"""Record types by id field; the first match decides, since records also have the ids of others."""

_DEEPEST = 4
"""Deepest nesting of lists and objects around records."""


class FoundRecord(NamedTuple):
    path: str
    type: str
    value: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.value[_ID_OF[self.type]])


_ID_OF = {type: name for name, type in _BY_ID.items()}


@dataclass(frozen=True, slots=True)
class Records:
    all: tuple[FoundRecord, ...]

    def of(self, type: str) -> Iterator[FoundRecord]:
        return (each for each in self.all if each.type == type)


def records_in(value: Any) -> Records:
    """Find the records in a JSON value, which may be nested in lists and objects."""
    return Records(tuple(_records(value, "", _DEEPEST)))


def _records(value: Any, path: str, depth: int) -> Iterator[FoundRecord]:
    if isinstance(value, dict):
        type = next((_BY_ID[name] for name in _BY_ID if isinstance(value.get(name), str)), None)
        if type is not None:
            yield FoundRecord(path, type, value)
            return
    if depth == 0 or not isinstance(value, (dict, list)):
        return
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _records(part, at(path, key), depth - 1)


def _schema_violations(type: str, records: Records) -> Iterator[Finding]:
    for record in records.of(type):
        for fault in schema_faults(record.value, SCHEMAS[type]):
            path = f"{record.path}.{fault.path}" if record.path and fault.path else record.path or fault.path
            yield Finding(fault.message, path=path)


def _unknown_kinds(records: Records) -> Iterator[Finding]:
    for record in records.of("context_item"):
        kind = record.value.get("context_kind")
        if isinstance(kind, str) and kind not in _KINDS:
            yield Finding(describe(kind), path=at(record.path, "context_kind"))


def _missing_content(records: Records) -> Iterator[Finding]:
    for record in records.of("context_item"):
        mode = record.value.get("content_mode")
        needed = "content" if mode == "inline" else "content_ref"
        if isinstance(mode, str) and mode != "opaque" and record.value.get(needed) is None:
            yield Finding(f"content_mode is {describe(mode)}, but {needed} is missing", path=record.path)


def _unknown_targets(records: Records) -> Iterator[Finding]:
    for record in records.all:
        for path, target in _targets(record):
            if isinstance(target, str) and target not in TARGETS:
                yield Finding(describe(target), path=path)


def _targets(record: FoundRecord) -> Iterator[tuple[str, Any]]:
    if record.type in ("context_budget", "context_assembly", "context_injection", "context_window"):
        yield at(record.path, "target"), record.value.get("target")
    visibility = record.value.get("visibility")
    for number, target in enumerate(visibility if isinstance(visibility, list) else ()):
        yield at(at(record.path, "visibility"), number), target


def _visible_to_nobody(records: Records) -> Iterator[Finding]:
    for record in records.of("context_item"):
        if record.value.get("visibility") == []:
            yield Finding("no target", path=at(record.path, "visibility"))


def _delivered_to_others(records: Records) -> Iterator[Finding]:
    """Find injections for a target that may not see the item."""
    visibility = {each.id: each.value.get("visibility") for each in records.of("context_item")}
    for record in records.of("context_injection"):
        target = record.value.get("target")
        for ref in _refs(record.value.get("item_refs")):
            seen_by = visibility.get(ref)
            if isinstance(seen_by, list) and isinstance(target, str) and target not in seen_by:
                yield Finding(
                    f"{describe(ref)} is not visible to {describe(target)}", path=at(record.path, "item_refs")
                )


def _unknown_points(records: Records) -> Iterator[Finding]:
    for record in records.of("context_injection"):
        point = record.value.get("injection_point")
        if isinstance(point, str) and point not in _POINTS:
            yield Finding(describe(point), path=at(record.path, "injection_point"))


def _not_candidates(records: Records) -> Iterator[Finding]:
    for record in records.of("context_selection"):
        candidates = set(_refs(record.value.get("candidate_item_refs")))
        chosen = {name: set(_refs(record.value.get(name))) for name in ("selected_item_refs", "omitted_item_refs")}
        for name, refs in chosen.items():
            if candidates and (others := refs - candidates):
                yield Finding(f"not a candidate: {describe(min(others))}", path=at(record.path, name))
        if both := chosen["selected_item_refs"] & chosen["omitted_item_refs"]:
            yield Finding(f"selected and omitted: {describe(min(both))}", path=record.path)
        if left := candidates - chosen["selected_item_refs"] - chosen["omitted_item_refs"]:
            yield Finding(f"neither selected nor omitted: {describe(min(left))}", path=record.path)


def _dangling_refs(records: Records) -> Iterator[Finding]:
    """Find references of an envelope to missing records, if the file has records of that type."""
    known = defaultdict[str, set[str]](set)
    for record in records.all:
        known[record.type].add(record.id)
    for record in records.of("context_envelope"):
        for name, type in _ENVELOPE_REFS.items():
            for ref in _refs(record.value.get(name)):
                if known[type] and ref not in known[type]:
                    yield Finding(f"{describe(ref)} is not in the file", path=at(record.path, name))


_ENVELOPE_REFS = {
    "surface_refs": "context_surface",
    "item_refs": "context_item",
    "selection_refs": "context_selection",
    "budget_ref": "context_budget",
    "assembly_refs": "context_assembly",
    "injection_refs": "context_injection",
    "compaction_refs": "context_compaction",
    "missing_context_refs": "missing_context",
}


def _refs(value: Any) -> Iterator[str]:
    """Yield the ids in a reference or list of references, each a text or an object with an id."""
    given: Iterable[Any] = value if isinstance(value, list) else (value,)
    for ref in given:
        if isinstance(ref, str):
            yield ref
        elif isinstance(ref, dict):
            names = ("item_ref", "ref", "id", *_BY_ID)
            yield from (ref[name] for name in names if isinstance(ref.get(name), str))


def _missing_all_of(type: str, names: tuple[str, ...], records: Records) -> Iterator[Finding]:
    for record in records.of(type):
        if not any(record.value.get(name) not in (None, "", [], {}) for name in names):
            yield Finding(f"none of {', '.join(names)}", path=record.path)


_PURPOSES = {
    "context_envelope": "One portable snapshot for a turn, task, session, tool call, UI review, or peer-agent handoff.",
    "context_surface": "The context that was available before selection.",
    "context_item": "A unit of context, either inline or by reference.",
    "context_source_ref": "Origin, selector, digest, authority, and native id mapping for an item.",
    "context_selection": "Candidate, selected, omitted, ranking, and rationale records.",
    "context_budget": "Token, byte, item, time, and visibility limits.",
    "context_window": "Ordered segments and reserved space for the final context window.",
    "context_assembly": "Ordered blocks assembled for a target.",
    "context_injection": "Where context became visible: system prompt, message history, tool argument, tool-visible "
    "resource, UI panel, runtime metadata, or peer-agent message.",
    "context_compaction": "Replacement of original context with a shorter summary or structured digest.",
    "context_summary": "Summary content plus source coverage, loss notes, and refresh policy.",
    "missing_context": "Known missing inputs, blockers, questions, and requested sources.",
    "context_event": "Lifecycle event for surfaces, selections, budgets, injections, compactions, redactions, and "
    "exports.",
}
"""The standard's sentence about each object."""


def _check(name: str, type: str, find: Any) -> Check[Records]:
    return Check(f"AC-{name}", "MUST", f"{type}: {_PURPOSES[type]}", find)


ENVELOPE_CHECKS: tuple[Check[Records], ...] = (
    *(_check(type.replace("_", "-"), type, partial(_schema_violations, type)) for type in SCHEMAS),
    _check("context-window", "context_window", partial(_missing_all_of, "context_window", ("segments",))),
    _check(
        "context-injection",
        "context_injection",
        partial(_missing_all_of, "context_injection", ("injection_point", "target")),
    ),
    _check(
        "context-summary",
        "context_summary",
        partial(_missing_all_of, "context_summary", ("content", "content_ref", "source_item_refs")),
    ),
    _check("inline-or-reference", "context_item", _missing_content),
    _check("candidates", "context_selection", _not_candidates),
    _check("portable", "context_envelope", _dangling_refs),
    Check("AC-kinds", "SHOULD", "Initial context_kind values: user_message, system_prompt, …, custom", _unknown_kinds),
    Check("AC-injection-points", "SHOULD", f"context_injection: {_PURPOSES['context_injection']}", _unknown_points),
    Check(
        "AC-targets",
        "MUST",
        "Context may be visible to one or more targets: model, tool, runtime, ui, user, reviewer, peer_agent, "
        "evidence_export",
        _unknown_targets,
    ),
    Check("AC-visible", "MUST", "Context may be visible to one or more targets", _visible_to_nobody),
    Check(
        "AC-not-every-target",
        "SHOULD",
        "A compatible implementation should not assume that context injected into one target is visible to every "
        "target.",
        _delivered_to_others,
    ),
)
