"""What a turn could show and what became of it, each thing by where it lies: as the log tells it, or a document."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.evidence.document import Evidence
from ctxwrap.evidence.objects import Envelope, Event, Item
from ctxwrap.evidence.reading import Told, Turn
from ctxwrap.evidence.things import Thing, things_of
from ctxwrap.visibility import REMEMBERED

MESSAGES = "session:messages.jsonl"


class Shown(NamedTuple):
    """Something that a turn could show, and what became of it there."""

    kind: str
    uri: str
    part: str
    included: bool
    reason: str
    tokens: int | None
    blocks: tuple[str, ...]
    """Where in the request it stood."""


class Count(NamedTuple):
    """So many operations of one kind on memory."""

    turn: int
    round: int
    kind: str
    many: int


def in_log(known: Told, turn: Turn) -> dict[str, Shown]:
    """What the newest attempt of a turn could show."""
    things = things_of(known, turn.attempts[-1]) if turn.attempts else ()
    return dict(map(_named, things))


def _named(thing: Thing) -> tuple[str, Shown]:
    item = thing.item
    name = f"{thing.uri} {thing.part}" if thing.part or ":" in thing.uri else item.kind
    return name, Shown(thing.kind, thing.uri, thing.part, item.included, item.reason, thing.tokens, thing.blocks)


class Recounted:
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

    def shown(self, number: int) -> tuple[dict[str, Shown], int]:
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
        return item.metadata.get("pack_kind") not in REMEMBERED or bool(self._place(item)[1])

    def _place(self, item: Item) -> tuple[str, str]:
        """Where it lies, and which part of that."""
        if not item.source_refs:
            return item.item_id, ""
        source = self._sources[item.source_refs[0]]
        return source.uri, source.selector.value if source.selector else ""

    def _shown(self, item: Item, included: bool, note: str, blocks: dict[str, list[str]]) -> Shown:
        uri, part = self._place(item)
        reason, known = item.metadata.get("reason"), item.context_kind
        message = f"messages:{part}" if uri == MESSAGES and part else "messages.jsonl"
        places = (message if each in ("message", "system") else each for each in blocks.get(item.item_id, ()))
        told = reason if isinstance(reason, str) else note
        return Shown(known, uri, part, included, told, item.token_estimate, tuple(dict.fromkeys(places)))

    def _blocks(self, envelope: Envelope) -> dict[str, list[str]]:
        """For each item the blocks of the newest request that it stood in, by their names."""
        found: dict[str, list[str]] = {}
        for ref in envelope.assembly_refs[-1:]:
            for block in self._assemblies[ref].ordered_blocks:
                for item in block.item_refs:
                    found.setdefault(item, []).append(block.wrapper)
        return found

    def changes(self, first: int, last: int) -> Iterator[Count]:
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


def _count(turn: int, event: Event) -> Count:
    count, task = event.data.get("count"), event.task_id.removeprefix("round-")
    round = int(task) if task.isascii() and task.isdecimal() and len(task) < 16 else 0
    return Count(turn, round, str(event.data["memory_operation"]), count if type(count) is int else 1)
