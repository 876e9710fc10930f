"""Two turns beside each other: what came into the context, what left it, what moved, and what became of memory."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxwrap.errors import StoreCorrupt
from ctxwrap.evidence.keeping import kept_evidence
from ctxwrap.evidence.reading import Told, told
from ctxwrap.evidence.showing import MESSAGES, Recounted, Shown, in_log
from ctxwrap.inspection.reading import round_in, text_in
from ctxwrap.inspection.turns import named, runs_in
from ctxwrap.session.finding import Place, key_for
from ctxwrap.stores import given_store

_BY_NUMBERS = "which memories were changed, and what faded: the evidence tells of operations by numbers alone"


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
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> Diff:
    """How what one turn sent differs from what another did, each by its number or id.

    A session that was imported as evidence is told by its document, as far as that goes (`gaps`).
    """
    place, key = given_store(store), key_for(session, tenant, agent)
    known = told(place, key)
    evidence = None if known.ids else kept_evidence(known.events, place.open(key).files)
    if evidence is not None:
        try:
            return _by_document(Recounted(evidence), before, after)
        except KeyError as error:  # an archive may bring in what no import of evidence would take
            raise StoreCorrupt(f"the evidence that was imported lacks {error}") from error
    one, other = named(known.ids, before, key)[0], named(known.ids, after, key)[0]
    turns = {turn.number: turn for turn in known.turns(sorted({one, other}))}
    changes = _changes(known, min(one, other), max(one, other))
    return _compared(one, other, in_log(known, turns[one]), in_log(known, turns[other]), changes)


def _by_document(document: Recounted, before: int | str, after: int | str) -> Diff:
    one, other = document.number(before), document.number(after)
    (then, hidden_then), (now, hidden_now) = document.shown(one), document.shown(other)
    counts = document.changes(min(one, other), max(one, other))
    changes = (Change(each.turn, each.round, "", each.kind, "", "", f"{each.many} in all") for each in counts)
    gaps = [_BY_NUMBERS]
    if hidden_then or hidden_now:
        target, many = document.evidence.target, f"{hidden_then} in turn {one} and {hidden_now} in turn {other}"
        gaps.append(f"memories that came and went, {many}: {target} may not see their names")
    return _compared(one, other, then, now, changes, tuple(gaps))


def _compared(
    one: int,
    other: int,
    then: dict[str, Shown],
    now: dict[str, Shown],
    changes: Iterable[Change],
    gaps: tuple[str, ...] = (),
) -> Diff:
    why = _reasons(now)
    entered = [each for name, each in now.items() if each.included and not _is_in(then, name)]
    left = [_left(each, now.get(name), why) for name, each in then.items() if each.included and not _is_in(now, name)]
    both = [(each, now[name]) for name, each in then.items() if each.included and _is_in(now, name)]
    moved = [Moved(*pair) for pair in both if (pair[0].kind, pair[0].blocks) != (pair[1].kind, pair[1].blocks)]
    return Diff(one, other, tuple(entered), tuple(left), tuple(moved), tuple(changes), gaps)


def _is_in(shown: dict[str, Shown], name: str) -> bool:
    return name in shown and shown[name].included


def _left(before: Shown, after: Shown | None, why: Callable[[int], str]) -> Shown:
    """What is no longer shown, with the reason if the later turn says one: messages are left out by ranges."""
    reason = after.reason if after else ""
    if after is None and before.uri == MESSAGES:
        first, last = _span(before.part)
        reason = why(first) if 0 < first == last else ""
    return before._replace(included=False, blocks=(), reason=reason)


def _reasons(now: dict[str, Shown]) -> Callable[[int], str]:
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
