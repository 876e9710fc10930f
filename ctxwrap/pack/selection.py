"""Selection: which candidates are worth their tokens, and why the others are left out."""

from collections.abc import Iterable, Mapping, Sequence

from ctxwrap.redaction.visibility import ALONE, FILES, Target, VisibilityRules, seen_by
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import Candidate, HistoryMessage, LoggedMessage, Message, PackItem, Resource, SourcedText

STEP = 0.75
"""When history has to be cut, so much of its room is filled again: it then grows for a while without another cut."""

_SPARSE = 0.4
"""With less in use of what could be, what was cut away before comes back."""

NOT_VISIBLE = "it is not for the model to see"


def select(candidates: Sequence[Candidate], room: int) -> tuple[list[Candidate], list[PackItem]]:
    """The candidates that fit, in their order; and every one of them with the reason why it is in or out."""
    chosen: list[Candidate] = []
    items: list[PackItem] = []
    for candidate in candidates:
        reason = _why_not(candidate, room)
        if not reason:
            chosen.append(candidate)
            room -= candidate.tokens
        items.append(as_item(candidate, included=not reason, reason=reason or candidate.reason))
    return chosen, items


def _why_not(candidate: Candidate, room: int) -> str:
    if "model" not in candidate.visibility:
        return NOT_VISIBLE
    return "" if candidate.tokens <= room else f"over budget: {candidate.tokens} tokens, {max(0, room)} left"


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


def cut(older: Sequence[HistoryMessage], room: int, began: int = 0) -> int:
    """Where in `older` the recent messages begin: at a user's message, so that no tool call loses its result.

    `began` is the number of the message where they began the last time: they begin there again as long as that fits,
    and then a good deal later, so that a prefix stays the same for many calls.
    """
    tokens, starts = _starts_within(older, room)
    last = next((at for at in starts if 0 < began == older[at].number), -1)
    if last >= 0 and starts[last] >= _SPARSE * min(room, tokens):
        return last
    slid = bool(older) and 0 < began < older[0].number  # what it began with is no longer at hand
    if 0 in starts and not slid:
        return 0
    fewest = len(older) * (1 - STEP) if slid else 0
    sparse = [at for at, left in starts.items() if left <= STEP * room and at >= fewest]
    return min(sparse) if sparse else max(starts, default=len(older))


def newest(older: Sequence[HistoryMessage], count: int, room: int) -> int:
    """Where in `older` its last `count` messages or a few more begin, at a user's message; later if they do not fit."""
    start = len(older)
    for at in range(len(older) - 1, -1, -1):
        room -= older[at].tokens
        if room < 0 or len(older) - start >= count:
            break
        start = at if _may_begin(older, at) else start
    return start


def _may_begin(older: Sequence[HistoryMessage], at: int) -> bool:
    """At what a user says, unless the caller's message holds the result of a tool before it."""
    place = older[at].place
    return older[at].message.role == "user" and (at == 0 or place < 0 or place != older[at - 1].place)


def _starts_within(older: Sequence[HistoryMessage], room: int) -> tuple[int, dict[int, int]]:
    """Where messages may begin, each with the tokens from there on, and how many were counted: all, or too many."""
    tokens, starts = 0, dict[int, int]()
    for at in range(len(older) - 1, -1, -1):
        tokens += older[at].tokens
        if tokens > room:
            break
        if _may_begin(older, at):
            starts[at] = tokens
    return tokens, starts


_LARGE = 1024
"""From so many characters on an output is worth a reference."""

_SLACK = 16
"""Tokens that one reference may have more than another."""


def reference_to(first: Message, number: int) -> str:
    """What stands for the output of message `first`, which has that number, when it is said again."""
    call = f"of tool call {first.tool_call_id[:64]} above" if first.tool_call_id else "of an earlier tool call above"
    return f"[The same output as that {call}: {len(first.text)} characters, in messages:{number}. It is not repeated.]"


def counted_once(older: Sequence[HistoryMessage], measure: Measure) -> tuple[HistoryMessage, ...]:
    """The messages with tokens that tell what any of them and all behind it take, when each output is sent once."""
    counted = list(older)
    for at in (at for *copies, _ in _places(older) for at in copies):
        counted[at] = older[at]._replace(tokens=_referring(older[at], older[at], measure).tokens + _SLACK)
    return tuple(counted)


def referred(sent: Sequence[HistoryMessage], measure: Measure) -> tuple[tuple[HistoryMessage, ...], dict[int, int]]:
    """The messages with references in the place of copies; and of which message each of these is one, by numbers."""
    shown, copies = list(sent), dict[int, int]()
    for first, *others in _places(sent):
        shown[first] = sent[first]._replace(tokens=sent[others[-1]].tokens)
        for at in others:
            shown[at] = _referring(sent[at], sent[first], measure)
            copies[sent[at].number] = sent[first].number
    return tuple(shown), copies


def _referring(copy: HistoryMessage, first: HistoryMessage, measure: Measure) -> HistoryMessage:
    message = copy.message._replace(content=reference_to(first.message, first.number))
    return copy._replace(message=message, tokens=measure.message(LoggedMessage(copy.number, message)))


def _places(older: Sequence[HistoryMessage]) -> list[list[int]]:
    """Where each large output stands that is there more than once."""
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
    def __init__(self, rules: VisibilityRules) -> None:
        self._rules = rules
        self._declared: Mapping[str, tuple[str, ...]] = {}
        """Whom files say that they are for."""
        self.resources: list[Resource] = []

    def declare(self, visibility: Mapping[str, tuple[str, ...]]) -> None:
        """Take note of whom the files of a working set say that they are for."""
        self._declared = visibility

    def seen_by(self, kind: str, source: str) -> tuple[Target, ...]:
        """Who may see something, as the caller and the source say."""
        own = self._declared.get(source) if kind in FILES else None
        return seen_by(self._rules, kind, source, own)

    def offer(self, kind: str, texts: Iterable[SourcedText]) -> None:
        """Keep at hand what others than the model may see."""
        offered = (Resource(kind, text.source, text.text, self.seen_by(kind, text.source)) for text in texts)
        self.resources += [each for each in offered if each.visibility not in ((), ALONE)]

    def marked(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Candidates with those who may see them."""
        return [each._replace(visibility=self.seen_by(each.kind, each.source)) for each in candidates]

    def told(self, items: tuple[PackItem, ...]) -> tuple[PackItem, ...]:
        """All items of a pack with those who may see them."""
        if not self._rules and not self._declared:
            return items
        return tuple(item._replace(visibility=self.seen_by(item.kind, item.source)) for item in items)
