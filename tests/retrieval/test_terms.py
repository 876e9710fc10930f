"""Identifiers, compounds and dates: found in whatever way a question writes them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.language.dates import relative_spans
from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.ranking import Ranking
from ctxwrap.retrieval.terms import day_terms, search_terms
from tests.retrieval.conversations import Said, indexed

NOW = int(datetime(2024, 3, 28, 12, tzinfo=UTC).timestamp())
"""A Thursday."""

DAY = 86_400


def best(index: Index, query: str) -> int:
    return Ranking(index, query, now=NOW).hits[0].number


def among(*others: str, told: str) -> Index:
    said = [*others, told, "Good morning, how are you?", "The tram was late again."]
    return indexed([Said(at, text, group=str(at)) for at, text in enumerate(said)])


@pytest.mark.parametrize(
    "question", ["parse user config", "the user config parser", "parseUserConfig", "parse_user_config"]
)
@pytest.mark.parametrize("told", ["parseUserConfig", "parse_user_config", "PARSE_USER_CONFIG", "ParseUserConfig"])
def test_an_identifier_is_found_by_its_parts_and_as_a_whole(question: str, told: str) -> None:
    index = among("The user is away.", "A new config is there.", "We parse dates.", told=f"`{told}()` raises an error.")
    assert best(index, f"What is wrong with {question}?") == 3


def test_acronyms_in_identifiers_are_parts() -> None:
    assert {"http", "respons", "gethttprespons"} <= set(search_terms("getHTTPResponse"))
    assert "maxretrycount" in search_terms("max_retry_count")
    assert search_terms("maxRetryCount")[0] == "maxretrycount"


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("Die Heizungswartung kostet 80 Euro.", "Was kostet die Wartung der Heizung?"),
        ("Die Wartung der Heizung kostet 80 Euro.", "Was kostet die Heizungswartung?"),
        ("Der Fensterrahmen ist morsch.", "Was ist mit dem Rahmen am Fenster?"),
        ("Für die Lampenreparatur sorgt Frau Yilmaz.", "Wer macht die Reparatur der Lampe?"),
    ],
)
def test_a_compound_is_found_by_its_parts_and_the_parts_by_it(told: str, question: str) -> None:
    index = among("Das Auto war teuer.", "Die Küche ist neu.", "Der Garten blüht.", told=told)
    assert best(index, question) == 3


def test_compounds_are_found_in_every_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxwrap.retrieval.index.SIZE", 4)
    index = among(*["Es regnet in Kassel."] * 9, told="Die Pumpenwartung ist fällig.")
    assert best(index, "Wartung der Pumpe") == 9
    index.add(50, "Die Dachwartung steht auch an.")
    assert Ranking(index, "Wartung").hits[0].number == 50


def span(first: str, last: str) -> tuple[int, int]:
    days = [int(datetime.fromisoformat(each).replace(tzinfo=UTC).timestamp()) // DAY for each in (first, last)]
    return days[0], days[1]


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        ("what did i say yesterday", "2024-03-27", "2024-03-27"),
        ("last tuesday", "2024-03-26", "2024-03-26"),
        ("last thursday", "2024-03-21", "2024-03-21"),
        ("next friday", "2024-03-29", "2024-03-29"),
        ("five days ago", "2024-03-23", "2024-03-23"),
        ("two weeks ago", "2024-03-11", "2024-03-17"),
        ("a couple of weeks ago", "2024-03-11", "2024-03-17"),
        ("last week", "2024-03-18", "2024-03-24"),
        ("last month", "2024-02-01", "2024-02-29"),
        ("letzten dienstag", "2024-03-26", "2024-03-26"),
        ("vor drei wochen", "2024-03-04", "2024-03-10"),
        ("hace dos días", "2024-03-26", "2024-03-26"),
        ("il y a deux semaines", "2024-03-11", "2024-03-17"),
        ("mardi dernier", "2024-03-26", "2024-03-26"),
        ("两周前", "2024-03-11", "2024-03-17"),
        ("上个月", "2024-02-01", "2024-02-29"),
    ],
)
def test_relative_dates_become_days(said: str, first: str, last: str) -> None:
    assert relative_spans(said, NOW) == [span(first, last)]


@given(
    st.sampled_from(
        ["yesterday", "last Tuesday", "two days ago", "vorgestern", "昨天", "on 3 May", "2023-05-08", "7.3.2024"]
    ),
    st.text("bcd_.é \n"),
    st.text("bcd_.é \n"),
)
def test_days_are_found_wherever_they_are_named(said: str, before: str, after: str) -> None:
    assert day_terms(f"{before} . {said} . {after}", NOW) == day_terms(said, NOW) != ()


def test_what_is_no_relative_date_has_no_day() -> None:
    assert relative_spans("the kitten is two weeks old and the last one was a week of rain", NOW) == []


@pytest.mark.parametrize("messages", [60, 3000])
def test_a_message_is_found_by_when_it_was_said(messages: int) -> None:
    at = NOW - 14 * DAY
    said = [
        Said(
            number,
            f"We had soup with {number} guests.",
            group=str(number // 4),
            time=NOW - (messages - number) * DAY // 4,
        )
        for number in range(messages)
    ]
    hits = Ranking(indexed(said), "What did we eat two weeks ago?", now=NOW).hits[:8]
    assert all(abs(said[hit.number].time - at) <= 4 * DAY for hit in hits)


def test_a_message_is_found_by_the_day_it_speaks_of() -> None:
    said = [
        Said(number, text, group=str(number), time=NOW - 20 * DAY)  # 8 March 2024, a Friday
        for number, text in enumerate(["She came back today.", "He came back last Tuesday.", "They came back."])
    ]
    assert best(indexed(said), "Who came back on 5 March?") == 1
