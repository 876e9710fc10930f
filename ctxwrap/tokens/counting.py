"""Token counters: exact if the model's encoding is installed, otherwise an estimate with a margin."""

import collections
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from threading import Lock

from ctxwrap.tokens.models import Family, family_of, litellm_directory

Encode = Callable[[str], list[int]]

_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "p50k_base": (
        "ec7223a39ce59f226a68acc30dc1af2788490e15",
        "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    ),
}
"""For each encoding, the name of its file in a tiktoken cache and the file's SHA-256."""

_CACHE = "TIKTOKEN_CACHE_DIR"

PIECE = 16_384
"""The most characters encoded at once. tiktoken's time grows faster than linearly with long runs without a space, and
a million spaces make it panic."""

_encodings_lock = Lock()
_counters_lock = Lock()
_loaded: dict[str, Encode | None] = {}


def encoding(name: str) -> Encode | None:
    """The function that encodes text, or None if the encoding's file is missing or damaged; loaded once."""
    with _encodings_lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def forget_encodings() -> None:
    """Search for the files again."""
    with _encodings_lock:
        _loaded.clear()


def count_with(encode: Encode, text: str) -> int:
    """The tokens of a text of any length, in linear time."""
    if len(text) <= PIECE:
        return len(encode(text))
    return sum(len(encode(piece)) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """A text in pieces that together have the tokens of the text, unless no space or line end is near a cut."""
    start = 0
    while len(text) - start > PIECE:
        end = _cut(text, start + PIECE // 2, start + PIECE)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, low: int, high: int) -> int:
    """The last position that no encoding has a token across: before a space, or between a word and the line end."""
    for mark, ends in ((" ", _is_visible), ("\n", str.isalnum)):
        at = text.rfind(mark, low, high)
        while at > low and not ends(text[at - 1]):
            at = text.rfind(mark, low, at)
        if at > low:
            return at
    return high


def _is_visible(character: str) -> bool:
    return not character.isspace()


def _load(name: str) -> Encode | None:
    directory = next((place for place in _directories() if _holds(place, name)), None)
    if directory is None:
        return None
    try:
        with _cache_at(directory):
            from tiktoken import get_encoding

            return get_encoding(name).encode_ordinary
    except Exception:  # any broken installation: the estimate is used
        return None


def _directories() -> Iterator[Path]:
    """The user's cache, then litellm's. An empty variable disables tiktoken's cache and names no directory."""
    for variable in (_CACHE, "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    litellm = litellm_directory()
    if litellm:
        yield litellm / "litellm_core_utils" / "tokenizers"


def _holds(directory: Path, name: str) -> bool:
    """Whether the file exists with the right hash; tiktoken would delete another one and download the file."""
    file, digest = _FILES[name]
    try:
        return sha256((directory / file).read_bytes()).hexdigest() == digest
    except OSError:
        return False


@contextmanager
def _cache_at(directory: Path) -> Iterator[None]:
    """Point tiktoken to a cache directory, and restore the environment afterwards."""
    before = os.environ.get(_CACHE)
    os.environ[_CACHE] = str(directory)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_CACHE, None)
        else:
            os.environ[_CACHE] = before


_ASCII = ((str.islower, 0.22), (str.isupper, 0.45), (str.isdigit, 0.75), (" ".__eq__, 0.12), (str.isspace, 0.9))
_PUNCTUATION = 0.5
_RUN = 0.7
"""Tokens per character of keys, hashes and encoded bytes."""

_BLOCKS = (
    (0x0250, 1.4, 1.7),  # Latin letters with marks
    (0x0370, 1.0, 1.5),
    (0x0400, 0.46, 1.0),  # Greek
    (0x0530, 0.33, 0.53),  # Cyrillic
    (0x0590, 1.0, 1.5),
    (0x0780, 0.43, 0.95),  # Hebrew, Arabic
    (0x0900, 1.5, 2.0),
    (0x0E00, 0.42, 1.2),  # the scripts of India
    (0x0E80, 0.43, 1.0),  # Thai
    (0x1100, 1.0, 2.0),
    (0x1200, 0.8, 1.4),  # Korean
    (0x2000, 1.0, 2.0),
    (0x2E80, 1.3, 1.5),  # punctuation, arrows, symbols
    (0x3040, 0.75, 1.0),
    (0x3100, 0.9, 1.15),  # kana
    (0xA000, 0.8, 1.15),  # Chinese characters
    (0xAC00, 1.0, 2.0),
    (0xD7B0, 0.8, 1.4),  # Korean
    (0x10000, 1.0, 1.2),
    (0x110000, 1.9, 2.6),  # emoji, rare characters
)
"""The end of each character range, and the tokens per character in o200k_base and in older encodings, fitted to sample
texts."""

_LONG_RUN = re.compile(r"[0-9A-Za-z+/=]{25,}")
_ONLY_DIGITS = bytes(byte if byte in b"0123456789" else 0x20 for byte in range(256))
"""Makes spaces of all other bytes."""


def family_estimate(family: Family, encode: Encode | None, text: str) -> int:
    """The tokens of a text for a family, computed with the base encoding if it is installed."""
    if not text:
        return 0
    share = 1.0 if text.isascii() else len(text.encode("ascii", "ignore")) / len(text)
    count = count_with(encode, text) if encode else by_characters(text, family.base)
    tokens = count * (family.latin * share + family.other * (1 - share))
    if family.single_digits:
        runs = text.encode("utf-8", "surrogatepass").translate(_ONLY_DIGITS).split()
        more = 0
        for run in runs:
            more += len(run) * 2 // 3
        tokens += more
    return ceil(tokens)


def by_characters(text: str, base: str = "o200k_base") -> float:
    """An estimate of an encoding's tokens from the characters alone."""
    runs = sum(map(len, _LONG_RUN.findall(text)))
    rest = _LONG_RUN.sub("", text) if runs else text
    newest = base == "o200k_base"
    return runs * _RUN + sum(
        _weight(character, newest) * times for character, times in collections.Counter(rest).items()
    )


@lru_cache(maxsize=4096)
def _weight(character: str, newest: bool) -> float:
    if character.isascii():
        return next((weight for is_one, weight in _ASCII if is_one(character)), _PUNCTUATION)
    return next(new if newest else old for end, new, old in _BLOCKS if ord(character) < end)


CACHE_SIZE = 8192
"""The number of texts whose counts a counter caches, about two megabytes; long texts are cached by hash."""

LONGEST_KEY = 128
"""The longest text, in characters, that is its own cache key; a longer one has its length and hash as key.

Python keeps the hash of a text that it made once. Two texts of a cache have the same hash once in 10^15 turns.
"""

_WITHOUT_ENCODING = 0.25
"""The margin of an estimate from characters alone."""


class Counter:
    """Counts the tokens of texts. Threads may share a counter."""

    def __init__(self, name: str, margin: float, counting: Callable[[str], int]) -> None:
        self.name = name
        """The encoding, or `estimate`."""
        self.margin = margin
        """How many more tokens a text may have than counted, as a fraction; 0 if the count is exact."""
        self.exact = margin == 0
        self._counting = counting
        self._recent: dict[str | tuple[int, int], int] = {}
        self._older: dict[str | tuple[int, int], int] = {}
        """The previous generation of the cache: entries move back when they are used, and are dropped otherwise."""

    def count(self, text: str) -> int:
        """The tokens of a text; special tokens count as ordinary text."""
        key = text if len(text) <= LONGEST_KEY else (len(text), hash(text))
        tokens = self._recent.get(key)
        if tokens is None:
            tokens = self._older.get(key)
            self._recent[key] = tokens = self._counting(text) if tokens is None else tokens
            if len(self._recent) > CACHE_SIZE // 2:
                self._recent, self._older = {}, self._recent
        return tokens

    def at_most(self, tokens: int) -> int:
        """The upper bound for a count."""
        return ceil(tokens * (1 + self.margin)) if self.margin else tokens

    def most_in(self, text: str) -> int:
        """The upper bound for the tokens of a text."""
        if not text:
            return 0
        tokens = self.count(text)
        return ceil(tokens * (1 + self.margin)) if self.margin else tokens


@lru_cache(maxsize=1024)
def counter_for(model: str) -> Counter:
    """The counter for a model by any of its names; the first use of an encoding loads it."""
    return _shared(family_of(model))


def forget_counters() -> None:
    """Drop all counters, so that encodings are looked up again."""
    counter_for.cache_clear()
    with _counters_lock:
        _counters.clear()


_counters: dict[str | Family, Counter] = {}


def _shared(family: str | Family) -> Counter:
    with _counters_lock:
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
    return Counter("estimate", margin, partial(family_estimate, family, encode))
