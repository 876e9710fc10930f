"""The second hop of a query: passages that share rare words with its best hits, though not with the query."""

from collections.abc import Iterable, Sequence
from math import exp

import numpy as np

from ctxwrap.retrieval.features import FeatureMatrix
from ctxwrap.retrieval.lookup import Term
from ctxwrap.retrieval.scan import FeatureColumn
from ctxwrap.retrieval.terms import search_terms

BEST = 3
"""The best hits whose words are followed."""

_MAX_TERMS = 6
_LEAST_HAVING, _MAX_SHARE = 4, 0.08
"""Words in more passages than this, and than this share of them, lead nowhere."""

_SCALE = 2.0
"""A hit that scores this much less than the best counts 1/e of it."""


def second_hop(
    evidence: FeatureMatrix, best: Sequence[int], scores: Sequence[float], texts: Iterable[str | None]
) -> FeatureColumn | None:
    """Return the column for the best hits, given their positions, scores and texts; None if no word leads on."""
    lookup, found = evidence.lookup, dict[str, tuple[float, Term]]()
    most = max(_LEAST_HAVING, _MAX_SHARE * len(lookup.index))
    for score, text in zip(scores, texts, strict=True):
        for word in set(search_terms(text or "")) - evidence.known_words:
            term = lookup.term(word)
            if term and 2 <= term.having <= most:
                weight = exp((score - scores[0]) / _SCALE) * term.rarity
                if weight > found.get(word, (0.0,))[0]:
                    found[word] = weight, term
    if not found:
        return None
    followed = sorted(found.values(), key=lambda each: (-each[0], each[1].term))[:_MAX_TERMS]
    entries = [(term, row, weight * term.rarity) for row, (weight, term) in enumerate(followed)]
    rows, _ = evidence.scan.weigh(entries, (), len(entries))
    column: FeatureColumn = np.maximum.reduce(rows)[evidence.scan.slots]
    column[list(best)] = 0.0
    highest = column.max()
    return column / highest if highest > 0 else None
