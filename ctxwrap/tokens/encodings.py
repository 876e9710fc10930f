"""OpenAI's encodings through tiktoken, offline: from files that are already on this machine, or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread

from ctxwrap.tokens.litellm_files import litellm_directory

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

_lock = Lock()
_loaded: dict[str, Encode | None] = {}
_loading: dict[str, Thread] = {}
_PATIENCE = 10.0
"""Seconds that a fork waits for encodings that are being loaded."""


def encoding(name: str) -> Encode | None:
    """What turns ordinary text into tokens, or None if its file is missing or broken here; loaded once."""
    with _lock:
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
    with _lock:
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
