"""Topics: what words are spoken of together, so that one finds another."""

from collections.abc import Iterable

from ctxwrap.language.vocabulary import TOPICS
from ctxwrap.language.words import term_of


def _by_term() -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(TOPICS.strip().splitlines()):
        for term in map(term_of, line.split()):
            found[term] = found.get(term, 0) | 1 << number
    return found


TOPICS_OF = _by_term()
"""The topics of a term, a bit for each; there are no more than 64."""


def topics_of(terms: Iterable[str]) -> int:
    """The topics that these terms belong to."""
    topics = 0
    for term in terms:
        topics |= TOPICS_OF.get(term, 0)
    return topics


def bits(topics: int) -> list[int]:
    """The numbers of these topics."""
    found = []
    while topics:
        found.append((topics & -topics).bit_length() - 1)
        topics &= topics - 1
    return found
