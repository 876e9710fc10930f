"""What was missing, as the log tells it: a record for each, as it stood when the last of some turns was over."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.mapping import visibility_of
from ctxwrap.evidence.objects import CandidateSource
from ctxwrap.evidence.objects import Missing as MissingRecord
from ctxwrap.evidence.placing import Sees
from ctxwrap.evidence.projecting import Projection
from ctxwrap.evidence.reading import Told, Turn, time_of
from ctxwrap.inspection.reading import control_in, text_in
from ctxwrap.records import turn_in
from ctxwrap.session.missing import changed_by
from ctxwrap.stages.missing import CLASSES, MODEL, is_open
from ctxwrap.types import Missing, Record

_UNTOLD = "A question of the model's, which is not for this target to see."


@dataclass(slots=True)
class Lack:
    """Something that is or was missing, and what happened to it."""

    value: Missing
    events: list[Record] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    """In which it was missing, or something happened to it."""

    @property
    def id(self) -> str:
        """By the event that first told of it: what the log calls it is made of its words."""
        control = control_in(self.events[0])
        return f"missing-{text_in(control, 'id') or control.get('seq')}"


@dataclass(frozen=True, slots=True)
class Lacks:
    all: tuple[Lack, ...] = ()

    def of(self, turn: str) -> list[Lack]:
        return [each for each in self.all if turn in each.turns]

    def happened(self, turn: str) -> Iterator[tuple[Record, str]]:
        """The events of a turn with the ids of the records they are about, in the order of the log."""
        yield from self._where(lambda event: turn_in(event) == turn)

    def outside(self, turns: Iterable[str]) -> Iterator[tuple[Record, str]]:
        """What happened outside of these turns: somebody settled it by hand."""
        known = set(turns)
        yield from self._where(lambda event: turn_in(event) not in known)

    def _where(self, holds: Callable[[Record], bool]) -> Iterator[tuple[Record, str]]:
        found = [(event, each.id) for each in self.all for event in each.events if holds(event)]
        yield from sorted(found, key=lambda pair: control_in(pair[0]).get("seq", 0))


def lacks_of(told: Told, turns: Sequence[Turn], *, whole: bool) -> Lacks:
    """What was missing in these turns; for a whole session, with all that happened since."""
    wanted = {turn.id for turn in turns}
    last = max((control_in(event).get("seq", 0) for turn in turns for event in turn.events), default=0)
    known, now_open = dict[str, Lack](), dict[str, Lack]()
    for event in told.events:
        if not whole and control_in(event).get("seq", 0) > last:
            break
        lack, turn = _followed(known, event), turn_in(event)
        now_open |= {lack.value.id: lack} if lack else {}
        for each in now_open.values() if turn in wanted else ():
            each.turns += [turn] if turn not in each.turns[-1:] else []
        if lack and not is_open(lack.value):
            del now_open[lack.value.id]
    return Lacks(tuple(each for each in known.values() if whole or each.turns))


def _followed(known: dict[str, Lack], event: Record) -> Lack | None:
    id = text_in(event, "subject")
    if event.get("type") not in CLASSES or not id:
        return None
    lack = known.get(id)
    value = changed_by(event, lack.value if lack else None)
    if value is None:
        return None
    lack = known.setdefault(id, Lack(value))
    lack.value = value
    lack.events.append(event)
    return lack


def record_of(lack: Lack, sees: Sees, refs: tuple[str, ...]) -> MissingRecord:
    """As a target may see it: the words of a model are for those who may see what the model does."""
    value, is_question = lack.value, lack.value.source == MODEL
    is_told = not is_question or sees(visibility_of(("model",)))
    summary = "The model asked something." if is_question else "A source was not available, or not all of it."
    action = value.remedy if not is_question else "answer it"
    return MissingRecord(
        **VERSION,
        missing_id=lack.id,
        scope="session" if is_question else "turn",
        question=value.question if is_told and value.question else _UNTOLD,
        needed_for=value.needed_for if is_told else "",
        severity=value.severity,
        candidate_sources=() if is_question else (CandidateSource(uri=value.source, note=value.reason),),
        blocked_actions=value.blocked_actions if is_told else (),
        requested_from=value.requested_from,
        status=value.status,
        resolution_refs=refs if value.status == "resolved" else (),
        created_at=time_of(lack.events[0]),
        metadata={
            "owner": value.requested_from or "user",
            "requested_action": action,
            "safe_summary": summary,
        },
    )


def resolution_of(lack: Lack, made: Mapping[str, Sequence[Projection]], contexts: Mapping[str, str]) -> tuple[str, ...]:
    """By what it was resolved: the item that shows its source again, else the context in which that happened."""
    turn = turn_in(lack.events[-1])
    items = (each for projection in made.get(turn, ()) for each in projection.placed if each.thing.item.included)
    found = next((each.id for each in items if each.thing.uri == lack.value.source), None)
    return (found or contexts.get(turn) or next(iter(contexts.values())),)
