"""Vectors: the same however they came about, never silently others, and retrieval works without them."""

import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.retrieval import vectors as vectors_module
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.segments import Damaged
from ctxwrap.retrieval.selection import select_passages
from ctxwrap.retrieval.vectors import Vectors
from ctxwrap.retrieval.wordllama import WordLlama, is_installed
from tests.retrieval.conversations import ByWord, Said, indexed, small_talk


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "SIZE", 7)


def embedded(said: Sequence[Said]) -> Vectors:
    vectors = Vectors(ByWord())
    for each in said:
        vectors.add(each.number, each.text)
    return vectors


def ranked(said: list[Said], vectors: Vectors | None, query: str = "Where is the vessel?") -> list[tuple[int, float]]:
    return [(hit.number, hit.score) for hit in Ranking(indexed(said), query, vectors=vectors).hits]


SAID = [
    Said(at, text, group=str(at))
    for at, text in enumerate(
        ["It rained.", "The ship left.", "Bread is dear.", "A strong brew.", "It is late.", ""] * 3
    )
]


def test_vectors_find_a_message_without_shared_words() -> None:
    best = [number for number, _ in ranked(SAID, embedded(SAID))[:3]]
    assert sorted(best) == [1, 7, 13]
    assert sorted(number for number, _ in ranked(SAID, None)[:3]) != [1, 7, 13]


def test_a_hit_by_meaning_names_meaning_as_reason() -> None:
    index, vectors = indexed(SAID), embedded(SAID)
    made = select_passages(
        index, Ranking(index, "vessel", vectors=vectors), lambda number, _: SAID[number].text, 30, len
    )
    assert made.chosen[0].reasons[0] == "meaning"


def test_messages_without_vectors_are_ranked_by_their_words() -> None:
    assert ranked(SAID, Vectors(ByWord())) == ranked(SAID, None)
    some = ranked(SAID, embedded(SAID[:5]))
    assert some[0][0] == 1
    assert len(some) == len(SAID)


@given(st.integers(0, 18), st.sets(st.integers(0, 17), max_size=5))
def test_vectors_survive_saving_loading_and_removal(at: int, gone: set[int]) -> None:
    files = embedded(SAID[:at]).unsaved()
    vectors = Vectors.from_segments(ByWord(), list(files.values()))
    assert vectors.highest == at - 1
    for each in SAID[at:]:
        vectors.add(each.number, each.text)
    files |= vectors.unsaved()
    assert files == embedded(SAID).unsaved()
    assert vectors.unsaved() == {}
    for number in gone:
        assert vectors.remove(number)
        assert not vectors.remove(number)
    left = [each for each in SAID if each.number not in gone]
    files |= vectors.unsaved()
    again = Vectors.from_segments(ByWord(), [files[ordinal] for ordinal in sorted(files)])
    assert ranked(left, vectors) == ranked(left, again) == ranked(left, embedded(left))


def test_every_damaged_byte_of_a_vector_segment_is_detected() -> None:
    data = embedded(SAID[:3]).unsaved()[0]
    for at in range(len(data)):
        for other in (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], data[:at]):
            with pytest.raises(Damaged):
                Vectors.from_segments(ByWord(), [other])


def test_vectors_of_another_model_or_order_are_rejected() -> None:
    data = list(embedded(SAID).unsaved().values())
    other = ByWord()
    other.name = "another"
    for embedder, segments in ((other, data), (ByWord(), [data[1], data[0]]), (ByWord(), [data[0], data[0]])):
        with pytest.raises(Damaged):
            Vectors.from_segments(embedder, segments)


def test_vector_message_numbers_must_ascend() -> None:
    vectors = embedded(SAID[:3])
    with pytest.raises(ValueError, match="message 2"):
        vectors.add(2, "tea")


class Failing(ByWord):
    """Fails, or makes too few numbers, for a text about tea."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, texts: Sequence[str]) -> Any:
        rows = super().__call__(texts)
        if any("tea" in text for text in texts):
            return rows[:, : self.width] if self.width else 1 / 0
        return rows


@pytest.mark.parametrize("width", [0, 3])
def test_a_message_that_has_no_vector_changes_nothing(width: int) -> None:
    vectors = Vectors(Failing(width))
    for each in SAID[:7]:
        vectors.add(each.number, each.text)
    with pytest.raises((ArithmeticError, ValueError)):
        vectors.add(7, "tea")
    for each in SAID[7:]:
        vectors.add(each.number, each.text)
    assert vectors.unsaved() == embedded(SAID).unsaved()


@given(st.integers(0, 18))
def test_vectors_report_the_ends_of_segments(count: int) -> None:
    vectors = embedded(SAID[:count])
    assert vectors.ends == [*range(6, count - 1, 7), *([count - 1] if count else [])]
    assert vectors.highest == count - 1


def test_missing_rows_are_detected_even_with_a_valid_checksum() -> None:
    data = embedded(SAID[:3]).unsaved()[0][:-20]
    with pytest.raises(Damaged):
        Vectors.from_segments(ByWord(), [data + zlib.crc32(data).to_bytes(4, "little")])


def test_vectors_count_for_the_candidates_of_a_long_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "SIZE", 256)
    said, answers = small_talk(1500)
    index, vectors = indexed(said), embedded(said)
    for question, number in answers.items():
        assert number in [hit.number for hit in Ranking(index, question, vectors=vectors).hits[:10]], question


def test_numpy_and_wordllama_are_imported_only_on_use() -> None:
    code = (
        "import sys, ctxwrap, ctxwrap.retrieval.selection, ctxwrap.retrieval.index;"
        "print(sorted({'numpy', 'wordllama', 'ctxwrap.retrieval.vectors'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.skipif(is_installed(), reason="the extra is installed")
def test_a_missing_extra_names_the_package_to_install() -> None:
    with pytest.raises(ImportError, match=r"ctxwrap\[embeddings\]"):
        WordLlama()


@pytest.mark.skipif(not is_installed(), reason="the extra is not installed")
def test_wordllama_distinguishes_meanings() -> None:
    made = WordLlama()(["The doctor was kind.", "A friendly physician.", "Stocks fell.", "", "\ud800"])
    assert made.shape == (5, WordLlama.dimensions)
    assert made[0] @ made[1] > 2 * abs(made[0] @ made[2])
