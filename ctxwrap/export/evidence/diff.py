"""The difference between two turns: what entered the context, left it or moved, and what happened to memory."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound, StoreCorrupt
from ctxwrap.export.evidence.document import Evidence
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, load_history
from ctxwrap.export.evidence.imports import imported_evidence
from ctxwrap.export.evidence.items import ContextRecord, records_of
from ctxwrap.export.evidence.objects import Envelope, Event, Item
from ctxwrap.inspect.streams import round_in, text_in
from ctxwrap.inspect.turns import named, runs_in
from ctxwrap.kinds import names_of
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.stores import given_store

MESSAGES = "session:messages.jsonl"


class ItemOutcome(NamedTuple):
    """Something that a turn could show, and what became of it there."""

    kind: str
    uri: str
    part: str
    included: bool
    reason: str
    tokens: int | None
    blocks: tuple[str, ...]
    """Where in the request it stood."""


class OperationCount(NamedTuple):
    """So many operations of one kind on memory."""

    turn: int
    round: int
    kind: str
    many: int


def in_log(known: SessionHistory, turn: LoggedTurn) -> dict[str, ItemOutcome]:
    """What the newest attempt of a turn could show."""
    things = records_of(known, turn.attempts[-1]) if turn.attempts else ()
    return dict(map(_named, things))


def _named(thing: ContextRecord) -> tuple[str, ItemOutcome]:
    item = thing.item
    name = f"{thing.uri} {thing.part}" if thing.part or ":" in thing.uri else item.kind
    return name, ItemOutcome(thing.kind, thing.uri, thing.part, item.included, item.reason, thing.tokens, thing.blocks)


class EnvelopeReader:
    """The turns of a document, which may come from anybody: what its records say is not to be trusted."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._items = {each.item_id: each for each in evidence.items}
        self._sources = {each.source_id: each for each in evidence.source_refs}
        self._selections = {each.selection_id: each for each in evidence.selections}
        self._assemblies = {each.assembly_id: each for each in evidence.assemblies}

    @cached_property
    def turns(self) -> dict[int, Envelope]:
        """By the numbers that they have in their session, or, should these make no sense, in the order of time."""
        found = [each for each in self.evidence.envelopes if each.scope == "turn"]
        numbers = [number for each in found if type(number := each.metadata.get("number")) is int and number > 0]
        if len(set(numbers)) < len(found):
            found.sort(key=lambda each: datetime.fromisoformat(each.created_at))
            numbers = list(range(1, len(found) + 1))
        return dict(sorted(zip(numbers, found, strict=True)))

    def number(self, turn: int | str) -> int:
        """The number of the turn that is meant; a NotFound if the document has none such."""
        for number, envelope in self.turns.items():
            if str(turn) in (str(number), envelope.turn_id):
                return number
        there_are = ", ".join(map(str, list(self.turns)[:20])) or "none"
        raise NotFound(f"the evidence has no turn {turn!r}; it has {there_are}")

    def shown(self, number: int) -> tuple[dict[str, ItemOutcome], int]:
        """What the newest attempt of a turn could show, and how many memories the document does not tell apart."""
        envelope = self.turns[number]
        if not envelope.selection_refs:
            return {}, 0
        selection = self._selections[envelope.selection_refs[-1]]
        blocks, chosen = self._blocks(envelope), set(selection.selected_item_refs)
        notes = {each.item_ref: each.note or each.reason for each in selection.omitted_item_refs}
        items = [self._items[ref] for ref in selection.candidate_item_refs]
        known = [item for item in items if self._is_named(item)]
        shown = {
            " ".join(self._place(item)): self._shown(item, item.item_id in chosen, notes.get(item.item_id, ""), blocks)
            for item in known
        }
        return shown, len(items) - len(known)

    def _is_named(self, item: Item) -> bool:
        """Whether a memory has its name, which only those are told who may see it."""
        return item.metadata.get("pack_kind") not in names_of("memory") or bool(self._place(item)[1])

    def _place(self, item: Item) -> tuple[str, str]:
        """Where it lies, and which part of that."""
        if not item.source_refs:
            return item.item_id, ""
        source = self._sources[item.source_refs[0]]
        return source.uri, source.selector.value if source.selector else ""

    def _shown(self, item: Item, included: bool, note: str, blocks: dict[str, list[str]]) -> ItemOutcome:
        uri, part = self._place(item)
        reason, known = item.metadata.get("reason"), item.context_kind
        message = f"messages:{part}" if uri == MESSAGES and part else "messages.jsonl"
        places = (message if each in ("message", "system") else each for each in blocks.get(item.item_id, ()))
        told = reason if isinstance(reason, str) else note
        return ItemOutcome(known, uri, part, included, told, item.token_estimate, tuple(dict.fromkeys(places)))

    def _blocks(self, envelope: Envelope) -> dict[str, list[str]]:
        """For each item the blocks of the newest request that it stood in, by their names."""
        found: dict[str, list[str]] = {}
        for ref in envelope.assembly_refs[-1:]:
            for block in self._assemblies[ref].ordered_blocks:
                for item in block.item_refs:
                    found.setdefault(item, []).append(block.wrapper)
        return found

    def changes(self, first: int, last: int) -> Iterator[OperationCount]:
        """What turns did to memory, by numbers: the first one behind its request, the last one before it."""
        for number, envelope in self.turns.items():
            if first <= number <= last:
                for event in self._operations.get(envelope.context_id, ()):
                    is_before = datetime.fromisoformat(event.time) <= datetime.fromisoformat(envelope.created_at)
                    if (number == first and is_before) or (number == last and not is_before):
                        continue
                    yield _count(number, event)

    @cached_property
    def _operations(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for event in self.evidence.events:
            if isinstance(event.data.get("memory_operation"), str):
                found.setdefault(event.context_id, []).append(event)
        return found


def _count(turn: int, event: Event) -> OperationCount:
    count, task = event.data.get("count"), event.task_id.removeprefix("round-")
    round = int(task) if task.isascii() and task.isdecimal() and len(task) < 16 else 0
    return OperationCount(turn, round, str(event.data["memory_operation"]), count if type(count) is int else 1)


_BY_NUMBERS = "which memories were changed, and what faded: the evidence tells of operations by numbers alone"


class Moved(NamedTuple):
    """Something that both turns show, in another place or as something else."""

    before: ItemOutcome
    after: ItemOutcome


class MemoryChange(NamedTuple):
    """An operation on memory."""

    turn: int
    round: int
    event: str
    kind: str
    id: str
    tier: str
    reason: str


@dataclass(frozen=True, slots=True)
class Diff:
    before: int
    after: int
    entered: tuple[ItemOutcome, ...]
    left: tuple[ItemOutcome, ...]
    """With the reason of the later turn, if it says one."""
    moved: tuple[Moved, ...]
    operations: tuple[MemoryChange, ...]
    """From what the earlier turn was shown up to what the later one was shown."""
    gaps: tuple[str, ...] = ()
    """What is not told, since there is no log but evidence that was imported."""

    def as_json(self) -> dict[str, Any]:
        moved = [{"before": each.before._asdict(), "after": each.after._asdict()} for each in self.moved]
        listed = {name: [each._asdict() for each in getattr(self, name)] for name in ("entered", "left", "operations")}
        return {"before": self.before, "after": self.after, **listed, "moved": moved, "gaps": list(self.gaps)}


def diff_of(
    session: str,
    before: int | str,
    after: int | str,
    *,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
) -> Diff:
    """How what one turn sent differs from what another did, each by its number or id.

    A session that was imported as evidence is told by its document, as far as that goes (`gaps`).
    """
    place, key = given_store(store), key_for(session, tenant, agent)
    known = load_history(place, key)
    evidence = None if known.ids else imported_evidence(known.events, place.open(key).files)
    if evidence is not None:
        try:
            return _by_document(EnvelopeReader(evidence), before, after)
        except KeyError as error:  # an archive may bring in what no import of evidence would take
            raise StoreCorrupt(f"the evidence that was imported lacks {error}") from error
    one, other = named(known.ids, before, key)[0], named(known.ids, after, key)[0]
    turns = {turn.number: turn for turn in known.turns(sorted({one, other}))}
    changes = _changes(known, min(one, other), max(one, other))
    return _compared(one, other, in_log(known, turns[one]), in_log(known, turns[other]), changes)


def _by_document(document: EnvelopeReader, before: int | str, after: int | str) -> Diff:
    one, other = document.number(before), document.number(after)
    (then, hidden_then), (now, hidden_now) = document.shown(one), document.shown(other)
    counts = document.changes(min(one, other), max(one, other))
    changes = (MemoryChange(each.turn, each.round, "", each.kind, "", "", f"{each.many} in all") for each in counts)
    gaps = [_BY_NUMBERS]
    if hidden_then or hidden_now:
        target, many = document.evidence.target, f"{hidden_then} in turn {one} and {hidden_now} in turn {other}"
        gaps.append(f"memories that came and went, {many}: {target} may not see their names")
    return _compared(one, other, then, now, changes, tuple(gaps))


def _compared(
    one: int,
    other: int,
    then: dict[str, ItemOutcome],
    now: dict[str, ItemOutcome],
    changes: Iterable[MemoryChange],
    gaps: tuple[str, ...] = (),
) -> Diff:
    why = _reasons(now)
    entered = [each for name, each in now.items() if each.included and not _is_in(then, name)]
    left = [_left(each, now.get(name), why) for name, each in then.items() if each.included and not _is_in(now, name)]
    both = [(each, now[name]) for name, each in then.items() if each.included and _is_in(now, name)]
    moved = [Moved(*pair) for pair in both if (pair[0].kind, pair[0].blocks) != (pair[1].kind, pair[1].blocks)]
    return Diff(one, other, tuple(entered), tuple(left), tuple(moved), tuple(changes), gaps)


def _is_in(shown: dict[str, ItemOutcome], name: str) -> bool:
    return name in shown and shown[name].included


def _left(before: ItemOutcome, after: ItemOutcome | None, why: Callable[[int], str]) -> ItemOutcome:
    """What is no longer shown, with the reason if the later turn says one: messages are left out by ranges."""
    reason = after.reason if after else ""
    if after is None and before.uri == MESSAGES:
        first, last = _span(before.part)
        reason = why(first) if 0 < first == last else ""
    return before._replace(included=False, blocks=(), reason=reason)


def _reasons(now: dict[str, ItemOutcome]) -> Callable[[int], str]:
    """Why a message is not shown, by its number."""
    out = [each for each in now.values() if each.uri == MESSAGES and not each.included]
    spans = sorted((*_span(span), each.reason) for each in out for span in each.part.split(","))
    starts = [first for first, _, _ in spans]

    def why(number: int) -> str:
        at = bisect_right(starts, number) - 1
        return spans[at][2] if at >= 0 and number <= spans[at][1] else ""

    return why


def _span(text: str) -> tuple[int, int]:
    """The first and last number of a range or number; none at all if it is neither."""
    first, _, last = text.partition("-")
    numbers = [int(each) for each in (first, last or first) if each.isascii() and each.isdecimal() and len(each) < 16]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, -1)


def _changes(known: SessionHistory, first: int, last: int) -> Iterator[MemoryChange]:
    """What the turns did to memory: the first one behind its request, the last one before it."""
    for number, events in list(enumerate(runs_in(known.events).values(), 1))[first - 1 : last]:
        for event in events:
            kind = text_in(event, "type")
            is_before = kind in ("evolution", "recall")
            if (number == first and is_before) or (number == last and not is_before):
                continue
            for each in (*(event.get("operations") or ()), *(event.get("moves") or ())):
                yield _change(number, round_in(event), kind, each)


def _change(turn: int, round: int, event: str, told: dict[str, Any]) -> MemoryChange:
    """An operation, or a move from one place to another."""
    kind, place = str(told.get("kind") or "move"), str(told.get("tier") or told.get("to") or "")
    return MemoryChange(turn, round, event, kind, str(told.get("id")), place, str(told.get("reason") or ""))
