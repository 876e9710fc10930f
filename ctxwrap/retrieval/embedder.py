"""An application's own embedding model: a function, or the embeddings API of a client."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ctxwrap.retrieval.vectors import Numbers

_BATCH = 64
"""Texts per call."""

_QUESTIONS = 64
"""Questions whose vectors are kept."""

_MAX_READ = 8000
"""Maximum characters of a text that are embedded."""


class EmbedderFunction:
    """Calls a function, sync or async, that returns a vector per text; its first answer tells the dimensions."""

    is_remote = True

    def __init__(self, function: Callable[[list[str]], Any], name: str) -> None:
        self._function, self.name = function, name
        self._dimensions = 0
        self._asked: dict[str, Numbers] = {}
        """The newest texts that were embedded alone, which are questions."""

    @property
    def dimensions(self) -> int:
        if not self._dimensions:
            self(["dimensions"])
        return self._dimensions

    def __call__(self, texts: Sequence[str]) -> Numbers:
        if len(texts) == 1 and (known := self._asked.get(texts[0])) is not None:
            return known
        rows = [row for at in range(0, len(texts), _BATCH) for row in self._called(texts[at : at + _BATCH])]
        made = np.asarray(rows, np.float32)
        if made.ndim != 2 or len(made) != len(texts):
            raise ValueError(f"the embedder {self.name!r} returned the shape {made.shape} for {len(texts)} texts")
        self._dimensions = made.shape[1]
        if len(texts) == 1:
            while len(self._asked) >= _QUESTIONS:
                self._asked.pop(next(iter(self._asked)), None)
            self._asked[texts[0]] = made
        return made

    def _called(self, texts: Sequence[str]) -> Any:
        made = self._function([text[:_MAX_READ] or " " for text in texts])
        return _awaited(made) if inspect.isawaitable(made) else made


def as_embedder(given: Any) -> EmbedderFunction:
    """Return the embedder of a setting: a function, or a pair of a client and the name of its model."""
    if isinstance(given, tuple):
        client, model = given
        return EmbedderFunction(partial(_by_client, client, model), model)
    name = getattr(given, "name", "") or f"{getattr(given, '__module__', '')}.{getattr(given, '__qualname__', '')}"
    return EmbedderFunction(given, str(name))


def _by_client(client: Any, model: str, texts: list[str]) -> Any:
    made = client.embeddings.create(model=model, input=texts)
    return _async_rows(made) if inspect.isawaitable(made) else _rows(made)


async def _async_rows(made: Any) -> list[Any]:
    return _rows(await made)


def _rows(made: Any) -> list[Any]:
    return [each.embedding for each in sorted(made.data, key=lambda each: each.index)]


async def _result(awaitable: Any) -> Any:
    return await awaitable


def _awaited(awaitable: Any) -> Any:
    """Run it in an event loop of its own: messages are embedded in threads without one, queries possibly within one."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _result(awaitable)).result()
