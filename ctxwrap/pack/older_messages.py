"""The messages before the newest turn: those of the caller and of the log, where they are cut, and what repeats."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import NamedTuple, overload

from ctxwrap.callers_list import continued_with, values_of
from ctxwrap.kinds import KINDS
from ctxwrap.memory.items import origin_of_all
from ctxwrap.redaction.visibility import MODEL_ONLY
from ctxwrap.settings import Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.message_columns import LoggedMessages, MessageColumns
from ctxwrap.types import HistoryMessage, LoggedMessage, Message, PackItem, Request, TurnInputs

STEP = 0.75
"""After a cut, history fills this part of its limit, so it grows for many calls before the next cut."""

_SPARSE = 0.4
"""If less of the limit is used, messages that were cut before return."""


_ROLE = attrgetter("role")


class OlderMessages(Sequence[HistoryMessage]):
    """A range of messages, with running sums of their tokens: most are only counted, and never become objects."""

    __slots__ = ("_columns", "_end", "_places", "_start", "_sums")

    def __init__(
        self, columns: MessageColumns, start: int, end: int, sums: Sequence[int], places: Sequence[int] = ()
    ) -> None:
        """`sums` and `places` belong to the columns; without `places`, the caller sent none of the messages."""
        self._columns, self._start, self._end = columns, start, end
        self._sums, self._places = sums, places

    @classmethod
    def of(cls, messages: Sequence[HistoryMessage]) -> "OlderMessages":
        columns = MessageColumns([LoggedMessage(each.number, each.message) for each in messages])
        sums = [0, *accumulate([each.tokens for each in messages])]
        return cls(columns, 0, len(messages), sums, [each.place for each in messages])

    def __len__(self) -> int:
        return self._end - self._start

    @overload
    def __getitem__(self, at: int) -> HistoryMessage: ...
    @overload
    def __getitem__(self, at: slice) -> "OlderMessages": ...
    def __getitem__(self, at: int | slice) -> "HistoryMessage | OlderMessages":
        if isinstance(at, slice):
            start, end, _ = at.indices(self._end - self._start)
            return OlderMessages(
                self._columns, self._start + start, self._start + max(start, end), self._sums, self._places
            )
        at = range(self._end - self._start)[at]
        number, message, _ = self._columns.kept[self._start + at]
        return HistoryMessage(number, message, self.size(at), self.place(at))

    def split(self, at: int) -> tuple["OlderMessages", "OlderMessages"]:
        """The messages before an index, and the rest."""
        columns, sums, places, start, end = self._columns, self._sums, self._places, self._start, self._end
        middle = start + at
        return OlderMessages(columns, start, middle, sums, places), OlderMessages(columns, middle, end, sums, places)

    def size(self, at: int) -> int:
        """The tokens of one message."""
        at += self._start
        return self._sums[at + 1] - self._sums[at]

    def number(self, at: int) -> int:
        return self._columns.numbers[self._start + at]

    def place(self, at: int) -> int:
        return self._places[self._start + at] if self._places else -1

    def may_begin(self, at: int) -> bool:
        """Whether it is a user's message; one caller's message may also hold the tool result before it."""
        users, place = self._columns.users, self._start + at
        if users[place] == users[place + 1]:
            return False
        return not self._places or at == 0 or self._places[place] < 0 or self._places[place] != self._places[place - 1]

    def starts_within(self, limit: int) -> list["Start"]:
        """Where a range may begin that reaches to the end in at most `limit` tokens."""
        start, end, sums, users = self._start, self._end, self._sums, self._columns.users
        starts = list[Start]()
        for at in range(bisect_left(sums, sums[end] - limit, start, end), end):
            if users[at] < users[at + 1] and (not self._places or self.may_begin(at - start)):
                starts.append((at - start, self._columns.numbers[at], sums[end] - sums[at]))
        return starts

    def newest(self, count: int, limit: int) -> int:
        """The index of a user's message, for at least `count` messages from there on, or as many as fit."""
        start, end, sums, users = self._start, self._end, self._sums, self._columns.users
        found = end
        for at in range(end - 1, bisect_left(sums, sums[end] - limit, start, end) - 1, -1):
            if users[at] < users[at + 1] and (not self._places or self.may_begin(at - start)):
                found = at
                if end - at >= count:
                    break
        return found - start

    def tokens_from(self, at: int) -> int:
        """The tokens from one message to the end."""
        return self._sums[self._end] - self._sums[self._start + at]

    def tokens_before(self, at: int) -> int:
        """The tokens of the first messages, up to an index or the end."""
        return self._sums[min(self._start + at, self._end)] - self._sums[self._start]

    @property
    def tokens(self) -> int:
        return self._sums[self._end] - self._sums[self._start]

    @property
    def sizes(self) -> list[int]:
        return [after - before for before, after in pairwise(self._sums[self._start : self._end + 1])]

    @property
    def logged(self) -> list[LoggedMessage]:
        return self._columns.kept[self._start : self._end]

    @property
    def numbers(self) -> list[int]:
        return self._columns.numbers[self._start : self._end]

    @property
    def places(self) -> Sequence[int]:
        return self._places[self._start : self._end] if self._places else [-1] * len(self)

    @property
    def are_plain(self) -> bool:
        """Whether they are only text of users and models."""
        return self._columns.others[self._start] == self._columns.others[self._end]

    @property
    def from_log(self) -> list[Message]:
        """The messages that the caller did not send."""
        messages = self._columns.messages[self._start : self._end]
        if not self._places:
            return messages
        return [message for message, place in zip(messages, self.places, strict=True) if place < 0]

    @property
    def callers_tokens(self) -> int:
        """The tokens of the messages that the caller sent."""
        if not self._places:
            return 0
        places = self.places
        others = places.count(-1)
        if -1 not in places[others:]:  # all others come first
            return self.tokens_from(others)
        return sum(size for size, place in zip(self.sizes, places, strict=True) if place >= 0)

    @property
    def callers_places(self) -> frozenset[int]:
        """Where they stand in the caller's list, as far as they do."""
        return frozenset(self.places) - {-1} if self._places else frozenset()

    def as_item(self, reason: str, foreign: Mapping[int, str], *, included: bool) -> PackItem:
        """All of them as one item; `foreign` has the origins of those that contain foreign text."""
        kind, columns, start, end = KINDS["recent_messages"], self._columns, self._start, self._end
        first, last = columns.numbers[start], columns.numbers[end - 1]
        if self._places or last - first != end - start - 1:
            spans, newest = ranges(self.numbers), max(self.numbers)
        else:  # numbers of the log grow, so there is no gap
            spans, newest = f"{first}-{last}" if first < last else str(last), last
        if foreign or columns.others[start] < columns.others[end]:
            origin = origin_of_all(((kept.number, kept.message) for kept in self.logged), foreign)
        else:
            origin = "user" if columns.users[start] < columns.users[end] else "assistant"
        tokens = self._sums[end] - self._sums[start]
        return PackItem(kind.name, kind.source, tokens, included, reason, 0.5, newest, origin, MODEL_ONLY, (spans,))


Start = tuple[int, int, int]
"""Where messages may begin: an index, the number of the message there, and the tokens from there on."""

NO_MESSAGES = OlderMessages.of(())


class Conversation(NamedTuple):
    older: OlderMessages
    """The messages before the newest turn, which may be left out."""
    elsewhere: OlderMessages
    """The messages of the log, if the caller or the provider keeps the history: they are not sent."""
    newest: tuple[int, ...]
    """The numbers of the caller's messages that are always sent."""
    question: str
    """The newest message of the user."""
    system: str
    """The caller's system messages."""


def conversation(request: Request, inputs: TurnInputs, settings: Settings, measure: Measure) -> Conversation:
    """The caller's messages, and the older ones that only the log has."""
    messages = request.messages
    numbers = inputs.numbers or (0,) * len(messages)
    places = request.places or range(len(messages))
    roles = values_of(messages, _ROLE)
    spoken: Sequence[int] = range(len(messages))
    system = ""
    if "system" in roles:
        system = "\n".join([message.text for message in messages if message.role == "system"])
        spoken = [at for at, role in enumerate(roles) if role != "system"]
    asked = len(roles) - 1 - roles[::-1].index("user") if "user" in roles else -1
    is_ours = settings.history == "log" and not request.server_history
    logged = LoggedMessages.of(inputs.history)
    own: list[int] = []
    if not logged.are_plain:
        kept = _without_open_calls([*logged], [messages[at] for at in spoken])
        logged = logged if logged == kept else LoggedMessages.of(kept)
    newest = spoken
    if is_ours and spoken and spoken[0] < asked:
        first = spoken.index(asked)
        before, newest = spoken[:first], spoken[first:]
        known = [*map(numbers.__getitem__, before)]
        logged = _with_callers(logged, messages, before, known, measure)
        own = [-1] * (logged.end - first) + [*map(places.__getitem__, before)]
    columns, end = logged.columns, logged.end
    history = OlderMessages(columns, logged.start, end, columns.tokens(measure, end), own)
    return Conversation(
        older=history if is_ours else NO_MESSAGES,
        elsewhere=NO_MESSAGES if is_ours else history,
        newest=tuple(map(numbers.__getitem__, newest)),
        question=messages[asked].text if asked >= 0 else "",
        system=system,
    )


def _with_callers(
    logged: LoggedMessages, messages: Sequence[Message], places: Sequence[int], numbers: list[int], measure: Measure
) -> LoggedMessages:
    """Messages of the log with those that the caller said next: most often these are the next ones of the log.

    A caller who sends more than the log keeps in memory most often continues the list of the last call.
    """
    said = [*map(messages.__getitem__, places)]
    columns, first, start, end = logged.columns, logged.start, logged.end, logged.end + len(said)
    is_next = columns.numbers[start:end] == numbers and columns.messages[start:end] == said
    if is_next and columns.agrees(measure, start, end):
        return LoggedMessages(columns, first, end)
    all_numbers, all_said = [*columns.numbers[first:start], *numbers], [*columns.messages[first:start], *said]
    continued = continued_with(messages)
    known: MessageColumns | None = continued.get(measure.key)
    count = min(len(known.kept), len(all_said)) if known else 0
    is_alike = known and (known.numbers[:count], known.messages[:count]) == (all_numbers[:count], all_said[:count])
    if known and is_alike and count > start - first:
        for number, message in zip(all_numbers[count:], all_said[count:], strict=True):
            known.add(LoggedMessage(number, message, {measure.name: measure.counted(message)}))
        return LoggedMessages(known, 0, len(all_said))
    counts = values_of(messages, measure.counted)
    counted = [{measure.name: counts[place]} for place in places]
    made = LoggedMessages.of([*logged, *map(LoggedMessage, numbers, said, counted)])
    continued[measure.key] = made.columns
    return made


def _without_open_calls(history: Sequence[LoggedMessage], following: Sequence[Message]) -> list[LoggedMessage]:
    """Messages of the log without tool calls that have no result: providers reject them.

    A process that ends between a call and its result leaves one.
    """
    kept, results = list[LoggedMessage](), list[LoggedMessage]()
    continues = bool(following) and following[0].role == "tool"
    for each in reversed(history):
        if each.message.role == "tool":
            results.append(each)
            continue
        answered = {result.message.tool_call_id for result in results}
        if continues or answered.issuperset(call["id"] for call in each.message.tool_calls):
            kept += [*results, each]
        elif each.message.text:
            kept.append(LoggedMessage(each.number, each.message._replace(tool_calls=())))
        results, continues = [], False
    return [*kept, *results][::-1]


def cut(older: OlderMessages, limit: int, began: int = 0) -> int:
    """The index in `older` where the recent messages begin: a user's message, so no tool call loses its result.

    `began` is the number of the message where they began in the last call. They begin there again while that fits, and
    then much later, so the prefix of the request stays the same for many calls.
    """
    starts = older.starts_within(limit)
    if not starts:
        return len(older)
    for at, number, tokens in starts:
        if 0 < began == number and tokens >= _SPARSE * min(limit, older.tokens):
            return at
    slid = 0 < began < older.number(0)  # the message where it began is not loaded any more
    if starts[0][0] == 0 and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    for at, _, tokens in starts:
        if at >= fewest and tokens <= STEP * limit:
            return at
    return starts[-1][0]


_LARGE = 1024
"""Characters from which a reference is shorter than a tool output."""

_SLACK = 16
"""Tokens by which references differ."""


def reference_text(first: Message, number: int) -> str:
    """The text that replaces repetitions of the output in message `first`."""
    call = f"of tool call {first.tool_call_id[:64]} above" if first.tool_call_id else "of an earlier tool call above"
    return f"[The same output as that {call}: {len(first.text)} characters, in messages:{number}. It is not repeated.]"


def counted_once(older: OlderMessages, measure: Measure) -> OlderMessages:
    """The messages with token counts for the case that each output is sent once, wherever the history begins."""
    repeated = _places(older)
    if not repeated:
        return older
    counted = list(older)
    for at in (at for *copies, _ in repeated for at in copies):
        counted[at] = older[at]._replace(tokens=_referring(older[at], older[at], measure).tokens + _SLACK)
    return OlderMessages.of(counted)


def referred(sent: OlderMessages, measure: Measure) -> tuple[OlderMessages, dict[int, int]]:
    """The messages with references instead of copies, and by the number of each copy that of the original."""
    repeated = _places(sent)
    if not repeated:
        return sent, {}
    shown, copies = list(sent), dict[int, int]()
    for first, *others in repeated:
        shown[first] = sent[first]._replace(tokens=sent[others[-1]].tokens)
        for at in others:
            shown[at] = _referring(sent[at], sent[first], measure)
            copies[sent[at].number] = sent[first].number
    return OlderMessages.of(shown), copies


def references_in(copies: Iterable[HistoryMessage]) -> dict[int, dict[str, str]]:
    """The references that replace tool results in the caller's messages, by place in its list and id of the call."""
    texts: dict[int, dict[str, str]] = {}
    for each in copies:
        if each.place >= 0:
            texts.setdefault(each.place, {})[each.message.tool_call_id] = each.message.text
    return texts


def _referring(copy: HistoryMessage, first: HistoryMessage, measure: Measure) -> HistoryMessage:
    message = copy.message._replace(content=reference_text(first.message, first.number))
    return copy._replace(message=message, tokens=measure.message(LoggedMessage(copy.number, message)))


def _places(older: OlderMessages) -> list[list[int]]:
    """The indexes of each large output that occurs more than once."""
    found: dict[str, list[int]] = {}
    for at, kept in enumerate(older.logged) if not older.are_plain else ():
        if kept.message.role == "tool" and kept.number and (text := _large_text(kept.message)):
            found.setdefault(text, []).append(at)
    return [places for places in found.values() if len(places) > 1]


def _large_text(message: Message) -> str:
    content = message.content
    is_text = isinstance(content, str) or all(part.get("type") == "text" for part in content)
    text = message.text if is_text else ""
    return text if len(text) >= _LARGE else ""
