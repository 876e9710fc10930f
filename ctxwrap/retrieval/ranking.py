"""Ranking: how much each document matters for a query, told from the words around it, who speaks and when.

A weighted sum of a few kinds of evidence, each between 0 and about 1. How old something is never counts against it.
"""

import re
from collections.abc import Iterable, Sequence
from heapq import nlargest
from math import log
from typing import NamedTuple

from ctxwrap.retrieval.dates import dates_in
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.segments import Postings
from ctxwrap.retrieval.signs import Sign
from ctxwrap.retrieval.topics import TOPICS
from ctxwrap.retrieval.words import query_words, terms_of

WEIGHTS = {
    "words": 0.47,
    "cover": 0.74,
    "before": 0.85,
    "after": 0.11,
    "near": 2.18,
    "around": 2.79,
    "group": 1.95,
    "forms": 2.8,
    "forms around": 1.35,
    "topic": 1.68,
    "topic around": 0.59,
    "speaker": 1.06,
    "month": 5.3,
    "day": 12.4,
    "question": -0.54,
    "asks": -0.24,
    "answers": 0.82,
    "answers words": 0.84,
    "first person": 0.38,
    "time": 2.09,
    "figure": 2.23,
    "name": 0.34,
    "place name": 0.69,
    "title": 1.39,
    "length": 1.19,
    "opens": 1.2,
}
"""What each kind of evidence counts."""

_K1, _B = 0.9, 0.4
_HITS = 200
"""So many of the best documents by their own words are looked at, with their neighbours."""
_ALL = 800
"""Up to so many documents all are looked at."""
_REACH = 6
_NEAR, _AROUND, _FADE = 0.6, 0.85, 0.7
_FORMS = 6
_STATUS = 8.0

_ASKS_WHEN = re.compile(r"\b(?:when|what (?:date|day|month|year|time)|which (?:month|year|day)|how long)\b", re.I)
_ASKS_FIGURE = re.compile(r"\bhow (?:many|much|often|old|long)\b", re.I)
_ASKS_TITLE = re.compile(r"\b(?:book|novel|movie|film|song|series|show|game|band|album|title|called|name)s?\b", re.I)
_ASKS_PLACE = re.compile(r"\b(?:where|who|whose|city|cities|country|countries|places?|states?|locations?)\b", re.I)


class Hit(NamedTuple):
    """A document and what speaks for it."""

    place: int
    number: int
    part: int
    score: float
    reasons: tuple[str, ...]
    """The kinds of evidence that count most, the first one most of all."""


class _Term(NamedTuple):
    term: str
    weight: float
    postings: list[tuple[int, Postings]]


class Evidence:
    """All evidence on a choice of documents, as columns beside `places`."""

    def __init__(self, index: Index, text: str) -> None:
        self._index = index
        self._text = text
        self.columns: dict[str, list[float]] = {}
        names = {voice: frozenset(terms_of(name)) for voice, (_, name) in enumerate(index.names) if name}
        wanted = [word.term for word in query_words(text)]
        self._asked = {voice for voice, name in names.items() if name and name <= set(wanted)}
        spoken = frozenset().union(*names.values()) if names else frozenset()
        self._wanted = [term for term in wanted if term not in spoken]
        average = index.words / len(index) if len(index) else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / (average or 1.0)) for length in range(256)]
        self._terms = self._weighed(self._wanted)
        self._choose()
        self._gather()

    def _weighed(self, terms: Iterable[str]) -> list[_Term]:
        found = []
        for term in terms:
            if postings := self._index.postings(term):
                found.append(_Term(term, self._rarity(postings), postings))
        return found

    def _rarity(self, postings: list[tuple[int, Postings]]) -> float:
        having = sum(len(places) for _, (places, _) in postings)
        return log(1 + (len(self._index) - having + 0.5) / (having + 0.5))

    def _choose(self) -> None:
        """The documents to look at, as blocks of neighbours in one group."""
        count = len(self._index)
        if count <= _ALL:
            self._blocks = [self._index.group_range(group) for group in range(len(self._index.groups))]
        else:
            self._blocks = self._around(self._best())
        self.places = [place for start, end in self._blocks for place in range(start, end)]
        self._bounds = []
        at = 0
        for start, end in self._blocks:
            self._bounds.append((at, at + end - start))
            at += end - start
        self._local = {place: at for at, place in enumerate(self.places)}

    def _best(self) -> list[int]:
        lengths, norms = self._index.lengths, self._norms
        scores: dict[int, float] = {}
        for _, weight, postings in self._terms:
            for base, (places, counts) in postings:
                for place, count in zip(places, counts, strict=True):
                    place += base
                    scores[place] = scores.get(place, 0.0) + weight * count / (count + norms[lengths[place]])
        return nlargest(_HITS, scores, key=lambda place: (scores[place], place))

    def _around(self, best: Sequence[int]) -> list[tuple[int, int]]:
        blocks: list[tuple[int, int]] = []
        for place in sorted(best):
            first, last = self._index.group_range(self._index.group_of(place))
            start, end = max(first, place - _REACH), min(last, place + _REACH + 1)
            if blocks and blocks[-1][1] > start:
                start = blocks.pop()[0]
            blocks.append((start, end))
        return blocks

    def _gather(self) -> None:
        size = len(self.places)
        own = [0.0] * size
        cover, near, around = [0.0] * size, [0.0] * size, [0.0] * size
        total = sum(term.weight for term in self._terms) or 1.0
        found: dict[str, dict[int, float]] = {}
        for term in self._terms:
            hits = found[term.term] = self._hits(term)
            for at, value in hits.items():
                own[at] += term.weight * value
                cover[at] += term.weight / total
            for column, fade, reach in ((near, _NEAR, 3), (around, _AROUND, _REACH)):
                for at, value in self._spread(hits, fade, reach).items():
                    column[at] += term.weight * value
        most = max(own, default=0.0) or 1.0
        columns = self.columns
        columns["words"] = [value / most for value in own]
        columns["cover"] = cover
        columns["near"] = _scaled(near)
        columns["around"] = _scaled(around)
        columns["before"], columns["after"] = self._smoothed(columns["words"])
        columns["group"] = self._best_of_group(columns["words"])
        self._gather_alike(found, most)
        self._gather_signs()
        self._gather_time()

    def _hits(self, term: _Term) -> dict[int, float]:
        """How much each document looked at says of a term, by its place among them."""
        lengths, norms, local = self._index.lengths, self._norms, self._local
        found = {}
        for base, (places, counts) in term.postings:
            for place, count in zip(places, counts, strict=True):
                at = local.get(place + base)
                if at is not None:
                    found[at] = (_K1 + 1) * count / (count + norms[lengths[place + base]])
        return found

    def _spread(self, hits: dict[int, float], fade: float, reach: int) -> dict[int, float]:
        """The best of a document and its neighbours, who count less the farther they are."""
        spread = dict(hits)
        for at, value in hits.items():
            start, end = self._bounds_of(at)
            for step in range(1, reach + 1):
                value *= fade
                for other in (at - step, at + step):
                    if start <= other < end and spread.get(other, 0.0) < value:
                        spread[other] = value
        return spread

    def _bounds_of(self, at: int) -> tuple[int, int]:
        if not hasattr(self, "_bound"):
            self._bound = [bounds for bounds in self._bounds for _ in range(*bounds)]
        return self._bound[at]

    def _smoothed(self, scores: list[float]) -> tuple[list[float], list[float]]:
        """What comes before and after each document, fading with the distance."""
        before, after = [0.0] * len(scores), [0.0] * len(scores)
        for start, end in self._bounds:
            running = 0.0
            for at in range(start, end):
                before[at] = running
                running = (running + scores[at]) * _FADE
            running = 0.0
            for at in range(end - 1, start - 1, -1):
                after[at] = running
                running = (running + scores[at]) * _FADE
        return before, after

    def _best_of_group(self, scores: list[float]) -> list[float]:
        best: dict[int, float] = {}
        groups = []
        for (start, end), (first, _) in zip(self._bounds, self._blocks, strict=True):
            group = self._index.group_of(first)
            groups += [group] * (end - start)
            best[group] = max(best.get(group, 0.0), max(scores[start:end], default=0.0))
        return [best[group] for group in groups]

    def _gather_alike(self, found: dict[str, dict[int, float]], most: float) -> None:
        """Words that are not those asked for, but of the same root or of the same topic."""
        size = len(self.places)
        forms, topic = [0.0] * size, [0.0] * size
        for term in self._wanted:
            own = found.get(term, {})
            for column, others, scale in (
                (forms, self._weighed(self._forms_of(term)), most),
                (topic, self._weighed(TOPICS.get(term, ())), _STATUS),
            ):
                best: dict[int, float] = {}
                for other in others:
                    for at in self._hits(other):
                        if at not in own and best.get(at, 0.0) < other.weight:
                            best[at] = other.weight
                for at, value in best.items():
                    column[at] += value / scale
        self.columns["forms"], self.columns["topic"] = forms, topic
        for name, column in (("forms around", forms), ("topic around", topic)):
            before, after = self._smoothed(column)
            self.columns[name] = [one + other for one, other in zip(before, after, strict=True)]

    def _forms_of(self, term: str) -> list[str]:
        """Words with the same beginning, which are mostly other forms of it."""
        if len(term) < 5 or term in TOPICS or not term[0].isalpha():
            return [] if len(term) < 5 else self._alike(term)
        return self._alike(term)

    def _alike(self, term: str) -> list[str]:
        alike = (other for other in self._index.starting_with(term[:5]) if other != term)
        return sorted(other for other in alike if abs(len(other) - len(term)) <= 4)[:_FORMS]

    def _gather_signs(self) -> None:
        index, text, columns = self._index, self._text, self.columns
        signs = [index.signs[place] for place in self.places]
        before = [0] * len(signs)
        for start, end in self._bounds:
            before[start + 1 : end] = signs[start : end - 1]

        def column(sign: Sign, among: list[int] = signs) -> list[float]:
            return [1.0 if each & sign else 0.0 for each in among]

        columns["question"] = column(Sign.QUESTION)
        columns["asks"] = column(Sign.ASKS)
        columns["answers"] = column(Sign.ASKS, before)
        previous = [0.0, *columns["words"][:-1]]
        columns["answers words"] = [one * other for one, other in zip(columns["answers"], previous, strict=True)]
        columns["first person"] = column(Sign.FIRST_PERSON)
        columns["name"] = column(Sign.NAME)
        for name, sign, asked in (
            ("time", Sign.TIME, _ASKS_WHEN),
            ("figure", Sign.FIGURE, _ASKS_FIGURE),
            ("title", Sign.QUOTE, _ASKS_TITLE),
            ("place name", Sign.NAME, _ASKS_PLACE),
        ):
            if asked.search(text):
                columns[name] = column(sign)
        columns["length"] = [_LENGTHS[index.lengths[place]] for place in self.places]
        opens = columns["opens"] = [0.0] * len(signs)
        for (start, end), (first, _) in zip(self._bounds, self._blocks, strict=True):
            if start < end and index.group_range(index.group_of(first))[0] == first:
                opens[start] = 1.0
        if len(self._asked) == 1:
            columns["speaker"] = [1.0 if index.voices[place] in self._asked else 0.0 for place in self.places]

    def _gather_time(self) -> None:
        dates = dates_in(self._text)
        if not dates.months:
            return
        known: dict[int, tuple[float, float]] = {}
        for place in self.places:
            day = self._index.times[place] // 86_400
            if day not in known:
                known[day] = dates.nearness(day * 86_400)
        days = [known[self._index.times[place] // 86_400] for place in self.places]
        self.columns["month"] = [month for month, _ in days]
        self.columns["day"] = [near for _, near in days]

    def scores(self) -> list[float]:
        scores = [0.0] * len(self.places)
        for name, column in self.columns.items():
            weight = WEIGHTS[name]
            scores = [score + weight * value for score, value in zip(scores, column, strict=True)]
        return scores

    def reasons(self, at: int) -> tuple[str, ...]:
        counted = [(WEIGHTS[name] * column[at], name) for name, column in self.columns.items()]
        return tuple(name for value, name in sorted(counted, reverse=True)[:3] if value > 0)


_LENGTHS = [log(1 + length) / 4 for length in range(256)]


def _scaled(column: list[float]) -> list[float]:
    most = max(column, default=0.0) or 1.0
    return [value / most for value in column]


def rank(index: Index, text: str, limit: int = 400) -> list[Hit]:
    """The documents that matter most for a query, best first; of equals the newer comes first."""
    evidence = Evidence(index, text)
    scored = sorted(zip(evidence.scores(), evidence.places, range(len(evidence.places)), strict=True), reverse=True)
    return [
        Hit(place, index.numbers[place], index.parts[place], score, evidence.reasons(at))
        for score, place, at in scored[:limit]
    ]
