"""The candidates of a pack: history and retrieved passages, and the selection of those that are worth their tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ctxwrap.kinds import KINDS, PackKind, is_file, seen_by
from ctxwrap.memory.items import origin_of_all
from ctxwrap.protocol.instructions import encode_escaped, frame_text, sanitise_framed
from ctxwrap.redaction.visibility import MODEL_ONLY, Target, VisibilityRules
from ctxwrap.retrieval.selection import Passage
from ctxwrap.settings import Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens.measure import Measure, estimate_tokens, truncate
from ctxwrap.types import (
    Candidate,
    HistoryMessage,
    LoggedMessage,
    Message,
    PackItem,
    Record,
    Request,
    Resource,
    SourcedText,
    TurnInputs,
)

STEP = 0.75
"""After a cut, history fills this part of its limit, so it grows for many calls before the next cut."""

_SPARSE = 0.4
"""If less of the limit is used, messages that were cut before return."""

NOT_VISIBLE = "it is not for the model to see"
_LESS_RELEVANT = "others are more to the point"

_RETRIEVED = KINDS["retrieved"]


def select(candidates: Sequence[Candidate], limit: int) -> tuple[list[Candidate], list[PackItem]]:
    """The candidates that fit, in their order; and an item for every candidate, with the reason for its selection."""
    chosen: list[Candidate] = []
    items: list[PackItem] = []
    left = limit
    for candidate in candidates:
        reason = _why_not(candidate, left)
        if not reason:
            chosen.append(candidate)
            left -= candidate.tokens
        items.append(as_item(candidate, included=not reason, reason=reason or candidate.reason))
    return chosen, items


def _why_not(candidate: Candidate | PackItem, left: int) -> str:
    if "model" not in candidate.visibility:
        return NOT_VISIBLE
    return "" if candidate.tokens <= left else f"over budget: {candidate.tokens} tokens, {max(0, left)} left"


def as_item(candidate: Candidate, *, included: bool, reason: str) -> PackItem:
    return PackItem(
        candidate.kind,
        candidate.source,
        candidate.tokens,
        included,
        reason,
        candidate.priority,
        candidate.freshness,
        candidate.origin,
        candidate.visibility,
        candidate.refs,
    )


def cut(older: Sequence[HistoryMessage], limit: int, began: int = 0) -> int:
    """The index in `older` where the recent messages begin: a user's message, so no tool call loses its result.

    `began` is the number of the message where they began in the last call. They begin there again while that fits, and
    then much later, so the prefix of the request stays the same for many calls.
    """
    tokens, starts = _starts_within(older, limit)
    last = next((at for at in starts if 0 < began == older[at].number), -1)
    if last >= 0 and starts[last] >= _SPARSE * min(limit, tokens):
        return last
    slid = bool(older) and 0 < began < older[0].number  # the message where it began is not loaded any more
    if 0 in starts and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    sparse = [at for at, left in starts.items() if left <= STEP * limit and at >= fewest]
    return min(sparse) if sparse else max(starts, default=len(older))


def newest(older: Sequence[HistoryMessage], count: int, limit: int) -> int:
    """The index in `older` of a user's message, for at least `count` messages from there on, or as many as fit."""
    start, tokens = len(older), 0
    for at in range(len(older) - 1, -1, -1):
        tokens += older[at].tokens
        if tokens > limit or len(older) - start >= count:
            break
        start = at if _may_begin(older, at) else start
    return start


def _may_begin(older: Sequence[HistoryMessage], at: int) -> bool:
    """Whether it is a user's message; one caller's message may also hold the tool result before it."""
    place = older[at].place
    return older[at].message.role == "user" and (at == 0 or place < 0 or place != older[at - 1].place)


def _starts_within(older: Sequence[HistoryMessage], limit: int) -> tuple[int, dict[int, int]]:
    """The tokens counted (all, or more than fit), and by possible start the tokens from there on."""
    tokens, starts = 0, dict[int, int]()
    for at in range(len(older) - 1, -1, -1):
        tokens += older[at].tokens
        if tokens > limit:
            break
        if _may_begin(older, at):
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


def counted_once(older: Sequence[HistoryMessage], measure: Measure) -> tuple[HistoryMessage, ...]:
    """The messages with token counts for the case that each output is sent once, wherever the history begins."""
    counted = list(older)
    for at in (at for *copies, _ in _places(older) for at in copies):
        counted[at] = older[at]._replace(tokens=_referring(older[at], older[at], measure).tokens + _SLACK)
    return tuple(counted)


def referred(sent: Sequence[HistoryMessage], measure: Measure) -> tuple[tuple[HistoryMessage, ...], dict[int, int]]:
    """The messages with references instead of copies, and by the number of each copy that of the original."""
    shown, copies = list(sent), dict[int, int]()
    for first, *others in _places(sent):
        shown[first] = sent[first]._replace(tokens=sent[others[-1]].tokens)
        for at in others:
            shown[at] = _referring(sent[at], sent[first], measure)
            copies[sent[at].number] = sent[first].number
    return tuple(shown), copies


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


def _places(older: Sequence[HistoryMessage]) -> list[list[int]]:
    """The indexes of each large output that occurs more than once."""
    found: dict[str, list[int]] = {}
    for at, each in enumerate(older):
        if each.message.role == "tool" and each.number and (text := _large_text(each.message)):
            found.setdefault(text, []).append(at)
    return [places for places in found.values() if len(places) > 1]


def _large_text(message: Message) -> str:
    content = message.content
    is_text = isinstance(content, str) or all(part.get("type") == "text" for part in content)
    text = message.text if is_text else ""
    return text if len(text) >= _LARGE else ""


class Sharing:
    """The visibility of items, and the texts for targets other than the model."""

    def __init__(self, rules: VisibilityRules) -> None:
        self._rules = rules
        self._declared: Mapping[str, tuple[str, ...]] = {}
        self.resources: list[Resource] = []

    def declare(self, visibility: Mapping[str, tuple[str, ...]]) -> None:
        """Set the targets that files of the working set name, by path."""
        self._declared = visibility

    def seen_by(self, kind: str, source: str) -> tuple[Target, ...]:
        own = self._declared.get(source) if is_file(kind) else None
        return seen_by(self._rules, kind, source, own)

    def offer(self, kind: str, texts: Iterable[SourcedText]) -> None:
        """Keep the texts that targets other than the model may see."""
        offered = (Resource(kind, text.source, text.text, self.seen_by(kind, text.source)) for text in texts)
        self.resources += [each for each in offered if each.visibility not in ((), MODEL_ONLY)]

    def mark_candidates(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        return [each._replace(visibility=self.seen_by(each.kind, each.source)) for each in candidates]

    def mark_items(self, items: tuple[PackItem, ...]) -> tuple[PackItem, ...]:
        """Items with their visibility."""
        seen = (self.seen_by(item.kind, item.source) for item in items)
        return tuple(
            item if item.visibility == targets else item._replace(visibility=targets)
            for item, targets in zip(items, seen, strict=True)
        )


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


_SHORT, _LONG = 100, 200
"""Characters of a message up to which it leans on what was said before, and from which it brings its own context."""


_SHORT_QUESTION = 4
"""A question of fewer words is too short to search with."""


def search_text(question: str, task: str) -> str:
    """The text to search with: the user's newest message, with the active task if it is short."""
    return question if len(question.split()) >= _SHORT_QUESTION else f"{question}\n{task}"


def need_of_past(question: str) -> float:
    """How much a message needs of what was said before, from 1 for a short one to 0."""
    return min(1.0, max(0.0, (_LONG - len(question)) / (_LONG - _SHORT)))


class Retrieved(NamedTuple):
    """The passages of the log that are about a question."""

    chosen: tuple[Passage, ...] = ()
    """Best first, without repetitions, within the budget."""
    missed: tuple[Passage, ...] = ()
    """The next best."""


def passages_sent(sent: Record) -> list[Any]:
    """The passages in the record of a pack, in the order of the request; older logs have them oldest first."""
    is_old = sent.get("lines", 1) < _NEWEST_FIRST
    return sorted(sent["found"], key=lambda row: (row[0] if is_old else -row[0], row[1]))


LINES = 3
"""The form of passages in a request, which the log notes: a day stands only in the first of its lines."""

_NEWEST_FIRST = 2
"""An earlier form: newest first, each line with its day. Logs without a form have the oldest first."""


def speaker_lines(passages: Iterable[Passage], form: int = LINES) -> list[str]:
    """Passages as the model sees them: one line of JSON each, which no text inside can end."""
    lines, heading = list[str](), ""
    for each in passages:
        if form < _NEWEST_FIRST:
            lines.append(encode_escaped({"when": each.heading, "by": each.speaker, "said": each.text}))
        else:
            lines.append(_line(each, has_heading=form < LINES or each.heading != heading))
            heading = each.heading
    return lines


def _line(passage: Passage, *, has_heading: bool) -> str:
    speaker = f"{passage.heading} {passage.speaker}" if has_heading else passage.speaker
    return f"{{{encode_escaped(speaker)}:{encode_escaped(passage.text)}}}"


def fit_passages(
    found: Iterable[Passage], size: Callable[[str], int], limit: int, seen: tuple[Target, ...]
) -> tuple[list[Passage], list[PackItem]]:
    """The passages that fit, and an item for every one, best first; `seen` says who may see them.

    Of the passages of a day that fit, the first one pays for the day.
    """
    chosen, items, headings = list[Passage](), list[PackItem](), set[str]()
    usual = _RETRIEVED.reason
    for each in found:
        tokens = size(_line(each, has_heading=each.heading not in headings)) + 1
        reason = f"{usual} by {', '.join(each.reasons)}" if each.reasons else usual
        item = _passage_item(each, tokens, reason, seen, included=True)
        if why_not := _why_not(item, limit):
            item = item._replace(included=False, reason=why_not)
        else:
            chosen.append(each)
        if tokens <= limit:
            limit -= tokens
            headings.add(each.heading)
        items.append(item)
    return chosen, items


def missed_passages(missed: Iterable[Passage], seen: tuple[Target, ...]) -> list[PackItem]:
    """The passages that were found and left out, with an estimate of their tokens."""
    return [
        _passage_item(
            each,
            estimate_tokens(_line(each, has_heading=True)) + 1,
            ", ".join(each.reasons) or _LESS_RELEVANT,
            seen,
            included=False,
        )
        for each in missed
    ]


def _passage_item(passage: Passage, tokens: int, reason: str, seen: tuple[Target, ...], *, included: bool) -> PackItem:
    return PackItem(
        _RETRIEVED.name,
        _RETRIEVED.source,
        tokens,
        included,
        reason,
        freshness=passage.number,
        origin=passage.origin or passage.speaker,
        visibility=seen,
        refs=(f"{passage.number}.{passage.part}",),
    )


def newest_first(passages: Iterable[Passage]) -> list[Passage]:
    """The passages in the order of the request: of what was said twice, the newer counts.

    Parts of one message stay in order.
    """
    return sorted(passages, key=lambda each: (-each.number, each.part))
