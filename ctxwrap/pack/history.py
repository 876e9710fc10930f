"""Surface: everything that could be sent, before anybody chooses, each with its tokens and where it comes from."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ctxwrap.protocol.framing import framed, harmless
from ctxwrap.protocol.instructions import escaped
from ctxwrap.settings import Settings
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.truncation import truncated
from ctxwrap.types import Candidate, HistoryMessage, LoggedMessage, Message, Request, SourcedText, TurnInputs


class Conversation(NamedTuple):
    """A conversation in parts: what is sent in any case, what may be left out, and what is not ours to send."""

    older: tuple[HistoryMessage, ...]
    """What was said before the newest turn."""
    elsewhere: tuple[HistoryMessage, ...]
    """What the log has of it, while the caller or the provider keeps the history."""
    newest: tuple[int, ...]
    """The numbers of the caller's messages that are sent in any case."""
    question: str
    """What the user said last."""


def conversation(request: Request, opening: TurnInputs, settings: Settings, measure: Measure) -> Conversation:
    """The caller's messages, and those that the log has before them."""
    messages = request.messages
    numbers = opening.numbers or (0,) * len(messages)
    places = request.places or tuple(range(len(messages)))
    spoken = [at for at, message in enumerate(messages) if message.role != "system"]
    asked = max((at for at in spoken if messages[at].role == "user"), default=-1)
    history = _without_open_calls(opening.history, [messages[at] for at in spoken])
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
    """The numbers and the messages; there may be hundreds in every call."""
    return [kept.number for kept in history], [kept.message for kept in history]


def _without_open_calls(history: Sequence[LoggedMessage], following: Sequence[Message]) -> list[LoggedMessage]:
    """Messages of the log without tool calls that never got their results, which no provider takes.

    A process that ends between a call and its result leaves one.
    """
    if not any(each.message.tool_calls for each in history):
        return list(history)
    kept, results = list[LoggedMessage](), list[LoggedMessage]()
    goes_on = bool(following) and following[0].role == "tool"
    for each in reversed(history):
        if each.message.role == "tool":
            results.append(each)
            continue
        answered = {result.message.tool_call_id for result in results}
        if goes_on or answered.issuperset(call["id"] for call in each.message.tool_calls):
            kept += [*results, each]
        elif each.message.text:
            kept.append(LoggedMessage(each.number, each.message._replace(tool_calls=())))
        results, goes_on = [], False
    return [*kept, *results][::-1]


def texts(
    kind: str, offered: Iterable[SourcedText], boundary: str, measure: Measure, room: int | None = None
) -> list[Candidate]:
    """Texts of the session's, each in a frame; cut at the end if they are longer than `room`, if one is given."""
    candidates = []
    for text in offered:
        content = harmless(text.text.strip(), boundary)

        def size(piece: str, source: str = text.source) -> int:
            return measure.text(framed(piece, source, "context", boundary))

        piece = content if room is None else truncated(content, room, "end", size)
        whole = framed(piece or content, text.source, "context", boundary)
        reason = "" if piece in (content, "") else f"truncated from {size(content)}"
        candidates.append(
            Candidate(kind, text.source, measure.text(whole), whole, origin=text.origin, reason=reason or _WHY[kind])
        )
    return candidates


_WHY = {
    "pinned": "pinned by the operator",
    "summary": "what was said before",
    "children": "the result of a child",
}


class Passage(NamedTuple):
    """A part of an earlier message that may matter now."""

    number: int
    part: int
    text: str
    heading: str
    """The day or group under which it is told."""
    speaker: str
    """`user`, `assistant`, or a name."""
    score: float = 0.0
    reasons: tuple[str, ...] = ()
    """What speaks for it most; or the one thing that kept it out."""
    origin: str = ""
    """What the message was made of, if nobody in the conversation wrote that."""


class Retrieved(NamedTuple):
    """What the log holds about a question."""

    chosen: tuple[Passage, ...] = ()
    """Best first, without what says the same again, as much as fits the budget."""
    missed: tuple[Passage, ...] = ()
    """What came next, best first."""


def speaker_line(passage: Passage) -> str:
    """A passage as the model gets to see it."""
    return escaped({"when": passage.heading, "by": passage.speaker, "said": passage.text})


def passages(found: Iterable[Passage], size: Callable[[str], int]) -> list[Candidate]:
    """Earlier messages that were found, best first, each on a line of JSON: no words in it can pose as another."""
    candidates = []
    for each in found:
        line = speaker_line(each)
        candidates.append(
            Candidate(
                "retrieved",
                "messages.jsonl",
                size(line) + 1,
                line,
                freshness=each.number,
                origin=each.origin or each.speaker,
                refs=(f"{each.number}.{each.part}",),
                reason=f"found by {', '.join(each.reasons)}" if each.reasons else "found",
            )
        )
    return candidates
