"""The features of each candidate passage, one column per feature, with values from 0 to about 1."""

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.dates import dates_in
from ctxwrap.language.words import MAX_READ
from ctxwrap.retrieval.concepts import meant_by
from ctxwrap.retrieval.index import STANDING_TERM, Index
from ctxwrap.retrieval.lookup import Ints, Term, lookup_in
from ctxwrap.retrieval.passages import TextFeature
from ctxwrap.retrieval.scan import REACH, CandidateScan, Entry, FeatureColumn
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

_MAX_TERMS, _MAX_CONSIDERED = 40, 400
"""Maximum query terms, and how many are considered for the rarest."""

_MAX_STANDING, _MAX_DATED = 60, 120
"""Maximum standing instructions, and passages of the days that a query names, that are considered."""

_MAX_EMBEDDED = 4000
"""Maximum characters of a query that are embedded."""

_NEIGHBOUR_WEIGHT = 3.0
"""All neighbours together weigh about this much."""

_COMMON_SHARE, _COMMON_COUNT = 0.3, 20
"""A term is common if more than this share of passages has it, and more than this many."""

_PAIR_LOSS = 1.5
"""How much less than its question an answer scores at least, and the other way round if the answer is short."""

_SHORT_ANSWER = 3
"""Terms up to which an answer says little without its question."""

_RANKED = 100
"""So many passages have a rank by their words, which matters where several say about the same."""

_RANK_VALUES = 1 / (1 + np.arange(_RANKED) / 10)

_DAY = 86_400
_BEFORE = np.array([0.0] + [_SCORE_DECAY**step for step in range(1, REACH + 1)])
_BOTH_SIDES = np.concatenate((_BEFORE[:0:-1], _BEFORE))

_TITLED = ("book", "novel", "movie", "film", "song", "series", "show", "game", "band", "album", "title")
_ASKED = (
    (
        ("time", TextFeature.TIME, ("when", "what ", "which ", "how long")),
        re.compile(r"\b(?:when|(?:what|which) (?:date|day|month|year|time)|how long)\b"),
    ),
    (
        ("figure", TextFeature.FIGURE, ("how ",)),
        re.compile(r"\bhow (?:many|much|often|old|long)\b"),
    ),
    (
        ("title", TextFeature.QUOTE, _TITLED),
        re.compile(rf"\b(?:{'|'.join(_TITLED)})s?\b"),
    ),
    (
        ("place", TextFeature.NAME, ("where", "who", "city", "cities", "countr", "place", "state")),
        re.compile(r"\b(?:where|whos?e?|city|cities|country|countries|(?:place|state)s?)\b"),
    ),
)
"""For each property that a question asks for: the column, the text feature and a cheap pre-check, and the pattern."""


class FeatureMatrix:
    """Feature columns, aligned with `scan.places`."""

    def __init__(self, index: Index, text: str, vectors: "Vectors | None" = None, now: int = 0, most: int = 0) -> None:
        """`now` is the time of the query, `most` the number of passages to examine with their neighbours."""
        text = text[:MAX_READ]
        self.index, self._text, self.lookup = index, text, lookup_in(index)
        self._dates = dates_in(text, now)
        wanted = list(dict.fromkeys([*search_terms(text), *day_terms(text, now)]))
        names = self.lookup.names()
        self._asked = [speaker for speaker, name in enumerate(names) if name and name.issubset(wanted)]
        """Speakers whom the query names; one who speaks in several roles is several."""
        speaker_terms = frozenset().union(*names)
        self.known_words = speaker_terms.union(wanted)
        """The words of the query and of names."""
        terms, others = list[Term](), dict[str, Term]()
        self._words = 0
        self._entries: list[Entry] = []
        self._meant: list[Entry] = []
        """Terms that a query word may stand for."""
        for word in self._rarest([term for term in wanted if term not in speaker_terms]):
            own, forms = self.lookup.find(word)
            if own:
                terms.append(own)
                self._entries.append((own, self._words, own.rarity))
            meant = self.lookup.known(meant_by(word).difference(wanted))
            others |= {form.term: form for form in (*forms, *meant)}
            # together, forms are as common as a word is
            rarity = own.rarity if own else self.lookup.rarity(sum(form.having for form in forms))
            self._entries += [
                (form, self._words, _FORM_WEIGHT * min(form.rarity, _FORM_CAP * rarity)) for form in forms
            ]
            cap = _MEANT_CAP * self.lookup.rarity(sum(each.having for each in meant))
            self._meant += [(each, self._words, _MEANT_WEIGHT * min(each.rarity, cap)) for each in meant]
            self._words += bool(own or forms or meant)
        self._meaning = vectors.likeness(text[:_MAX_EMBEDDED], *map(self.lookup.column, _KEY)) if vectors else None
        self.scan = CandidateScan(self.lookup, terms, list(others.values()), self._also(most), most)
        self.columns: dict[str, FeatureColumn | Flags] = {}
        if len(self.scan.places):
            self._add_term_features()
            self._add_text_features()
            self._add_date_features()
            self._add_vector_features()

    def _rarest(self, terms: list[str]) -> list[str]:
        """Return the terms, or the rarest of a long query."""
        return terms if len(terms) <= _MAX_TERMS else self.lookup.rarest(terms[:_MAX_CONSIDERED], _MAX_TERMS)

    def _also(self, most: int) -> Ints:
        """Return places that words alone would not find: standing instructions, and by date or meaning."""
        standing = self.index.newest(STANDING_TERM, _MAX_STANDING) if self.index.answers_at_length else ()
        found: list[Ints] = [np.array(standing, np.int64)]
        for first, last in self._dates.spans:
            within = self.lookup.column("times").searchsorted((first * _DAY, (last + 1) * _DAY))
            found.append(np.arange(max(within[0], within[1] - _MAX_DATED), within[1]))
        if self._meaning is not None:
            found.append(np.argsort(self._meaning)[-max(most, _MAX_STANDING) :])
        return np.concatenate(found)

    def _add_term_features(self) -> None:
        """Add the query's terms, in the passage and in its neighbours."""
        scan, columns = self.scan, self.columns
        rows, covered = scan.weigh(self._entries, self._meant, self._words)
        columns["words"] = words = _scaled(rows.sum(axis=0)[scan.slots])
        columns["rank"] = _by_rank(np.where(scan.column("features") & TextFeature.QUESTION, 0.0, words))
        columns["cover"] = covered[scan.slots] / max(1, self._words)
        columns["around"] = _scaled(_spread_maximum(rows).sum(axis=0)[scan.slots])
        columns["before"] = self._neighbours(words, _BEFORE)
        columns["group"] = self._best_of_group(words)

    def _neighbours(self, scores: FeatureColumn, fading: FeatureColumn) -> FeatureColumn:
        """Sum the scores around each passage, less with distance."""
        scan = self.scan
        laid_out = scan.rows(1)[0]
        laid_out[scan.slots] = scores
        start = len(fading) // 2 if fading is _BOTH_SIDES else 0
        return np.convolve(laid_out, fading)[start : start + scan.width][scan.slots]

    def _best_of_group(self, scores: FeatureColumn) -> FeatureColumn:
        groups = self.scan.groups
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        best = np.maximum.reduceat(scores, starts)
        return np.repeat(best, np.diff(np.append(starts, len(groups))))

    def _add_text_features(self) -> None:
        """Add text features, and those that depend on neighbours and on the question."""
        scan, columns = self.scan, self.columns
        features = scan.column("features")
        for name, feature in (("question", TextFeature.QUESTION), *_asked_for(self._text)):
            columns[name] = (features & feature) != 0
        if len({self.index.names[speaker][1] for speaker in self._asked}) == 1:
            columns["speaker"] = np.isin(scan.column("speaker_ids"), self._asked)
        answers, opens = np.zeros(len(features), bool), np.zeros(len(features), bool)
        answers[1:] = (features[:-1] & TextFeature.ASKS) != 0
        answers[scan.firsts] = False
        opens[scan.opening] = True
        columns["answers"], columns["opens"] = answers, opens

    def paired(self, scores: FeatureColumn) -> FeatureColumn:
        """Raise the answer to a question that is a hit, and the question that a short answer is about."""
        if len(scores) > 1:
            asks = np.flatnonzero(self.columns["question"][:-1] & self.columns["answers"][1:])
            scores[asks + 1] = np.maximum(scores[asks + 1], scores[asks] - _PAIR_LOSS)
            leans = asks[self.scan.lengths[asks + 1] <= _SHORT_ANSWER]
            scores[leans] = np.maximum(scores[leans], scores[leans + 1] - _PAIR_LOSS)
        return scores

    def _add_date_features(self) -> None:
        if self._dates:
            days, back = np.unique(self.scan.column("times") // _DAY, return_inverse=True)
            near = np.array([self._dates.nearness(day * _DAY) for day in days.tolist()])
            self.columns["month"], self.columns["day"] = near[back, 0], near[back, 1]

    def _add_vector_features(self) -> None:
        """Add similarity of meaning."""
        if self._meaning is not None:
            self.columns["meaning"] = meaning = self._meaning[self.scan.places]
            self.columns["meaning around"] = self._neighbours(meaning, _BOTH_SIDES) / _NEIGHBOUR_WEIGHT


_KEY = ("numbers", "parts")


def is_specific(index: Index, text: str) -> bool:
    """Whether a term or date of `text` distinguishes passages; what nearly all of them have does not."""
    lookup, common = lookup_in(index), max(_COMMON_COUNT, _COMMON_SHARE * len(index))
    for word in dict.fromkeys(search_terms(text[:MAX_READ])):
        own, forms = lookup.find(word)
        having = [term.having for term in ([own] if own else forms)]
        if having and min(having) <= common:
            return True
    return bool(dates_in(text, _DAY))


def _asked_for(text: str) -> list[tuple[str, TextFeature]]:
    small = text.lower()
    return [
        (name, feature)
        for (name, feature, words), asked in _ASKED
        if any(map(small.__contains__, words)) and asked.search(small)
    ]


def _spread_maximum(rows: FeatureColumn) -> FeatureColumn:
    """Return the maximum of each passage and its neighbours, less with distance."""
    best = rows.copy()
    for step in range(1, REACH + 1):
        faded = rows * _WORD_DECAY**step
        np.maximum(best[:, step:], faded[:, :-step], out=best[:, step:])
        np.maximum(best[:, :-step], faded[:, step:], out=best[:, :-step])
    return best


def _scaled(column: FeatureColumn) -> FeatureColumn:
    return column / (column.max() or 1.0)


def _by_rank(scores: FeatureColumn) -> FeatureColumn:
    """Return 1 for the best, less for each further one; the newer first among equals."""
    found = scores.nonzero()[0]
    best = found[(scores[found] + found * 1e-9).argsort()[: -_RANKED - 1 : -1]]
    ranked = np.zeros_like(scores)
    ranked[best] = _RANK_VALUES[: len(best)]
    return ranked
