"""The evidence document: its file format, its JSON Schema, and checks that its records fit together."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ctxwrap.errors import InvalidArchive, unknown_name
from ctxwrap.export.evidence.objects import (
    OBJECTS,
    Assembly,
    Budget,
    Compaction,
    Envelope,
    Event,
    Injection,
    Item,
    Missing,
    Selection,
    SourceRef,
    Summary,
    Surface,
    Window,
)
from ctxwrap.export.evidence.vocabulary import Id, Sha256, Strict, TargetName
from ctxwrap.export.validation import json_path, schema_faults
from ctxwrap.protocol.models import json_schema

FORMAT = "agent-context-evidence"
"""Identifies an evidence file."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MOST_FAULTS = 5
"""Most faults that an error message lists."""


class Evidence(Strict):
    """The records of one turn or session, as one target may see them."""

    target: TargetName
    root: Id
    """The envelope of the turn or session."""
    envelopes: Annotated[tuple[Envelope, ...], Field(min_length=1)]
    surfaces: tuple[Surface, ...] = ()
    items: tuple[Item, ...] = ()
    source_refs: tuple[SourceRef, ...] = ()
    selections: tuple[Selection, ...] = ()
    budgets: tuple[Budget, ...] = ()
    windows: tuple[Window, ...] = ()
    assemblies: tuple[Assembly, ...] = ()
    injections: tuple[Injection, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    summaries: tuple[Summary, ...] = ()
    missing_context: tuple[Missing, ...] = ()
    events: tuple[Event, ...] = ()
    policies: dict[Id, str] = Field(default_factory=dict)
    """The text of each policy that records name."""
    contents: dict[Sha256, str] = Field(default_factory=dict)
    """Texts by the SHA-256 of their UTF-8 bytes."""

    @property
    def envelope(self) -> Envelope:
        return next(each for each in self.envelopes if each.context_id == self.root)

    def as_json(self) -> dict[str, Any]:
        """Return the whole document, with its digest."""
        document = {"format": FORMAT, "version": 1, **self.model_dump(mode="json")}
        return {**document, "digest": _document_digest(document)}

    def as_bytes(self) -> bytes:
        """Return the document as a file, one record per line; the same evidence gives the same bytes."""
        fields = (f" {json.dumps(name)}: {_lines(value)}" for name, value in self.as_json().items())
        return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


class EvidenceFile(Evidence):
    """Evidence as a file holds it."""

    format: Literal["agent-context-evidence"]
    version: Literal[1]
    digest: Sha256


def read_evidence(data: bytes) -> Evidence:
    """Read an evidence file and check each record by itself; raises InvalidArchive that names the faults.

    `checked` checks whether the records fit together.
    """
    try:
        document = EvidenceFile.model_validate_json(data)
    except ValidationError as error:
        raise InvalidArchive(f"it is not valid evidence: {_list_faults(_explain(data, error))}") from None
    fields = document.model_dump(mode="json")
    if fields.pop("digest") != _document_digest({"format": FORMAT, "version": 1, **fields}):
        raise InvalidArchive("its digest does not match its records: it was changed or damaged")
    return Evidence.model_validate({name: getattr(document, name) for name in Evidence.model_fields})


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
    if isinstance(value, dict):
        return (
            "{\n  " + ",\n  ".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in value.items()) + "\n }"
        )
    return json.dumps(value)


def _document_digest(document: dict[str, Any]) -> str:
    return digest(json.dumps(document, sort_keys=True, separators=(",", ":")))


def _explain(data: bytes, error: ValidationError) -> list[str]:
    """Return the faults that the JSON Schema finds; pydantic's own for rules that a schema cannot express.

    pydantic checks every file, since the records are its models; jsonschema names paths that exist in the file.
    """
    try:
        faults = [*map(str, schema_faults(json.loads(data), EvidenceFile.model_json_schema()))]
    except (ValueError, RecursionError):
        faults = []
    found = error.errors(include_url=False, include_input=False)
    return faults or [f"{json_path(each['loc'])}: {each['msg']}" for each in found]


def _list_faults(faults: list[str]) -> str:
    more = len(faults) - _MOST_FAULTS
    return "; ".join(faults[:_MOST_FAULTS]) + (f" and {more} more" if more > 0 else "")


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    **{name: record.model_json_schema for name, record in OBJECTS.items()},
    "evidence": EvidenceFile.model_json_schema,
    "snapshot": json_schema,
}
"""The thirteen records, the document that contains them, and the snapshot that a model writes."""


def schema_of(name: str) -> dict[str, Any]:
    """Return a JSON Schema by name, such as `context_item`, or `item` for short."""
    known = next((each for each in SCHEMAS if name in (each, each.removeprefix("context_"))), None)
    if known is None:
        raise unknown_name("object", name, SCHEMAS)
    return {"$schema": DIALECT, **SCHEMAS[known](), "title": known}


def require_consistent(evidence: Evidence) -> Evidence:
    """Return the evidence, or raise InvalidArchive that names the first faults."""
    if faults := list(faults_in(evidence)):
        raise InvalidArchive(_list_faults(faults))
    return evidence


def faults_in(evidence: Evidence) -> Iterator[str]:
    """Yield one sentence per fault in how the records fit together."""
    yield from _Checker(evidence).faults()


_IDS = {
    "envelopes": "context_id",
    "surfaces": "surface_id",
    "items": "item_id",
    "source_refs": "source_id",
    "selections": "selection_id",
    "budgets": "budget_id",
    "windows": "window_id",
    "assemblies": "assembly_id",
    "injections": "injection_id",
    "compactions": "compaction_id",
    "summaries": "summary_id",
    "missing_context": "missing_id",
    "events": "event_id",
}
"""The id field of the records in each collection."""

_HELD = {
    "surface_refs": "surfaces",
    "item_refs": "items",
    "selection_refs": "selections",
    "window_refs": "windows",
    "assembly_refs": "assemblies",
    "injection_refs": "injections",
    "compaction_refs": "compactions",
    "summary_refs": "summaries",
    "missing_context_refs": "missing_context",
    "evidence_refs": "events envelopes",
}
"""The collections that each field of an envelope refers to; every record but its sources and budgets is in one."""

_SUBJECTS = " ".join(name for name in _IDS if name not in ("source_refs", "events"))
_REFERENCES = (
    *(("envelopes", field, collections) for field, collections in _HELD.items()),
    ("envelopes", "budget_ref", "budgets"),
    ("envelopes", "policy_refs", "policies"),
    ("surfaces", "available_source_refs", "source_refs"),
    ("surfaces", "available_item_refs", "items"),
    ("surfaces", "policy_refs", "policies"),
    ("items", "source_refs", "source_refs"),
    ("items", "policy_refs", "policies"),
    ("selections", "budget_ref", "budgets"),
    ("windows", "budget_ref", "budgets"),
    ("assemblies", "source_item_refs", "items"),
    ("compactions", "source_item_refs", "items"),
    ("compactions", "summary_ref", "summaries"),
    ("summaries", "source_item_refs", "items"),
    ("summaries", "policy_refs", "policies"),
    ("missing_context", "resolution_refs", "items envelopes"),
    ("events", "context_id", "envelopes"),
    ("events", "subject", _SUBJECTS),
    ("events", "policy_refs", "policies"),
    ("events", "evidence_refs", "events envelopes"),
)
"""Collection, field, and the collections that the field refers to."""


class _Checker:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.known: dict[str, dict[str, Any]] = {
            name: {getattr(each, id): each for each in getattr(evidence, name)} for name, id in _IDS.items()
        }
        self.known["policies"] = dict(evidence.policies)
        self.items: dict[str, Item] = self.known["items"]

    def faults(self) -> Iterator[str]:
        yield from self._ids()
        yield from self._references()
        for envelope in self.evidence.envelopes:
            yield from self._runtime(envelope)
        for item in self.evidence.items:
            yield from self._item(item)
        for selection in self.evidence.selections:
            yield from self._selection(selection)
        yield from self._budgets_and_windows()
        for assembly in self.evidence.assemblies:
            yield from self._assembly(assembly)
        for injection in self.evidence.injections:
            yield from self._injection(injection)
        for summary in self.evidence.summaries:
            yield from self._content(summary.summary_id, summary.content_ref, summary.visibility)
            if summary.redaction_state in ("removed", "policy_blocked") and summary.content_ref:
                yield f"{summary.summary_id!r} is redacted but has its content"
        yield from self._contents()

    def _ids(self) -> Iterator[str]:
        """Ids are unique, and every record belongs to an envelope."""
        evidence = self.evidence
        ids = [getattr(each, id) for name, id in _IDS.items() for each in getattr(evidence, name)]
        ids += [block.block_id for each in evidence.assemblies for block in each.ordered_blocks]
        yield from (f"two records have the id {id!r}" for id, count in Counter(ids).items() if count > 1)
        if evidence.root not in self.known["envelopes"]:
            yield f"its root {evidence.root!r} is not one of its envelopes"
        held = {ref for each in evidence.envelopes for field in _HELD for ref in getattr(each, field)}
        records = {id for names in _HELD.values() for name in names.split() for id in self.known[name]}
        yield from (f"no envelope holds {id!r}" for id in sorted(records - held - {evidence.root}))

    def _references(self) -> Iterator[str]:
        for name, field, collections in _REFERENCES:
            known = {id for each in collections.split() for id in self.known[each]}
            for id, record in self.known[name].items():
                refs = getattr(record, field)
                yield from _unknown(id, field, refs if isinstance(refs, tuple) else filter(None, [refs]), known)

    def _runtime(self, envelope: Envelope) -> Iterator[str]:
        """An envelope has the runtime's ids, and its runtime_refs agree with them."""
        if not envelope.session_id:
            yield f"{envelope.context_id!r} lacks the runtime's session id"
        if envelope.scope == "turn" and not envelope.turn_id:
            yield f"{envelope.context_id!r} lacks the runtime's turn id"
        refs = {(each.kind, each.id) for each in envelope.runtime_refs}
        for kind in ("session", "turn", "task", "run", "attempt"):
            id = getattr(envelope, f"{kind}_id")
            if id and (kind, id) not in refs:
                yield f"{envelope.context_id!r} has the {kind} {id!r}, which its runtime_refs lack"

    def _item(self, item: Item) -> Iterator[str]:
        yield from self._content(item.item_id, item.content_ref, item.visibility)
        if item.content is not None and self.evidence.target not in item.visibility:
            yield f"{item.item_id!r} has a content that {self.evidence.target} may not see"
        if item.redaction_state in ("removed", "policy_blocked") and item.content_mode != "opaque":
            yield f"{item.item_id!r} is redacted but has its content"

    def _selection(self, selection: Selection) -> Iterator[str]:
        """Each candidate is either selected or omitted, and is available on the surface."""
        id = selection.selection_id
        omitted = [each.item_ref for each in selection.omitted_item_refs]
        chosen = [*selection.selected_item_refs, *omitted]
        if sorted(chosen) != sorted(selection.candidate_item_refs) or len(set(chosen)) < len(chosen):
            yield f"{id!r}: each candidate must be either selected or omitted, once"
        surface: Surface | None = self.known["surfaces"].get(selection.surface_id)
        if surface is None:
            yield f"{id!r} refers to the surface {selection.surface_id!r}, which does not exist"
        else:
            available = set(surface.available_item_refs)
            yield from _unknown(id, "candidate_item_refs", selection.candidate_item_refs, available)
        yield from _unknown(id, "ranking_signals", selection.ranking_signals, set(selection.candidate_item_refs))

    def _budgets_and_windows(self) -> Iterator[str]:
        for budget in self.evidence.budgets:
            refs = [each.item_ref for each in budget.truncation_records]
            yield from _unknown(budget.budget_id, "truncation_records", refs, self.items)
        for window in self.evidence.windows:
            refs = [ref for segment in window.segments for ref in segment.item_refs]
            refs += [each.item_ref for segment in window.segments for each in segment.truncation_records]
            yield from _unknown(window.window_id, "segments", refs, self.items)
            if [segment.order for segment in window.segments] != list(range(len(window.segments))):
                yield f"{window.window_id!r}: its segments are out of order"

    def _assembly(self, assembly: Assembly) -> Iterator[str]:
        """An assembly has only selected items that its target may see."""
        id, blocks = assembly.assembly_id, assembly.ordered_blocks
        assembled = {ref for block in blocks for ref in block.item_refs}
        yield from _unknown(id, "item_refs", assembled, self.items)
        if assembled != {*assembly.source_item_refs}:
            yield f"{id!r}: its source items differ from those of its blocks"
        selected = {ref for each in self.evidence.selections for ref in each.selected_item_refs}
        yield from (f"{id!r} assembles {ref!r}, which was not selected" for ref in sorted(assembled - selected))
        yield from self._visible(id, assembled, assembly.target)
        if [block.position for block in blocks] != list(range(len(blocks))):
            yield f"{id!r}: its blocks are out of order"
        for block in blocks:
            yield from self._content(block.block_id, block.content_ref, block.visibility)
            if block.content_ref != block.hash:
                yield f"{block.block_id!r} has the hash of another content"
            if block.redaction_state in ("removed", "policy_blocked") and block.content_ref:
                yield f"{block.block_id!r} is redacted but has its content"

    def _injection(self, injection: Injection) -> Iterator[str]:
        """An injection has only what was assembled for the same target."""
        id = injection.injection_id
        assembly: Assembly | None = self.known["assemblies"].get(injection.assembly_id)
        if assembly is None:
            yield f"{id!r} refers to the assembly {injection.assembly_id!r}, which does not exist"
            return
        if assembly.target != injection.target:
            yield f"{id!r} injects for {injection.target} what was assembled for {assembly.target}"
        blocks = {block.block_id: set(block.item_refs) for block in assembly.ordered_blocks}
        yield from _unknown(id, "block_refs", injection.block_refs, blocks)
        assembled = {ref for block in injection.block_refs for ref in blocks.get(block, ())}
        if assembled != set(injection.item_refs):
            yield f"{id!r}: its items differ from those of its blocks"
        yield from self._visible(id, injection.item_refs, injection.target)

    def _contents(self) -> Iterator[str]:
        """Every content matches its digest, and a record refers to it."""
        evidence = self.evidence
        yield from (
            f"{name} is the digest of another text" for name, text in evidence.contents.items() if digest(text) != name
        )
        used = {each.content_ref for each in evidence.items} | {each.content_ref for each in evidence.summaries}
        used |= {block.content_ref for each in evidence.assemblies for block in each.ordered_blocks}
        yield from (f"nothing refers to the content {name}" for name in sorted(evidence.contents.keys() - used))

    def _content(self, id: str, content: str | None, visibility: Iterable[str]) -> Iterator[str]:
        if content is None:
            return
        if content not in self.evidence.contents:
            yield f"{id!r} refers to the content {content}, which does not exist"
        if self.evidence.target not in visibility:
            yield f"{id!r} has a content that {self.evidence.target} may not see"

    def _visible(self, id: str, refs: Iterable[str], target: str) -> Iterator[str]:
        for ref in refs:
            if ref in self.items and target not in self.items[ref].visibility:
                yield f"{id!r} delivers {ref!r} to {target}, which may not see it"


def _unknown(id: str, field: str, refs: Iterable[str], known: Container[str]) -> Iterator[str]:
    yield from (f"{id!r}: {field} has {ref!r}, which does not exist" for ref in refs if ref not in known)
