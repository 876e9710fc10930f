"""Words: forms of one word are one term, in any script, and no text takes long."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.language.patterns import Runs
from ctxwrap.language.vocabulary import STANDING_PHRASES
from ctxwrap.language.words import each_term, term_of, terms_of
from ctxwrap.retrieval.passages import MAX_PASSAGE, TextFeature, passages, text_features
from ctxwrap.retrieval.terms import day_terms, search_terms


@pytest.mark.parametrize(
    "forms",
    [
        "paint paints painted painting",
        "hope hopes hoped hoping",
        "happy happily happiness",
        "city cities",
        "run runs ran running",
        "buy bought buying",
        "educate education educational educator",
        "child children",
        "teach taught teacher",
        "café cafe CAFÉ",
    ],
)
def test_forms_of_a_word_are_one_term(forms: str) -> None:
    assert len(set(terms_of(forms))) == 1


@pytest.mark.parametrize(("text", "terms"), [("Ada's", ["ada"]), ("won't won", ["win"]), ("l'amour", ["amour"])])
def test_apostrophe_endings_are_removed(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


def test_stop_words_are_left_out() -> None:
    assert terms_of("What is it that you have to do with the und der les une para что") == []


def test_scripts_without_spaces_become_character_pairs() -> None:
    assert terms_of("我喜欢苹果") == ["我喜", "喜欢", "欢苹", "苹果"]
    assert terms_of("茶") == ["茶"]
    assert set(terms_of("東京へ行く")) & set(terms_of("東京")) == {"東京"}
    assert terms_of("iPhone手机壳2024") == ["iphon", "手机", "机壳", "2024"]


def test_other_scripts_keep_their_words() -> None:
    assert terms_of("मुझे किताब पसंद") == ["मुझे", "किताब", "पसंद"]
    assert terms_of("Москва!") == terms_of("москва")


@pytest.mark.parametrize(
    "unit",
    ["a", "'", "’", "日", "a'", "é", "\u0301", "e\u0301", "_", "?", " ", "\n", "a ", ". ", "\ud800", "𠀀", "1", "#0 "],
)
def test_splitting_any_text_into_terms_is_fast(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    terms_of(text)
    text_features(text)
    assert "".join(passages(text)) == text
    assert time.process_time() - start < 3


@given(st.text())
def test_every_text_has_short_terms_of_its_own(text: str) -> None:
    for term in terms_of(text):
        assert 0 < len(term) <= 40
        assert not set("\n#!") & set(term)


@given(st.text(alphabet="ab. \n日é!", max_size=3000))
def test_passages_are_short_and_make_up_the_text(text: str) -> None:
    pieces = passages(text)
    assert "".join(pieces) == text
    assert len(pieces) == 1 or all(0 < len(piece.encode()) <= MAX_PASSAGE for piece in pieces)


def test_passages_end_where_sentences_do() -> None:
    text = "This sentence is about the harbour. " * 40
    assert all(piece.endswith(". ") for piece in passages(text))


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("Shall we go?", TextFeature.QUESTION),
        ("They left yesterday.", TextFeature.TIME),
        ("There were seven.", TextFeature.FIGURE),
        ("I met Zora there.", TextFeature.NAME),
        ("From now on write in French.", TextFeature.STANDING),
        ("I prefer tables.", TextFeature.STANDING),
        ("What? No.", TextFeature.ASKS),
        ("The “Odyssey”, again.", TextFeature.QUOTE),
    ],
)
def test_text_features(text: str, sign: TextFeature) -> None:
    assert text_features(text) & sign
    assert not text_features("the sea is calm.") & sign


@given(st.text(st.characters(max_codepoint=127) | st.sampled_from("ab_'7 é月Σ")))
def test_runs_of_characters_are_those_of_the_pattern(text: str) -> None:
    for characters in (r"\w", r"[\w'’]", r"[^\W\d_]"):
        assert Runs(characters).findall(text) == re.findall(f"{characters}+", text)


@given(st.text(), st.integers(1, 2**33))
def test_a_day_is_spoken_of_wherever_it_is_said(text: str, written: int) -> None:
    assert day_terms(f"{text} on 2025-03-07 {text}", written)
    assert "@03-07" in day_terms(f"{text} on 7 March {text}", written)
    assert day_terms(f"{text} yesterday, {text}", written)


SAID = """
    yesterday seven 7 ² last_week prefer Zora ZORA fooBar x2Y a_Bar don't todays Week’s 昨天 Σ é İ ? "
    from now on call me, recall me; nothing plain words
"""
WORDS = st.sampled_from([*SAID.split(), *STANDING_PHRASES.split("|")])
TEXTS = st.lists(WORDS | st.text("aAz_0,; .'’"), max_size=8).map(" ".join)


@given(TEXTS, TEXTS)
def test_a_text_has_the_features_of_its_lines(one: str, other: str) -> None:
    both = text_features(one) | text_features(other)
    assert text_features(f"{one}\n{other}") | TextFeature.QUESTION == both | TextFeature.QUESTION


@given(TEXTS)
def test_one_foreign_letter_changes_no_other_term_or_feature(text: str) -> None:
    more = f"{text}\n日"
    assert {*search_terms(more)} == {*search_terms(text), "日"}
    assert text_features(more) | TextFeature.QUESTION == text_features(text) | TextFeature.QUESTION


@given(st.text("ab ,;0_AZ"))
def test_a_capitalised_word_within_a_sentence_is_a_name(text: str) -> None:
    assert bool(text_features(text) & TextFeature.NAME) == bool(re.search(r"[\w,;] [A-Z][a-z]", text))


@given(
    st.lists(st.text(max_size=5) | st.sampled_from(["running", "Don't", "x" * 40, f"{'y' * 30}'re late"]), max_size=6)
)
def test_each_word_has_the_term_that_it_has_alone(words: list[str]) -> None:
    assert each_term(words) == list(map(term_of, words))
