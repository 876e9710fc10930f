"""The second hop of a query: passages that share rare words with its best hits, though not with the query."""

from collections.abc import Iterable, Sequence
from math import exp

import numpy as np

from ctxwrap.retrieval.features import FeatureMatrix
from ctxwrap.retrieval.layout import Ints
from ctxwrap.retrieval.lookup import Term
from ctxwrap.retrieval.scan import FeatureColumn
from ctxwrap.retrieval.terms import search_terms

BEST = 3
"""The best hits whose words are followed."""

_MAX_TERMS = 6
_LEAST_HAVING, _MAX_SHARE = 4, 0.08
"""Words in more passages than this, and than this share of them, lead nowhere."""

_SCALE, _FAR = 2.0, 4.0
"""A hit that scores this much less than the best counts 1/e of it, or is not followed."""


def second_hop(
    evidence: FeatureMatrix, best: Ints, scores: Sequence[float], texts: Iterable[str | None]
) -> FeatureColumn | None:
    """Return the column for the best hits, given their slots, scores and texts; None if no word leads on."""
    lookup = evidence.lookup
    followed: dict[str, tuple[float, str, Term]] = {}
    most = max(_LEAST_HAVING, _MAX_SHARE * lookup.count)
    for score, text in zip(scores, texts, strict=True):
        if score < scores[0] - _FAR:
            break
        counts = exp((score - scores[0]) / _SCALE)
        for term in lookup.rare(set(search_terms(text or "")) - evidence.known_words, most, _MAX_TERMS):
            if term.term not in followed:
                followed[term.term] = -counts * term.rarity, term.term, term
    if not followed:
        return None
    rows = sorted(followed.values())[:_MAX_TERMS]
    terms, weights = [term for _, _, term in rows], [-weight * term.rarity for weight, _, term in rows]
    slots, found = evidence.scan.postings(terms, weights)
    column = np.zeros(evidence.scan.width, np.float32)
    np.maximum.at(column, slots, found)
    column[best] = column[evidence.seen :] = 0.0
    highest = column[column.argmax()]
    return column / highest if highest > 0 else None
