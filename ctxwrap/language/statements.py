"""Statements: what a user's message plainly says of its author, found by rules and without a model."""

from ctxwrap.language.chinese import clauses as chinese
from ctxwrap.language.english import clauses as english
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import AssertedSentence, Statement, asserted_in

__all__ = ["MOST", "Statement", "stated_in", "statements_in"]

MOST = 8
"""So many statements come from one message."""

_HAN = lazy_pattern("[\u4e00-\u9fff]")


def statements_in(text: str) -> tuple[Statement, ...]:
    """What the message states about its author, in its order; rather nothing than something wrong."""
    found: dict[str, Statement] = {}
    for sentence in asserted_in(text):
        for told in stated_in(sentence):
            found.setdefault(told.content, told)
        if len(found) >= MOST:
            break
    return tuple(found.values())[:MOST]


def stated_in(sentence: AssertedSentence) -> list[Statement]:
    """What one sentence states about its author."""
    rules = chinese if _HAN.search(sentence.text) else english
    told: list[Statement] = rules.stated_in(sentence)
    return told
