"""The difference between two turns: items that entered, left or moved, and the memory operations in between."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound, StoreCorrupt
from ctxwrap.export.evidence.document import Evidence
from ctxwrap.export.evidence.envelope import imported_evidence
from ctxwrap.export.evidence.history import LoggedTurn, SessionHistory, load_history
from ctxwrap.export.evidence.items import ContextRecord, read_records
from ctxwrap.export.evidence.objects import Envelope, Event, Item
from ctxwrap.inspect.streams import round_in, text_in
from ctxwrap.inspect.turns import named, runs_in
from ctxwrap.kinds import names_of
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.stores import resolve_store

MESSAGES = "session:messages.jsonl"


class ItemOutcome(NamedTuple):
    """A candidate of a turn, and whether the request included it."""

    kind: str
    uri: str
    part: str
    included: bool
    reason: str
    tokens: int | None
    blocks: tuple[str, ...]
    """The blocks of the request that contain it."""


class OperationCount(NamedTuple):
    """The number of memory operations of one kind."""

    turn: int
    round: int
    kind: str
    many: int


def outcomes_in_log(history: SessionHistory, turn: LoggedTurn) -> dict[str, ItemOutcome]:
    """Return the candidates of a turn's last request, by name."""
    records = read_records(history, turn.attempts[-1]) if turn.attempts else ()
    return dict(map(_outcome, records))


def _outcome(record: ContextRecord) -> tuple[str, ItemOutcome]:
    item = record.item
    name = f"{record.uri} {record.part}" if record.part or ":" in record.uri else item.kind
    return name, ItemOutcome(
        record.kind, record.uri, record.part, item.included, item.reason, record.tokens, record.blocks
    )


class EnvelopeReader:
    """Reads turns out of imported evidence, which is untrusted."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._items = {each.item_id: each for each in evidence.items}
        self._sources = {each.source_id: each for each in evidence.source_refs}
        self._selections = {each.selection_id: each for each in evidence.selections}
        self._assemblies = {each.assembly_id: each for each in evidence.assemblies}

    @cached_property
    def turns(self) -> dict[int, Envelope]:
        """The envelopes of turns by number; numbered by time if their own numbers are not unique."""
        found = [each for each in self.evidence.envelopes if each.scope == "turn"]
        numbers = [number for each in found if type(number := each.metadata.get("number")) is int and number > 0]
        if len(set(numbers)) < len(found):
            found.sort(key=lambda each: datetime.fromisoformat(each.created_at))
            numbers = list(range(1, len(found) + 1))
        return dict(sorted(zip(numbers, found, strict=True)))

    def number(self, turn: int | str) -> int:
        """Return the number of a turn given by number or id; raises NotFound if the document lacks it."""
        for number, envelope in self.turns.items():
            if str(turn) in (str(number), envelope.turn_id):
                return number
        there_are = ", ".join(map(str, list(self.turns)[:20])) or "none"
        raise NotFound(f"the evidence has no turn {turn!r}; it has {there_are}")

    def outcomes(self, number: int) -> tuple[dict[str, ItemOutcome], int]:
        """Return the candidates of a turn's last request, and the number of memory items without a name."""
        envelope = self.turns[number]
        if not envelope.selection_refs:
            return {}, 0
        selection = self._selections[envelope.selection_refs[-1]]
        blocks, chosen = self._blocks(envelope), set(selection.selected_item_refs)
        notes = {each.item_ref: each.note or each.reason for each in selection.omitted_item_refs}
        items = [self._items[ref] for ref in selection.candidate_item_refs]
        known = [item for item in items if self._is_named(item)]
        outcomes = {
            " ".join(self._place(item)): self._outcome(
                item, item.item_id in chosen, notes.get(item.item_id, ""), blocks
            )
            for item in known
        }
        return outcomes, len(items) - len(known)

    def _is_named(self, item: Item) -> bool:
        """Whether an item has a name; a memory item's name is only in documents for targets that may see it."""
        return item.metadata.get("pack_kind") not in names_of("memory") or bool(self._place(item)[1])

    def _place(self, item: Item) -> tuple[str, str]:
        """Return the URI of an item's source, and the part."""
        if not item.source_refs:
            return item.item_id, ""
        source = self._sources[item.source_refs[0]]
        return source.uri, source.selector.value if source.selector else ""

    def _outcome(self, item: Item, included: bool, note: str, blocks: dict[str, list[str]]) -> ItemOutcome:
        uri, part = self._place(item)
        reason, known = item.metadata.get("reason"), item.context_kind
        message = f"messages:{part}" if uri == MESSAGES and part else "messages.jsonl"
        places = (message if each in ("message", "system") else each for each in blocks.get(item.item_id, ()))
        text = reason if isinstance(reason, str) else note
        return ItemOutcome(known, uri, part, included, text, item.token_estimate, tuple(dict.fromkeys(places)))

    def _blocks(self, envelope: Envelope) -> dict[str, list[str]]:
        """Return the names of the blocks of the last request that contain each item."""
        found: dict[str, list[str]] = {}
        for ref in envelope.assembly_refs[-1:]:
            for block in self._assemblies[ref].ordered_blocks:
                for item in block.item_refs:
                    found.setdefault(item, []).append(block.wrapper)
        return found

    def changes(self, first: int, last: int) -> Iterator[OperationCount]:
        """Count memory operations after the first turn's request and before the last turn's."""
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


_COUNTS_ONLY = "which memory items changed or faded: evidence only counts operations"


class Moved(NamedTuple):
    """An item that both turns include, in different blocks or as different kinds."""

    before: ItemOutcome
    after: ItemOutcome


class MemoryChange(NamedTuple):
    """A memory operation."""

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
    """With the later turn's reason, if it has one."""
    moved: tuple[Moved, ...]
    operations: tuple[MemoryChange, ...]
    """Operations between the requests of the two turns."""
    gaps: tuple[str, ...] = ()
    """What imported evidence cannot show; empty if there is a log."""

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
    """Compare the last requests of two turns, each given by its number or id.

    For imported evidence the document is compared; `gaps` lists what it cannot show.
    """
    place, key = resolve_store(store), key_for(session, tenant, agent)
    history = load_history(place, key)
    evidence = None if history.ids else imported_evidence(history.events, place.open(key).files)
    if evidence is not None:
        try:
            return _by_document(EnvelopeReader(evidence), before, after)
        except KeyError as error:  # an archive may contain evidence that was never checked
            raise StoreCorrupt(f"the imported evidence lacks {error}") from error
    one, other = named(history.ids, before, key)[0], named(history.ids, after, key)[0]
    turns = {turn.number: turn for turn in history.turns(sorted({one, other}))}
    changes = _changes(history, min(one, other), max(one, other))
    return _compared(one, other, outcomes_in_log(history, turns[one]), outcomes_in_log(history, turns[other]), changes)


def _by_document(document: EnvelopeReader, before: int | str, after: int | str) -> Diff:
    one, other = document.number(before), document.number(after)
    (then, hidden_then), (now, hidden_now) = document.outcomes(one), document.outcomes(other)
    counts = document.changes(min(one, other), max(one, other))
    changes = (MemoryChange(each.turn, each.round, "", each.kind, "", "", f"{each.many} in all") for each in counts)
    gaps = [_COUNTS_ONLY]
    if hidden_then or hidden_now:
        target, many = document.evidence.target, f"{hidden_then} in turn {one} and {hidden_now} in turn {other}"
        gaps.append(f"memory items that entered or left, {many}: {target} may not see their names")
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
    entered = [each for name, each in now.items() if each.included and not _includes(then, name)]
    left = [
        _left(each, now.get(name), why) for name, each in then.items() if each.included and not _includes(now, name)
    ]
    both = [(each, now[name]) for name, each in then.items() if each.included and _includes(now, name)]
    moved = [Moved(*pair) for pair in both if (pair[0].kind, pair[0].blocks) != (pair[1].kind, pair[1].blocks)]
    return Diff(one, other, tuple(entered), tuple(left), tuple(moved), tuple(changes), gaps)


def _includes(outcomes: dict[str, ItemOutcome], name: str) -> bool:
    return name in outcomes and outcomes[name].included


def _left(before: ItemOutcome, after: ItemOutcome | None, why: Callable[[int], str]) -> ItemOutcome:
    """Return an item that left, with the later turn's reason; omitted messages are listed as ranges."""
    reason = after.reason if after else ""
    if after is None and before.uri == MESSAGES:
        first, last = _span(before.part)
        reason = why(first) if 0 < first == last else ""
    return before._replace(included=False, blocks=(), reason=reason)


def _reasons(now: dict[str, ItemOutcome]) -> Callable[[int], str]:
    """Return a function from a message's number to the reason it was omitted."""
    out = [each for each in now.values() if each.uri == MESSAGES and not each.included]
    spans = sorted((*_span(span), each.reason) for each in out for span in each.part.split(","))
    starts = [first for first, _, _ in spans]

    def why(number: int) -> str:
        at = bisect_right(starts, number) - 1
        return spans[at][2] if at >= 0 and number <= spans[at][1] else ""

    return why


def _span(text: str) -> tuple[int, int]:
    """Return the first and last number of a range or number; an empty range for other texts."""
    first, _, last = text.partition("-")
    numbers = [int(each) for each in (first, last or first) if each.isascii() and each.isdecimal() and len(each) < 16]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, -1)


def _changes(history: SessionHistory, first: int, last: int) -> Iterator[MemoryChange]:
    """Yield memory operations after the first turn's request and before the last turn's."""
    for number, events in list(enumerate(runs_in(history.events).values(), 1))[first - 1 : last]:
        for event in events:
            kind = text_in(event, "type")
            is_before = kind in ("evolution", "recall")
            if (number == first and is_before) or (number == last and not is_before):
                continue
            for each in (*(event.get("operations") or ()), *(event.get("moves") or ())):
                yield _change(number, round_in(event), kind, each)


def _change(turn: int, round: int, event: str, operation: dict[str, Any]) -> MemoryChange:
    """Return an operation, or a move between tiers, as a change."""
    kind, place = str(operation.get("kind") or "move"), str(operation.get("tier") or operation.get("to") or "")
    return MemoryChange(turn, round, event, kind, str(operation.get("id")), place, str(operation.get("reason") or ""))
