"""Extracts: the most informative sentences of a stretch of messages, and the paths in a text."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

from ctxwrap.language.words import WordTable, terms_of

_READ = 600
"""The characters of a message that are read."""

_PER_MESSAGE = 3
_LONGEST = 160
"""The candidate sentences per message, and the characters shown of each."""

_CUT = "…"
"""Ends a sentence that is shown in part; a text without it is mostly ASCII, whose terms are found faster."""

_SENTENCE = re.compile(r"[^.!?。！？\n]*(?:[.!?](?!\s|$)[^.!?。！？\n]*)*[.!?。！？]*")
_NUMBER = re.compile(r"\d+")
_COMMON = 4
"""A term's weight stops growing after this many occurrences."""

_FILLER = 0.4
"""A sentence below this weight, such as a thank you, is used only if the stretch has no other."""

_ROWS = 12
"""The maximum number of rows in a digest; beyond it, neighbours are merged."""

_PER_ROW = 4


class ExtractedSentence(NamedTuple):
    number: int
    """The number of its message."""
    role: str
    text: str
    score: float = 0.0


Candidate = tuple[int, str, str]
"""The number and the role of a message, and one of its sentences."""


class Extract:
    """The candidate sentences of a growing stretch of messages."""

    def __init__(self, candidates: Iterable[Candidate] = ()) -> None:
        self._candidates = list(candidates)
        self._looked_at = 0
        """How many of them were looked at."""
        self._first: dict[tuple[str, str], _Looked] = {}
        """The first of those with the same role and text: no other one can be chosen."""
        self._counts: Counter[str] = Counter()

    def add(self, number: int, role: str, text: str) -> None:
        if role in ("user", "assistant"):
            self._candidates += [(number, role, sentence) for sentence in sentences_in(text)]

    def best(self) -> list[ExtractedSentence]:
        """The most informative sentences, in their order."""
        self._look_at(self._candidates[self._looked_at :])
        common = dict(zip(self._counts, map(min, self._counts.values(), repeat(_COMMON)), strict=True))
        scored = [
            ExtractedSentence(number, role, text, score)
            for (role, text), (number, terms, own, factor) in self._first.items()
            if (score := _score(own + sum(map(common.__getitem__, terms)), factor, len(terms)))
        ]
        return _chosen([each for each in scored if each.score >= _FILLER] or scored)

    def _look_at(self, candidates: Sequence[Candidate]) -> None:
        new = []
        for number, role, text in candidates:
            known = self._first.get((role, text))
            if known is None:
                terms = frozenset(terms_of(text.removesuffix(_CUT)))
                own = sum(map(_OWN_WEIGHTS.__getitem__, terms))
                known = self._first[role, text] = _Looked(number, terms, own, _factor(role, text))
            new.append(known.terms)
        self._counts.update(chain.from_iterable(new))
        self._looked_at += len(new)

    def as_json(self) -> list[Candidate]:
        return self._candidates

    @classmethod
    def from_json(cls, value: Iterable[Iterable[Any]]) -> "Extract":
        return cls((number, role, text) for number, role, text in value)


class _Looked(NamedTuple):
    """A candidate that was looked at."""

    number: int
    terms: frozenset[str]
    own: int
    """The weights of its terms, apart from how often they occur."""
    factor: float


_OWN_WEIGHTS = WordTable(lambda term: 3 if any(map(str.isdigit, term)) else 1)
"""The weights of terms, apart from how often they occur."""


def _factor(role: str, text: str) -> float:
    """How much a sentence counts: more if a user said it, less if it is a question."""
    return (1.25 if role == "user" else 1.0) * (0.6 if text.endswith(("?", "？")) else 1.0)


def _score(weight: float, factor: float, terms: int) -> float:
    """The weight of its terms, less for a single word, for their number."""
    weight *= factor
    if terms < 2:
        weight *= 0.4
    return round(weight / (6 + terms), 4)


class DigestRow(NamedTuple):
    """A stretch of messages and its sentences."""

    first: int
    last: int
    sentences: list[ExtractedSentence]

    @property
    def text(self) -> str:
        return join_sentences(self.sentences)

    @classmethod
    def from_json(cls, value: tuple[int, int, list[Any]]) -> "DigestRow":
        first, last, sentences = value
        return cls(first, last, [ExtractedSentence(*each) for each in sentences])


@dataclass(slots=True)
class ConversationDigest:
    """A conversation in a few rows; older rows cover more messages."""

    rows: list[DigestRow] = field(default_factory=list)

    def add(self, row: DigestRow) -> None:
        self.rows.append(row)
        if len(self.rows) > _ROWS:
            at = min(range(len(self.rows) - 1), key=lambda at: self.rows[at + 1].last - self.rows[at].first)
            one, other = self.rows[at : at + 2]
            self.rows[at : at + 2] = [DigestRow(one.first, other.last, _chosen([*one.sentences, *other.sentences]))]

    def as_json(self) -> list[tuple[Any, ...]]:
        return [(first, last, list(map(tuple, sentences))) for first, last, sentences in self.rows]

    @classmethod
    def from_json(cls, value: Iterable[tuple[int, int, list[Any]]]) -> "ConversationDigest":
        return cls([DigestRow.from_json(each) for each in value])


def sentences_in(text: str) -> list[str]:
    """The first sentences of a text, each on one line."""
    found: list[str] = []
    text = text[:_READ]
    is_printable = text.isprintable()
    for sentence in _SENTENCE.finditer(text):
        line = " ".join((sentence[0] if is_printable else _printable(sentence[0])).split())
        if len(line) > 1:
            found.append(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}{_CUT}")
            if len(found) == _PER_MESSAGE:
                break
    return found


def join_sentences(sentences: list[ExtractedSentence]) -> str:
    """Sentences in a row, with the speaker where it changes."""
    speakers = [""] + [each.role for each in sentences]
    heads = ["" if one == other else f"{other}: " for one, other in pairwise(speakers)]
    return " ".join(head + each.text for head, each in zip(heads, sentences, strict=True))


def _distinct(sentences: Iterable[ExtractedSentence]) -> list[ExtractedSentence]:
    """The first of sentences that differ only in numbers."""
    found: dict[str, ExtractedSentence] = {}
    for each in sentences:
        found.setdefault(_without_numbers(each.text), each)
    return list(found.values())


@lru_cache(maxsize=1024)
def _without_numbers(text: str) -> str:
    return _NUMBER.sub("0", text)


def _chosen(sentences: Iterable[ExtractedSentence]) -> list[ExtractedSentence]:
    best = sorted(_distinct(sentences), key=lambda each: (-each.score, each.number))[:_PER_ROW]
    return sorted(best, key=lambda each: each.number)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


_LONGEST_PATH = 300
_AROUND = "()[]{}<>\"'`“”‘’«»,;:!?*，。；：！？（）"
_PART = re.compile(r"[\w.+@~%-]+")
_ADDRESS = re.compile(r"(?:https?|ftp|file|s3|git|ssh)://\S+")
_EXTENSION = re.compile(
    "bat|c|cfg|conf|cpp|cs|css|csv|doc|docx|env|go|h|hpp|html|ini|ipynb|java|jpeg|jpg|js|json|jsonl|jsx|kt|lock|log|lua"
    "|md|mp3|mp4|parquet|patch|pdf|php|png|ppt|pptx|proto|ps1|py|pyi|rb|rs|rst|scala|sh|sql|svg|swift|tar|tex|toml|ts"
    "|tsv|tsx|txt|vue|wav|xls|xlsx|xml|yaml|yml|zip"
)


def paths_in(text: str) -> Iterator[str]:
    """The paths and addresses in a text, in their order."""
    if "/" not in text and "." not in text.replace(". ", " ").replace(".\n", "\n").removesuffix("."):
        return  # as in most texts, periods only end sentences
    for word in text.split():
        if "/" in word or "." in word:  # few words do
            path = word.lstrip(_AROUND).rstrip(f"{_AROUND}.").removeprefix("./")
            if ("/" in path or "." in path) and len(path) <= _LONGEST_PATH and _is_place(path):
                yield path


def is_address(path: str) -> bool:
    return "://" in path


def _is_place(path: str) -> bool:
    if is_address(path):
        return _ADDRESS.fullmatch(path) is not None and path.isprintable() and not {".", ".."} & set(path.split("/"))
    parts = path.removesuffix("/").split("/")
    is_absolute = parts[0] == "" and len(parts) > 1
    named = parts[1:] if is_absolute else parts
    if not all(_PART.fullmatch(part) and part.strip(".") for part in named):
        return False
    stem, dot, extension = named[-1].rpartition(".")
    has_extension = bool(stem and dot) and _EXTENSION.fullmatch(extension.casefold()) is not None
    return has_extension or (is_absolute and len(named) > 1)
