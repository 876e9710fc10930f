"""Turns text of any script into search terms, in linear time."""

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ctxwrap.language.patterns import Runs, lazy_pattern
from ctxwrap.language.vocabulary import FORMS, STOP

MAX_READ = 20_000
"""Maximum characters read from a text; longer texts arrive as passages."""

_MAX_WORD = 32
"""Maximum characters kept from a word."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that write words without spaces, or attach endings to them."""

_MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u1000-\u109f\u1780-\u17ff"
"""Word characters that are not letters: accents, and the vowels of many scripts."""

_WORDS = Runs(rf"[\w{_MARKS}'’]")
_RUN = lazy_pattern(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_START = lazy_pattern(f"[{_UNSPACED}]")

_STOP = frozenset(STOP.split())

_ENDINGS = """
    ational:4 ization:4 isation:4 fulness:3 iveness:3 ousness:3 ising:4 izing:4 ation:4 ative:4 ement:4 ical:4
    ator:4 ally:4 ised:4 ized:4 ness:3 ship:4 ment:4 able:4 ible:4 ance:4 ence:4 ing:3 ion:4 ful:3 ous:4 ive:4 ity:4
    ism:4 ist:4 ize:4 ise:4 ate:4 al:4 er:4 or:4 ic:4 ed:3 ly:3
"""
"""Endings, longest first, each with the minimum number of letters before it; the first match is removed."""

_LEAST_BEFORE = {ending: int(least) for ending, least in (pair.split(":") for pair in _ENDINGS.split())}
_ENDING_SIZES = tuple(dict.fromkeys(map(len, _LEAST_BEFORE)))


class Words(NamedTuple):
    """The words of a text as they are written; an underscore separates them."""

    every: list[str]
    """In order."""
    distinct: frozenset[str]


def words_in(text: str) -> Words:
    """Return the words; those of a message are looked at for its terms, its features and the days that it names."""
    return _kept_words(text) if len(text) <= LONGEST_KEPT else _words_in(text)


def _words_in(text: str) -> Words:
    words = _WORDS.findall(text.replace("_", " "))
    return Words(words, frozenset(words))


LONGEST_KEPT = 2000
"""The characters of a text up to which what was found in it is kept."""

_kept_words = lru_cache(maxsize=64)(_words_in)


def terms_of(text: str, words: list[str] | None = None) -> list[str]:
    """Return the search terms in order, without stop words; `words` are those of the text, if they are known."""
    words = _WORDS.findall(text[:MAX_READ].replace("_", " ")) if words is None else words
    if text.isascii():
        return list(filter(None, map(_TERMS.__getitem__, words)))
    return [term for raw in words for term in ([_TERMS[raw]] if raw.isascii() else _terms_in(raw)) if term]


def _terms_in(raw: str) -> list[str]:
    """Return the terms of a run of word characters in mixed scripts, "" for a stop word."""
    found: list[str] = []
    for run in _RUN.findall(raw):
        found += _bigrams(run) if _UNSPACED_START.match(run) else [_TERMS[run]]
    return found


_Value = TypeVar("_Value")
_MAX_KNOWN = 65536


class WordTable(dict[str, _Value]):
    """Values of words, which are learned as the words are met; those of long words are not kept."""

    def __init__(self, learn: Callable[[str], _Value]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, raw: str) -> _Value:
        value = self._learn(raw)
        if len(raw) <= _MAX_WORD:
            if len(self) >= _MAX_KNOWN:
                self.clear()
            self[raw] = value
        return value


class WordHints:
    """Bits that say what a word hints at: a text without a hint needs no closer look."""

    def __init__(self, learn: Callable[[str], int]) -> None:
        self._bits = WordTable(learn)
        self._plain: set[str] = set()
        """Words without a hint, as most are."""
        self._kept = lru_cache(maxsize=64)(self._of)

    def of(self, text: str) -> int:
        """Return the bits of all words of a text."""
        return self._kept(text) if len(text) <= LONGEST_KEPT else self._of(text)

    def _of(self, text: str) -> int:
        bits = 0
        for word in words_in(text).distinct - self._plain:
            bits |= (own := self._bits[word])
            if not own and len(word) <= _MAX_WORD:
                self._plain.add(word)
        if len(self._plain) > _MAX_KNOWN:
            self._plain = set()
        return bits


_TERMS = WordTable(lambda raw: _term(raw[:_MAX_WORD]))


def term_of(raw: str) -> str:
    """Return the term of one word, or "" for a stop word."""
    return _TERMS[raw] if len(raw) <= _MAX_WORD else _term(raw)


def each_term(words: Sequence[str]) -> list[str]:
    """Return the term of each word."""
    if max(map(len, words), default=0) > _MAX_WORD:
        return list(map(term_of, words))
    return list(map(_TERMS.__getitem__, words))


def _term(raw: str) -> str:
    word = normalise_word(raw)
    if not word or word in _STOP or raw.casefold() in _STOP or (len(word) == 1 and not word.isdigit()):
        return ""
    return stem(word)


def normalise_word(raw: str) -> str:
    """Remove case, accents and what an apostrophe attaches."""
    word = raw.casefold()
    if "'" in word or "’" in word:
        word = word.replace("’", "'")
        word = "" if word.endswith("n't") else max(word.split("'"), key=len)
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = unicodedata.normalize("NFC", "".join(each for each in parts if not "\u0300" <= each <= "\u036f"))
    return word[:_MAX_WORD]


def stem(word: str) -> str:
    """Return an approximate stem, the same for most forms of a word."""
    if known := _IRREGULAR.get(word):
        return known
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    return _IRREGULAR.get(single := _singular(word)) or _root(single)


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _root(word: str) -> str:
    for _ in range(2):
        for size in _ENDING_SIZES:
            least = _LEAST_BEFORE.get(word[-size:])
            if least is not None and len(word) - size >= least:
                word = word[:-size]
                break
        else:
            break
    return _normalise_ending(word)


def _normalise_ending(word: str) -> str:
    """Unify the spelling of a stem's end: hope, hop(e)ing, happy, happ(i)er."""
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    if len(word) > 2 and word.endswith("y"):
        word = word[:-1] + "i"
    return word


def _bigrams(run: str) -> list[str]:
    """Split text without spaces into overlapping pairs of characters."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


_IRREGULAR = {form: _root(line.split()[0]) for line in FORMS.strip().splitlines() for form in line.split()}
