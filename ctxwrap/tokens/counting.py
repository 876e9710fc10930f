"""The counter of a model: exact where its encoding is here, else an estimate that says so."""

from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import blake2b
from math import ceil
from threading import Lock

from ctxwrap.tokens.encodings import count_with, encoding
from ctxwrap.tokens.estimates import estimated
from ctxwrap.tokens.families import Family, family_of

REMEMBERED = 8192
"""How many texts a counter remembers the counts of: some two megabytes, and no text that is not short."""

SHORT = 128
"""Up to how many characters a text is remembered as itself; of a longer one only a digest is."""

_WITHOUT_ENCODING = 0.25
"""The margin of an estimate that has nothing to go by but characters."""


class Counter:
    """Counts the tokens of texts; any number of threads may share one."""

    def __init__(self, name: str, margin: float, counting: Callable[[str], int]) -> None:
        self.name = name
        """The encoding that counts, or `estimate`."""
        self.margin = margin
        """The share by which a text may have more tokens than counted; 0 if the count is exact."""
        self._counting = counting
        self._known: dict[str | bytes, int] = {}
        self._older: dict[str | bytes, int] = {}
        """What was known before there were too many; it comes back when it is asked for, or goes."""

    @property
    def exact(self) -> bool:
        return self.margin == 0

    def count(self, text: str) -> int:
        """The tokens of a text, special tokens taken as the text they are written with."""
        key = text if len(text) <= SHORT else _digest(text)
        tokens = self._known.get(key)
        if tokens is None:
            tokens = self._older.get(key)
            self._known[key] = tokens = self._counting(text) if tokens is None else tokens
            if len(self._known) > REMEMBERED // 2:
                self._known, self._older = {}, self._known
        return tokens

    def at_most(self, tokens: int) -> int:
        """How many tokens there may really be where so many were counted."""
        return ceil(tokens * (1 + self.margin))


@lru_cache(maxsize=1024)
def counter_for(model: str) -> Counter:
    """The counter for a model by any of its names; the first of an encoding takes a moment to load it."""
    return _shared(family_of(model))


def forget_counters() -> None:
    """Make counters anew, for encodings that came or went."""
    counter_for.cache_clear()
    with _lock:
        _counters.clear()


_lock = Lock()
_counters: dict[str | Family, Counter] = {}


def _shared(family: str | Family) -> Counter:
    with _lock:
        if family not in _counters:
            _counters[family] = _counter(family)
        return _counters[family]


def _counter(family: str | Family) -> Counter:
    if isinstance(family, str):
        encode = encoding(family)
        if encode is not None:
            return Counter(family, 0, partial(count_with, encode))
        family = Family(family, 1.0, 1.0, margin=_WITHOUT_ENCODING)
    encode = encoding(family.base)
    margin = family.margin if encode else max(family.margin, _WITHOUT_ENCODING)
    return Counter("estimate", margin, partial(estimated, family, encode))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
