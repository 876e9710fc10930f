"""The layout of candidates, and the lookup that follows an index: the same however the index grew."""

from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxwrap.retrieval import index as index_module
from ctxwrap.retrieval.features import is_specific
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.layout import GAP, REACH, WholeLayout, lay_out
from ctxwrap.retrieval.lookup import lookup_in
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.ranking import Ranking, hits_for

TEXTS = (
    "Shall we paint the summerhouse?",
    "What? No idea.",
    "Yes.",
    "The painter paints houses in summer, as painters do.",
    "I adopted a puppy and two kittens. " * 30,
    "From now on write in French.",
)
QUERIES = ("Which house did we paint this summer?", "Which pets do I have?", "puppy summerhouse painted")
CONVERSATIONS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from("aab")), min_size=1, max_size=30)


def grown(said: list[tuple[str, str]]) -> Index:
    index = Index()
    for number, (text, group) in enumerate(said):
        index.add(number, text, group=group)
    return index


@given(CONVERSATIONS, st.integers(1, 9))
def test_a_layout_that_follows_the_index_is_that_of_its_groups(said: list[tuple[str, str]], every: int) -> None:
    index, whole = Index(), WholeLayout()
    for number, (text, group) in enumerate(said):
        index.add(number, text, group=group)
        if number % every == 0:
            whole.of(index)
    starts = np.array(index.group_starts)
    at_once = lay_out(lookup_in(index).column, starts, np.append(starts, len(index))[1:], np.arange(len(starts)))
    for one, other in zip(whole.of(index), at_once, strict=True):
        assert np.array_equal(one, other)


@given(CONVERSATIONS, st.data())
def test_blocks_are_apart(said: list[tuple[str, str]], data: st.DataObject) -> None:
    index = grown(said)
    ends = sorted(data.draw(st.sets(st.integers(1, len(index)), min_size=1)))
    starts = [data.draw(st.integers(before, end - 1)) for before, end in zip([0, *ends], ends, strict=False)]
    groups = [index.group_of(start) for start in starts]
    layout = lay_out(lookup_in(index).column, np.array(starts), np.array(ends), np.array(groups))
    blocks = [range(start, end) for start, end in zip(starts, ends, strict=True)]
    assert layout.places[layout.marks != GAP].tolist() == [place for block in blocks for place in block]
    for block in blocks:
        slots = layout.slots[block.start : block.stop].tolist()
        assert slots == list(range(slots[0], slots[0] + len(block)))
        assert (layout.marks[slots[0] - REACH : slots[0]] == GAP).all()
        assert layout.lengths[slots].tolist() == index.lengths[block.start : block.stop].tolist()


@pytest.mark.parametrize("size", [3, 8, 4096])
@settings(max_examples=40)
@given(said=CONVERSATIONS)
def test_hits_do_not_depend_on_earlier_searches(size: int, said: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "SIZE", max(size, 1))
        index = Index()
        for number, (text, group) in enumerate(said):
            index.add(number, text, group=group)
            Ranking(index, QUERIES[number % len(QUERIES)])
        for query in QUERIES:
            assert Ranking(index, query).hits == Ranking(grown(said), query).hits


@pytest.mark.parametrize("size", [3, 8, 4096])
@pytest.mark.parametrize("few", [720, 6])
@settings(max_examples=40)
@given(said=CONVERSATIONS, data=st.data())
def test_passages_after_the_end_change_nothing(
    size: int, few: int, said: list[tuple[str, str]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "SIZE", size)
        patch.setattr("ctxwrap.retrieval.scan._EXAMINE_ALL", few)
        whole = grown(said)
        for _ in range(3):
            below = data.draw(st.integers(0, len(said)))
            end, query = bisect_left(whole.numbers, below), data.draw(st.sampled_from(QUERIES))
            alone = grown(said[:below])
            assert is_specific(whole, query, end) == is_specific(alone, query)
            assert hits_for(whole, 100, end) == hits_for(alone, 100)
            one, other = Ranking(whole, query, end=end), Ranking(alone, query)
            for ranking in (one, other):
                ranking.follow(lambda number, part: passages(said[number][0])[part])
            assert [hit[:3] for hit in one.hits] == [hit[:3] for hit in other.hits]
            assert [hit.score for hit in one.hits] == pytest.approx([hit.score for hit in other.hits], abs=1e-5)
    assert one.reasons(one.hits[:5]) == other.reasons(other.hits[:5])
