"""Token counters: exact where the model's encoding is installed, otherwise an estimate with a margin."""

import collections
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from hashlib import blake2b, sha256
from math import ceil
from pathlib import Path
from threading import Lock, Thread

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
"""The name of each encoding's file in a cache of tiktoken's, and its SHA-256."""

_CACHE = "TIKTOKEN_CACHE_DIR"

PIECE = 16_384
"""The most characters that are encoded at once. Longer runs without a space take more than their share of time, and
a million spaces are a panic in tiktoken."""

_encodings_lock = Lock()
_counters_lock = Lock()
_loaded: dict[str, Encode | None] = {}
_loading: dict[str, Thread] = {}
_PATIENCE = 10.0
"""Seconds that a fork waits for encodings that are being loaded."""


def encoding(name: str) -> Encode | None:
    """What turns ordinary text into tokens, or None if its file is missing or broken here; loaded once."""
    with _encodings_lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
        return _loaded[name]


def preload(name: str, prepare: Callable[[], None]) -> None:
    """Load an encoding in a thread, after it was prepared what comes sooner; whoever asks for it meanwhile waits."""
    if name in _loaded or name in _loading:
        return

    def load() -> None:
        prepare()
        encoding(name)

    thread = Thread(target=load, name="ctxwrap-loading", daemon=True)
    with suppress(RuntimeError):  # an interpreter that is about to end starts no more threads
        thread.start()
        _loading[name] = thread


def _finish_loading() -> None:
    for thread in list(_loading.values()):
        thread.join(_PATIENCE)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_loading)  # a forked child would wait for the locks of a thread it has not


def forget_encodings() -> None:
    """Look for the files anew."""
    with _encodings_lock:
        _loaded.clear()
        _loading.clear()


def count_with(encode: Encode, text: str) -> int:
    """The tokens of a text of any length, in time that grows with its length and no faster."""
    if len(text) <= PIECE:
        return len(encode(text))
    return sum(len(encode(piece)) for piece in pieces(text))


def pieces(text: str) -> Iterator[str]:
    """A text in pieces whose tokens are its own tokens, except where no space and no line's end is near."""
    start = 0
    while len(text) - start > PIECE:
        end = _cut(text, start + PIECE // 2, start + PIECE)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, low: int, high: int) -> int:
    """The last place where no encoding has a token across: before a space, or between a word and the line's end."""
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
    except Exception:  # whatever an installation can be broken by, there is the estimate
        return None


def _directories() -> Iterator[Path]:
    """The user's own cache, then litellm's; an empty name switches tiktoken's cache off and is no directory."""
    for variable in (_CACHE, "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    litellm = litellm_directory()
    if litellm:
        yield litellm / "litellm_core_utils" / "tokenizers"


def _holds(directory: Path, name: str) -> bool:
    """Whether the file is there and whole: tiktoken deletes one that is not, and downloads another."""
    file, digest = _FILES[name]
    try:
        return sha256((directory / file).read_bytes()).hexdigest() == digest
    except OSError:
        return False


@contextmanager
def _cache_at(directory: Path) -> Iterator[None]:
    """Let tiktoken find its cache there, and nobody notice it afterwards."""
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
"""Per character of what looks like no language: keys, hashes, encoded bytes."""

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
"""The end of each range of characters, and the tokens of one of them in o200k_base and in the encodings before it,
fitted to texts of our own."""

_LONG_RUN = re.compile(r"[0-9A-Za-z+/=]{25,}")
_DIGITS = re.compile(r"[0-9]{1,3}")


def estimated(family: Family, encode: Encode | None, text: str) -> int:
    """The tokens of a text for a family, through the base's encoding if that is here."""
    if not text:
        return 0
    share = len(text.encode("ascii", "ignore")) / len(text)
    count = count_with(encode, text) if encode else weighed(text, family.base)
    tokens = count * (family.latin * share + family.other * (1 - share))
    if family.single_digits:
        groups = _DIGITS.findall(text)
        tokens += sum(map(len, groups)) - len(groups)
    return ceil(tokens)


def weighed(text: str, base: str = "o200k_base") -> float:
    """About as many tokens as an encoding has, from nothing but the characters."""
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
    return Counter("estimate", margin, partial(estimated, family, encode))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
