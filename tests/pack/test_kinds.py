"""The table of kinds: a kind that is one row behaves like the built-in ones, from the request to the evidence."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.errors import SettingsError
from ctxwrap.export.evidence import Evidence as Exported
from ctxwrap.export.evidence import envelope_of, faults_in
from ctxwrap.kinds import KINDS, NO_SHARE, EvidenceMapping, PackKind, Share, is_file
from ctxwrap.pack.receipt import items_in
from ctxwrap.protocol.instructions import blocks_in, boundary_of
from ctxwrap.session.opening import TEXT_SOURCES
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey, SourcedText, TurnRecord
from tests.support import Told, events, lines

SOURCE = "context/weather.md"
TEXT = "Rain over the harbour, says ada@example.com."
REDACTED = "Rain over the harbour, says [redacted:email]."
WEATHER = PackKind(
    name="weather",
    form="text",
    evidence=EvidenceMapping("external_resource", (("origin", "tool", "tool_result"),), signals={"coverage": 0.5}),
    share=Share("weather", 0.05),
    reason="the forecast for today",
    label="forecast",
    severity="medium",
    noun="the forecast",
    visibility=("model", "ui", "evidence_export"),
)


@dataclass
class Chat:
    provider: Provider
    home: Path
    texts: list[SourcedText]
    sent: str = ""

    def ask(self, **settings: Any) -> Any:
        def answer(ask: Ask) -> Answer:
            self.sent = "\n".join([ask.system, *(text for _, text in ask.messages)])
            return Told()(ask)

        self.provider.answer = answer
        bare = openai.OpenAI(api_key="x", base_url=self.provider.openai_url, max_retries=0)
        client: Any = ctxwrap.wrap(bare, store=self.home, session="s", derive="inline", **settings)
        return client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Sail today?"}])

    def turn(self, **settings: Any) -> TurnRecord:
        turn = ctxwrap.turn_of(self.ask(**settings))
        assert turn is not None
        return turn

    def file(self, name: str) -> str:
        return next(self.home.rglob(f"context/{name}")).read_text()

    def evidence(self, target: str = "evidence_export") -> Exported:
        found = envelope_of("s", turn=1, target=target, store=self.home)
        assert list(faults_in(found)) == []
        return found


@pytest.fixture
def chat(provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """A chat with one more kind, and a source with one text of it."""
    chat = Chat(provider, home, [SourcedText(SOURCE, TEXT, "tool")])
    monkeypatch.setitem(KINDS, "weather", WEATHER)
    monkeypatch.setitem(TEXT_SOURCES, "weather", lambda past, log, inputs: chat.texts)
    return chat


def test_item_of_a_new_kind_is_framed_and_redacted(chat: Chat) -> None:
    turn = chat.turn(redaction=ctxwrap.Redaction())
    (item,) = (item for item in turn.pack if item.kind == "weather")
    assert (item.included, item.reason, item.origin) == (True, "the forecast for today", "tool")
    assert turn.report.budget["spent"]["weather"] == item.tokens > 0
    background = chat.sent.partition("<ctxwrap-background>")[2].partition("</ctxwrap-background>")[0]
    (block,) = blocks_in(background, boundary_of(SessionKey("default", "default", "s")))
    assert block == ("context", SOURCE, REDACTED)


def test_item_of_a_new_kind_is_in_receipt_and_pack_files(chat: Chat) -> None:
    turn = chat.turn()
    (start,) = (event for event in lines(chat.home, "s", "events") if event["type"] == "start")
    assert items_in(start) == turn.pack
    shown = json.loads(chat.file("pack.json"))
    (item,) = (item for item in shown["items"] if item["kind"] == "forecast")
    assert item["reason"] == "the forecast for today"
    assert shown["budget"]["spent"]["weather"] == item["tokens"]
    assert "| forecast | context/weather.md |" in chat.file("pack.md")
    assert TEXT in chat.file("pack.md")


def test_item_of_a_new_kind_is_in_the_evidence_with_its_mapping(chat: Chat) -> None:
    chat.turn()
    evidence = chat.evidence()
    (item,) = (each for each in evidence.items if each.metadata["pack_kind"] == "weather")
    assert item.context_kind == "tool_result"
    assert (item.visibility, item.trust_level) == (WEATHER.visibility, "tool")
    assert evidence.contents[item.content_ref or ""] == TEXT
    assert evidence.selections[0].ranking_signals[item.item_id]["coverage"] == 0.5
    (source,) = (each for each in evidence.source_refs if each.source_id in item.source_refs)
    assert source.uri == "session:context/weather.md"
    (block,) = (each for each in evidence.assemblies[0].ordered_blocks if item.item_id in each.item_refs)
    assert TEXT in evidence.contents[block.content_ref or ""]


def test_evidence_term_of_a_new_kind_without_matching_variant(chat: Chat) -> None:
    chat.texts = [SourcedText(SOURCE, TEXT)]
    chat.turn()
    (item,) = (each for each in chat.evidence().items if each.metadata["pack_kind"] == "weather")
    assert item.context_kind == "external_resource"


def test_item_of_a_new_kind_is_hidden_from_other_targets(chat: Chat) -> None:
    reply = chat.ask()
    assert [each.text for each in ctxwrap.resources_for("ui", reply)] == [TEXT]
    assert ctxwrap.resources_for("reviewer", reply) == ()
    assert TEXT not in chat.evidence("reviewer").as_bytes().decode()


def test_visibility_rules_name_a_new_kind(chat: Chat) -> None:
    turn = chat.turn(visibility={"weather": ["reviewer"]})
    (item,) = (item for item in turn.pack if item.kind == "weather")
    assert (item.included, item.visibility, item.reason) == (False, ("reviewer",), "it is not for the model to see")
    assert "harbour" not in chat.sent
    assert turn.report.missing == (), "what is hidden on purpose is not missing"


def test_visibility_rules_may_not_hide_a_new_kind_that_is_required(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "weather", WEATHER._replace(is_required=True))
    with pytest.raises(SettingsError, match="must name the model"):
        ctxwrap.Settings(visibility={"weather": ["reviewer"]})


def test_item_beyond_the_share_of_a_new_kind_is_missing_context(chat: Chat) -> None:
    chat.texts = [SourcedText(SOURCE, "rain " * 400), SourcedText("context/wind.md", "wind " * 40)]
    turn = chat.turn(budget=4000)
    items = {item.source: item for item in turn.pack if item.kind == "weather"}
    assert items[SOURCE].reason.startswith("over budget")
    assert items["context/wind.md"].included
    assert 0 < turn.report.budget["spent"]["weather"] <= 0.05 * 4000
    (missing,) = turn.report.missing
    assert (missing.severity, missing.source) == ("medium", "session:context/weather.md")
    assert missing.question == "What does the forecast 'context/weather.md' say?"
    assert "context.missing.detected" in [event["type"] for event in events(chat.home, "s")]
    (omission,) = chat.evidence().selections[0].omitted_item_refs
    assert omission.reason == "budget_limit"
    assert chat.turn(budget=40_000).report.missing == (), "it fits now"


def test_long_text_of_a_new_kind_that_truncates_is_cut(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "weather", WEATHER._replace(truncates=True))
    chat.texts = [SourcedText(SOURCE, "rain\n" * 400)]
    turn = chat.turn(budget=4000)
    (item,) = (item for item in turn.pack if item.kind == "weather")
    assert item.included
    assert item.reason.startswith("truncated from")
    assert item.tokens <= 0.05 * 4000


def test_new_kind_of_offer_is_a_row(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    tide = KINDS["team_memory"]._replace(name="tide", evidence=EvidenceMapping("external_resource"))
    monkeypatch.setitem(KINDS, "tide", tide)
    with ctxwrap.using(session="s"):
        ctxwrap.offer("tide", "High at noon.", source="tables", visibility=["model", "evidence_export"])
        turn = chat.turn()
    assert "High at noon." in chat.sent
    (item,) = (item for item in turn.pack if item.kind == "tide")
    assert (item.included, item.source) == (True, "offer://tables")
    (shown,) = (each for each in chat.evidence().items if each.metadata["pack_kind"] == "tide")
    assert shown.context_kind == "external_resource"


def test_every_share_of_the_settings_is_of_a_kind() -> None:
    named = {row.share.name for row in KINDS.values() if row.share is not NO_SHARE}
    assert {field.name for field in fields(ctxwrap.Shares)} == named


def test_texts_stand_in_a_block_of_texts() -> None:
    assert {row.block for row in KINDS.values() if row.form == "text"} <= {"pinned", "background"}


def test_kinds_of_texts_have_a_source_each() -> None:
    assert TEXT_SOURCES.keys() == {row.name for row in KINDS.values() if row.form == "text"}


def test_only_texts_and_files_are_missing_context() -> None:
    """A turn without texts and files does not look for what its pack lacks."""
    missed = {row.form for row in KINDS.values() if row.severity is not None or is_file(row.name)}
    assert missed == {"text", "file", "offer"}
