"""Candidates of a pack: the conversation, texts of the session, and passages of earlier messages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ctxwrap.kinds import KINDS, PackKind
from ctxwrap.memory.items import origin_of_all
from ctxwrap.protocol.framing import frame_text, sanitise_framed
from ctxwrap.protocol.instructions import encode_escaped
from ctxwrap.settings import Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.truncation import truncate
from ctxwrap.types import Candidate, HistoryMessage, LoggedMessage, Message, PackItem, Request, SourcedText, TurnInputs


class Conversation(NamedTuple):
    older: tuple[HistoryMessage, ...]
    """The messages before the newest turn, which may be left out."""
    elsewhere: tuple[HistoryMessage, ...]
    """The messages of the log, if the caller or the provider keeps the history: they are not sent."""
    newest: tuple[int, ...]
    """The numbers of the caller's messages that are always sent."""
    question: str
    """The newest message of the user."""


def conversation(request: Request, inputs: TurnInputs, settings: Settings, measure: Measure) -> Conversation:
    """The caller's messages, and the older ones that only the log has."""
    messages = request.messages
    numbers = inputs.numbers or (0,) * len(messages)
    places = request.places or tuple(range(len(messages)))
    spoken = [at for at, message in enumerate(messages) if message.role != "system"]
    asked = max((at for at in spoken if messages[at].role == "user"), default=-1)
    history = _without_open_calls(inputs.history, [messages[at] for at in spoken])
    log = tuple(map(HistoryMessage, *_columns(history), measure.messages(history)))
    is_ours = settings.history == "log" and not request.server_history
    before = [at for at in spoken if at < asked] if is_ours else []
    sizes = {at: measure.message(LoggedMessage(numbers[at], messages[at])) for at in before}
    sent = tuple(HistoryMessage(numbers[at], messages[at], sizes[at], places[at]) for at in before)
    return Conversation(
        older=(*log, *sent) if is_ours else (),
        elsewhere=() if is_ours else log,
        newest=tuple(numbers[at] for at in spoken if at not in sizes),
        question=messages[asked].text if asked >= 0 else "",
    )


def _columns(history: Sequence[LoggedMessage]) -> tuple[list[int], list[Message]]:
    return [kept.number for kept in history], [kept.message for kept in history]


def _without_open_calls(history: Sequence[LoggedMessage], following: Sequence[Message]) -> list[LoggedMessage]:
    """Messages of the log without tool calls that have no result: providers reject them.

    A process that ends between a call and its result leaves one.
    """
    if not any(each.message.tool_calls for each in history):
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


def item_of_messages(
    messages: Sequence[HistoryMessage], reason: str, foreign: Mapping[int, str], *, included: bool
) -> PackItem:
    """Messages of the history as one item; `foreign` has the origins of those that contain foreign text."""
    kind, numbers = KINDS["recent_messages"], [each.number for each in messages]
    return PackItem(
        kind.name,
        kind.source,
        sum(each.tokens for each in messages),
        included,
        reason,
        freshness=max(numbers),
        origin=origin_of_all(((each.number, each.message) for each in messages), foreign),
        refs=(ranges(numbers),),
    )


def text_candidates(
    kind: PackKind, offered: Iterable[SourcedText], boundary: str, measure: Measure, limit: int
) -> list[Candidate]:
    """Texts of the session, each in a frame, cut to `limit` tokens if their kind truncates."""
    candidates = []
    for text in offered:
        content = sanitise_framed(text.text.strip(), boundary)

        def size(piece: str, source: str = text.source) -> int:
            return measure.text(frame_text(piece, source, "context", boundary))

        piece = truncate(content, limit, "end", size) if kind.truncates else content
        whole = frame_text(piece or content, text.source, "context", boundary)
        reason = kind.reason if piece in (content, "") else f"truncated from {size(content)}"
        candidates.append(
            Candidate(kind.name, text.source, measure.text(whole), whole, origin=text.origin, reason=reason)
        )
    return candidates


class Passage(NamedTuple):
    """A part of an earlier message that may be relevant."""

    number: int
    part: int
    text: str
    heading: str
    """The day or group it belongs to."""
    speaker: str
    """`user`, `assistant`, or a name."""
    score: float = 0.0
    reasons: tuple[str, ...] = ()
    """The signals that scored highest, or the one reason why it is left out."""
    origin: str = ""
    """The origin of the message, if that is foreign text."""


class Retrieved(NamedTuple):
    """The passages of the log that are about a question."""

    chosen: tuple[Passage, ...] = ()
    """Best first, without repetitions, within the budget."""
    missed: tuple[Passage, ...] = ()
    """The next best."""


def speaker_line(passage: Passage) -> str:
    """A passage as the model sees it: one line of JSON, which no text inside can end."""
    return encode_escaped({"when": passage.heading, "by": passage.speaker, "said": passage.text})


def passage_candidates(found: Iterable[Passage], size: Callable[[str], int]) -> list[Candidate]:
    kind, candidates = KINDS["retrieved"], []
    for each in found:
        line = speaker_line(each)
        candidates.append(
            Candidate(
                kind.name,
                kind.source,
                size(line) + 1,
                line,
                freshness=each.number,
                origin=each.origin or each.speaker,
                refs=(f"{each.number}.{each.part}",),
                reason=f"{kind.reason} by {', '.join(each.reasons)}" if each.reasons else kind.reason,
            )
        )
    return candidates
