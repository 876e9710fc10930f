"""Truncation: never over the limit, never through a character, and the promised ends stay."""

from itertools import pairwise
from typing import get_args
from unicodedata import combining

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.tokens.measure import ELLIPSIS, CountTokens, Strategy, estimate_tokens, truncate

LETTERS = "AAAAABBBBBCCCCC"
LINES = "".join(f"line {number}\n" for number in range(10))
CUTTING: tuple[Strategy, ...] = ("start", "middle", "end")
TEXTS = st.text(st.sampled_from("ab \n\r\té\u0301👨\u200d👩🏽🇩🇪한\u1161"), max_size=80) | st.text(max_size=80)


def words(text: str) -> int:
    return len(text.split())


def jumpy(text: str) -> int:
    """A count that does not grow with the text."""
    return len(text) // 3 + len(text) % 7


COUNTS: tuple[CountTokens, ...] = (len, estimate_tokens, words, jumpy)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("start", "...BBBBBCCCCC"), ("middle", "AAAAA...CCCCC"), ("end", "AAAAABBBBB..."), ("never", "")],
)
def test_strategies_match_the_examples_of_the_document(strategy: Strategy, expected: str) -> None:
    assert truncate(LETTERS, 13, strategy, len) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("start", "...\nline 7\nline 8\nline 9\n"),
        ("middle", "line 0\nline 1\n...\nline 9\n"),
        ("end", "line 0\nline 1\nline 2\n..."),
    ],
)
def test_whole_lines_stay_and_the_ellipsis_has_its_own(strategy: Strategy, expected: str) -> None:
    assert truncate(LINES, 30, strategy, len, max_lines=4) == expected
    if strategy != "middle":
        assert truncate(LINES, 26, strategy, len) == expected


@pytest.mark.parametrize("strategy", CUTTING)
@pytest.mark.parametrize("most", range(1, 12))
def test_max_lines_is_never_exceeded_and_includes_the_ellipsis(strategy: Strategy, most: int) -> None:
    piece = truncate(LINES, 1000, strategy, len, max_lines=most)
    assert len(piece.splitlines()) <= most
    assert (piece == LINES) == (most >= 10)
    assert strategy == "start" or piece.startswith("line 0")
    assert strategy == "end" or piece.endswith("line 9\n")


def test_never_strategy_is_all_or_nothing_for_max_lines() -> None:
    assert truncate(LINES, len(LINES), "never", len) == LINES
    assert truncate(LINES, len(LINES) - 1, "never", len) == ""
    assert truncate(LINES, 1000, "never", len, max_lines=9) == ""
    assert truncate(LINES, 1000, "never", len, max_lines=10) == LINES


def test_truncation_without_useful_text_is_empty() -> None:
    assert truncate("   \n\n\n word", 7, "end", len) == ""
    assert truncate(LETTERS, 3, "end", len) == ""
    assert truncate(LETTERS, 4, "middle", len) == ""
    assert truncate("", 0, "end", len) == ""


def test_unknown_strategy_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one of never, start, middle, end"):
        truncate("x", 1, "sideways", len)  # type: ignore[arg-type]


def test_most_of_a_large_limit_is_used_with_few_counts() -> None:
    text = "".join(f"{number} is a line of some length\n" for number in range(20_000))
    calls = []

    def counted(piece: str) -> int:
        calls.append(piece)
        return estimate_tokens(piece)

    for strategy in CUTTING:
        assert 9_700 <= estimate_tokens(truncate(text, 10_000, strategy, counted)) <= 10_000
    assert len(calls) < 30


@given(TEXTS, st.sampled_from(get_args(Strategy)), st.sampled_from(COUNTS), st.none() | st.integers(1, 6))
def test_no_limit_is_ever_exceeded(text: str, strategy: Strategy, count: CountTokens, max_lines: int | None) -> None:
    for limit in range(count(text) + 2):
        piece = truncate(text, limit, strategy, count, max_lines)
        assert not piece or count(piece) <= limit
        assert not piece or max_lines is None or _lines(piece) <= max_lines
        assert strategy != "never" or piece in ("", text)


@given(TEXTS, st.sampled_from(CUTTING), st.integers(0, 90), st.none() | st.integers(1, 6))
def test_each_strategy_keeps_its_ends(text: str, strategy: Strategy, limit: int, max_lines: int | None) -> None:
    piece = truncate(text, limit, strategy, len, max_lines)
    if piece in ("", text):
        return
    head, tail = _ends(piece, text)
    assert (head is None) == (strategy == "start")
    assert (tail is None) == (strategy == "end")


@given(TEXTS, st.sampled_from(CUTTING), st.integers(0, 90))
def test_no_character_is_split(text: str, strategy: Strategy, limit: int) -> None:
    piece = truncate(text, limit, strategy, len)
    if piece in ("", text):
        return
    head, tail = _ends(piece, text)
    if head:
        assert not combining(text[len(head) : len(head) + 1] or "x")
        assert text[len(head) - 1 : len(head) + 1] not in ("\u200d👩", "\r\n")
    if tail:
        assert not combining(tail[0])
        assert not tail.startswith(("\u200d", "\u1161"))


@pytest.mark.parametrize("strategy", CUTTING)
def test_emoji_sequences_and_combining_pairs_stay_whole(strategy: Strategy) -> None:
    for unit in ("🇩🇪", "👨\u200d👩\u200d👧", "e\u0301", "👍🏽", "\ud83d\ude00", "\u1112\u1161\u11ab"):
        pieces = {truncate(unit * 9, limit, strategy, len) for limit in range(len(unit) * 9)}
        for piece in pieces - {""}:
            assert piece.replace(unit, "") == ELLIPSIS


def test_higher_limit_never_gives_a_shorter_text() -> None:
    for strategy in CUTTING:
        sizes = [len(truncate(LETTERS, limit, strategy, len)) for limit in range(20)]
        assert all(earlier <= later for earlier, later in pairwise(sizes))


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _ends(piece: str, text: str) -> tuple[str | None, str | None]:
    """What stays before and behind one of the ellipses in the piece, so that both are ends of the text."""
    at = piece.find(ELLIPSIS)
    while at >= 0:
        head, tail = piece[:at], piece[at + len(ELLIPSIS) :]
        for before in (head, head.removesuffix("\n")):
            for behind in (tail, tail.removeprefix("\n")):
                if text.startswith(before) and text.endswith(behind):
                    return before or None, behind or None
        at = piece.find(ELLIPSIS, at + 1)
    raise AssertionError(f"{piece!r} is not made of the ends of {text!r}")
