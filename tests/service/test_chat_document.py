"""The document of a chat of sixty turns, with and without snapshots of the model's, judged by hand."""

from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.documents.document import LONGEST
from ctxwrap.documents.sections import sections_of
from ctxwrap.service.memories import Memories
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.documents.chat import TURNS, Turn
from tests.support import asks_for_trailer, trailer


class _Model:
    """Answers as the chat has it; with a snapshot of all that it was told to remember, or without any."""

    def __init__(self, has_snapshots: bool) -> None:
        self._turns = iter(TURNS)
        self._has_snapshots = has_snapshots
        self._items: list[dict[str, Any]] = []

    def __call__(self, ask: Ask) -> Answer:
        turn = next(self._turns)
        self._items += [self._item(type, content) for type, content in turn.remembered]
        tells = self._has_snapshots and bool(self._items) and asks_for_trailer(ask.system)
        return Answer(turn.assistant + (trailer(ask, self._items) if tells else ""))

    def _item(self, type: str, content: str) -> dict[str, Any]:
        return {"id": f"m-{content[:20]}", "type": type, "decay": 0.2, "round": 1, "tags": [], "content": content}


@pytest.fixture(scope="module", params=[False, True], ids=["without snapshots", "with snapshots"])
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return _document(TURNS, request.param, tmp_path_factory.mktemp("chat"))


def _document(turns: tuple[Turn, ...], has_snapshots: bool, home: Path) -> dict[str, list[str]]:
    """The lines of the chat's document, by section."""
    with Provider() as provider:
        provider.answer = _Model(has_snapshots)
        made = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        with ctxwrap.wrap(made, session="s", store=home, derive="inline") as chat:
            for turn in turns:
                said: Any = [{"role": "user", "content": turn.user}]
                chat.chat.completions.create(model="gpt-4o", messages=said)
    text = Memories(home).get_context("s").content
    assert len(text) <= LONGEST
    return {each.name: [unit for unit in each.units if unit.strip()] for each in sections_of(text)}


def test_document_lists_participants(document: dict[str, list[str]]) -> None:
    assert document["Participants"] == [
        "- Priya Nair – user",
        "- Tom Becker – leads engineering",
        "- Aisha – does design",
        "- Dana – our lawyer",
    ]


def test_document_lists_decisions(document: dict[str, list[str]]) -> None:
    for wanted in ("PostgreSQL instead of MongoDB", "beta terms", "ire Ines"):
        assert sum(wanted in line for line in document["Decisions"]) >= 1
    assert not [line for line in document["Decisions"] if "Paul" in line or "blue" in line]
    assert len(document["Decisions"]) <= 4


def test_document_closes_finished_tasks(document: dict[str, list[str]]) -> None:
    opened = [line for line in document["Tasks"] if line.startswith("- [ ]")]
    closed = [line for line in document["Tasks"] if line.startswith("- [x]")]
    assert ["banners" in line for line in opened] == [True]
    assert len(closed) == 2
    assert "press kit" in closed[0]
    assert "roadmap" in closed[1]


def test_document_strikes_through_an_outdated_date(document: dict[str, list[str]]) -> None:
    launch = [line for line in document["Timeline"] if line.partition(" (")[0].endswith("launch")]
    assert [line.startswith("- ~~2025-08-17~~ 2025-08-24 – The ") for line in launch] == [True]
    assert any("2025-08-29 – The launch party" in line for line in document["Timeline"])
    everything = [line for lines in document.values() for line in lines]
    assert not [line for line in everything if "2025-08-17" in line.replace("~~2025-08-17~~", "") or "17 Aug" in line]


def test_document_lists_facts_and_preferences(document: dict[str, list[str]]) -> None:
    lines = document["Facts"] + document["Preferences"]
    for wanted in ("allergic to peanuts", "45,000 EUR", "PW-20931", "British spelling", "one paragraph"):
        assert sum(wanted in line for line in lines) == 1
    assert not [line for line in lines if "40,000" in line]


def test_document_has_no_small_talk_inventions_or_guesses(document: dict[str, list[str]]) -> None:
    text = "\n".join(line for lines in document.values() for line in lines)
    for junk in ("Mel", "cat", "Biscuit", "hat", "Berlin", "tired", "Thank", "star", "weather", "logo", "joke"):
        assert junk not in text.replace("that", "")
    for invented in ("Ghent", "Ada", "Redbeard", "3 million", "work from home"):
        assert invented not in text
