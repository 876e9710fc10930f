"""How far the ranking travels: recall of each kind of conversation with weights that were fitted to all other kinds.

    python benchmarks/held_out.py [--conversations 2] [--data FILE]

The kinds are those of `recall.py`; FILE, in its format, is one more kind. Weights are fitted by logistic regression on
pairs of passages, one with evidence and one without, and drawn to a plain ranking by words (L2). Each row has BM25, the
shipped weights, which were chosen by hand, and weights that were fitted without the kind. Conversations of a seed that
`recall.py` does not use are ranked.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from questions import KINDS, conversations
from recall import Conversation, bm25, by_words, counter, select_passages, table

from ctxwrap.retrieval import features, ranking
from ctxwrap.retrieval.layout import GAP

NAMES = sorted(set(ranking.WEIGHTS) - {"meaning", "meaning around"})
Weights = dict[str, float]
_SEED = 7_000
_BUDGET = 2_000
"""Tokens for which candidates are ranked."""
_NEGATIVES = 40
"""The best passages without evidence, which take the place of those that have it."""
_PENALTY, _STEPS, _RATE = 1.0, 400, 0.3
_PLAIN = {"words": 4.0, "cover": 2.0}
"""The weights that the fit begins with and is drawn to, with 0 for all others."""


def pairs_of(conversation: Conversation) -> np.ndarray[Any, Any]:
    """The features of passages with evidence minus those of passages without, for weights of short and long turns."""
    found = []
    long = share_of_long(conversation)
    index = conversation.index
    for question in conversation.questions:
        most = ranking.hits_for(index, _BUDGET) // 2
        matrix = features.FeatureMatrix(index, question.text, None, conversation.now, most)
        ranked = by_words(conversation, question.text, _BUDGET)
        slots = (matrix.scan.layout.marks != GAP).nonzero()[0]
        columns = columns_of(matrix, ranked)[slots]
        numbers = np.array(index.numbers)[matrix.scan.layout.places[slots]]
        has_evidence = np.isin(numbers, list(question.evidence))
        others = np.flatnonzero(~has_evidence)
        others = others[ranked._scores[slots][others].argsort()[::-1][:_NEGATIVES]]
        found += [columns[place] - columns[others] for place in np.flatnonzero(has_evidence)]
    rows = np.concatenate(found) if found else np.empty((0, len(NAMES)))
    return np.hstack(((1 - long) * rows, long * rows))


def share_of_long(conversation: Conversation) -> float:
    """How much the weights of long turns count: the `long` of `ranking.weights_for`."""
    name = "cover"
    short, long = ranking.WEIGHTS[name], ranking.LONG[name]
    return (ranking.weights_for(conversation.index)[0][name] - short) / (long - short)


def columns_of(matrix: features.FeatureMatrix, ranked: ranking.Ranking) -> np.ndarray[Any, Any]:
    """A row per slot, a column per name, without weights."""
    columns = np.zeros((matrix.scan.width, len(NAMES)))
    for name, values in zip(matrix.names, matrix.values, strict=True):
        columns[:, NAMES.index(name)] = values
    for name in matrix.asked:
        mark = features.PROPERTIES[name]
        columns[:, NAMES.index(name)] = matrix.scan.layout.marks & mark == mark
    if ranked._hop is not None:
        columns[:, NAMES.index("hop")] = ranked._hop / ranked._weights["hop"]
    return columns


def fitted(kinds: Sequence[np.ndarray[Any, Any]]) -> tuple[Weights, Weights]:
    """The weights of short and of long turns; every kind counts the same, however many pairs it has."""
    plain = np.array([_PLAIN.get(name, 0.0) for name in (*NAMES, *NAMES)])
    weights = plain.copy()
    for _ in range(_STEPS):
        slope = -_PENALTY * (weights - plain)
        for pairs in kinds:
            slope += (pairs / (1 + np.exp(np.clip(pairs @ weights, -30, 30)))[:, None]).mean(axis=0)
        weights += _RATE * slope / len(kinds)
    short, long = weights[: len(NAMES)], weights[len(NAMES) :]
    return dict(zip(NAMES, short.tolist(), strict=True)), dict(zip(NAMES, long.tolist(), strict=True))


def recalled(
    made: Sequence[Conversation], budget: int, method: Callable[..., Any], count: Callable[[str], int]
) -> float:
    shares = []
    for conversation in made:
        for question in conversation.questions:
            ranked = method(conversation, question.text, budget)
            chosen = select_passages(conversation.index, ranked, conversation.text_of, budget, count).chosen
            shares.append(len({each.number for each in chosen} & question.evidence) / len(question.evidence))
    return 100 * statistics.mean(shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=2, help="of each kind")
    parser.add_argument("--data", type=Path, help="your own conversations with questions")
    options = parser.parse_args()
    kinds = {kind: [Conversation(data) for data in conversations(kind, options.conversations, _SEED)] for kind in KINDS}
    budgets = {kind: KINDS[kind].budgets for kind in KINDS}
    if options.data:
        kinds[options.data.stem] = [Conversation(data) for data in json.loads(options.data.read_text())]
        budgets[options.data.stem] = (500, 1000, 2000, 4000)
    count, pairs = counter(), {}
    for kind, made in kinds.items():
        pairs[kind] = np.concatenate([pairs_of(each) for each in made])
    shipped = dict(ranking.WEIGHTS), dict(ranking.LONG)
    rows = [["kind", "tokens", "BM25", "shipped", "fitted to the others"]]
    for kind, made in kinds.items():
        held_out = fitted([pairs[each] for each in kinds if each != kind])
        for budget in budgets[kind]:
            cells = [recalled(made, budget, bm25, count)]
            for weights in (shipped, held_out):
                ranking.WEIGHTS.update(weights[0])
                ranking.LONG.update(weights[1])
                cells.append(recalled(made, budget, by_words, count))
            ranking.WEIGHTS.update(shipped[0])
            ranking.LONG.update(shipped[1])
            rows.append([kind, str(budget), *(f"{cell:.1f}" for cell in cells)])
    table(rows)


if __name__ == "__main__":
    main()
