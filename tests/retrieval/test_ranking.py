"""Ranking: what speaks for a turn, and what never speaks against it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.language.dates import dates_in
from ctxwrap.retrieval.features import FeatureMatrix
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.ranking import LONG, WEIGHTS, Ranking, weights_for
from ctxwrap.retrieval.scan import OWN
from tests.retrieval.conversations import DAY, Said, indexed, small_talk

MAY_8 = 1_683_504_000
TOLD = (
    "Which boat did Irma paint?",
    "The painter paints boats in summer.",
    "No.",
    "I adopted a puppy and two kittens in May.",
    "Where are the pets?",
    "It rained " * 20,
)


def best(said: list[Said], query: str) -> int:
    return Ranking(indexed(said), query).hits[0].number


def test_an_answer_is_found_by_the_question_before_it() -> None:
    said = [
        Said(0, "The sea is calm.", speaker="Irma"),
        Said(1, "Which instrument do you play?", speaker="Irma"),
        Said(2, "The hurdy-gurdy, badly.", speaker="Otto"),
        Said(3, "The sea is calm.", speaker="Otto"),
    ]
    assert best(said, "Which instrument does Otto play?") == 2


def test_the_named_speaker_is_preferred() -> None:
    said = [
        Said(0, "We sailed to Brest in a storm.", speaker="Irma", group="a"),
        Said(1, "We sailed to Brest in a storm.", speaker="Otto", group="b"),
    ]
    assert best(said, "Where did Irma sail?") == 0
    assert best(said, "Where did Otto sail?") == 1


def test_the_named_month_is_preferred() -> None:
    said = [Said(at, "We went sailing.", group=str(at), time=MAY_8 + at * 31 * DAY) for at in range(4)]
    assert best(said, "Where did we sail in June 2023?") == 1
    assert best(said, "Where did we sail on 2023-07-09?") == 2


def test_equal_scores_rank_the_newer_first() -> None:
    index = indexed([Said(at, "Tea is ready.", group=str(at)) for at in range(5)])
    assert [hit.number for hit in Ranking(index, "tea").hits] == [4, 3, 2, 1, 0]


def test_age_never_lowers_a_score() -> None:
    early = [Said(at, "The anchor is rusty." if at == 3 else "It rained.", group=str(at)) for at in range(50)]
    late = [Said(at, "The anchor is rusty." if at == 47 else "It rained.", group=str(at)) for at in range(50)]
    first, other = (Ranking(indexed(said), "anchor").hits[0] for said in (early, late))
    assert (first.number, other.number) == (3, 47)
    assert first.score == other.score


def test_a_candidate_scan_keeps_the_best_hits() -> None:
    said, answers = small_talk(3000)
    index = indexed(said)
    for question, number in answers.items():
        assert number in [hit.number for hit in Ranking(index, question).hits[:8]], question


def test_chinese_text_is_found() -> None:
    said = [Said(0, "今天下雨了。"), Said(1, "我的护照在里斯本丢了。"), Said(2, "我们去喝茶吧。")]
    assert best(said, "护照在哪里丢的？") == 1


def test_every_feature_has_a_weight_and_stays_small() -> None:
    said, answers = small_talk(100)
    index = indexed(said)
    seen = set()
    for question in [*answers, "Which book, how many, where, when in January 1970?", "my brothers' painters"]:
        evidence = FeatureMatrix(index, question)
        seen |= {*evidence.names}
        assert evidence.scan.layout.passages == len(said)
        for name in evidence.names:
            assert all(0 <= value <= 8 for value in evidence.row(name)[evidence.scan.layout.slots]), name
    assert seen <= set(WEIGHTS) == set(LONG)


def test_long_texts_use_the_weights_for_long_texts() -> None:
    short, long = indexed([Said(0, "tea " * 5)]), indexed([Said(0, "tea " * 60)])
    assert weights_for(short)[0] == WEIGHTS
    assert weights_for(long)[0] == LONG


@pytest.mark.parametrize("messages", [1000, 9000])
def test_a_long_session_has_few_candidates(messages: int) -> None:
    index = Index()
    for number in range(messages):
        role = ("user", "assistant")[number % 2]
        index.add(number, f"Always boil the tea for {number % 97} minutes, then wait.{' On and on.' * 9}", role=role)
    evidence = FeatureMatrix(index, "How many minutes does the tea boil? 7 or 90?")
    assert 90 <= evidence.scan.layout.passages <= (90 + 60) * 9
    assert len(Ranking(index, "tea").hits) <= 300


@given(st.lists(st.sampled_from(TOLD), min_size=1, max_size=40), st.sampled_from(TOLD), st.integers(1, 9))
def test_relevant_hits_are_the_best_related_ones(told: list[str], query: str, limit: int) -> None:
    index = indexed([Said(at, text, group=str(at // 7)) for at, text in enumerate(told)])
    ranking = Ranking(index, query)
    ranking.follow(lambda number, _: told[number])
    hits, related, margin = ranking.hits, ranking.related(), weights_for(index)[1]
    assert [hit.number for hit in hits[:limit]] == ranking.best_numbers(limit)
    assert related == [hit for hit in hits if hit in related]
    least = max(0.0, *[hit.score for hit in hits]) - margin
    assert ranking.relevant(limit) == [hit for hit in related if hit.score >= least][:limit]
    assert all(ranking.reasons(related))


def test_only_the_start_of_a_very_long_query_is_read() -> None:
    index = indexed([Said(at, "We went sailing.", group=str(at), time=MAY_8 + at * 31 * DAY) for at in range(4)])
    asked = "sailing " * 3000
    assert Ranking(index, f"{asked} in June 2023? {'word ' * 200_000}").hits == Ranking(index, asked).hits


def test_a_long_query_is_ranked_fast() -> None:
    said, _ = small_talk(1500)
    index = indexed(said)
    asked = " ".join(f"{each.text} word{each.number}" for each in said)
    start = time.process_time()
    assert Ranking(index, asked).hits
    assert time.process_time() - start < 1


def test_a_long_query_uses_its_rarest_words() -> None:
    said, answers = small_talk(200)
    evidence = FeatureMatrix(indexed(said), " ".join(each.text for each in said))
    question = "How many beehives does Irma keep?"
    assert evidence.row("words")[evidence.scan.layout.slots[answers[question]]] > 0
    assert sum(kind == OWN for _, _, _, kind in evidence.entries) == 40


def test_dates_in_queries_are_parsed() -> None:
    assert dates_in("What happened in May?").months == {5}
    assert dates_in("What may happen?").months == set()
    assert dates_in("On 3 June 2021").days == {(6, 3)}
    assert dates_in("On June 3rd").days == {(6, 3)}
    assert dates_in("Am 7. März").days == {(3, 7)}
    assert dates_in("2023年5月8日").days == {(5, 8)}
    assert dates_in("2023-13-01 0000-00-00").months == set()
    assert dates_in("30 February").nearness(MAY_8) == (0.0, 0.0)
    assert dates_in("8 May 2023").nearness(MAY_8) == (1.0, 1.0)
    assert dates_in("8 May 2022").nearness(MAY_8) == (0.0, 0.0)
