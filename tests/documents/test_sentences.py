"""Sentences of many scripts, how much they tell, and cuts that tear nothing apart."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.documents.document import grow, trimmed
from ctxwrap.documents.sentences import (
    ADDRESS,
    RawMessage,
    addresses_in,
    assigns,
    decides,
    facts_in,
    is_filler,
    salience,
    sentences_in,
    shorten,
)
from ctxwrap.documents.summary import fit_summary, summarise_message
from ctxwrap.language.dates import days_in


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is late. Go home!", ["It is late.", "Go home!"]),
        ("Dr. Meyer came at 3 p.m. on Friday. Fine.", ["Dr. Meyer came at 3 p.m. on Friday.", "Fine."]),
        ("Wir starten am 3. Mai 2025. Gut.", ["Wir starten am 3. Mai 2025.", "Gut."]),
        ("Use e.g. v1.2.3 of it. Or 4.5.", ["Use e.g. v1.2.3 of it.", "Or 4.5."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        ("今天很好。我们走吧！好吗？", ["今天很好。", "我们走吧！", "好吗？"]),
        ("彼は「はい。」と言った。終わり。", ["彼は「はい。」", "と言った。", "終わり。"]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("यह अच्छा है। चलो।", ["यह अच्छा है।", "चलो।"]),
        ("# Plan\n- first\n- **second** `x`\n\n1. third", ["Plan", "first", "second x", "third"]),
        ("Look:\n```\nx = 1. y\n```\nDone.", ["Look:", "Done."]),
        ("---\n\n  \n", []),
    ],
)
def test_sentences_are_split_at_their_ends(text: str, sentences: list[str]) -> None:
    assert sentences_in(text) == sentences


@given(st.text(max_size=400))
def test_no_word_is_lost_between_sentences(text: str) -> None:
    text = "".join(each for each in text if each not in "`~*#>-+•‣–[()]0123456789.")
    kept = "".join("".join(sentences_in(text)).split())
    for line in text.splitlines():
        assert all(word in kept for word in line.split() if word.isalpha())


def test_greetings_in_four_languages_are_filler_and_answers_are_not() -> None:
    filler = (
        "Hi!",
        "Thanks a lot!",
        "How are you?",
        "Vielen Dank!",
        "Guten Morgen",
        "Merci beaucoup !",
        "Muchas gracias.",
    )
    filler += ("谢谢。", "ありがとうございます。", "Let me know if you need anything else.", "Great question!")
    assert [text for text in filler if not is_filler(text)] == []
    telling = ("Yes.", "No thanks.", "Thanks to Maria we won.", "Nein.", "Good, 14 it is.", "I love it", "我叫小明。")
    assert [text for text in telling if is_filler(text)] == []


def test_facts_in_a_sentence_are_names_dates_and_numbers() -> None:
    named = facts_in('We met Maria Jansen on 17 Aug 2025 about "Blue Door" (case A-4471, 45,000 EUR) at x@y.org.')
    assert {"Maria", "Jansen", "2025-08-17", "Blue Door", "A-4471", "45,000", "EUR", "x@y.org"} <= named
    assert {"カメラ", "Canon"} <= facts_in("新しいカメラはCanonです。")
    assert salience("We met Maria on 3 May.") > salience("We met somebody one day.") > salience("Hello there!") == 0


def test_decisions_and_tasks_are_recognised() -> None:
    for text in (
        "We decided to sell it.",
        "Wir haben es beschlossen.",
        "C'est décidé.",
        "Hemos acordado eso.",
        "我们决定卖。",
    ):
        assert decides(text), text
    for text in ("We have not decided yet.", "Who decided that?", "Noch nicht entschieden."):
        assert not decides(text), text
    for text in (
        "I have to call Tom.",
        "Maria needs to sign.",
        "Ich muss das erledigen.",
        "Hay que pagar.",
        "Il faut payer.",
    ):
        assert assigns(text), text
    assert not assigns("It must be nice.")
    assert not assigns("I have to say it is nice.")


def test_dates_are_read_in_many_spellings_only_if_unambiguous() -> None:
    spellings = ("17 Aug 2025", "17th of August 2025", "August 17, 2025", "17. August 2025", "2025-08-17", "17.08.2025")
    spellings += ("17 août 2025", "17 de agosto de 2025", "2025年8月17日")
    assert {day.name for text in spellings for day in days_in(f"on {text}, yes")} == {"2025-08-17"}
    assert [day.name for day in days_in("am 3. Mai oder 3 May")] == ["--05-03", "--05-03"]
    assert days_in("3/4/2025, 31 Feb 2025, 5 may help, 12 people") == []


@given(st.text(max_size=80), st.integers(1, 60))
def test_cut_text_fits_and_is_a_prefix_of_the_original(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == text if len(text) <= limit else text.startswith(short.removesuffix("…")) and short.endswith("…")


@pytest.mark.parametrize("whole", ["e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "🇧🇪", "की"])
def test_cut_splits_no_character(whole: str) -> None:
    for limit in range(2, 40):
        kept = shorten(whole * 20, limit).removesuffix("…")
        assert len(kept) % len(whole) == 0


HOSTILE = {
    "one word": "a" * 1_000_000,
    "digits": "9" * 1_000_000,
    "dots": "." * 1_000_000,
    "dots and spaces": ". " * 500_000,
    "lines": "x\n" * 500_000,
    "bullets": "- " * 500_000,
    "brackets": "([{" * 330_000,
    "quotes": '"' * 1_000_000,
    "fences": "```\n" * 250_000,
    "headings": "# a\n" * 250_000,
    "marks": "e" + "\u0301" * 1_000_000,
    "capitals": "Aa " * 330_000,
    "please": "please " * 140_000,
    "blank": " " * 1_000_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_megabyte_of_hostile_text_is_read_within_limits(text: str) -> None:
    raw = RawMessage(1, "user", text)
    assert len(summarise_message(raw)) <= 512
    assert len(fit_summary(text)) <= 512
    assert len(trimmed(text)) <= 5000
    assert len(grow(text, [raw])) <= 5000


def test_hostile_samples_are_large_enough() -> None:
    assert all(len(text) >= 900_000 for text in HOSTILE.values())
    assert unicodedata.combining(HOSTILE["marks"][-1])


@given(st.text(max_size=5), st.from_regex(ADDRESS.pattern, fullmatch=True))
def test_no_address_is_overlooked(before: str, address: str) -> None:
    text = f"{before} {address}"
    assert len(addresses_in(text)) == len({each.rstrip(".,;:)") for each in ADDRESS.findall(text)}) > 0
