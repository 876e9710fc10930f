"""The second hop of a query: passages that share rare words with its best hits, though not with the query."""

from collections.abc import Iterable, Sequence
from math import exp

from ctxwrap.retrieval.features import FeatureMatrix
from ctxwrap.retrieval.lookup import Ints
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
    """Return the column for the best hits, given their positions, scores and texts; None if no word leads on."""
    lookup, weights = evidence.lookup, dict[str, float]()
    most = max(_LEAST_HAVING, _MAX_SHARE * len(lookup.index))
    for score, text in zip(scores, texts, strict=True):
        if score < scores[0] - _FAR:
            continue
        words = set(search_terms(text or "")) - evidence.known_words
        rare = sorted((having, word) for word in words if 2 <= (having := lookup.having(word)) <= most)
        counts = exp((score - scores[0]) / _SCALE)
        for having, word in rare[:_MAX_TERMS]:
            weights[word] = max(weights.get(word, 0.0), counts * lookup.rarity(having))
    followed = lookup.known(sorted(weights, key=lambda word: (-weights[word], word))[:_MAX_TERMS])
    if not followed:
        return None
    entries = [(term, row, weights[term.term] * term.rarity) for row, term in enumerate(followed)]
    rows, _ = evidence.scan.weigh(entries, (), len(entries))
    column: FeatureColumn = rows.max(axis=0)[evidence.scan.slots]
    column[best] = 0.0
    highest = column.max()
    return column / highest if highest > 0 else None
