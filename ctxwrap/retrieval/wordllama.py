"""Wordllama: vectors from a table of words that its package brings along, so that nothing is downloaded."""

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

_READ = 4000
"""So many characters of a text are embedded."""


def is_installed() -> bool:
    return find_spec("wordllama") is not None


def loaded() -> "WordLlama | None":
    """The one model of this process; None if it cannot be loaded, which is tried once."""
    with _LOADING:
        return _tried()


@cache
def _tried() -> "WordLlama | None":
    try:
        return WordLlama()
    except Exception as error:
        logger.warning("no embeddings: %r", error)
        return None


class WordLlama:
    """Loads the table when it is made; takes about a second and 75 MB."""

    dimensions = 256

    def __init__(self) -> None:
        found = find_spec("wordllama")
        if found is None or found.origin is None:
            raise ImportError("vectors need the extra: pip install 'ctxwrap[embeddings]'")
        # the package looks for its own tokenizer in a wrong place, and finds it where it is told a cache is
        own_files = Path(found.origin).parent
        self._model: Any = _imported().load(cache_dir=own_files, dim=self.dimensions, disable_download=True)
        self.name = f"wordllama {version('wordllama')} l2_supercat"

    def __call__(self, texts: Sequence[str]) -> NDArray[Any]:
        vectors: NDArray[Any] = self._model.embed([_readable(text) for text in texts])
        return vectors


def _readable(text: str) -> str:
    """Never empty, and nothing that has no UTF-8."""
    return text[:_READ].encode("utf-8", "replace").decode() or " "


def _imported() -> Any:
    """The package's model; importing it configures logging for everybody, which is taken back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    from wordllama import WordLlama as Model  # type: ignore[import-not-found,unused-ignore]

    root.handlers[:] = handlers
    root.setLevel(level)
    return Model
