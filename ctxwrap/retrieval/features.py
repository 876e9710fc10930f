"""The features of each candidate passage, one column per feature, with values from 0 to about 1."""

from collections.abc import Container, Mapping
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.dates import dates_in
from ctxwrap.language.patterns import Runs, lazy_pattern
from ctxwrap.language.words import MAX_READ, WordHints
from ctxwrap.retrieval.index import STANDING_TERM, Index
from ctxwrap.retrieval.layout import ANSWERS, GAP, OPENS, REACH, Ints
from ctxwrap.retrieval.lookup import lookup_in
from ctxwrap.retrieval.passages import TextFeature
from ctxwrap.retrieval.scan import FORM, MEANT, OWN, Entry, FeatureColumn, scan_for
from ctxwrap.retrieval.terms import day_terms, search_terms

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Vectors

Flags = NDArray[np.bool_]

_FORM_WEIGHT = 0.7
"""Weight of another form of a query word, of a compound with it, and of its parts."""

_FORM_CAP = 1.4
"""How much rarer than the word a form may count."""

_MEANT_WEIGHT, _MEANT_CAP = 0.5, 2.0
"""Weight of what a query word may stand for, and how much rarer one of these may count than all together."""

_WORD_DECAY, _SCORE_DECAY = 0.85, 0.7
"""Decay per step of a neighbour's word and of a neighbour's score."""

_WORD_DECAYS = [np.float32(_WORD_DECAY**step) for step in range(1, REACH + 1)]

_MAX_TERMS, _MAX_CONSIDERED = 40, 400
"""Maximum query terms, and how many are considered for the rarest."""

_MAX_STANDING, _MAX_DATED = 60, 120
"""Maximum standing instructions, and passages of the days that a query names, that are considered."""

_MAX_EMBEDDED = 4000
"""Maximum characters of a query that are embedded."""

_NEIGHBOUR_WEIGHT = 3.0
"""All neighbours together weigh about this much."""

_PAIR_LOSS = 1.5
"""How much less than its question an answer scores at least, and the other way round if the answer is short."""

_RANKED = 100
"""So many passages have a rank by their words, which matters where several say about the same."""

_RANK_VALUES = 1 / (1 + np.arange(_RANKED) / 10)

_DAY = 86_400
_BEFORE = np.array([_SCORE_DECAY**step for step in range(REACH, 0, -1)] + [0.0])
_BOTH_SIDES = np.concatenate((_BEFORE, _BEFORE[-2::-1]))

_TITLED = "book|novel|movie|film|song|series|show|game|band|album|title"
_PLACED = "where|who|whos|whose|city|cities|country|countries|place|places|state|states"
_ASKED = (
    (
        "time",
        {"when", "long", "date", "day", "month", "year", "time"},
        lazy_pattern(r"\b(?:when|(?:what|which) (?:date|day|month|year|time)|how long)\b"),
    ),
    ("figure", {"many", "much", "often", "old", "long"}, lazy_pattern(r"\bhow (?:many|much|often|old|long)\b")),
    (
        "title",
        {f"{word}{end}" for word in _TITLED.split("|") for end in ("", "s")},
        lazy_pattern(rf"\b(?:{_TITLED})s?\b"),
    ),
    ("place", {*_PLACED.split("|")}, lazy_pattern(rf"\b(?:{_PLACED})\b")),
)
"""Properties that a question may ask for: words of which it has one, and the pattern."""

_WORDS = Runs(r"\w")


def _hints_of(word: str) -> int:
    parts = _WORDS.findall(word.lower())
    return sum([1 << at for at, (_, words, _) in enumerate(_ASKED) if not words.isdisjoint(parts)])


_HINTS = WordHints(_hints_of)
"""Which of these properties a word may ask for."""

PROPERTIES = {
    "question": int(TextFeature.QUESTION),
    "answers": ANSWERS,
    "opens": OPENS,
    "time": int(TextFeature.TIME),
    "figure": int(TextFeature.FIGURE),
    "title": int(TextFeature.QUOTE),
    "place": int(TextFeature.NAME),
    "gap": GAP,
}
"""Features that are marks."""

_EACH = np.array([*PROPERTIES.values()])
_MARKS = np.arange(GAP + 256)
_HAS = (_MARKS[:, np.newaxis] & _EACH == _EACH).astype(float)
"""For all combinations of marks, which properties they have."""

_ASKS_NOTHING = (_MARKS & TextFeature.QUESTION == 0).astype(float)
"""For all combinations of marks, 0 for those of a question."""

_IS_PASSAGE = (_MARKS & GAP != GAP).astype(float)
"""For all combinations of marks, 0 for those of an empty slot."""

_TERM_FEATURES = ("group", "words", "cover", "around", "rank", "before")


class FeatureMatrix:
    """Feature columns by slot of the candidates; of empty slots they mean nothing."""

    def __init__(
        self,
        index: Index,
        text: str,
        vectors: "Vectors | None" = None,
        now: int = 0,
        most: int = 0,
        end: int | None = None,
    ) -> None:
        """`now` is the time of the query, `most` the number of passages before the place `end` to examine closely."""
        text = text[:MAX_READ]
        self.index, self.lookup = index, lookup_in(index, end)
        self.answers_at_length = index.answers_at_length
        self._dates = dates_in(text, now)
        wanted = dict.fromkeys([*search_terms(text), *day_terms(text, now)])
        self._asked: list[int] = []
        """Speakers whom the query names; one who speaks in several roles is several."""
        self.known_words, words = frozenset(wanted), [*wanted]
        """The words of the query and of names."""
        if names := self.lookup.names():
            self._asked = [speaker for speaker, name in enumerate(names) if name and name.issubset(wanted)]
            speaker_terms = frozenset[str]().union(*names)
            self.known_words |= speaker_terms
            words = [term for term in wanted if term not in speaker_terms]
        self.entries: list[Entry] = []
        self._add_words(words, wanted)
        self._meaning = vectors.likeness(text[:_MAX_EMBEDDED], *map(self.lookup.column, _KEY)) if vectors else None
        self.scan = scan_for(self.lookup, self.entries, self._also, most)
        self.passages, self.seen = min(self.lookup.count, self.scan.layout.passages), self.scan.seen
        """How many candidates there are, and up to which slot; what follows has no words, and is no candidate."""
        self.asked = {"question", "answers", "opens", "gap", *_asked_for(text)}
        """The properties that count."""
        self._counted: tuple[float, ...] = ()
        """What each property counts, once they are scored."""
        self.names = [*(("speaker",) if self._names_one() else ()), *_TERM_FEATURES]
        self.names += [*(("month", "day") if self._dates else ()), *(("meaning", "meaning around") if vectors else ())]
        self.values = np.empty((len(self.names), self.scan.width))
        """A row for each feature that is no property."""
        if self.scan.width:
            self._add_term_features()
            self._add_other_features()

    def _names_one(self) -> bool:
        """Whether the query names a single speaker."""
        return bool(self._asked) and len({self.index.names[speaker][1] for speaker in self._asked}) == 1

    def _add_words(self, words: list[str], wanted: Container[str]) -> None:
        """Add the terms of the query's words, or of the rarest if there are many."""
        lookup, entries, meanings, row = self.lookup, self.entries, self.lookup.meant, 0
        if len(words) > _MAX_TERMS:
            words = lookup.rarest(words[:_MAX_CONSIDERED], _MAX_TERMS)
        for word in words:
            own, forms = lookup.find(word)
            meant = lookup.meant_by(word, wanted) if word in meanings else None
            if own:
                entries.append((own, row, own[2], OWN))
            if forms:
                # together, forms are as common as a word is
                cap = _FORM_CAP * (own.rarity if own else lookup.rarity(sum([form.having for form in forms])))
                entries += [(form, row, _FORM_WEIGHT * min(form.rarity, cap), FORM) for form in forms]
            if meant:
                cap = _MEANT_CAP * lookup.rarity(sum([each.having for each in meant]))
                entries += [(each, row, _MEANT_WEIGHT * min(each.rarity, cap), MEANT) for each in meant]
            if own or forms or meant:
                row += 1
        self._words = row

    def _also(self, most: int) -> Ints:
        """Return places that words alone would not find: standing instructions, and by date or meaning."""
        standing = self.index.newest(STANDING_TERM, _MAX_STANDING) if self.answers_at_length else ()
        found: list[Ints] = [np.array(standing, np.int64)]
        for first, last in self._dates.spans:
            within = self.lookup.column("times").searchsorted((first * _DAY, (last + 1) * _DAY))
            found.append(np.arange(max(within[0], within[1] - _MAX_DATED), within[1]))
        if self._meaning is not None:
            found.append(np.argsort(self._meaning)[-max(most, _MAX_STANDING) :])
        return np.concatenate(found)

    def row(self, name: str) -> FeatureColumn:
        row: FeatureColumn = self.values[self.names.index(name)]
        return row

    def score_properties(self, weights: Mapping[str, float]) -> FeatureColumn:
        """Return what the properties count for each slot."""
        self._counted = tuple([weights[name] if name in self.asked else 0.0 for name in PROPERTIES])
        return self.scan.by_marks(_scores_of_marks(self._counted), self._counted)

    def properties_of(self, slot: int) -> tuple[tuple[float, str], ...]:
        """Return what the properties of a passage that raise its score count, less than zero, and their names."""
        return _raising(self.scan.layout.marks.item(slot), self._counted)

    def _add_term_features(self) -> None:
        """Add the query's terms, in the passage and in its neighbours."""
        layout, width = self.scan.layout, self.scan.width
        group, words, cover, around, rank, before = self.values[self.names.index("group") :][: len(_TERM_FEATURES)]
        weights, has = self.scan.weigh(self.entries, self._words)
        by_word = weights[REACH:-REACH].reshape(self._words, width)
        if self.seen < width:
            by_word[:, self.seen :] = 0.0
        words[:] = np.add.reduce(by_word, 0)
        around[:] = np.add.reduce(_spread_maximum(weights).reshape(self._words, width), 0)
        around *= self.scan.by_marks(_IS_PASSAGE, "is passage")
        around[self.seen :] = 0.0
        _scale(words)
        _scale(around)
        np.divide(has, max(1, self._words), out=cover)
        _rank(words * self.scan.by_marks(_ASKS_NOTHING, "asks nothing"), self.scan.steps, rank)
        before[:] = np.correlate(words, _BEFORE, "full")[:width]
        best = np.maximum.reduceat(words, layout.groups)
        group[:] = best if len(best) == 1 else best.take(layout.group_of)

    def _add_other_features(self) -> None:
        """Add the speaker and the dates that the query names, and similarity of meaning."""
        layout, width = self.scan.layout, self.scan.width
        if "speaker" in self.names:
            self.row("speaker")[:] = np.isin(self.scan.column("speaker_ids"), self._asked)
        if self._dates:
            days, back = np.unique(self.scan.column("times") // _DAY, return_inverse=True)
            near = np.array([self._dates.nearness(day * _DAY) for day in days.tolist()])
            self.row("month")[:], self.row("day")[:] = near[back].T
        if self._meaning is not None:
            meaning = self.row("meaning")
            meaning[:] = self._meaning[layout.places] * (layout.marks != GAP)
            meaning[self.seen :] = 0.0
            around = np.correlate(meaning, _BOTH_SIDES, "full")[REACH : REACH + width]
            self.row("meaning around")[:] = around / _NEIGHBOUR_WEIGHT

    def pair(self, scores: FeatureColumn) -> None:
        """Raise the answer to a question that is a hit, and the question that a short answer is about.

        What follows the candidates is no hit.
        """
        asking, leaning, answers = self.scan.layout.asking, self.scan.layout.leaning, scores[1:]
        scores[self.seen :] = -inf
        if len(asking):
            answers[asking] = np.maximum(answers[asking], scores[asking] - _PAIR_LOSS)
        if len(leaning):
            scores[leaning] = np.maximum(scores[leaning], answers[leaning] - _PAIR_LOSS)
        scores[self.seen :] = -inf  # the answer to the last question may follow the last candidate


_KEY = ("numbers", "parts")


def is_specific(index: Index, text: str, end: int | None = None) -> bool:
    """Whether a term or date of `text` distinguishes passages before `end`; what nearly all of them have does not."""
    lookup = lookup_in(index, end)
    for word in dict.fromkeys(search_terms(text[:MAX_READ])):
        own, forms = lookup.find(word)
        having = own.having if own else min([form.having for form in forms], default=inf)
        if having <= lookup.common:
            return True
    return bool(dates_in(text, _DAY))


def _asked_for(text: str) -> list[str]:
    hints = _HINTS.of(text)
    if not hints:
        return []
    small = text.lower()
    return [name for at, (name, _, asked) in enumerate(_ASKED) if hints & 1 << at and asked.search(small)]


@lru_cache(maxsize=64)
def _scores_of_marks(weights: tuple[float, ...]) -> FeatureColumn:
    """Return what each combination of marks counts, given the weights of the properties."""
    scores: FeatureColumn = _HAS.dot(weights)
    return scores


@lru_cache(maxsize=1024)
def _raising(marks: int, weights: tuple[float, ...]) -> tuple[tuple[float, str], ...]:
    """Return the properties that marks have and that raise a score, each after its weight, less than zero."""
    weighed = zip(PROPERTIES.items(), weights, strict=True)
    return tuple([(-weight, name) for (name, mark), weight in weighed if marks & mark == mark and weight > 0])


def _spread_maximum(rows: FeatureColumn) -> FeatureColumn:
    """Return the maximum of each slot and its neighbours, less with distance; as many empty slots are at both ends."""
    width = len(rows) - 2 * REACH
    best = rows[REACH : REACH + width]
    for step, decay in enumerate(_WORD_DECAYS, 1):
        beside = np.maximum(rows[REACH - step : -REACH - step], rows[REACH + step : REACH + step + width])
        beside *= decay
        best = np.maximum(best, beside)
    return best


def _scale(row: FeatureColumn) -> None:
    row /= row.item(row.argmax()) or 1.0


def _rank(scores: FeatureColumn, steps: FeatureColumn, ranks: FeatureColumn) -> None:
    """Enter 1 for the best, less for each further one; the newer first among equals."""
    ranks.fill(0.0)
    found = scores.nonzero()[0]
    if len(found):
        best = found[(scores[found] + steps[found]).argsort()[: -_RANKED - 1 : -1]]
        ranks[best] = _RANK_VALUES[: len(best)]
