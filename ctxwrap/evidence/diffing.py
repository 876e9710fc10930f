"""Two turns beside each other: what came into the context, what left it, what moved, and what became of memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxwrap.evidence.reading import Told, Turn, told
from ctxwrap.evidence.things import Thing, things_of
from ctxwrap.inspection.reading import round_in, text_in
from ctxwrap.inspection.turns import named, runs_in
from ctxwrap.records import numbers_in
from ctxwrap.session.finding import Place, key_for
from ctxwrap.stores import given_store

_MESSAGES = "session:messages.jsonl"


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


class Moved(NamedTuple):
    """Something that both turns show, in another place or as something else."""

    before: Shown
    after: Shown


class Change(NamedTuple):
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
    entered: tuple[Shown, ...]
    left: tuple[Shown, ...]
    """With the reason of the later turn, if it says one."""
    moved: tuple[Moved, ...]
    operations: tuple[Change, ...]
    """From what the earlier turn was shown up to what the later one was shown."""

    def as_json(self) -> dict[str, Any]:
        moved = [{"before": each.before._asdict(), "after": each.after._asdict()} for each in self.moved]
        listed = {name: [each._asdict() for each in getattr(self, name)] for name in ("entered", "left", "operations")}
        return {"before": self.before, "after": self.after, **listed, "moved": moved}


def diff_of(
    session: str,
    before: int | str,
    after: int | str,
    *,
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> Diff:
    """How what one turn sent differs from what another did, each by its number or id."""
    key = key_for(session, tenant, agent)
    known = told(given_store(store), key)
    one, other = named(known.ids, before, key)[0], named(known.ids, after, key)[0]
    turns = {turn.number: turn for turn in known.turns(sorted({one, other}))}
    then, now = _shown(known, turns[one]), _shown(known, turns[other])
    entered = [each for name, each in now.items() if each.included and not _is_in(then, name)]
    left = [_left(each, now.get(name), now) for name, each in then.items() if each.included and not _is_in(now, name)]
    both = [(each, now[name]) for name, each in then.items() if each.included and _is_in(now, name)]
    moved = [Moved(*pair) for pair in both if (pair[0].kind, pair[0].blocks) != (pair[1].kind, pair[1].blocks)]
    changes = tuple(_changes(known, min(one, other), max(one, other)))
    return Diff(one, other, tuple(entered), tuple(left), tuple(moved), changes)


def _is_in(shown: dict[str, Shown], name: str) -> bool:
    return name in shown and shown[name].included


def _left(before: Shown, after: Shown | None, now: dict[str, Shown]) -> Shown:
    """What is no longer shown, with the reason if the later turn says one: messages are left out by ranges."""
    if after is None and before.uri == _MESSAGES and before.part.isdecimal():
        ranges = [each for each in now.values() if each.uri == _MESSAGES and not each.included and "." not in each.part]
        after = next((each for each in ranges if int(before.part) in numbers_in(each.part)), None)
    return before._replace(included=False, blocks=(), reason=after.reason if after else "")


def _shown(known: Told, turn: Turn) -> dict[str, Shown]:
    """What the newest attempt of a turn could show, each by where it lies."""
    things = things_of(known, turn.attempts[-1]) if turn.attempts else ()
    return {name: shown for thing in things for name, shown in _named(thing)}


def _named(thing: Thing) -> Iterator[tuple[str, Shown]]:
    item = thing.item
    name = f"{thing.uri} {thing.part}" if thing.part or ":" in thing.uri else item.kind
    yield name, Shown(thing.kind, thing.uri, thing.part, item.included, item.reason, thing.tokens, thing.blocks)


def _changes(known: Told, first: int, last: int) -> Iterator[Change]:
    """What the turns did to memory: the first one behind its request, the last one before it."""
    for number, events in list(enumerate(runs_in(known.events).values(), 1))[first - 1 : last]:
        for event in events:
            kind = text_in(event, "type")
            is_before = kind in ("evolution", "recall")
            if (number == first and is_before) or (number == last and not is_before):
                continue
            for each in (*(event.get("operations") or ()), *(event.get("moves") or ())):
                yield _change(number, round_in(event), kind, each)


def _change(turn: int, round: int, event: str, told: dict[str, Any]) -> Change:
    """An operation, or a move from one place to another."""
    kind, place = str(told.get("kind") or "move"), str(told.get("tier") or told.get("to") or "")
    return Change(turn, round, event, kind, str(told.get("id")), place, str(told.get("reason") or ""))
