"""Embeddings from WordLlama's bundled word table; nothing is downloaded."""

import logging
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from numpy.typing import NDArray

logger = logging.getLogger("ctxwrap")

_LOADING = Lock()

_MAX_READ = 4000
"""Maximum characters embedded."""


def is_installed() -> bool:
    return find_spec("wordllama") is not None


def load_wordllama() -> "WordLlama | None":
    """Return the model of this process, or None if it cannot be loaded; loading is tried once."""
    with _LOADING:
        return _load()


@cache
def _load() -> "WordLlama | None":
    try:
        return WordLlama()
    except Exception as error:
        logger.warning("embeddings are unavailable: %r", error)
        return None


class WordLlama:
    """Loads the table when created, which takes about a second and 75 MB."""

    dimensions = 256

    def __init__(self) -> None:
        found = find_spec("wordllama")
        if found is None or found.origin is None:
            raise ImportError("embeddings need the extra: pip install 'ctxwrap[embeddings]'")
        # the package looks for its tokenizer in the wrong place, but finds it in a configured cache directory
        own_files = Path(found.origin).parent
        self._model: Any = _imported().load(cache_dir=own_files, dim=self.dimensions, disable_download=True)
        self.name = f"wordllama {version('wordllama')} l2_supercat"

    def __call__(self, texts: Sequence[str]) -> NDArray[Any]:
        vectors: NDArray[Any] = self._model.embed([_readable(text) for text in texts])
        return vectors


def _readable(text: str) -> str:
    """Return text that is not empty and can be encoded as UTF-8."""
    return text[:_MAX_READ].encode("utf-8", "replace").decode() or " "


def _imported() -> Any:
    """Import the package's model and undo its global logging configuration."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    from wordllama import WordLlama as Model  # type: ignore[import-not-found,unused-ignore]

    root.handlers[:] = handlers
    root.setLevel(level)
    return Model
