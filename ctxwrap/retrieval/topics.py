"""Topics: what words are spoken of together, so that one finds another."""

from collections.abc import Iterable

from ctxwrap.retrieval.vocabulary import TOPICS
from ctxwrap.retrieval.words import term_of


def _by_term() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(TOPICS.strip().splitlines()):
        for term in dict.fromkeys(map(term_of, line.split())):
            found[term] = (*found.get(term, ()), f"#{number}")
    return found


TOPICS_OF = _by_term()
"""The topics of a term, in the form of terms that no text has."""


def topics_of(terms: Iterable[str]) -> set[str]:
    """The topics that these terms belong to."""
    return {topic for term in terms for topic in TOPICS_OF.get(term, ())}
