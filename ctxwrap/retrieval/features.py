"""Evidence: what speaks for each document that is looked at, kind by kind, each between 0 and about 1."""

import re
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ctxwrap.language.dates import dates_in
from ctxwrap.language.words import MAX_READ, terms_of
from ctxwrap.retrieval.index import STANDING, Index
from ctxwrap.retrieval.passages import TOPICS_OF, TextFeature, bits
from ctxwrap.retrieval.scan import REACH, CandidateScan, FeatureColumn, Term, lookup_in

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Vectors

Flags = NDArray[np.bool_]

_AROUND, _FADE = 0.85, 0.7
"""What is left of a neighbour's word, and of a neighbour's score, with every step."""

_WANTED, _READ = 40, 400
"""So many words are looked for, the rarest of so many."""

_STANDING = 60
"""So many of the newest instructions are looked at."""

_ASKED_WITH = 4000
"""So many characters of a question are taken for their meaning."""

_NEIGHBOURS = 3.0
"""All neighbours together count for about so many."""

_COMMON, _FEW = 0.3, 20
"""A term is common if more than that share of the documents have it, and more than a few."""

_RARE = 8.0
_DAY = 86_400
_LENGTHS = np.log(1 + np.arange(256)) / 4
_BEFORE = np.array([0.0] + [_FADE**step for step in range(1, REACH + 1)])
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
"""What sort of thing a question asks for, the sign of it in a text, and what is in every such question."""


_KINDS = (
    ("question", TextFeature.QUESTION),
    ("asks", TextFeature.ASKS),
    ("first person", TextFeature.FIRST_PERSON),
    ("name", TextFeature.NAME),
)
"""Signs that count whatever is asked."""


class FeatureMatrix:
    """Columns of evidence beside `looking.places`."""

    def __init__(self, index: Index, text: str, vectors: "Vectors | None" = None) -> None:
        text = text[:MAX_READ]
        self._index, self._text, self._lookup = index, text, lookup_in(index)
        wanted = list(dict.fromkeys(terms_of(text)))
        names = self._lookup.names()
        self._asked = {voice for voice, name in enumerate(names) if name and name.issubset(wanted)}
        spoken = frozenset().union(*names)
        terms: list[Term] = []
        self._words = 0
        self._forms: list[tuple[Term, int, int]] = []
        """Other forms of words, each with the word's number and the row of the word itself, -1 if nobody said it."""
        self._topics: list[tuple[int, list[tuple[float, int]]]] = []
        """For each word that has topics its row, and the topics with how rare they are."""
        for word in self._rarest([term for term in wanted if term not in spoken]):
            own, forms = self._lookup.find(word)
            row = len(terms) if own else -1
            if own:
                terms.append(own)
            if forms:
                self._forms += [(form, self._words, row) for form in forms]
                self._words += 1
            if topics := bits(TOPICS_OF.get(word, 0)):
                rare = [self._lookup.rarity(index.topical[topic]) for topic in topics]
                self._topics.append((row, list(zip(rare, topics, strict=True))))
        others = {form.term: form for form, _, _ in self._forms}
        topics_found = {topic for _, found in self._topics for topic in found}
        also = index.newest(STANDING, _STANDING) if index.answers_at_length else ()
        self.looking = CandidateScan(self._lookup, terms, list(others.values()), list(topics_found), also)
        self.columns: dict[str, FeatureColumn | Flags] = {}
        if len(self.looking.places):
            self._gather_words()
            self._gather_signs()
            self._gather_dates()
            if vectors is not None:
                self._gather_meaning(vectors)

    def _rarest(self, terms: list[str]) -> list[str]:
        """The terms, or the rarest of them if a long text is asked with."""
        return terms if len(terms) <= _WANTED else self._lookup.rarest(terms[:_READ], _WANTED)

    def _gather_words(self) -> None:
        """The words asked for, in the document itself and around it."""
        looking, columns = self.looking, self.columns
        rarities = np.array([term.rarity for term in looking.terms], np.float32)[:, None]
        rows = looking.hits()
        having = rows > 0
        columns["cover"] = np.add.reduce(rarities * having)[looking.slots] / (float(rarities.sum()) or 1.0)
        rows *= rarities
        own = np.add.reduce(rows)[looking.slots]
        columns["words"] = words = _scaled(own)
        columns["around"] = _scaled(np.add.reduce(_spread(rows))[looking.slots])
        columns["before"] = self._neighbours(words, _BEFORE)
        columns["group"] = self._best_of_group(words)
        self._gather_others("forms", self._found_forms(having), float(own.max()) or 1.0)
        self._gather_others("topic", self._found_topics(having), _RARE)

    def _neighbours(self, scores: FeatureColumn, fading: FeatureColumn) -> FeatureColumn:
        """What stands around each document, less the farther it is."""
        looking = self.looking
        laid_out = looking.rows(1)[0]
        laid_out[looking.slots] = scores
        start = len(fading) // 2 if fading is _BOTH_SIDES else 0
        return np.convolve(laid_out, fading)[start : start + looking.width][looking.slots]

    def _best_of_group(self, scores: FeatureColumn) -> FeatureColumn:
        groups = self.looking.groups
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        best = np.maximum.reduceat(scores, starts)
        return np.repeat(best, np.diff(np.append(starts, len(groups))))

    def _found_forms(self, own: Flags) -> FeatureColumn | None:
        """How rare the other forms of all words are that a document has in their place, of each word the rarest."""
        if not self._forms:
            return None
        looking = self.looking
        forms = sorted(self._forms, key=lambda each: each[0].rarity)
        which, slots, _ = looking.slots_with([form for form, _, _ in forms])
        best = looking.rows(self._words)
        words = np.array([word for _, word, _ in forms])[which]
        best[words, slots] = np.array([form.rarity for form, _, _ in forms])[which]
        for word, row in {(word, row) for _, word, row in forms if row >= 0}:
            best[word][own[row]] = 0.0
        column: FeatureColumn = np.add.reduce(best)[looking.slots]
        return column

    def _found_topics(self, own: Flags) -> FeatureColumn | None:
        """The same for their topics."""
        if not self._topics:
            return None
        found, column = self.looking.gathered("topics"), np.zeros(len(self.looking.places))
        for row, topics in self._topics:
            best = np.zeros(len(found))
            for rare, topic in sorted(topics):
                best[(found & np.uint64(1 << topic)) != 0] = rare
            if row >= 0:
                best[own[row, self.looking.slots]] = 0.0
            column += best
        return column

    def _gather_others(self, kind: str, column: FeatureColumn | None, scale: float) -> None:
        """Other words than those asked for: other forms of them, or of the same topic."""
        if column is not None and column.any():
            column /= scale
            self.columns[kind] = column
            self.columns[f"{kind} around"] = self._neighbours(column, _BOTH_SIDES)

    def _gather_signs(self) -> None:
        """What each document is like, with what its neighbours and the question make of it."""
        looking, columns = self.looking, self.columns
        signs = looking.gathered("signs")
        for name, sign in (*_KINDS, *_asked_for(self._text)):
            columns[name] = (signs & sign) != 0
        if len(self._asked) == 1:
            (voice,) = self._asked
            columns["speaker"] = looking.gathered("voices") == voice
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
            days, back = np.unique(self.looking.gathered("times") // _DAY, return_inverse=True)
            near = np.array([dates.nearness(day * _DAY) for day in days.tolist()])
            self.columns["month"], self.columns["day"] = near[back, 0], near[back, 1]

    def _gather_meaning(self, vectors: "Vectors") -> None:
        """What is meant, whatever the words."""
        numbers, parts = (self.looking.gathered(name) for name in ("numbers", "parts"))
        meaning = vectors.likeness(self._text[:_ASKED_WITH], numbers, parts)
        self.columns["meaning"] = meaning
        self.columns["meaning around"] = self._neighbours(meaning, _BOTH_SIDES) / _NEIGHBOURS


def is_specific(index: Index, text: str) -> bool:
    """Whether a term of `text`, or a date in it, tells documents apart: what nearly all of them have finds nothing."""
    lookup, common = lookup_in(index), max(_FEW, _COMMON * len(index))
    for word in dict.fromkeys(terms_of(text[:MAX_READ])):
        own, forms = lookup.find(word)
        having = [term.having for term in ([own] if own else forms)]
        having += [count for topic in bits(TOPICS_OF.get(word, 0)) if (count := index.topical[topic])]
        if having and min(having) <= common:
            return True
    return bool(dates_in(text).months)


def _asked_for(text: str) -> list[tuple[str, TextFeature]]:
    small = text.lower()
    return [
        (name, sign)
        for (name, sign, words), asked in _ASKED
        if any(map(small.__contains__, words)) and asked.search(small)
    ]


def _spread(rows: FeatureColumn) -> FeatureColumn:
    """The best of each document and its neighbours, who count less the farther they are."""
    best = rows.copy()
    for step in range(1, REACH + 1):
        faded = rows * _AROUND**step
        np.maximum(best[:, step:], faded[:, :-step], out=best[:, step:])
        np.maximum(best[:, :-step], faded[:, step:], out=best[:, :-step])
    return best


def _scaled(column: FeatureColumn) -> FeatureColumn:
    return column / (column.max() or 1.0)
