"""Evidence: what speaks for each document that is looked at, kind by kind, each between 0 and about 1."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.dates import dates_in
from ctxwrap.language.words import terms_of
from ctxwrap.retrieval.index import STANDING, Index
from ctxwrap.retrieval.looking import REACH, Column, Looking, Term, rarity, weighed
from ctxwrap.retrieval.signs import Sign
from ctxwrap.retrieval.topics import TOPICS_OF

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Vectors

Flags = NDArray[np.bool_]

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

_ASKED_WITH = 4000
"""So many characters of a question are taken for their meaning."""

_NEIGHBOURS = 3.0
"""All neighbours together count for about so many."""

_RARE = 8.0
_DAY = 86_400
_LENGTHS = np.log(1 + np.arange(256)) / 4
_BEFORE = np.array([0.0] + [_FADE**step for step in range(1, REACH + 1)])
_BOTH_SIDES = np.concatenate((_BEFORE[:0:-1], _BEFORE))

_ASKED = (
    ("time", Sign.TIME, re.compile(r"\b(?:when|(?:what|which) (?:date|day|month|year|time)|how long)\b", re.I)),
    ("figure", Sign.FIGURE, re.compile(r"\bhow (?:many|much|often|old|long)\b", re.I)),
    ("title", Sign.QUOTE, re.compile(r"\b(?:book|novel|movie|film|song|series|show|game|band|album|title)s?\b", re.I)),
    ("place", Sign.NAME, re.compile(r"\b(?:where|whos?e?|city|cities|country|countries|(?:place|state)s?)\b", re.I)),
)
"""What sort of thing a question asks for, and the sign of it in a text."""


_KINDS = (
    ("question", Sign.QUESTION),
    ("asks", Sign.ASKS),
    ("first person", Sign.FIRST_PERSON),
    ("name", Sign.NAME),
)
"""Signs that count whatever is asked."""


class Evidence:
    """Columns of evidence beside `looking.places`."""

    def __init__(self, index: Index, text: str, vectors: "Vectors | None" = None) -> None:
        self._index, self._text = index, text
        wanted = list(dict.fromkeys(terms_of(text)))
        names = {voice: frozenset(terms_of(name)) for voice, (_, name) in enumerate(index.names) if name}
        self._asked = {voice for voice, name in names.items() if name and name.issubset(wanted)}
        spoken = frozenset().union(*names.values())
        terms: list[Term] = []
        self._forms: list[tuple[int, list[Term]]] = []
        """Other forms of a word, each list with the row of the word itself, -1 if no document has it."""
        self._topics: list[tuple[int, list[tuple[float, int]]]] = []
        """The same for the topics of a word, with how rare they are."""
        for word in _fewest(index, [term for term in wanted if term not in spoken]):
            own, forms = _with_forms(index, word)
            row = len(terms) if own else -1
            terms += own
            self._forms.append((row, forms))
            self._topics.append((row, [(rarity(index, index.of_topic(each)), each) for each in _topics(word)]))
        others = {form.term: form for _, forms in self._forms for form in forms}
        topics = {topic for _, found in self._topics for topic in found}
        also = _standing(index) if index.answers_at_length else ()
        self.looking = Looking(index, terms, list(others.values()), list(topics), also)
        self.columns: dict[str, Column | Flags] = {}
        if len(self.looking.places):
            self._gather_words()
            self._gather_signs()
            self._gather_dates()
            if vectors is not None:
                self._gather_meaning(vectors)

    def _gather_words(self) -> None:
        """The words asked for, in the document itself and around it."""
        looking, columns = self.looking, self.columns
        rarities = np.array([term.rarity for term in looking.terms])[:, None]
        rows = looking.hits()
        own = np.add.reduce(rarities * rows)[looking.slots]
        columns["words"] = words = _scaled(own)
        columns["cover"] = (np.add.reduce(rarities * (rows > 0)) / (rarities.sum() or 1.0))[looking.slots]
        columns["around"] = _scaled(np.add.reduce(rarities * _spread(rows))[looking.slots])
        columns["before"] = self._neighbours(words, _BEFORE)
        columns["group"] = self._best_of_group(words)
        having = rows[:, looking.slots] > 0
        self._gather_others("forms", self._found_forms(having), own.max() or 1.0)
        self._gather_others("topic", self._found_topics(having), _RARE)

    def _neighbours(self, scores: Column, fading: Column) -> Column:
        """What stands around each document, less the farther it is."""
        looking = self.looking
        laid_out = looking.rows(1)[0]
        laid_out[looking.slots] = scores
        start = len(fading) // 2 if fading is _BOTH_SIDES else 0
        return np.convolve(laid_out, fading)[start : start + looking.width][looking.slots]

    def _best_of_group(self, scores: Column) -> Column:
        groups = self.looking.groups
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        best = np.maximum.reduceat(scores, starts)
        return np.repeat(best, np.diff(np.append(starts, len(groups))))

    def _found_forms(self, own: Flags) -> Iterator[Column]:
        """For each word how rare its other forms are that a document has in its place."""
        for row, forms in self._forms:
            if forms:
                best = self.looking.rows(1)[0]
                for form in sorted(forms, key=lambda form: form.rarity):
                    best[self.looking.slots_with(form)[0]] = form.rarity
                yield _without(best[self.looking.slots], own, row)

    def _found_topics(self, own: Flags) -> Iterator[Column]:
        """For each word how rare those of its topics are that a document has in its place."""
        if not any(topics for _, topics in self._topics):
            return
        found = self.looking.gathered(self._index.topics)
        for row, topics in self._topics:
            if topics:
                best = np.zeros(len(found))
                for rare, topic in sorted(topics):
                    best[(found & np.uint64(1 << topic)) != 0] = rare
                yield _without(best, own, row)

    def _gather_others(self, kind: str, found: Iterator[Column], scale: float) -> None:
        """Other words than those asked for: other forms of them, or of the same topic."""
        column = np.zeros(len(self.looking.places))
        for each in found:
            column += each
        if column.any():
            column /= scale
            self.columns[kind] = column
            self.columns[f"{kind} around"] = self._neighbours(column, _BOTH_SIDES)

    def _gather_signs(self) -> None:
        """What each document is like, with what its neighbours and the question make of it."""
        index, looking, columns = self._index, self.looking, self.columns
        signs = looking.gathered(index.signs)
        for name, sign in (*_KINDS, *((name, sign) for name, sign, asked in _ASKED if asked.search(self._text))):
            columns[name] = (signs & sign) != 0
        if len(self._asked) == 1:
            (voice,) = self._asked
            columns["speaker"] = looking.gathered(index.voices) == voice
        answers, opens = np.zeros(len(signs), bool), np.zeros(len(signs), bool)
        answers[1:] = columns["asks"][:-1]
        answers[looking.firsts] = False
        opens[looking.opening] = True
        columns["answers"], columns["opens"] = answers, opens
        columns["answers words"] = answers * np.append(0.0, columns["words"][:-1])
        columns["length"] = _LENGTHS[looking.lengths]

    def _gather_dates(self) -> None:
        dates = dates_in(self._text)
        if dates.months:
            days, back = np.unique(self.looking.gathered(self._index.times) // _DAY, return_inverse=True)
            near = np.array([dates.nearness(day * _DAY) for day in days.tolist()])
            self.columns["month"], self.columns["day"] = near[back, 0], near[back, 1]

    def _gather_meaning(self, vectors: "Vectors") -> None:
        """What is meant, whatever the words."""
        numbers, parts = (self.looking.gathered(column) for column in (self._index.numbers, self._index.parts))
        meaning = vectors.likeness(self._text[:_ASKED_WITH], numbers, parts)
        self.columns["meaning"] = meaning
        self.columns["meaning around"] = self._neighbours(meaning, _BOTH_SIDES) / _NEIGHBOURS


def _spread(rows: Column) -> Column:
    """The best of each document and its neighbours, who count less the farther they are."""
    best = rows.copy()
    for step in range(1, REACH + 1):
        faded = rows * _AROUND**step
        np.maximum(best[:, step:], faded[:, :-step], out=best[:, step:])
        np.maximum(best[:, :-step], faded[:, step:], out=best[:, :-step])
    return best


def _without(column: Column, own: Flags, row: int) -> Column:
    """What a column has where the word itself is not."""
    return column if row < 0 else np.where(own[row], 0.0, column)


def _fewest(index: Index, terms: list[str]) -> list[str]:
    """The terms, or the rarest of them if a long text is asked with."""
    if len(terms) <= _WANTED:
        return terms
    rarest = sorted(weighed(index, terms[:_READ]), key=lambda term: -term.rarity)[:_WANTED]
    return [term.term for term in rarest]


def _with_forms(index: Index, word: str) -> tuple[list[Term], list[Term]]:
    """The word itself if documents have it, and other words with the same beginning."""
    if len(word) < _ALIKE:
        return weighed(index, [word]), []
    found = index.starting_with(word[:_ALIKE])
    alike = sorted(each for each in found if each != word and abs(len(each) - len(word)) < _ALIKE)[:_FORMS]
    own, *forms = ([Term(index, each, found[each])] if each in found else [] for each in (word, *alike))
    return own, [form for each in forms for form in each]


def _topics(word: str) -> list[int]:
    topics = TOPICS_OF.get(word, 0)
    return [topic for topic in range(topics.bit_length()) if topics >> topic & 1]


def _standing(index: Index) -> list[int]:
    """The newest instructions and preferences, which matter whatever is asked."""
    places: list[int] = []
    for base, (found, _) in reversed(index.postings(STANDING)):
        places += [base + place for place in reversed(found)]
        if len(places) >= _STANDING:
            break
    return places[:_STANDING]


def _scaled(column: Column) -> Column:
    return column / (column.max() or 1.0)
