"""The cost of a session, compared with other ways to send the same conversation."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from ctxwrap.inspect.streams import control_in, no_session, readable, text_in
from ctxwrap.pack.receipt import budget_in
from ctxwrap.session.branch import ROOT
from ctxwrap.session.open_turns import is_presumed
from ctxwrap.stores.base import Files, Store
from ctxwrap.stores.log_format import count_in, message_in, tokens_in, turn_in
from ctxwrap.tokens import Counter, counter_for, message_tokens
from ctxwrap.tokens.messages import PER_REPLY
from ctxwrap.tokens.models import price_of
from ctxwrap.tokens.reported_usage import usage_in
from ctxwrap.types import Record, SessionKey

LAST = 20
"""Messages that the sliding window keeps."""

CACHED_FROM, STEP = 1024, 128
"""Assumed provider caches: least tokens of a cached prefix, and its granularity."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens and their cost."""

    tokens_in: int = 0
    """Including cached ones."""
    cached: int = 0
    tokens_out: int = 0
    money: float | None = 0.0
    """In US dollars; None if a model's price is unknown."""

    def plus(self, other: "Spent") -> "Spent":
        money = None if self.money is None or other.money is None else self.money + other.money
        cached, tokens_out = self.cached + other.cached, self.tokens_out + other.tokens_out
        return Spent(self.tokens_in + other.tokens_in, cached, tokens_out, money)


@dataclass(frozen=True, slots=True)
class Way:
    """The cost of one way to send a conversation."""

    total: Spent = Spent()
    last: Spent = Spent()
    """Of the last turn."""

    def plus(self, spent: Spent) -> "Way":
        return Way(self.total.plus(spent), spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    key: SessionKey
    turns: int = 0
    """Turns with known usage."""
    reported: int = 0
    """Of these, turns whose usage the provider reported; the others are counted by ctxwrap."""
    unknown: int = 0
    """Turns that failed, are running, or passed through without usage; not in any sum."""
    models: tuple[str, ...] = ()
    snapshot: int = 0
    """Of all tokens out, those of snapshots."""
    reasks: Spent = Spent()
    """Of all tokens, those of second requests for an unusable snapshot."""
    sent: Way = Way()
    everything: Way = Way()
    """If every request had sent the whole conversation."""
    newest: Way = Way()
    """If every request had sent the last messages only."""
    damaged: int = 0
    """Damaged lines of the log."""

    def as_json(self) -> dict[str, Any]:
        known = {name: value for name, value in asdict(self).items() if name not in ("key", "newest")}
        ways = {name: {**asdict(way), "average": asdict(self.average(way))} for name, way in self.ways.items()}
        return {**self.key._asdict(), **known, **ways, "models": list(self.models)}

    @property
    def ways(self) -> dict[str, Way]:
        return {"sent": self.sent, "everything": self.everything, f"last_{LAST}": self.newest}

    def average(self, way: Way) -> Spent:
        """Return the mean per turn, in whole tokens."""
        turns, total = max(1, self.turns), way.total
        money = None if total.money is None else total.money / turns
        taken, cached, given = (round(count / turns) for count in (total.tokens_in, total.cached, total.tokens_out))
        return Spent(taken, cached, given, money)


def cost_of(store: Store, key: SessionKey) -> Cost:
    """Return the cost of a session."""
    log = store.open(key)
    messages, events = _Lines(log.lines("messages")), _Lines(log.lines("events"))
    said = _Conversation(log.files)
    for record in messages:
        said.take(record)
    tally = _Tally(said, key)
    for record in events:
        tally.take(record)
    tally.finish()
    if not (messages.read or events.read) and key.session not in store.sessions(key.tenant, key.agent):
        raise no_session(store, key)
    return tally.cost(messages.damaged + events.damaged)


class _Lines:
    """Iterates over the records of a stream and counts its lines and damaged lines."""

    def __init__(self, lines: Iterable[Any]) -> None:
        self._lines = lines
        self.read = self.damaged = 0

    def __iter__(self) -> Iterator[Record]:
        for line in self._lines:
            self.read += 1
            self.damaged += bool(line.fault)
            if line.record is not None:
                yield line.record


class _Request(NamedTuple):
    """A request and its answer, in positions of the conversation and in tokens."""

    before: int
    """The position of the message that the turn continues."""
    asked: int
    """The position of the newest message that it sends."""
    system: int
    answer: int = 0


class _Conversation:
    """The messages of a log as a tree; each position has the total tokens of its path from the root."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._totals, self._depths, self._parents = [0], [0], [0]
        self._places = {ROOT: 0}
        self._system, self._system_turn = 0, ""
        self.turns: dict[str, _Request] = {}

    def take(self, record: Record) -> None:
        control, turn = control_in(record), turn_in(record)
        tokens = self._tokens(record)
        if record.get("role") == "system":
            self._system = tokens + (self._system if turn == self._system_turn else 0)
            self._system_turn = turn
            return
        newest = len(self._totals) - 1
        before = self._places.get(text_in(control, "parent"), newest)
        instead = self._places.get(text_in(control, "supersedes"), 0)
        self._totals.append(
            self._totals[before] + tokens - self._totals[instead] + self._totals[self._parents[instead]]
        )
        self._depths.append(self._depths[before] + 1)
        self._parents.append(before)
        if id := text_in(control, "id"):
            self._places[id] = newest + 1
        known = self.turns.get(turn) or _Request(before, before, self._system)
        is_answer = "status" in control
        self.turns[turn] = known._replace(**{"answer": tokens} if is_answer else {"asked": newest + 1})

    def _tokens(self, record: Record) -> int:
        """Return the stored count; logs of older versions have none, so count."""
        known = tokens_in(record)
        if known:
            return next(iter(known.values()))
        try:
            return message_tokens(message_in(readable(record, self._files)), counter_for(""))
        except (LookupError, TypeError, ValueError):
            return 0

    def everything(self, request: _Request) -> int:
        return PER_REPLY + request.system + self._totals[request.asked]

    def newest(self, request: _Request) -> int:
        """Return the tokens of a request with the last messages only."""
        first = next(islice(self._path_up(request.asked), LAST, None), 0)
        return PER_REPLY + request.system + self._totals[request.asked] - self._totals[first]

    def stable(self, request: _Request, previous: _Request | None) -> int:
        """Return the tokens of the prefix that a request with everything shares with the previous one."""
        if previous is None or previous.system != request.system:
            return 0
        return request.system + min(self._totals[previous.asked], self._totals[request.before])

    def slides(self, request: _Request) -> bool:
        """Whether the conversation has more messages than the window keeps."""
        return self._depths[request.asked] > LAST

    def _path_up(self, place: int) -> Iterator[int]:
        while place:
            yield place
            place = self._parents[place]


@dataclass(slots=True)
class _Turn:
    """The events of a turn so far."""

    model: str = ""
    is_sent: bool = False
    """Whether ctxwrap composed the request, so that its size is known."""
    counted: int = 0
    status: str = ""
    is_presumed: bool = False
    """Whether another process wrote its end; its own end may follow."""
    usage: Any = None
    snapshot: int = 0
    reasks: list[Any] = field(default_factory=list)


class _Tally:
    """Sums over ended turns, in the order in which they ended."""

    def __init__(self, said: _Conversation, key: SessionKey) -> None:
        self._said = said
        self._key = key
        self._open: dict[str, _Turn] = {}
        self._models: dict[str, None] = {}
        self._ways = [Way(), Way(), Way()]
        self._reasks = Spent()
        self._turns = self._reported = self._unknown = self._snapshot = 0
        self._previous: _Request | None = None

    def cost(self, damaged: int) -> Cost:
        sent, everything, newest = self._ways
        return Cost(
            key=self._key,
            turns=self._turns,
            reported=self._reported,
            unknown=self._unknown + len(self._open),
            models=tuple(self._models),
            snapshot=self._snapshot,
            reasks=self._reasks,
            sent=sent,
            everything=everything,
            newest=newest,
            damaged=damaged,
        )

    def take(self, event: Record) -> None:
        id, kind = turn_in(event), event.get("type")
        if not id or event.get("run") != id:
            return
        if kind == "start":
            self._open[id] = _Turn(text_in(event, "model"), event.get("mode") in ("enabled", "readonly"))
        turn = self._open.get(id)
        if turn is None:
            return
        if kind in ("start", "repack") and turn.is_sent:
            budget = budget_in(event)
            turn.counted = (count_in(budget, "fixed") or 0) + (count_in(budget, "used") or 0)
        elif kind == "snapshot":
            turn.snapshot = _counter(turn).count(text_in(event, "trailer"))
        elif kind == "reask":
            turn.reasks.append(event.get("usage"))
        elif kind == "done":
            turn.status, turn.usage = text_in(event, "status"), event.get("usage")
            turn.is_presumed = is_presumed(event)
            if not turn.is_presumed:
                self._end(self._open.pop(id), self._said.turns.get(id))

    def finish(self) -> None:
        """End the turns that only another process ended."""
        for id in [id for id, turn in self._open.items() if turn.is_presumed]:
            self._end(self._open.pop(id), self._said.turns.get(id))

    def _end(self, turn: _Turn, request: _Request | None) -> None:
        usage = usage_in(turn.usage)
        is_known = usage.tokens_in is not None or (turn.is_sent and turn.counted and turn.status != "error")
        if request is None or not is_known:
            self._unknown += 1
            return
        self._turns += 1
        self._reported += usage.tokens_in is not None
        self._models.setdefault(turn.model)
        counted = turn.counted / (1 + _counter(turn).margin)
        taken = round(counted) if usage.tokens_in is None else usage.tokens_in
        scale = taken / counted if counted and not _counter(turn).exact else 1.0
        given = request.answer + turn.snapshot if usage.tokens_out is None else usage.tokens_out
        snapshot = _snapshot(turn, request, given, usage.reasoning or 0)
        sent = _spent(turn.model, taken, usage.cached or 0, given, usage.written or 0)
        asked_again = self._asked_again(turn)
        self._snapshot += snapshot
        self._reasks = self._reasks.plus(asked_again)
        everything, newest = self._others(turn, request, given - snapshot, scale)
        ways = (sent.plus(asked_again), everything, newest)
        self._ways = [way.plus(spent) for way, spent in zip(self._ways, ways, strict=True)]
        self._previous = request

    def _others(self, turn: _Turn, request: _Request, answer: int, scale: float) -> tuple[Spent, Spent]:
        """Return the other ways; estimated counts are scaled by the provider's count of this turn."""
        said = self._said
        stable = said.stable(request, self._previous)
        is_alike = self._previous is not None and self._previous.system == request.system
        kept = stable if not said.slides(request) else request.system if is_alike else 0
        everything, newest = round(scale * said.everything(request)), round(scale * said.newest(request))
        return (
            _spent(turn.model, everything, _cached(scale * stable), answer),
            _spent(turn.model, newest, _cached(scale * kept), answer),
        )

    def _asked_again(self, turn: _Turn) -> Spent:
        total = Spent()
        for usage in map(usage_in, turn.reasks):
            counts = (usage.tokens_in or 0, usage.cached or 0, usage.tokens_out or 0)
            total = total.plus(_spent(turn.model, *counts, usage.written or 0))
        return total


def _snapshot(turn: _Turn, request: _Request, given: int, reasoning: int) -> int:
    """Return the tokens of the snapshot: its count, or its share if counts are estimates."""
    if _counter(turn).exact:
        return min(turn.snapshot, given)
    said = max(0, given - reasoning)
    return round(said * turn.snapshot / max(1, request.answer + turn.snapshot))


def _counter(turn: _Turn) -> Counter:
    return counter_for(turn.model)


def _cached(tokens: float) -> int:
    return int(tokens) // STEP * STEP if tokens >= CACHED_FROM else 0


def _spent(model: str, taken: int, cached: int, given: int, written: int = 0) -> Spent:
    price = price_of(model)
    if price is None:
        return Spent(taken, cached, given, None)
    fresh = max(0, taken - cached - written)
    money = fresh * price.input + cached * price.cached + written * price.written + given * price.output
    return Spent(taken, cached, given, money)
