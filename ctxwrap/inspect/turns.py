"""Turns of a session, their packs, and the events of their stages."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.inspect.streams import (
    Numbered,
    StreamContents,
    calls_in,
    check_known,
    control_in,
    no_session,
    numbered,
    readable,
    round_in,
    said_in,
    text_in,
    whole_stream,
)
from ctxwrap.pack.receipt import SENDING, STAGES, EventIds, session_stage_events, stage_events
from ctxwrap.session.missing import missing_after, open_in
from ctxwrap.session.pack_archive import rebuilt_pack
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.session import Session
from ctxwrap.session.swap import shortened
from ctxwrap.stores.base import Store
from ctxwrap.stores.log_format import count_in, number_in, turn_in
from ctxwrap.tokens.reported_usage import usage_in
from ctxwrap.types import MissingContext, Record, SessionKey

_SHORT = 200
"""Characters of a text in one line about a turn."""

_PAGE = 300
"""Events that a page of turns is made of: about a hundred turns."""

REQUESTS = ("start", "repack")
"""Events of a request that was sent."""

_OPEN_TURN = 8
"""Messages looked for behind those of the last ended turn: a turn in progress may have written some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo:
    """A turn in one line."""

    number: int
    """From 1, in the order in which turns started."""
    id: str
    round: int
    mode: str
    status: str
    """ok, error or cancelled; open until its end is written."""
    reason: str
    """Why it ended."""
    model: str
    started_at: str
    tokens_in: int | None
    """As counted by the provider, including cached ones."""
    tokens_out: int | None
    said: str
    """The user's message or the tool's result, shortened."""
    answer: str
    """The answer or the part of it that arrived, shortened."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """All records of one turn."""

    info: TurnInfo
    messages: tuple[Record, ...]
    """With large contents."""
    events: tuple[Record, ...]
    damaged: int
    """Damaged lines of the whole session, some of which may belong to this turn."""

    def as_json(self) -> dict[str, Any]:
        records = {"messages": list(self.messages), "events": list(self.events)}
        return {"turn": self.info.as_json(), **records, "damaged": self.damaged}


def turn_details(store: Store, key: SessionKey, turn: int | str) -> TurnDetails:
    """Return a turn by its number or id."""
    log = store.open(key)
    messages, events = whole_stream(log, "messages"), whole_stream(log, "events")
    check_known(store, key, messages, events)
    said, happened = _by_turn(messages), runs_in(record for _, record in events.records)
    number, id = named(list(happened), turn, key)
    whole = tuple(readable(record, log.files) for record in said[id])
    info = _info(number, id, whole, happened[id])
    plain = tuple(readable(event, log.files) for event in happened[id])
    return TurnDetails(info, whole, plain, messages.damaged + events.damaged)


def turns_of(store: Store, key: SessionKey) -> tuple[TurnInfo, ...]:
    """Return all turns of a session, oldest first."""
    log = store.open(key)
    messages, events = whole_stream(log, "messages"), whole_stream(log, "events")
    check_known(store, key, messages, events)
    return turns_in(messages, events)


class TurnPage(NamedTuple):
    """Consecutive turns of a session, oldest first."""

    turns: tuple[TurnDetails, ...]
    before: int
    """The number of the first event; 0 if no turn lies before it."""
    owners: Mapping[str, str]
    """The user and the team of the session, as far as it has them."""


def turns_before(store: Store, key: SessionKey, before: int | None = None, count: int = _PAGE) -> TurnPage:
    """Return the turns among the `count` events before an event's number, or among the newest; reads only these."""
    session = Session(key, store.open(key))
    session.refresh()
    if session.is_empty:
        check_known(store, key)
    newest = session.state.sequence["events"]
    last = newest if before is None else min(before - 1, newest)
    first, runs, events = last + 1, dict[str, list[Record]](), list[Numbered]()
    while not runs and first > 1:
        first, count = max(1, last - count + 1), 2 * count
        events = list(numbered(session.log.between("events", first, last), first - 1))
        runs = runs_in(record for _, record in events)
        if first > 1 and runs and not _first(next(iter(runs.values())), "start"):  # it began before
            del runs[next(iter(runs))]
    begins = next((number for number, record in events if turn_in(record) in runs), first) if runs else 1
    known = [_messages_at(record) for number, record in events if number < begins and first > 1]
    noted = max((_messages_at(record) for number, record in events if number >= begins), default=0)
    said = _said_between(session, max(known, default=0) + 1, noted + _OPEN_TURN)
    turns = (TurnDetails(_info(0, id, said[id], run), tuple(said[id]), tuple(run), 0) for id, run in runs.items())
    return TurnPage(tuple(turns), begins if begins > 1 and first > 1 else 0, dict(session.state.owners))


def turn_near(store: Store, key: SessionKey, turn: str, event: int) -> TurnDetails:
    """Return a turn by its id and the number of its first event; reads only the events around it."""
    page = turns_before(store, key, event + _PAGE // 2)
    found = next((details for details in page.turns if details.info.id == turn), None)
    return found or turn_details(store, key, turn)


def _said_between(session: Session, first: int, last: int) -> dict[str, list[Record]]:
    """Return the messages in a range, by turn."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in session.log.between("messages", first, min(last, session.state.sequence["messages"])):
        found[turn_in(record)].append(readable(record, session.log.files))
    return found


def _messages_at(event: Record) -> int:
    """Return the number of messages that an event at the end of a turn notes."""
    return count_in(control_in(event), "messages") or 0


def turns_in(messages: StreamContents, events: StreamContents) -> tuple[TurnInfo, ...]:
    """Return all turns, oldest first."""
    said = _by_turn(messages)
    runs = enumerate(runs_in(record for _, record in events.records).items(), 1)
    return tuple(_info(number, id, said[id], happened) for number, (id, happened) in runs)


def _by_turn(stream: StreamContents) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for _, record in stream.records:
        found[turn_in(record)].append(record)
    return found


def runs_in(events: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the events of each turn; a turn whose first event is damaged counts from its next one."""
    runs: dict[str, list[Record]] = {}
    for event in events:
        id = turn_in(event)
        if id and event.get("run") == id:
            runs.setdefault(id, []).append(event)
    return runs


def named(ids: Sequence[str], turn: int | str, key: SessionKey) -> tuple[int, str]:
    """Return the number and id of a turn, by either; raise NotFound if there is none."""
    if turn in ids:
        return ids.index(str(turn)) + 1, str(turn)
    number = turn if isinstance(turn, int) else int(turn) if turn.isascii() and turn.isdecimal() else 0
    if 1 <= number <= len(ids):
        return number, ids[number - 1]
    known = f"it has turns 1 to {len(ids)}" if ids else "it has none"
    raise NotFound(f"session {key.session!r} has no turn {turn!r}: {known}")


def _info(number: int, id: str, messages: Sequence[Record], events: Sequence[Record]) -> TurnInfo:
    start, done = _first(events, "start"), _first(reversed(events), "done")
    usage = usage_in(done.get("usage"))
    return TurnInfo(
        number=number,
        id=id,
        round=round_in(start) or max(map(round_in, events), default=0),
        mode=text_in(start, "mode"),
        status=text_in(done, "status") or "open",
        reason=text_in(done, "reason"),
        model=text_in(done, "model") or text_in(start, "model"),
        started_at=text_in(control_in(start), "time"),
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        said=_asked(messages),
        answer=_answer(messages) or shortened("".join(_deltas(events)), _SHORT),
    )


def _first(events: Iterable[Record], kind: str) -> Record:
    return next((event for event in events if event.get("type") == kind), {})


def _asked(messages: Sequence[Record]) -> str:
    for role, label in (("user", ""), ("tool", "tool: ")):
        said = [said_in(message) for message in messages if message.get("role") == role]
        if said:
            return shortened(label + said[-1], _SHORT)
    return ""


def _answer(messages: Sequence[Record]) -> str:
    """Return the message that ended the turn; earlier answers are history that the caller sent."""
    answers = [message for message in messages if "status" in control_in(message)]
    if not answers:
        return ""
    calls = [f"{call.get('name')}({call.get('arguments')})" for call in calls_in(answers[-1])]
    return shortened(" ".join([said_in(answers[-1]), *calls]), _SHORT)


def _deltas(events: Iterable[Record]) -> Iterable[str]:
    return (text_in(event, "text") for event in events if event.get("type") == "delta")


def pack_of(store: Store, key: SessionKey, turn: int | str | None = None) -> PackView:
    """Return the pack of a turn by its number or id, else the newest pack."""
    session = Session(key, store.open(key))
    session.refresh()
    if session.is_empty:
        raise no_session(store, key)
    if turn is None:
        view = session.packs.newest(session.state)
        if view is None:
            raise NotFound(f"session {key.session!r} of tenant {key.tenant!r} has sent no pack yet")
        return view
    details = turn_details(store, key, turn)
    return pack_in(session, details)._replace(missing=_missing(session, details.info.id))


def pack_in(session: Session, details: TurnDetails) -> PackView:
    """Return the pack of a turn, without missing context; reads only what the pack refers to."""
    event: Record = {}
    for each in details.events:
        event |= each if each.get("type") in REQUESTS else {}
    try:
        return rebuilt_pack(session.key, event, epoch_at(session, event), session.packs.lookups(session.state))
    except (LookupError, TypeError, ValueError):
        what = f"turn {details.info.id!r} of session {session.key.session!r}"
        raise NotFound(f"{what} sent no pack, or it was not recorded") from None


def epoch_at(session: Session, request: Record) -> Record | None:
    """Return the epoch of a request: that of the last one that began an epoch, up to itself."""
    last, run = number_in(request) or 0, str(request.get("run"))
    while last > 0:
        first = max(1, last - _PAGE + 1)
        for event in reversed(session.log.between("events", first, last)):
            if "epoch" in event and event.get("type") in REQUESTS and str(event.get("run")) <= run:
                epoch: Record = event["epoch"]
                return epoch
        last = first - 1
    return None


def _missing(session: Session, turn: str) -> tuple[MissingContext, ...]:
    """Return the missing context at the end of that turn."""
    known, then = tuple[MissingContext, ...](), tuple[MissingContext, ...]()
    for event in session.records("events"):
        known = missing_after(known, event)
        then = known if turn_in(event) == turn else then
    return open_in(then)


class Stages:
    """Adds the events of stages to the events of a session, where the log does not have them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._turns: dict[str, tuple[EventIds, bool]] = {}
        """The ids of each turn's last request, and whether its mode sends the pack."""

    def among(self, events: Iterable[Numbered]) -> Iterator[Numbered]:
        """Yield the events with those of the stages, as a log with `evidence="log"` has them; takes whole batches."""
        for _, batch in groupby(events, _batch):
            yield from self._with_stages(list(batch))

    def _with_stages(self, batch: list[Numbered]) -> Iterator[Numbered]:
        records = [record for _, record in batch]
        try:
            stages = self._stages(records)
        except (AttributeError, LookupError, TypeError, ValueError):  # the log may be imported
            stages = []
        if not stages or any(record.get("type") in STAGES for record in records):
            yield from batch
            return
        at = next((at for at, record in enumerate(records) if _follows(record)), len(batch))
        control = {"turn": turn_in(records[0]), "time": text_in(control_in(records[0]), "time")}
        yield from batch[:at]
        yield from (Numbered(batch[max(0, at - 1)].number, {**event, "ctx": control}) for event in stages)
        yield from batch[at:]

    def _stages(self, records: Sequence[Record]) -> list[Record]:
        for record in records:
            if record.get("type") in ("start", "repack"):
                self._take_request(record)
        turn = turn_in(records[0])
        ids, sends = self._turns.get(turn, (EventIds(self._session, turn, attempt=1), True))
        return [*stage_events(records, ids, sends=sends), *session_stage_events(records, self._session)]

    def _take_request(self, event: Record) -> None:
        run = text_in(event, "run")
        known, sends = self._turns.get(
            run, (EventIds(self._session, run, round_in(event)), event.get("mode") in SENDING)
        )
        self._turns[run] = known._replace(attempt=known.attempt + 1), sends


def _batch(event: Numbered) -> tuple[str, str]:
    """Return what records of one batch have in common."""
    control = control_in(event.record)
    return text_in(control, "id").rpartition("e")[0], text_in(control, "time")


def _follows(record: Record) -> bool:
    """Whether the events of the stages come before it."""
    return record.get("type") == "done" or str(record.get("type")).startswith("context.missing.")
