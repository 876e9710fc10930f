"""Precision and recall of redaction."""

import pytest

from ctxwrap.redaction import Redaction
from tests.redaction.corpus import HELD_OUT_NEGATIVE, HELD_OUT_POSITIVE, NEGATIVE, POSITIVE, Sample

RECALL, PRECISION = 0.8, 0.95


@pytest.mark.parametrize(
    ("positive", "negative"),
    [(POSITIVE, NEGATIVE), (HELD_OUT_POSITIVE, HELD_OUT_NEGATIVE)],
    ids=["fitted", "held out"],
)
def test_redaction_precision_and_recall(positive: list[Sample], negative: list[str]) -> None:
    policy = Redaction()
    missed = [sample for sample in positive if sample.secret in policy.redacted(sample.text).text]
    taken = [text for text in negative if policy.redacted(text).found]
    found = len(positive) - len(missed)
    assert found / len(positive) >= RECALL, missed
    assert found / (found + len(taken)) >= PRECISION, taken


def test_corpus_is_large_enough() -> None:
    assert len(POSITIVE) >= 120
    assert len({sample.text for sample in POSITIVE} & {sample.text for sample in HELD_OUT_POSITIVE}) == 0
    assert len(set(NEGATIVE)) >= 150


def test_text_around_a_secret_stays() -> None:
    for sample in POSITIVE:
        before, _, _ = sample.text.partition(sample.secret)
        if "://" not in before and "PRIVATE KEY" not in sample.text:
            assert Redaction().redacted(sample.text).text.startswith(before), sample
