"""The index: the same however it came about, and never silently another."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.retrieval import index as index_module
from ctxwrap.retrieval import segments
from ctxwrap.retrieval.index import Damaged, Index
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.segments import WordSegment
from ctxwrap.retrieval.selection import select_passages
from tests.retrieval.conversations import FACTS, Said, indexed, small_talk

WORDS = ("boat", "tea", "Ada", "painted", "paint", "the", "dog", "7", "why?", "always", "我喜欢苹果", "painting.")

texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
conversations = st.lists(
    st.tuples(texts, st.sampled_from(["user", "assistant"]), st.sampled_from(["", "Ada", "Bo"]), st.integers(0, 3)),
    max_size=30,
).map(lambda drawn: [Said(at, *each[:3], group=f"g{at // 6}", time=each[3] * 10**6) for at, each in enumerate(drawn)])


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "SIZE", 7)


def answers(index: Index, query: str) -> list[tuple[int, int, float]]:
    return [(hit.number, hit.part, hit.score) for hit in Ranking(index, query).hits]


def saved(index: Index) -> list[bytes]:
    return list(index.unsaved().values())


@given(conversations, texts, st.integers(0, 30))
def test_an_index_survives_saving_and_loading_at_any_time(said: list[Said], query: str, at: int) -> None:
    whole = indexed(said)
    files = indexed(said[:at]).unsaved()
    part = Index.from_segments(list(files.values()))
    assert part.highest == min(at, len(said)) - 1
    for each in said[part.highest + 1 :]:
        part.add(*each[:2], role=each.role, speaker=each.speaker, group=each.group, time=each.time)
    assert answers(part, query) == answers(whole, query)
    files |= part.unsaved()
    assert list(files.values()) == saved(whole)
    again = Index.from_segments(list(files.values()))
    assert answers(again, query) == answers(whole, query)
    assert again.unsaved() == {}


@given(conversations, texts, st.sets(st.integers(0, 29), max_size=8))
def test_a_removed_message_leaves_the_index_as_if_never_added(said: list[Said], query: str, gone: set[int]) -> None:
    index = indexed(said)
    for number in gone:
        assert index.remove(number) == (number < len(said))
        assert not index.remove(number)
    never = indexed([each for each in said if each.number not in gone])
    assert answers(index, query) == answers(never, query)
    assert index.highest == len(said) - 1
    data = [segment for segment in saved(index) if segment]
    again = Index.from_segments(data)
    assert answers(again, query) == answers(never, query)
    assert again.highest == index.highest


def test_a_removed_message_is_in_no_segment() -> None:
    index = indexed([Said(0, "quicksilver", speaker="Zebulon", group="secret"), Said(1, "tea")])
    index.remove(0)
    data = b"".join(saved(index))
    assert b"tea" in data
    assert not [word for word in (b"quicksilver", b"Zebulon", b"secret") if word in data]


def test_only_changed_segments_are_saved() -> None:
    said, _ = small_talk(100)
    index = indexed(said)
    assert len(index.unsaved()) == 15
    assert index.unsaved() == {}
    index.add(100, "One more.")
    assert list(index.unsaved()) == [14]
    index.remove(10)
    assert list(index.unsaved()) == [1]


def test_equal_input_gives_equal_bytes() -> None:
    said, _ = small_talk(60)
    assert saved(indexed(said)) == saved(indexed(said))


def test_every_damaged_byte_of_a_segment_is_detected() -> None:
    data = saved(indexed(small_talk(7)[0]))[0]
    for at in range(len(data)):
        for other in (data[at] ^ 1, data[at] ^ 0x80, 0 if data[at] else 255):
            with pytest.raises(Damaged):
                WordSegment.from_bytes(data[:at] + bytes([other]) + data[at + 1 :])
    for at in range(len(data)):
        with pytest.raises(Damaged):
            WordSegment.from_bytes(data[:at])
    with pytest.raises(Damaged):
        WordSegment.from_bytes(data + b"\0")


def test_a_segment_of_another_version_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(indexed(small_talk(7)[0]))[0]
    monkeypatch.setattr(segments, "_VERSION", segments._VERSION + 1)
    with pytest.raises(Damaged, match=f"expected version {segments._VERSION}"):
        WordSegment.from_bytes(data)


def _orders(data: Sequence[bytes]) -> list[list[bytes]]:
    return [[data[1], data[0], data[2]], [data[0], data[2], data[1]], [data[0], data[0], data[1]], [*data, data[2]]]


def test_segments_in_the_wrong_order_are_rejected() -> None:
    data = saved(indexed(small_talk(20)[0][:20]))
    assert len(data) == 3
    for order in _orders(data):
        with pytest.raises(Damaged):
            Index.from_segments(order)
    assert Index.from_segments(data[:2]).highest == 13, "what is missing at the end is added again"


def test_an_outdated_segment_is_rejected() -> None:
    said, _ = small_talk(20)
    old, new = saved(indexed(said[:10])), saved(indexed(said[:20]))
    with pytest.raises(Damaged):
        Index.from_segments([new[0], old[1], new[2]])


def test_a_message_is_in_one_segment() -> None:
    index = indexed([Said(0, "Tea."), Said(1, "Nothing of note happened. " * 200), Said(2, "Coffee.")])
    data = saved(index)
    assert [Index.from_segments(data[:count]).highest for count in range(4)] == [-1, 0, 1, 2]


def test_message_numbers_must_ascend() -> None:
    index = indexed([Said(3, "tea")])
    with pytest.raises(ValueError, match="message 3"):
        index.add(3, "tea")
    index.remove(3)
    with pytest.raises(ValueError, match="message 2"):
        index.add(2, "tea")


def test_an_index_grows_while_a_ranking_is_in_use() -> None:
    said, _ = small_talk(900)
    index = indexed(said)
    before = Ranking(index, "accordions in the workshop")
    hits = list(before.hits)
    index.add(900, "Accordions are loud.")
    index.remove(1)
    assert before.hits == hits
    assert before.reasons(hits[:1])[0]
    assert Ranking(index, "accordions").hits[0].number in (900, *(hit.number for hit in hits[:3]))


def test_empty_index_can_be_queried() -> None:
    assert Ranking(Index(), "tea").hits == []
    assert Index.from_segments([]).highest == -1
    index = indexed([Said(0, "")])
    assert [hit.number for hit in Ranking(index, "").hits] == [0]
    assert select_passages(index, Ranking(index, "tea"), lambda *_: "", 100, len).text == ""


def test_a_long_message_is_found_by_its_passages() -> None:
    index = Index()
    index.add(0, "Nothing of note happened. " * 60 + "The key lies under the flowerpot. " + "And so on. " * 90)
    index.add(1, "Good.")
    best = Ranking(index, "Where is the key?").hits[0]
    assert best.number == 0
    assert best.part > 0


def test_more_speakers_than_fit_share_the_last_place() -> None:
    said = [Said(at, "tea" if at else "coffee", speaker=f"s{at}") for at in range(300)]
    index_module.SIZE = 4096
    index = indexed(said)
    again = Index.from_segments(saved(index))
    assert [again.speaker(at) for at in range(300)] == [index.speaker(at) for at in range(300)]
    assert again.speaker(0) == "s0"


@pytest.mark.parametrize("question", FACTS)
def test_facts_are_found_after_150_turns(question: str) -> None:
    said, answers = small_talk(200)
    index = indexed(said)
    found = select_passages(
        index, Ranking(index, question), lambda number, _: said[number].text, 120, lambda text: len(text) // 4
    )
    assert answers[question] in [each.number for each in found.chosen]
    assert found.tokens <= 120
