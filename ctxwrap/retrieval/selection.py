"""Fills a token budget with the best passages, rendered in chronological order."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ctxwrap.language.patterns import Runs, lazy_pattern
from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import TextFeature

if TYPE_CHECKING:
    # it imports numpy, which takes 0.1 s
    from ctxwrap.retrieval.ranking import RankedPassage, Ranking, TextOf

CountTokens = Callable[[str], int]

STANDING_SHARE = 0.15
"""Share of the budget for standing instructions where a model writes long answers."""

ANSWER_SHARE = 0.15
"""Share of the budget for the model's answers."""

_MIN_TOKENS = 8
"""With fewer tokens left, nothing fits."""

_MAX_MISFITS = 12
"""Misfits after which selection stops."""

_MAX_MISSED = 6
_MAX_LINES = 512
_STANDING = int(TextFeature.STANDING)
_DAY = 86_400
_WORDS = Runs(r"\w")
_SHORT_WORD = 2
"""Of words up to this length only the digits count."""

_DIGITS = lazy_pattern(r"\d+")
_MIN_OVERLAP = 0.9
_MIN_WORDS = 4
_NOTHING_NEW = 1.5
"""How much less a hit counts if the best lines already have all its words."""

_BEST_LINES = 20
_MANY_WORDS = 5
"""A passage of fewer words may be an answer though its words are known."""


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
    """The features that contributed most, or the one reason for leaving it out."""
    origin: str = ""
    """The origin of the message, if that is foreign text."""


_passage: Callable[[tuple[int, int, str, str, str, float, tuple[str, ...], str]], Passage] = partial(
    tuple.__new__, Passage
)
"""Like `_make`, without a call in Python for each passage."""


class PassageSelection(NamedTuple):
    """The passages that fit the budget."""

    text: str = ""
    tokens: int = 0
    chosen: tuple[Passage, ...] = ()
    """Best first."""
    missed: tuple[Passage, ...] = ()
    """The next ones, best first."""


class Line(NamedTuple):
    """A passage, empty if its text is gone, and the tokens of its line."""

    passage: str
    heading: str
    speaker: str
    tokens: int


_line: Callable[[tuple[str, str, str, int]], Line] = partial(tuple.__new__, Line)


class Lines(dict[int, Line]):
    """The lines of an index by place, made on first use and kept for later queries."""

    def __init__(self, index: Index, text_of: "TextOf", count: CountTokens) -> None:
        super().__init__()
        self.index, self.count = index, count
        self._text_of = text_of

    def __missing__(self, place: int) -> Line:
        if len(self) >= _MAX_LINES:
            self.clear()
        index = self.index
        passage = (self._text_of(index.numbers[place], index.parts[place]) or "").strip()
        speaker = index.speaker(place)
        tokens = self.count(_rendered_line(speaker, passage)) if passage else 0
        line = self[place] = _line((passage, heading_of(index, place), speaker, tokens))
        return line


def select_passages(
    index: Index, ranking: "Ranking", text_of: "TextOf", budget: int, count: CountTokens
) -> PassageSelection:
    """Select the best hits that fit, under a heading per day or group, within `budget` tokens."""
    filling = _filled(Lines(index, text_of, count), ranking, ranking.hits, budget)
    text, tokens = filling.trim(budget)
    return PassageSelection(text, tokens, *filling.result())


def choose_passages(
    lines: Lines, ranking: "Ranking", hits: Sequence["RankedPassage"], budget: int
) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
    """Return the chosen and the missed of the hits, best first, for callers that render them differently."""
    return _filled(lines, ranking, hits, budget).result()


def _filled(lines: Lines, ranking: "Ranking", hits: Sequence["RankedPassage"], budget: int) -> "_Filling":
    filling = _Filling(lines, ranking)
    for some, share in _budget_shares(lines.index, hits):
        filling.fill(some, budget, round(budget * share))
    return filling


def _budget_shares(index: Index, hits: Sequence["RankedPassage"]) -> list[tuple[Sequence["RankedPassage"], float]]:
    """Split the budget: pairs of candidates and share, in order; the last gets the rest."""
    if not index.answers_at_length:
        return [(hits, 1.0)]
    user = [hit for hit in hits if index.role(hit.place) == "user"]
    standing = [hit for hit in user if index.features[hit.place] & _STANDING]
    answers = [hit for hit in hits if index.role(hit.place) == "assistant"]
    return [(standing, STANDING_SHARE), (user, 1 - STANDING_SHARE - ANSWER_SHARE), (answers, ANSWER_SHARE), (hits, 1.0)]


class _Filling:
    def __init__(self, lines: Lines, ranking: "Ranking") -> None:
        self.lines, self.ranking = lines, ranking
        self.taken: dict[int, RankedPassage] = {}
        self.missed: dict[int, tuple[float, int, RankedPassage, str]] = {}
        """By place, what is compared first to tell the best, and why it was missed."""
        self.used = 0
        self.headings: set[str] = set()
        self.said: dict[str, list[frozenset[str]]] = {}
        """The words of what was taken, by the first and the last of them in the alphabet."""
        self.words: set[str] = set()
        """All words of the best of what was taken."""

    def fill(self, hits: Iterable["RankedPassage"], budget: int, share: int) -> None:
        """Take hits that fit, best first, up to a share of the budget; one that adds no word counts less."""
        lines, taken, missed, said, headings = self.lines, self.taken, self.missed, self.said, self.headings
        limit, misfits, rest = min(budget, self.used + share), 0, iter(hits)
        later: deque[RankedPassage] = deque()
        following = next(rest, None)
        while following or later:
            if is_later := bool(later) and (not following or later[0].score - _NOTHING_NEW >= following.score):
                hit = later.popleft()
            else:
                assert following is not None
                hit, following = following, next(rest, None)
            place, room = hit[0], limit - self.used
            if place in taken:
                continue
            if room < _MIN_TOKENS or misfits >= _MAX_MISFITS:
                missed.setdefault(place, (hit[3], place, hit, "no room was left"))
                if len(missed) < _MAX_MISSED:
                    continue
                return
            passage, heading, _, tokens = lines[place]
            if not passage:
                continue
            if tokens <= room:
                terms, ends = _words_in(passage)
                if not is_later and len(terms) >= _MANY_WORDS and terms <= self.words:
                    later.append(hit)
                    continue
                if heading and heading not in headings:
                    tokens += lines.count(_rendered(heading))
            if tokens > room:
                misfits += 1
                missed.setdefault(place, (hit[3], place, hit, "it did not fit"))
            elif not said.keys().isdisjoint(ends) and self._is_repeated(terms, ends):
                missed.setdefault(place, (hit[3], place, hit, "nearly the same is there"))
            else:
                missed.pop(place, None)
                headings.add(heading)
                taken[place] = hit
                self.used += tokens
                self._note_words(terms, ends)

    def _note_words(self, terms: frozenset[str], ends: Iterable[str]) -> None:
        if len(self.taken) <= _BEST_LINES:
            self.words |= terms
        for end in ends:
            self.said.setdefault(end, []).append(terms)

    def _is_repeated(self, terms: frozenset[str], ends: Iterable[str]) -> bool:
        """Whether nearly the same text was taken; such texts share the first or last word in the alphabet."""
        size = len(terms)
        if size >= _MIN_WORDS:
            for end in ends:
                for other in self.said.get(end, ()):
                    common = len(terms & other)
                    if common >= _MIN_OVERLAP * (size + len(other) - common):
                        return True
        return False

    def trim(self, budget: int) -> tuple[str, int]:
        """Render the lines; remove the weakest while the text exceeds the budget. Return the text and its tokens."""
        text = self._text()
        tokens = self.lines.count(text) if text else 0
        while self.taken and tokens > budget:
            worst = min(self.taken.values(), key=_BY_SCORE)
            del self.taken[worst.place]
            self.missed.setdefault(worst.place, (worst.score, worst.place, worst, "it did not fit"))
            text = self._text()
            tokens = self.lines.count(text) if text else 0
        return text, tokens

    def _text(self) -> str:
        """Join the lines in order, with one heading per run."""
        parts: list[str] = []
        heading = ""
        for place in sorted(self.taken):
            passage, own, speaker, _ = self.lines[place]
            if own != heading:
                heading = own
                parts.append(_rendered(heading))
            parts.append(_rendered_line(speaker, passage))
        return "".join(parts)

    def result(self) -> tuple[tuple[Passage, ...], tuple[Passage, ...]]:
        missed = [(hit, (why,)) for _, _, hit, why in sorted(self.missed.values(), reverse=True)[:_MAX_MISSED]]
        chosen = sorted(self.taken.values(), key=_BY_SCORE, reverse=True)
        reasons, lines = self.ranking.reasons(chosen), self.lines
        passages: list[Passage] = []
        for (place, number, part, score), why in [*zip(chosen, reasons, strict=True), *missed]:
            passage, heading, speaker, _ = lines[place]
            passages.append(_passage((number, part, passage, heading, speaker, score, why, "")))
        return tuple(passages[: len(chosen)]), tuple(passages[len(chosen) :])


_BY_SCORE = itemgetter(3, 0)
"""The score, then the place."""


@lru_cache(maxsize=512)
def _words_in(text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words, and of them the first and the last in the alphabet."""
    words = frozenset(_ascii_words(text) if text.isascii() else terms_of(text))
    return words, (min(words), max(words)) if words else ()


def _ascii_words(text: str) -> set[str]:
    words = set(_WORDS.findall(text.lower()))
    short = [word for word in words if len(word) <= _SHORT_WORD]
    words.difference_update(short)
    return words.union(*[_DIGITS.findall(word) for word in short if not word.isalpha()])


def heading_of(index: Index, place: int) -> str:
    """Return the day of a passage, or its group if the time is unknown."""
    time = index.times[place]
    return day_name(time // _DAY) if time else index.groups[index.group_of(place)]


@lru_cache(maxsize=4096)
def day_name(number: int) -> str:
    """Return the name of a day that is counted from 1970."""
    return f"{datetime.fromtimestamp(number * _DAY, UTC):%Y-%m-%d}"


def _rendered_line(speaker: str, passage: str) -> str:
    """Indent continuation lines so that none passes for a heading or another speaker."""
    indented = passage.replace("\n", "\n  ")
    return f"{speaker}: {indented}\n"


def _rendered(heading: str) -> str:
    return f"## {' '.join(heading.split())}\n" if heading else ""
