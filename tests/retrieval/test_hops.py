"""Hits that lead to others: the second hop, the pair of question and answer, and what a kind of thing is called."""

from ctxwrap.retrieval.features import FeatureMatrix
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.selection import select_passages
from tests.retrieval.conversations import FILLERS, Said, indexed


def talk(*told: str, apart: int = 9) -> list[Said]:
    """The texts with small talk between them, each in a session of its own."""
    said: list[Said] = []
    for group, text in enumerate(told):
        said += [Said(len(said) + at, FILLERS[at], group=str(group)) for at in range(apart)]
        said.append(Said(len(said), text, group=str(group)))
    return said


def ranked(said: list[Said], query: str, *, follows: bool = True) -> list[int]:
    ranking = Ranking(indexed(said), query)
    if follows:
        ranking.follow(lambda number, _: said[number].text)
    return [hit.number for hit in ranking.hits]


MARRIED = "My schoolmate Oona married somebody from Trieste."
WORKS = "The one from Trieste whom I mentioned works as a surveyor."


def test_what_the_best_hit_names_is_followed() -> None:
    said = talk(MARRIED, WORKS)
    question = "What does the spouse of Oona do?"
    assert ranked(said, question)[0] == 9
    assert ranked(said, question).index(19) < ranked(said, question, follows=False).index(19)
    ranking = Ranking(indexed(said), question)
    ranking.follow(lambda number, _: said[number].text)
    assert "hop" in ranking.reasons([next(hit for hit in ranking.hits if hit.number == 19)])[0]


def test_a_fact_told_in_two_places_is_found_in_both() -> None:
    said = [each._replace(group=str(each.number)) for each in talk(MARRIED, "It is late.", WORKS, "It is cold.")]
    index = indexed(said)
    ranking = Ranking(index, "What does the spouse of Oona do?")
    ranking.follow(lambda number, _: said[number].text)
    made = select_passages(index, ranking, lambda number, _: said[number].text, 60, lambda text: len(text) // 4)
    assert {9, 29} <= {each.number for each in made.chosen}


def test_a_hit_whose_text_is_gone_is_not_followed() -> None:
    ranking = Ranking(indexed(talk(MARRIED, WORKS)), "What does the spouse of Oona do?")
    before = ranking.hits
    ranking.follow(lambda *_: None)
    assert ranking.hits == before


def test_a_common_word_leads_nowhere() -> None:
    said = [Said(at, f"The tram number {at} was late.", group=str(at)) for at in range(40)]
    said.append(Said(40, "Oona missed the tram.", group="40"))
    assert ranked(said, "Oona") == ranked(said, "Oona", follows=False)


def test_the_answer_comes_with_its_question() -> None:
    said = talk("The sea is calm.", "Which dentist did Oona recommend?", apart=6)
    said.append(Said(len(said), "The lady above the chemist's near the old bridge.", group="1"))
    assert {*ranked(said, "Which dentist did Oona recommend for me?")[:2]} == {13, 14}


def test_a_short_answer_brings_its_question() -> None:
    said = talk("The sea is calm.", "Shall we meet then?", apart=6)
    said += [Said(len(said), "At Oona's.", group="1"), Said(len(said) + 1, FILLERS[7], group="1")]
    assert {*ranked(said, "Was something at Oona's?")[:2]} == {13, 14}


def test_a_kind_of_thing_finds_what_belongs_to_it() -> None:
    said = talk("I signed up for a pottery class.", "The laundry is still wet.")
    assert ranked(said, "Which hobbies do I have?")[0] == 9
    said = talk("I purchased a lamp.", "The laundry is still wet.")
    assert ranked(said, "What did I buy?")[0] == 9


def test_what_all_say_does_not_speak_against_them() -> None:
    said = [Said(at, "My birthday concert was lovely.", group=str(at)) for at in range(3)]
    evidence = FeatureMatrix(indexed(said), "Which event was it?")
    assert all(evidence.row("words")[evidence.scan.layout.slots] > 0)
