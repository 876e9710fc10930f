"""The measure of a call: tokens of texts, messages and requests, at most; and truncation to a number of tokens."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import ceil
from typing import Literal, NamedTuple, get_args
from unicodedata import category

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.tokens.counting import Counter, counter_for
from ctxwrap.tokens.messages import PER_MESSAGE, message_tokens
from ctxwrap.types import Body, LoggedMessage, Message

CountTokens = Callable[[str], int]
"""Gives the tokens of a text."""


class Measure:
    """Counts for one model; an estimate includes its margin."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._counter: Counter = counter_for(model)
        self.key = model, self._counter
        """The same for measures that count alike."""
        self.name = self._counter.name
        """The encoding, or `estimate`."""
        self.exact = self._counter.exact
        self.text: CountTokens = self._counter.most_in
        """The tokens of a text. All measures with the same counter have the same function, so a cache may use it."""
        self.counted: Callable[[Message], int] = _counting(self._counter, model)
        """The count that is stored with a message, without margin; the same function for the same counter and model."""

    def message(self, kept: LoggedMessage) -> int:
        return self.messages((kept,))[0]

    def messages(self, history: Sequence[LoggedMessage]) -> list[int]:
        """The counts of many messages."""
        name, margin = self.name, self._counter.margin
        sizes: list[int] = []
        for kept in history:
            known = kept.tokens.get(name)
            if known is None:
                known = self.counted(kept.message)
            sizes.append(ceil(known * (1 + margin)) if margin else known)
        return sizes

    def body(self, count: Callable[[Body, Counter], int], body: Body) -> int:
        """A request, counted by its provider's rule."""
        return self._counter.at_most(count(body, self._counter))


def measure_for(model: str) -> Measure:
    """The measure for a model; the same one, as long as its counter is the same."""
    return _known_measure(model, counter_for(model))


@lru_cache(maxsize=64)
def _known_measure(model: str, counter: Counter) -> Measure:
    return Measure(model)


@lru_cache(maxsize=64)
def _counting(counter: Counter, model: str) -> Callable[[Message], int]:
    return partial(_counted, counter, model)


def _counted(counter: Counter, model: str, message: Message) -> int:
    """The tokens of a message; text counts in its neutral form, as it is sent."""
    role, content, name, calls, *_ = message
    if not isinstance(content, str):
        return message_tokens(message, counter, model)
    neutral = sanitise(content)
    if name or calls or not content:
        return message_tokens(message._replace(content=neutral), counter, model)
    return PER_MESSAGE + counter.count(role) + counter.count(neutral)  # most messages


Strategy = Literal["never", "start", "middle", "end"]
"""The part that is cut away; `never` keeps all or nothing."""
STRATEGIES: tuple[str, ...] = get_args(Strategy)

ELLIPSIS = "..."

_NEAR = 0.75
"""A cut moves back to a line end if at least this fraction of the piece remains."""
_CLOSE = 50
"""The search ends when less than one part in 50 of the limit is unused."""
_LONGEST_SEQUENCE = 32
"""The most code points that are kept together as one character."""
_JOINER = "\N{ZERO WIDTH JOINER}"


def truncate(text: str, limit: int, strategy: Strategy, count: CountTokens, max_lines: int | None = None) -> str:
    """`text` in at most `limit` tokens and `max_lines` lines, including the ellipsis; empty if nothing useful fits.

    `start`, `middle` and `end` name the part that is removed. The rest is a prefix, a suffix or both, in whole lines
    if these are short enough.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    is_short = max_lines is None or _number_of_lines(text) <= max_lines
    size = count(text)
    if is_short and size <= limit:
        return text
    if strategy == "never":
        return ""
    cut = _Cut.of(text, strategy, None if is_short else max_lines)
    return _largest(cut, limit, size, count)


def _largest(cut: "_Cut", limit: int, size: int, count: CountTokens) -> str:
    """The largest piece that fits among those tried. It always fits, even if the count does not grow with the text."""
    best, low, high = "", 0, cut.most
    probe = min(high, max(1, int(high * limit * 0.99 / size))) if size > 0 else high
    while low < high:
        piece = cut.kept(probe)
        taken = count(piece) if piece else 0
        if taken > limit:
            high = probe - 1
        else:
            best, low = max(best, piece, key=len), probe
            if piece and (limit - taken) * _CLOSE < limit:
                break
        probe = (low + high + 1) // 2
    return best


class _Cut(NamedTuple):
    """The positions at which a text may be cut."""

    text: str
    strategy: Strategy
    head: int
    """The end of the longest prefix that may stay."""
    tail: int
    """The start of the longest suffix that may stay."""
    breaks: bool
    """Whether the ellipsis may be on its own line."""

    @classmethod
    def of(cls, text: str, strategy: Strategy, max_lines: int | None) -> "_Cut":
        head = 0 if strategy == "start" else len(text)
        tail = len(text) if strategy == "end" else 0
        if max_lines is None:
            return cls(text, strategy, head, tail, True)
        breaks = max_lines >= (3 if strategy == "middle" else 2)
        lines = max_lines - breaks
        if strategy == "middle":
            above, below = max(1, (lines + 1) // 2), max(1, lines // 2)
        else:
            above = below = lines
        return cls(text, strategy, min(head, _end_of_line(text, above)), max(tail, _start_of_line(text, below)), breaks)

    @property
    def most(self) -> int:
        """The most characters that may stay."""
        head, tail = self.head, len(self.text) - self.tail
        return 2 * max(head, tail) if self.strategy == "middle" else head + tail

    def kept(self, size: int) -> str:
        """About `size` characters of the text and the ellipsis; empty if only whitespace would stay."""
        first = {"end": size, "start": 0, "middle": (size + 1) // 2}[self.strategy]
        start = _before(self.text, min(first, self.head))
        stop = _behind(self.text, max(len(self.text) - (size - first), self.tail))
        if start > stop or (start == stop and self.breaks):
            return self.text
        has_text = (bool(self.text[:start].strip()), bool(self.text[stop:].strip()))
        is_enough = all(has_text) if self.strategy == "middle" else any(has_text)
        return self._joined(start, stop) if is_enough else ""

    def _joined(self, start: int, stop: int) -> str:
        """Prefix, ellipsis and suffix; the ellipsis is on its own line where whole lines are removed."""
        head, tail = self.text[:start], self.text[stop:]
        above = "\n" if self.breaks and head.endswith("\n") else ""
        below = "\n" if self.breaks and tail and self.text[stop - 1] == "\n" else ""
        head = head.removesuffix("\n").removesuffix("\r") if head.endswith("\n") else head
        return f"{head}{above}{ELLIPSIS}{below}{tail}"


def _before(text: str, at: int) -> int:
    """The last good position to end a piece, up to `at`."""
    line = text.rfind("\n", 0, at) + 1
    if line and line >= at * _NEAR:
        return line
    together = range(at, max(0, at - _LONGEST_SEQUENCE), -1)
    return next((place for place in together if not _splits(text, place)), at if at > _LONGEST_SEQUENCE else 0)


def _behind(text: str, at: int) -> int:
    """The first good position to begin a piece, from `at` on."""
    line = text.find("\n", max(0, at - 1)) + 1
    if line and at > 0 and len(text) - line >= (len(text) - at) * _NEAR:
        return line
    together = range(at, min(len(text), at + _LONGEST_SEQUENCE))
    is_long = len(text) - at > _LONGEST_SEQUENCE
    return next((place for place in together if not _splits(text, place)), at if is_long else len(text))


def _splits(text: str, at: int) -> bool:
    """Whether a cut at `at` would split what a reader sees as one character."""
    if not 0 < at < len(text):
        return False
    left, right = text[at - 1], text[at]
    if left.isascii() and right.isascii():
        return left == "\r" and right == "\n"
    return _extends(right) or left == _JOINER or _is_pair(left, right) or (_is_flag(right) and _is_odd_flag(text, at))


def _extends(character: str) -> bool:
    """Whether a character belongs to the one before it: marks, joiners, skin tones, tags, later syllable letters."""
    if category(character) in ("Mn", "Me", "Mc") or character == _JOINER:
        return True
    number = ord(character)
    return 0x1F3FB <= number <= 0x1F3FF or 0xE0020 <= number <= 0xE007F or 0x1160 <= number <= 0x11FF


def _is_pair(left: str, right: str) -> bool:
    return "\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff"


def _is_flag(character: str) -> bool:
    """Whether a character is a regional indicator, half a flag."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_odd_flag(text: str, at: int) -> bool:
    """Whether a flag's first half ends at `at`."""
    halves = 0
    while halves < min(at, _LONGEST_SEQUENCE) and _is_flag(text[at - halves - 1]):
        halves += 1
    return halves % 2 == 1


def _number_of_lines(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def _end_of_line(text: str, number: int) -> int:
    """The end of line `number`, counted from 1."""
    at = 0
    for _ in range(number):
        at = text.find("\n", at) + 1
        if not at:
            return len(text)
    return at


def _start_of_line(text: str, number: int) -> int:
    """The start of line `number`, counted from 1 at the end of the text."""
    at = len(text) - text.endswith("\n")
    for _ in range(number):
        at = text.rfind("\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def estimate_tokens(text: str) -> int:
    """One token per four bytes of UTF-8: close for English, too high for most other scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def estimate_message_tokens(message: Message) -> int:
    """The estimate for a message's text and calls, plus its frame."""
    tokens = 4 + estimate_tokens(message.text)
    for call in message.tool_calls:
        tokens += estimate_tokens(call["name"] + call["arguments"])
    return tokens
