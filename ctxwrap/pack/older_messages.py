"""The messages before the newest turn: those of the caller and of the log, where they are cut, and what repeats."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, overload

from ctxwrap.kinds import KINDS
from ctxwrap.memory.items import origin_of_all
from ctxwrap.settings import Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import HistoryMessage, LoggedMessage, Message, PackItem, Request, TurnInputs

STEP = 0.75
"""After a cut, history fills this part of its limit, so it grows for many calls before the next cut."""

_SPARSE = 0.4
"""If less of the limit is used, messages that were cut before return."""


class OlderMessages(Sequence[HistoryMessage]):
    """Messages in columns: most are only counted, so few become objects."""

    __slots__ = ("messages", "numbers", "places", "tokens")

    def __init__(
        self, numbers: Sequence[int], messages: Sequence[Message], tokens: Sequence[int], places: Sequence[int]
    ) -> None:
        self.numbers, self.messages, self.tokens, self.places = numbers, messages, tokens, places

    @classmethod
    def of(cls, messages: Iterable[HistoryMessage]) -> "OlderMessages":
        columns = tuple(zip(*messages, strict=True))
        return cls(*columns) if columns else NO_MESSAGES

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, at: int) -> HistoryMessage: ...
    @overload
    def __getitem__(self, at: slice) -> "OlderMessages": ...
    def __getitem__(self, at: int | slice) -> "HistoryMessage | OlderMessages":
        if isinstance(at, slice):
            return OlderMessages(self.numbers[at], self.messages[at], self.tokens[at], self.places[at])
        return HistoryMessage(self.numbers[at], self.messages[at], self.tokens[at], self.places[at])

    def may_begin(self, at: int) -> bool:
        """Whether it is a user's message; one caller's message may also hold the tool result before it."""
        place = self.places[at]
        return self.messages[at].role == "user" and (place < 0 or at == 0 or place != self.places[at - 1])


NO_MESSAGES = OlderMessages((), (), (), ())


class Conversation(NamedTuple):
    older: OlderMessages
    """The messages before the newest turn, which may be left out."""
    elsewhere: OlderMessages
    """The messages of the log, if the caller or the provider keeps the history: they are not sent."""
    newest: tuple[int, ...]
    """The numbers of the caller's messages that are always sent."""
    question: str
    """The newest message of the user."""


def conversation(request: Request, inputs: TurnInputs, settings: Settings, measure: Measure) -> Conversation:
    """The caller's messages, and the older ones that only the log has."""
    messages = request.messages
    numbers = inputs.numbers or (0,) * len(messages)
    places = request.places or range(len(messages))
    spoken = [at for at, message in enumerate(messages) if message.role != "system"]
    asked = max([at for at in spoken if messages[at].role == "user"], default=-1)
    kept = _without_open_calls(inputs.history, [messages[at] for at in spoken])
    is_ours = settings.history == "log" and not request.server_history
    before = [at for at in spoken if at < asked] if is_ours else []
    sent = [LoggedMessage(numbers[at], messages[at]) for at in before]
    history = OlderMessages(
        [each.number for each in (*kept, *sent)],
        [each.message for each in (*kept, *sent)],
        measure.messages(kept) + measure.messages(sent),
        [-1] * len(kept) + [places[at] for at in before],
    )
    return Conversation(
        older=history if is_ours else NO_MESSAGES,
        elsewhere=NO_MESSAGES if is_ours else history,
        newest=tuple([numbers[at] for at in spoken if not is_ours or at >= asked]),
        question=messages[asked].text if asked >= 0 else "",
    )


def _without_open_calls(history: Sequence[LoggedMessage], following: Sequence[Message]) -> list[LoggedMessage]:
    """Messages of the log without tool calls that have no result: providers reject them.

    A process that ends between a call and its result leaves one.
    """
    calling = [each for each in history if each.message.tool_calls]
    if not calling:
        return list(history)
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


def item_of_messages(history: OlderMessages, reason: str, foreign: Mapping[int, str], *, included: bool) -> PackItem:
    """Messages of the history as one item; `foreign` has the origins of those that contain foreign text."""
    kind = KINDS["recent_messages"]
    return PackItem(
        kind.name,
        kind.source,
        sum(history.tokens),
        included,
        reason,
        freshness=max(history.numbers),
        origin=origin_of_all(zip(history.numbers, history.messages, strict=True), foreign),
        refs=(ranges(history.numbers),),
    )


def cut(older: OlderMessages, limit: int, began: int = 0) -> int:
    """The index in `older` where the recent messages begin: a user's message, so no tool call loses its result.

    `began` is the number of the message where they began in the last call. They begin there again while that fits, and
    then much later, so the prefix of the request stays the same for many calls.
    """
    tokens, starts = _starts_within(older, limit)
    last = next((at for at in starts if older.numbers[at] == began), -1) if began > 0 else -1
    if last >= 0 and starts[last] >= _SPARSE * min(limit, tokens):
        return last
    slid = bool(older) and 0 < began < older.numbers[0]  # the message where it began is not loaded any more
    if 0 in starts and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    sparse = [at for at, left in starts.items() if left <= STEP * limit and at >= fewest]
    return min(sparse) if sparse else max(starts, default=len(older))


def newest(older: OlderMessages, count: int, limit: int) -> int:
    """The index in `older` of a user's message, for at least `count` messages from there on, or as many as fit."""
    start, last, tokens = len(older), len(older) - count, 0
    for at in range(start - 1, -1, -1):
        tokens += older.tokens[at]
        if tokens > limit or start <= last:
            break
        start = at if older.may_begin(at) else start
    return start


def _starts_within(older: OlderMessages, limit: int) -> tuple[int, dict[int, int]]:
    """The tokens counted (all, or more than fit), and by possible start the tokens from there on."""
    tokens, starts = 0, dict[int, int]()
    for at in range(len(older) - 1, -1, -1):
        tokens += older.tokens[at]
        if tokens > limit:
            break
        if older.may_begin(at):
            starts[at] = tokens
    return tokens, starts


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
    tokens = list(older.tokens)
    for at in (at for *copies, _ in repeated for at in copies):
        tokens[at] = _referring(older[at], older[at], measure).tokens + _SLACK
    return OlderMessages(older.numbers, older.messages, tokens, older.places)


def referred(sent: OlderMessages, measure: Measure) -> tuple[OlderMessages, dict[int, int]]:
    """The messages with references instead of copies, and by the number of each copy that of the original."""
    repeated = _places(sent)
    if not repeated:
        return sent, {}
    shown, copies = list(sent), dict[int, int]()
    for first, *others in repeated:
        shown[first] = sent[first]._replace(tokens=sent.tokens[others[-1]])
        for at in others:
            shown[at] = _referring(sent[at], sent[first], measure)
            copies[sent.numbers[at]] = sent.numbers[first]
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
    for at in [at for at, message in enumerate(older.messages) if message.role == "tool"]:
        if older.numbers[at] and (text := _large_text(older.messages[at])):
            found.setdefault(text, []).append(at)
    return [places for places in found.values() if len(places) > 1]


def _large_text(message: Message) -> str:
    content = message.content
    is_text = isinstance(content, str) or all(part.get("type") == "text" for part in content)
    text = message.text if is_text else ""
    return text if len(text) >= _LARGE else ""
