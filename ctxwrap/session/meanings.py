"""What the messages of a log mean: vectors that follow it beside the words, as long as there is a model for them."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ctxwrap.session import indexed
from ctxwrap.session.following import Following, Pick
from ctxwrap.settings import Settings
from ctxwrap.storage import Log
from ctxwrap.types import Record

if TYPE_CHECKING:
    from ctxwrap.retrieval.vectors import Embedder, Vectors

logger = logging.getLogger("ctxwrap")

_MEANT_AT_ONCE = 400_000
"""About so many characters are embedded for one question, which takes half a second."""

Embedding = Callable[[], "Embedder | None"]
"""Gives the model when it is needed for the first time; None if there is none."""


def embedding_for(settings: Settings) -> Embedding:
    return _model_of_the_extra if settings.embeddings else no_model


def no_model() -> None:
    return None


def _model_of_the_extra() -> "Embedder | None":
    # whoever does not use it does not wait for it
    from ctxwrap.retrieval.wordllama import loaded

    return loaded()


class Meanings:
    """Without a model, and as soon as anything goes wrong, there are none."""

    def __init__(self, log: Log, embedding: Embedding, pick: Pick) -> None:
        self._log, self._pick = log, pick
        self._embedding = embedding
        self._vectors: tuple[Vectors, Following] | None = None

    def of_all_before(self, number: int) -> "Vectors | None":
        """None until all these messages were embedded: some alone would outweigh the others."""
        try:
            self._vectors = self._vectors or self._loaded()
            if self._vectors is None:
                return None
            vectors, following = self._vectors
            following.go_on(number)
            return vectors if following.next >= number else None
        except Exception as error:
            self.give_up(error)
            return None

    def save(self, least: int = 1) -> None:
        """Write down what is new, if it is that many messages."""
        if self._vectors is not None:
            self._vectors[1].save(least)

    def give_up(self, error: Exception) -> None:
        logger.warning("earlier messages are found by their words only: %r", error)
        self._embedding, self._vectors = no_model, None

    def _loaded(self) -> "tuple[Vectors, Following] | None":
        embedder = self._embedding()
        if embedder is None:
            return None
        from ctxwrap.retrieval.vectors import Vectors

        kind = indexed.meanings(embedder.name)
        vectors = indexed.load(self._log, kind, partial(Vectors.from_segments, embedder))

        def add(number: int, _: Record, text: str) -> None:
            vectors.add(number, text)

        return vectors, Following(self._log, self._pick, kind, vectors, add, _MEANT_AT_ONCE)
