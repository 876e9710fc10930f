"""Packs: never over the budget, nothing twice, in the order it was said."""

from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.selection import Lines, PassageSelection, choose_passages, select_passages
from tests.retrieval.conversations import DAY, Said, indexed, small_talk


def count(text: str) -> int:
    return (len(text.encode()) + 3) // 4


def packed(said: list[Said], query: str, budget: int) -> PassageSelection:
    index = indexed(said)
    texts = {each.number: passages(each.text) for each in said}
    return select_passages(index, Ranking(index, query), lambda number, part: texts[number][part], budget, count)


def test_no_budget_is_exceeded() -> None:
    said, answers = small_talk(80)
    index = indexed(said)
    for question in answers:
        ranking = Ranking(index, question)
        for budget in range(300):
            made = select_passages(index, ranking, lambda number, _: said[number].text, budget, count)
            assert count(made.text) == made.tokens <= budget


@given(st.lists(st.text(max_size=60), max_size=12), st.text(max_size=20), st.integers(0, 120))
def test_no_budget_is_exceeded_by_any_text(texts: list[str], query: str, budget: int) -> None:
    said = [Said(at, text, group=str(at // 3), time=at * DAY * (at % 2)) for at, text in enumerate(texts)]
    index = indexed(said)
    made = select_passages(index, Ranking(index, query), lambda number, _: texts[number], budget, len)
    assert len(made.text) == made.tokens <= budget


def test_passages_are_rendered_in_order_under_their_day() -> None:
    said = [
        Said(0, "The boat is red.", speaker="Irma", group="a", time=DAY),
        Said(1, "It rained.", speaker="Otto", group="a", time=DAY),
        Said(2, "The boat leaks.\n## 1970-01-09\nIrma: no", speaker="Otto", group="b", time=3 * DAY),
    ]
    assert packed(said, "boat", 100).text == (
        "## 1970-01-02\nIrma: The boat is red.\nOtto: It rained.\n"
        "## 1970-01-04\nOtto: The boat leaks.\n  ## 1970-01-09\n  Irma: no\n"
    )


def test_nearly_equal_passages_are_rendered_once() -> None:
    said = [Said(at, f"The red boat leaks at the bow{'!' * at}", group=str(at)) for at in range(4)]
    made = packed(said, "boat", 100)
    assert [each.number for each in made.chosen] == [3]
    assert {each.reasons for each in made.missed} == {("nearly the same is there",)}


def test_a_passage_that_adds_no_word_comes_after_one_that_does() -> None:
    texts = (
        "The boat leaks at the pier in calm weather.",
        "The boat leaks at the bow in calm weather.",
        "The boat lies at the pier behind the yard.",
        "Something about the boat: we painted it green last summer, against the salt.",
    )
    said = [Said(at, text, group=str(at)) for at, text in enumerate(texts)]
    assert {each.number for each in packed(said, "boat", 56).chosen} == {1, 2, 3}
    assert {each.number for each in packed(said, "boat", 200).chosen} == {0, 1, 2, 3}


def test_every_passage_names_its_reasons() -> None:
    said, answers = small_talk(100)
    question = "How many beehives does Irma keep?"
    made = packed(said, question, 60)
    assert made.chosen[0].number == answers[question]
    assert {"words", "around", "figure"} & set(made.chosen[0].reasons)
    assert made.missed
    assert all(each.reasons for each in made.missed)
    scores = [each.score for each in made.chosen]
    assert scores == sorted(scores, reverse=True)


def test_passages_without_text_are_left_out() -> None:
    index = indexed([Said(0, "The boat is red."), Said(1, "The boat is fast.")])
    made = select_passages(
        index, Ranking(index, "boat"), lambda number, _: None if number else "The boat is red.", 99, count
    )
    assert [each.number for each in made.chosen] == [0]


def assistant_chat() -> list[Said]:
    """A user with short questions, a model with long answers."""
    said: list[Said] = []
    for at in range(40):
        asked = {4: "Always give distances in nautical miles.", 9: "My boat is moored in Kotor."}.get(at)
        said.append(Said(2 * at, asked or f"How do I varnish plank number {at}?", group=str(at)))
        steps = " ".join(
            f"Then sand plank {at} with grit {grit} until the varnish of the boat is smooth." for grit in range(40)
        )
        said.append(Said(2 * at + 1, f"Certainly. {steps}", role="assistant", group=str(at)))
    return said


def test_user_passages_come_first_where_a_model_writes_long_answers() -> None:
    said = assistant_chat()
    assert indexed(said).answers_at_length
    assert not indexed(small_talk(40)[0]).answers_at_length
    made = packed(said, "Where is my boat moored?", 400)
    chosen = [each.number for each in made.chosen]
    assert 18 in chosen, "what the user said of it"
    assert 8 in chosen, "a standing instruction that has no word of the question"
    tokens = sum(count(each.text) for each in made.chosen if each.number % 2)
    assert 0 < tokens <= 0.4 * 400, "and some of the answers"


def test_passages_of_one_message_are_packed_by_themselves() -> None:
    index, text = Index(), "Nothing of note. " * 60 + "The key lies under the flowerpot. " + "And so on. " * 90
    index.add(0, text)
    made = select_passages(index, Ranking(index, "the key"), lambda _, part: passages(text)[part], 160, count)
    assert "flowerpot" in made.text
    assert len(made.text) < len(text)


def test_kept_lines_choose_the_same_as_new_ones() -> None:
    said, answers = small_talk(60)
    index = indexed(said[:30])
    texts = {each.number: passages(each.text) for each in said}

    def text_of(number: int, part: int) -> str:
        return texts[number][part]

    kept = Lines(index, text_of, count)
    for each, question in zip(said[30:], cycle(answers), strict=False):
        index.add(each.number, each.text, role=each.role, speaker=each.speaker, group=each.group, time=each.time)
        for budget in (40, 300):
            ranking = Ranking(index, question)
            assert choose_passages(kept, ranking, ranking.hits, budget) == choose_passages(
                Lines(index, text_of, count), ranking, ranking.hits, budget
            )
