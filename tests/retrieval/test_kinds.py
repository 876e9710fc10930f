"""The ranking finds no less than plain BM25, in every kind of conversation that the benchmark generates."""

import sys
from pathlib import Path

import pytest

from ctxwrap.retrieval.selection import select_passages

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS = ("small talk", "technical", "tickets", "code and logs", "German", "Spanish", "Chinese")


@pytest.mark.parametrize("kind", KINDS)
def test_the_ranking_finds_no_less_than_bm25(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    import questions
    import recall

    assert set(KINDS) == set(questions.KINDS)
    conversation, budget = recall.Conversation(questions.conversation(kind)), questions.KINDS[kind].budgets[1]
    found = {}
    for name, method in (("BM25", recall.bm25), ("ours", recall.by_words)):
        shares = []
        for question in conversation.questions:
            ranking = method(conversation, question.text, budget)
            made = select_passages(
                conversation.index, ranking, conversation.text_of, budget, lambda text: len(text) // 4
            )
            shares.append(len({each.number for each in made.chosen} & question.evidence) / len(question.evidence))
        found[name] = sum(shares) / len(shares)
    assert found["ours"] >= found["BM25"] > 0.2
