"""The candidates of a query among many passages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.retrieval import scan


@pytest.mark.parametrize("sparse", [0, 128])
@pytest.mark.parametrize("few", [0, 4000])
@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from((0.1, 0.5, 1.0, 4.0))), max_size=150), st.integers(1, 40))
def test_best_places_have_the_highest_scores_and_are_the_last_among_equals(
    few: int, sparse: int, postings: list[tuple[int, float]], most: int
) -> None:
    read, weights = np.array([place for place, _ in postings], np.intp), [weight for _, weight in postings]
    scores = np.bincount(read, weights)
    best = sorted({*read.tolist()}, key=lambda place: (scores[place], place))[-most:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_FEW_SCORES", few)
        patch.setattr(scan, "_SPARSE", sparse)
        assert sorted(scan.best_places(scores, read, most).tolist()) == sorted(best)
