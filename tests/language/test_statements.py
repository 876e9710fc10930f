"""What a message says of its author: found where it is said, and nowhere else.

A line of `stated_*.txt` is a message, `=>`, and what it states: a type and words that its content has. `silent_*.txt`
states nothing. What stands behind `## held out` was written when the rules were
done.
"""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.language.rules import MAX_LENGTH
from ctxwrap.language.statements import MAX_STATEMENTS, Statement, statements_in

HERE = Path(__file__).parent
LANGUAGES = ("english", "chinese")
HELD_OUT = "## held out\n"

Expected = list[tuple[str, list[str]]]


def lines_of(name: str) -> list[str]:
    text = (HERE / f"{name}.txt").read_text(encoding="utf-8").replace(HELD_OUT, "")
    return [line.replace("\\n", "\n") for line in text.splitlines() if line]


def expected_in(told: str) -> Expected:
    pairs = [each.partition(": ") for each in told.split(" ; ")]
    return [(type, [words] if type == "" else re.split(r", (?=\S)", words)) for type, _, words in pairs]


def stated(language: str) -> list[tuple[str, Expected]]:
    pairs = [line.partition(" => ") for line in lines_of(f"stated_{language}")]
    return [(message, expected_in(told)) for message, _, told in pairs]


def fits(statement: Statement, type: str, words: list[str]) -> bool:
    return statement.type == type and all(word in statement.content for word in words)


def judged(language: str) -> tuple[int, int, int]:
    """How many statements were found that are expected, were found at all, and are expected."""
    right = found = expected = 0
    for message, wanted in stated(language):
        told = list(statements_in(message))
        found, expected = found + len(told), expected + len(wanted)
        for type, words in wanted:
            match = next((each for each in told if fits(each, type, words)), None)
            if match:
                told.remove(match)
                right += 1
    found += sum(len(statements_in(message)) for message in lines_of(f"silent_{language}"))
    return right, found, expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_statement_data_set_has_enough_sentences(language: str) -> None:
    assert len(stated(language)) >= 150
    assert len(lines_of(f"silent_{language}")) >= 150


@pytest.mark.parametrize("language", LANGUAGES)
def test_statements_are_precise_and_mostly_complete(language: str) -> None:
    right, found, expected = judged(language)
    assert right / found >= 0.98
    assert right / expected >= 0.9


@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_without_a_statement_give_no_statement(language: str) -> None:
    assert {
        message: statements_in(message) for message in lines_of(f"silent_{language}") if statements_in(message)
    } == {}


def test_compound_sentence_gives_both_statements() -> None:
    assert statements_in("My name is Ada Lovelace and I am allergic to peanuts.") == (
        Statement("identity", "core", 0.05, "The user's name is Ada Lovelace."),
        Statement("fact", "core", 0.05, "The user is allergic to peanuts."),
    )
    assert [each.content for each in statements_in("我叫李雷，住在上海，对花生过敏。")] == [
        "用户的名字是李雷。",
        "用户住在上海。",
        "用户对花生过敏。",
    ]


def test_a_statement_before_a_question_counts() -> None:
    assert [each.content for each in statements_in("I'm vegan, what can I cook?")] == ["The user is vegan."]


def test_a_repeated_statement_is_returned_once() -> None:
    assert len(statements_in("I like tea. I like tea.")) == 1


def test_statements_per_message_are_limited() -> None:
    fruits = ["apples", "pears", "plums", "figs", "dates", "limes", "kiwis", "grapes", "melons", "mangos"]
    assert len(statements_in(" ".join(f"I like {fruit}." for fruit in fruits))) == MAX_STATEMENTS


def test_only_the_beginning_of_a_message_is_read() -> None:
    assert statements_in("x. " * 2000 + "\n\nI like tea.") == ()


def test_pasted_document_gives_no_statement() -> None:
    document = "I live in Ghent. " + "The river was high that year and the boats stayed in. " * 20
    assert statements_in(document) == ()
    assert statements_in(f"I like tea.\n\n{document * 3}") == (
        Statement("preference", "core", 0.2, "The user likes tea."),
    )


OPENINGS = (
    "I live in ",
    "my name is ",
    "I'm a ",
    "remember that ",
    "I need to ",
    "我住在",
    "我叫",
    "我对",
    "请记住",
    "预算",
    '"',
    "`",
    "- ",
)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(OPENINGS),
            st.text(max_size=30),
            st.sampled_from([". ", ", ", " and ", " I ", ";", "?", "。", "，", "\n"]),
        )
    )
)
def test_any_text_is_read_with_bounded_results(pieces: list[str]) -> None:
    found = statements_in("".join(pieces))
    assert len(found) <= MAX_STATEMENTS
    for each in found:
        assert each.type
        assert each.tier in ("core", "working")
        assert 0 <= each.decay <= 1
        assert 0 < len(each.content) <= MAX_LENGTH
        assert "\n" not in each.content


HOSTILE = (
    "I am a ",
    "I,I,I,",
    "my name is A ",
    "and I and I ",
    "'a",
    '"',
    "A a a a ",
    "I live in A A ",
    "a-a-",
    "我,",
    "我对",
    "对对过敏",
    "、我住在",
    "I like a, b, ",
    "is my favourite ",
    "budget budget ",
    "the a a a is due ",
    "I have a a a a ",
    "my son A, ",
    "I need to a by ",
    "预算预算",
    "我我我",
    "write a b c ",
    "say a b c ",
    "写的",
    "If I ",
    "A: ",
    " ",
    "\n",
    "``",
    "x:",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_no_longer_than_other_text(piece: str) -> None:
    text = (piece * (300_000 // len(piece) + 1))[:300_000]
    started = time.process_time()
    statements_in(text)
    statements_in(text[:690])
    statements_in(text[:2400])
    assert time.process_time() - started < 1.0
