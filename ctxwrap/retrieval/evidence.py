"""Evidence: what speaks for each document that is looked at, kind by kind, each between 0 and about 1."""

import re
from math import log

from ctxwrap.retrieval.dates import dates_in
from ctxwrap.retrieval.index import STANDING, Index
from ctxwrap.retrieval.looking import REACH, Looking, weighed
from ctxwrap.retrieval.signs import Sign
from ctxwrap.retrieval.topics import TOPICS_OF
from ctxwrap.retrieval.words import terms_of

Column = list[float]

_AROUND, _FADE = 0.85, 0.7
"""What is left of a neighbour's word, and of a neighbour's score, with every step."""

_FORMS = 6
"""So many other forms of a word are looked for."""

_ALIKE = 5
"""Words with so many first letters in common are taken for forms of one word."""

_WANTED, _READ = 40, 400
"""So many words are looked for, the rarest of so many."""

_STANDING = 60
"""So many of the newest instructions are looked at."""

_RARE = 8.0
_DAY = 86_400
_LENGTHS = [log(1 + length) / 4 for length in range(256)]

_ASKED = (
    ("time", Sign.TIME, re.compile(r"\b(?:when|(?:what|which) (?:date|day|month|year|time)|how long)\b", re.I)),
    ("figure", Sign.FIGURE, re.compile(r"\bhow (?:many|much|often|old|long)\b", re.I)),
    ("title", Sign.QUOTE, re.compile(r"\b(?:book|novel|movie|film|song|series|show|game|band|album|title)s?\b", re.I)),
    ("place", Sign.NAME, re.compile(r"\b(?:where|whos?e?|city|cities|country|countries|(?:place|state)s?)\b", re.I)),
)
"""What sort of thing a question asks for, and the sign of it in a text."""


_ANSWERS, _OPENS, _SPEAKER = 1 << 8, 1 << 9, 1 << 10
"""Marks beside the signs: the one before asks; it opens its group; one speaks who alone is asked about."""

_KINDS = {
    "question": int(Sign.QUESTION),
    "asks": int(Sign.ASKS),
    "first person": int(Sign.FIRST_PERSON),
    "name": int(Sign.NAME),
    "answers": _ANSWERS,
    "opens": _OPENS,
    "speaker": _SPEAKER,
}


class Evidence:
    """Columns of evidence beside `looking.places`."""

    def __init__(self, index: Index, text: str) -> None:
        self._index, self._text = index, text
        wanted = list(dict.fromkeys(terms_of(text)))
        names = {voice: frozenset(terms_of(name)) for voice, (_, name) in enumerate(index.names) if name}
        self._asked = {voice for voice, name in names.items() if name and name.issubset(wanted)}
        spoken = frozenset().union(*names.values())
        self._wanted = _fewest(index, [term for term in wanted if term not in spoken])
        self._others = {
            "forms": {term: weighed(index, _forms(index, term)) for term in self._wanted},
            "topic": {term: weighed(index, TOPICS_OF.get(term, ())) for term in self._wanted},
        }
        others = {other.term: other for found in self._others.values() for each in found.values() for other in each}
        also = _standing(index) if index.answers_at_length else ()
        self.looking = Looking(index, weighed(index, self._wanted), list(others.values()), also)
        self.columns: dict[str, Column] = {}
        """Evidence of which there is more or less."""
        self.marks: list[int] = []
        """Evidence that is there or not: bits, by the names in `kinds`."""
        self.kinds: dict[str, int] = {}
        if self.looking.places:
            self._gather_words()
            self._gather_signs()
            self._gather_dates()

    def _gather_words(self) -> None:
        """The words asked for, in the document itself and around it."""
        size = len(self.looking.places)
        own, cover, around = [0.0] * size, [0.0] * size, [0.0] * size
        total = sum(term.rarity for term in self.looking.terms)
        found: dict[str, dict[int, float]] = {}
        for term in self.looking.terms:
            hits = found[term.term] = self.looking.hits(term)
            for at, value in hits.items():
                own[at] += term.rarity * value
                cover[at] += term.rarity / total
            for at, value in self._spread(hits).items():
                around[at] += term.rarity * value
        columns, most = self.columns, max(own) or 1.0
        columns["words"], columns["cover"], columns["around"] = _scaled(own), cover, _scaled(around)
        columns["before"] = self._before(columns["words"])
        columns["group"] = self._best_of_group(columns["words"])
        self._gather_others("forms", found, most)
        self._gather_others("topic", found, _RARE)

    def _spread(self, hits: dict[int, float]) -> dict[int, float]:
        """The best of each document and its neighbours, who count less the farther they are."""
        spread = dict(hits)
        bound_of, get = self.looking.bound_of, spread.get
        for at, value in hits.items():
            start, end = bound_of[at]
            for step in range(1, REACH + 1):
                value *= _AROUND
                if at - step >= start and get(at - step, 0.0) < value:
                    spread[at - step] = value
                if at + step < end and get(at + step, 0.0) < value:
                    spread[at + step] = value
        return spread

    def _before(self, scores: Column) -> Column:
        """What comes before each document, less the farther it is."""
        before = [0.0] * len(scores)
        for start, end in self.looking.bounds:
            running = 0.0
            for at in range(start, end):
                before[at] = running
                running = (running + scores[at]) * _FADE
        return before

    def _both_sides(self, scores: Column) -> Column:
        after = self._before(scores)
        for start, end in self.looking.bounds:
            running = 0.0
            for at in range(end - 1, start - 1, -1):
                after[at] += running
                running = (running + scores[at]) * _FADE
        return after

    def _best_of_group(self, scores: Column) -> Column:
        best: dict[int, float] = {}
        groups: list[int] = []
        for (start, end), (first, _) in zip(self.looking.bounds, self.looking.blocks, strict=True):
            group = self._index.group_of(first)
            groups += [group] * (end - start)
            best[group] = max(best.get(group, 0.0), *scores[start:end])
        return [best[group] for group in groups]

    def _gather_others(self, kind: str, found: dict[str, dict[int, float]], scale: float) -> None:
        """Other words than those asked for: other forms of them, or of the same topic."""
        column = [0.0] * len(self.looking.places)
        for term in self._wanted:
            own = found.get(term, {})
            best: dict[int, float] = {}
            for other in self._others[kind][term]:
                for at in self.looking.hits(other):
                    if at not in own and best.get(at, 0.0) < other.rarity:
                        best[at] = other.rarity
            for at, rarity in best.items():
                column[at] += rarity / scale
        if any(column):
            self.columns[kind] = column
            self.columns[f"{kind} around"] = self._both_sides(column)

    def _gather_signs(self) -> None:
        """What each document is like, with what its neighbours and the question make of it."""
        index, looking = self._index, self.looking
        signs = [index.signs[place] for place in looking.places]
        asks = int(Sign.ASKS)
        marks = [each | (_ANSWERS if before & asks else 0) for each, before in zip(signs, [0, *signs], strict=False)]
        for (start, _), (first, _) in zip(looking.bounds, looking.blocks, strict=True):
            opens = index.group_range(index.group_of(first))[0] == first
            marks[start] = signs[start] | (_OPENS if opens else 0)
        if len(self._asked) == 1:
            (voice,) = self._asked
            marks = [
                mark | _SPEAKER if index.voices[place] == voice else mark
                for mark, place in zip(marks, looking.places, strict=True)
            ]
        self.marks = marks
        words = self.columns["words"]
        answered = [words[at - 1] if mark & _ANSWERS else 0.0 for at, mark in enumerate(marks)]
        self.columns["answers words"] = answered
        self.columns["length"] = [_LENGTHS[index.lengths[place]] for place in looking.places]
        self.kinds = _KINDS | {name: int(sign) for name, sign, asked in _ASKED if asked.search(self._text)}

    def _gather_dates(self) -> None:
        dates = dates_in(self._text)
        if dates.months:
            days = [self._index.times[place] // _DAY for place in self.looking.places]
            near = {day: dates.nearness(day * _DAY) for day in set(days)}
            self.columns["month"] = [near[day][0] for day in days]
            self.columns["day"] = [near[day][1] for day in days]


def _fewest(index: Index, terms: list[str]) -> list[str]:
    """The terms, or the rarest of them if a long text is asked with."""
    if len(terms) <= _WANTED:
        return terms
    rarest = sorted(weighed(index, terms[:_READ]), key=lambda term: -term.rarity)[:_WANTED]
    return [term.term for term in rarest]


def _forms(index: Index, term: str) -> list[str]:
    """Other words with the same beginning."""
    if len(term) < _ALIKE:
        return []
    alike = index.starting_with(term[:_ALIKE]) - {term}
    return sorted(each for each in alike if abs(len(each) - len(term)) < _ALIKE)[:_FORMS]


def _standing(index: Index) -> list[int]:
    """The newest instructions and preferences, which matter whatever is asked."""
    places: list[int] = []
    for base, (found, _) in reversed(index.postings(STANDING)):
        places += [base + place for place in reversed(found)]
        if len(places) >= _STANDING:
            break
    return places[:_STANDING]


def _scaled(column: Column) -> Column:
    most = max(column) or 1.0
    return [value / most for value in column]
