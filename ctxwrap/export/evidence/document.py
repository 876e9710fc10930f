"""The evidence document: records, contents, digest, JSON Schemas, and checks that all references resolve."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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

FORMAT = "agent-context-evidence"
"""By which an import knows such a file."""

_TOLD = 5
"""So many faults stand in an error."""


class Evidence(Strict):
    """The records of one turn or session, as one target may see them."""

    target: TargetName
    root: Id
    """The envelope that stands for all of it."""
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
    """What each policy says that records name."""
    contents: dict[Sha256, str] = Field(default_factory=dict)
    """Texts by the SHA-256 of their UTF-8 bytes."""

    @property
    def envelope(self) -> Envelope:
        return next(each for each in self.envelopes if each.context_id == self.root)

    def as_json(self) -> dict[str, Any]:
        """The whole document, with its digest."""
        told = {"format": FORMAT, "version": 1, **self.model_dump(mode="json")}
        return {**told, "digest": _digest_of(told)}

    def as_bytes(self) -> bytes:
        """The document as a file holds it, a record a line; the same bytes for the same evidence."""
        fields = (f" {json.dumps(name)}: {_lines(value)}" for name, value in self.as_json().items())
        return ("{\n" + ",\n".join(fields) + "\n}\n").encode()


class EvidenceFile(Evidence):
    """Evidence as a file holds it."""

    format: Literal["agent-context-evidence"]
    version: Literal[1]
    digest: Sha256


def evidence_in(data: bytes) -> Evidence:
    """The evidence that a document holds, each record checked by itself; an InvalidArchive if it holds none.

    Whether the records fit together is another question, which `integrity` answers.
    """
    try:
        document = EvidenceFile.model_validate_json(data)
    except ValidationError as error:
        raise InvalidArchive(f"it is no evidence that can be read: {_told(error)}") from None
    given = document.model_dump(mode="json")
    if given.pop("digest") != _digest_of({"format": FORMAT, "version": 1, **given}):
        raise InvalidArchive("its digest is not that of its records: it was changed or damaged")
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


def _digest_of(told: dict[str, Any]) -> str:
    return digest(json.dumps(told, sort_keys=True, separators=(",", ":")))


def _told(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    faults = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:_TOLD]]
    more = len(found) - _TOLD
    return "; ".join(faults) + (f" and {more} more" if more > 0 else "")


DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAMED: Mapping[str, type[Strict]] = {**OBJECTS, "evidence": EvidenceFile}
"""The thirteen objects, and the document that carries them."""


def schema_of(name: str) -> dict[str, Any]:
    """The schema of an object by its name, such as `context_item` or `item`."""
    known = next((each for each in NAMED if name in (each, each.removeprefix("context_"))), None)
    if known is None:
        raise unknown_name("object", name, NAMED)
    return {"$schema": DIALECT, **NAMED[known].model_json_schema(), "title": known}


def checked(evidence: Evidence) -> Evidence:
    """The same, if there is nothing wrong with it; else an InvalidArchive that names the first faults."""
    faults = list(faults_in(evidence))
    if faults:
        more = f" and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise InvalidArchive("; ".join(faults[:_TOLD]) + more)
    return evidence


def faults_in(evidence: Evidence) -> Iterator[str]:
    """Everything that does not fit, one sentence each. That no record declares an end is a matter of its type."""
    yield from _Checking(evidence).faults()


class _Checking:
    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.envelopes = {each.context_id for each in evidence.envelopes}
        self.surfaces = {each.surface_id: each for each in evidence.surfaces}
        self.items = {each.item_id: each for each in evidence.items}
        self.sources = {each.source_id for each in evidence.source_refs}
        self.selections = {each.selection_id for each in evidence.selections}
        self.budgets = {each.budget_id for each in evidence.budgets}
        self.windows = {each.window_id for each in evidence.windows}
        self.assemblies = {each.assembly_id: each for each in evidence.assemblies}
        self.injections = {each.injection_id for each in evidence.injections}
        self.compactions = {each.compaction_id for each in evidence.compactions}
        self.summaries = {each.summary_id for each in evidence.summaries}
        self.missing = {each.missing_id for each in evidence.missing_context}
        self.events = {each.event_id for each in evidence.events}

    def faults(self) -> Iterator[str]:
        yield from self._ids()
        yield from self._envelopes()
        yield from self._surfaces_and_items()
        for selection in self.evidence.selections:
            yield from self._selection(selection)
        yield from self._budgets_and_windows()
        for assembly in self.evidence.assemblies:
            yield from self._assembly(assembly)
        for injection in self.evidence.injections:
            yield from self._injection(injection)
        yield from self._compactions_and_summaries()
        yield from self._missing_and_events()
        yield from self._contents()

    def _ids(self) -> Iterator[str]:
        """No two records have one id, and every one belongs to an envelope."""
        evidence = self.evidence
        ids = [
            *(each.context_id for each in evidence.envelopes),
            *(each.surface_id for each in evidence.surfaces),
            *(each.item_id for each in evidence.items),
            *(each.source_id for each in evidence.source_refs),
            *(each.selection_id for each in evidence.selections),
            *(each.budget_id for each in evidence.budgets),
            *(each.window_id for each in evidence.windows),
            *(each.assembly_id for each in evidence.assemblies),
            *(block.block_id for each in evidence.assemblies for block in each.ordered_blocks),
            *(each.injection_id for each in evidence.injections),
            *(each.compaction_id for each in evidence.compactions),
            *(each.summary_id for each in evidence.summaries),
            *(each.missing_id for each in evidence.missing_context),
            *(each.event_id for each in evidence.events),
        ]
        yield from (f"two records have the id {id!r}" for id, count in Counter(ids).items() if count > 1)
        if evidence.root not in self.envelopes:
            yield f"its root {evidence.root!r} is no envelope of it"
        held = {ref for each in evidence.envelopes for ref in _refs(each)}
        mine = {*self.surfaces, *self.items, *self.selections, *self.windows, *self.assemblies, *self.injections}
        mine |= {*self.compactions, *self.summaries, *self.missing, *self.events, *self.envelopes} - {evidence.root}
        yield from (f"no envelope holds {id!r}" for id in sorted(mine - held))

    def _envelopes(self) -> Iterator[str]:
        for each in self.evidence.envelopes:
            id = each.context_id
            yield from _unknown(id, "surface_refs", each.surface_refs, self.surfaces)
            yield from _unknown(id, "item_refs", each.item_refs, self.items)
            yield from _unknown(id, "selection_refs", each.selection_refs, self.selections)
            yield from _unknown(id, "budget_ref", [each.budget_ref] if each.budget_ref else [], self.budgets)
            yield from _unknown(id, "window_refs", each.window_refs, self.windows)
            yield from _unknown(id, "assembly_refs", each.assembly_refs, self.assemblies)
            yield from _unknown(id, "injection_refs", each.injection_refs, self.injections)
            yield from _unknown(id, "compaction_refs", each.compaction_refs, self.compactions)
            yield from _unknown(id, "summary_refs", each.summary_refs, self.summaries)
            yield from _unknown(id, "missing_context_refs", each.missing_context_refs, self.missing)
            yield from _unknown(id, "policy_refs", each.policy_refs, self.evidence.policies)
            yield from _unknown(id, "evidence_refs", each.evidence_refs, self.events | self.envelopes)
            yield from self._runtime(each)

    def _runtime(self, envelope: Envelope) -> Iterator[str]:
        """The runtime's ids stand in the envelope, and both tellings of them agree."""
        if not envelope.session_id:
            yield f"{envelope.context_id!r} has lost the runtime's id of its session"
        if envelope.scope == "turn" and not envelope.turn_id:
            yield f"{envelope.context_id!r} has lost the runtime's id of its turn"
        told = {(each.kind, each.id) for each in envelope.runtime_refs}
        for kind in ("session", "turn", "task", "run", "attempt"):
            id = getattr(envelope, f"{kind}_id")
            if id and (kind, id) not in told:
                yield f"{envelope.context_id!r} has the {kind} {id!r}, which its runtime_refs do not have"

    def _surfaces_and_items(self) -> Iterator[str]:
        for surface in self.evidence.surfaces:
            id = surface.surface_id
            yield from _unknown(id, "available_source_refs", surface.available_source_refs, self.sources)
            yield from _unknown(id, "available_item_refs", surface.available_item_refs, self.items)
            yield from _unknown(id, "policy_refs", surface.policy_refs, self.evidence.policies)
        for item in self.evidence.items:
            yield from _unknown(item.item_id, "source_refs", item.source_refs, self.sources)
            yield from _unknown(item.item_id, "policy_refs", item.policy_refs, self.evidence.policies)
            yield from self._seen(item.item_id, item.content_ref, item.visibility)
            if item.content is not None and self.evidence.target not in item.visibility:
                yield f"{item.item_id!r} tells {self.evidence.target} what it may not see"
            if item.redaction_state in ("removed", "policy_blocked") and item.content_mode != "opaque":
                yield f"{item.item_id!r} is redacted and has its content all the same"

    def _selection(self, selection: Selection) -> Iterator[str]:
        """Selected and omitted are the candidates, each once, and these are of the surface."""
        id = selection.selection_id
        omitted = [each.item_ref for each in selection.omitted_item_refs]
        chosen = [*selection.selected_item_refs, *omitted]
        if sorted(chosen) != sorted(selection.candidate_item_refs) or len(set(chosen)) < len(chosen):
            yield f"{id!r}: what was selected and what was omitted are not the candidates, each once"
        surface = self.surfaces.get(selection.surface_id)
        if surface is None:
            yield f"{id!r} is of the surface {selection.surface_id!r}, which is not there"
        else:
            available = surface.available_item_refs
            yield from _unknown(id, "candidate_item_refs", selection.candidate_item_refs, set(available))
        yield from _unknown(id, "ranking_signals", selection.ranking_signals, set(selection.candidate_item_refs))
        yield from _unknown(id, "budget_ref", [selection.budget_ref] if selection.budget_ref else [], self.budgets)

    def _budgets_and_windows(self) -> Iterator[str]:
        for budget in self.evidence.budgets:
            refs = [each.item_ref for each in budget.truncation_records]
            yield from _unknown(budget.budget_id, "truncation_records", refs, self.items)
        for window in self.evidence.windows:
            refs = [ref for segment in window.segments for ref in segment.item_refs]
            refs += [each.item_ref for segment in window.segments for each in segment.truncation_records]
            yield from _unknown(window.window_id, "segments", refs, self.items)
            yield from _unknown(window.window_id, "budget_ref", [window.budget_ref], self.budgets)
            if [segment.order for segment in window.segments] != list(range(len(window.segments))):
                yield f"{window.window_id!r}: its segments are not in their order"

    def _assembly(self, assembly: Assembly) -> Iterator[str]:
        """Nothing is assembled that was not selected, nor for a target that may not see it."""
        id, blocks = assembly.assembly_id, assembly.ordered_blocks
        inside = {ref for block in blocks for ref in block.item_refs}
        yield from _unknown(id, "item_refs", inside | {*assembly.source_item_refs}, self.items)
        if inside != {*assembly.source_item_refs}:
            yield f"{id!r}: its source items are not those of its blocks"
        selected = {ref for each in self.evidence.selections for ref in each.selected_item_refs}
        yield from (f"{id!r} assembles {ref!r}, which was not selected" for ref in sorted(inside - selected))
        yield from self._visible(id, inside, assembly.target)
        if [block.position for block in blocks] != list(range(len(blocks))):
            yield f"{id!r}: its blocks are not in their order"
        for block in blocks:
            yield from self._seen(block.block_id, block.content_ref, block.visibility)
            if block.content_ref != block.hash:
                yield f"{block.block_id!r} has the hash of another content"
            if block.redaction_state in ("removed", "policy_blocked") and block.content_ref:
                yield f"{block.block_id!r} is redacted and has its content all the same"

    def _injection(self, injection: Injection) -> Iterator[str]:
        """Nothing is injected that was not assembled for the same target."""
        id, assembly = injection.injection_id, self.assemblies.get(injection.assembly_id)
        if assembly is None:
            yield f"{id!r} is of the assembly {injection.assembly_id!r}, which is not there"
            return
        if assembly.target != injection.target:
            yield f"{id!r} injects for {injection.target} what was assembled for {assembly.target}"
        blocks = {block.block_id: set(block.item_refs) for block in assembly.ordered_blocks}
        yield from _unknown(id, "block_refs", injection.block_refs, blocks)
        assembled = {ref for block in injection.block_refs for ref in blocks.get(block, ())}
        if assembled != set(injection.item_refs):
            yield f"{id!r}: what is injected is not what its blocks hold"
        yield from self._visible(id, injection.item_refs, injection.target)

    def _compactions_and_summaries(self) -> Iterator[str]:
        for compaction in self.evidence.compactions:
            id, refs = compaction.compaction_id, compaction.source_item_refs
            yield from _unknown(id, "source_item_refs", refs, self.items)
            yield from _unknown(id, "summary_ref", filter(None, [compaction.summary_ref]), self.summaries)
        for summary in self.evidence.summaries:
            id = summary.summary_id
            yield from _unknown(id, "source_item_refs", summary.source_item_refs, self.items)
            yield from _unknown(id, "policy_refs", summary.policy_refs, self.evidence.policies)
            yield from self._seen(id, summary.content_ref, summary.visibility)
            if summary.redaction_state in ("removed", "policy_blocked") and summary.content_ref:
                yield f"{id!r} is redacted and has its content all the same"

    def _missing_and_events(self) -> Iterator[str]:
        known = {*self.items, *self.envelopes}
        for missing in self.evidence.missing_context:
            yield from _unknown(missing.missing_id, "resolution_refs", missing.resolution_refs, known)
        subjects = {*self.surfaces, *self.items, *self.selections, *self.budgets, *self.windows, *self.assemblies}
        subjects |= {*self.injections, *self.compactions, *self.summaries, *self.missing, *self.envelopes}
        for event in self.evidence.events:
            id = event.event_id
            yield from _unknown(id, "context_id", [event.context_id], self.envelopes)
            yield from _unknown(id, "subject", filter(None, [event.subject]), subjects)
            yield from _unknown(id, "policy_refs", event.policy_refs, self.evidence.policies)
            yield from _unknown(id, "evidence_refs", event.evidence_refs, self.events | self.envelopes)

    def _contents(self) -> Iterator[str]:
        """Every content is what its name says, and something that may be seen refers to it."""
        evidence = self.evidence
        yield from (
            f"{name} is the digest of another text" for name, text in evidence.contents.items() if digest(text) != name
        )
        used = {each.content_ref for each in evidence.items} | {each.content_ref for each in evidence.summaries}
        used |= {block.content_ref for each in evidence.assemblies for block in each.ordered_blocks}
        yield from (f"nothing refers to the content {name}" for name in sorted(evidence.contents.keys() - used))

    def _seen(self, id: str, content: str | None, visibility: Iterable[str]) -> Iterator[str]:
        if content is None:
            return
        if content not in self.evidence.contents:
            yield f"{id!r} refers to the content {content}, which is not there"
        if self.evidence.target not in visibility:
            yield f"{id!r} tells {self.evidence.target} what it may not see"

    def _visible(self, id: str, refs: Iterable[str], target: str) -> Iterator[str]:
        for ref in refs:
            if ref in self.items and target not in self.items[ref].visibility:
                yield f"{id!r} shows {ref!r} to {target}, who may not see it"


def _refs(envelope: Envelope) -> Iterator[str]:
    yield from (*envelope.surface_refs, *envelope.item_refs, *envelope.selection_refs, *envelope.window_refs)
    yield from (*envelope.assembly_refs, *envelope.injection_refs, *envelope.compaction_refs, *envelope.summary_refs)
    yield from (*envelope.missing_context_refs, *envelope.evidence_refs)


def _unknown(id: str, field: str, refs: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    there = known if isinstance(known, (set, dict)) else set(known)
    yield from (f"{id!r}: {field} has {ref!r}, which is not there" for ref in refs if ref not in there)
