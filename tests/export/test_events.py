"""The events of the stages of a call: made of its records, or in the log as well."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pytest

import ctxwrap
from ctxwrap.export.evidence import envelope_of
from ctxwrap.export.evidence.document import require_consistent
from ctxwrap.export.evidence.envelope import record_export
from ctxwrap.inspect.streams import numbered
from ctxwrap.inspect.turns import Stages
from ctxwrap.pack.receipt import STAGES, EventClass
from ctxwrap.session.purge import forget, purge
from ctxwrap.stores.log_format import turn_in
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Failure, Provider, within
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.turn.summariser import wait_for_summaries
from tests.export.logs import KEY, Chat, working_set
from tests.support import Told, item, trailer


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def logged(store: Any) -> list[dict[str, Any]]:
    """All that the log says of context, with what follows from its records."""
    events = numbered(store.open(KEY).read("events")[0])
    return [event for _, event in Stages("s").among(events) if event["type"].startswith("context.")]


def written(store: Any) -> list[dict[str, Any]]:
    return [event for event in store.open(KEY).read("events")[0] if event["type"] in STAGES]


def classes(store: Any) -> list[str]:
    return [event["type"] for event in logged(store)]


PACKED = ["context.surface.created", "context.selection.started", "context.selection.completed"]
PACKED += ["context.budget.applied", "context.assembly.created"]


def test_call_logs_stage_events_in_order(provider: Provider, store: MemoryStore) -> None:
    Chat(provider, store).say("My name is Ada.", answer=lambda ask: Answer("Noted." + trailer(ask, [item("w-1")])))
    assert classes(store) == [*PACKED, "context.injection.applied", "context.item.added"]


def test_every_event_names_session_turn_round_and_request(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    chat.say("One.")
    turn = ctxwrap.turn_of(chat.say("Two."))
    assert turn is not None
    own = [event for event in logged(store) if event["run"] == turn.id]
    ids = {(each["session_id"], each["turn_id"], each["task_id"], each["attempt_id"]) for each in own}
    assert ids == {("s", turn.id, "round-2", f"{turn.id}.1")}


def test_provider_ids_are_in_events_and_not_in_messages(provider: Provider, store: MemoryStore) -> None:
    call = ToolCall("call-7", "lookup", "{}")
    reply = Chat(provider, store).say("Look it up.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    applied = next(event for event in logged(store) if event["type"] == "context.injection.applied")
    told = applied["data"]["model_api"]
    assert (told["response_id"], told["tool_call_ids"]) == (reply.id, ["call-7"])
    assert told["input_tokens"] == reply.usage.prompt_tokens
    assert all(reply.id not in str(message) for message in store.open(KEY).read("messages")[0])


def test_smaller_retry_logs_a_surface_update_and_one_injection(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store, budget_messages=0)
    for _ in range(6):
        chat.say("word " * 400)
    chat.say("And now?", answer=within(2000, Told()))
    (turn,) = {event["turn_id"] for event in logged(store) if event["type"] == "context.surface.updated"}
    own = [event for event in logged(store) if event["turn_id"] == turn]
    assert [event["attempt_id"] for event in own if event["type"] == "context.assembly.created"] == [
        f"{turn}.1",
        f"{turn}.2",
    ]
    taken = {event["attempt_id"] for event in own if event["type"] == "context.injection.applied"}
    assert taken == {f"{turn}.2"}


def test_rejected_request_logs_no_applied_injection(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    with pytest.raises(Exception, match="refused"):
        chat.say("Hello?", answer=lambda ask: Failure(401, "refused"))
    assert "context.assembly.created" in classes(store)
    assert "context.injection.applied" not in classes(store)
    assert require_consistent(envelope_of("s", turn=1, store=store)).injections == ()


@pytest.mark.parametrize("evidence", ["project", False])
def test_stage_events_are_not_logged_by_default(provider: Provider, store: MemoryStore, evidence: Any) -> None:
    Chat(provider, store, evidence=evidence).say("Hello.")
    assert written(store) == []
    assert "context.injection.applied" in classes(store)
    assert require_consistent(envelope_of("s", turn=1, store=store)).injections


@pytest.mark.parametrize("evidence", ["log", True])
def test_stage_events_are_logged_when_settings_ask_for_them(
    provider: Provider, store: MemoryStore, evidence: Any
) -> None:
    Chat(provider, store, evidence=evidence).say("Hello.")
    assert written(store) == logged(store) != []


def test_invalid_evidence_setting_is_rejected() -> None:
    with pytest.raises(ctxwrap.errors.SettingsError, match="evidence"):
        ctxwrap.Settings(evidence="never")  # type: ignore[arg-type]


def many_kinds_of_turns(provider: Provider, store: MemoryStore, directory: Path, evidence: str) -> None:
    """What happens to context, once each; what is lacking, and that evidence leaves, is told by events alone."""
    asks = ctxwrap.Summariser(lambda *_: "Ada bakes.", every=2)
    manifest = working_set(directory, {"a.md": "what the house knows"})
    redaction = ctxwrap.Redaction(patterns=("emails",))
    settings = {"summariser": asks, "working_set": manifest, "redaction": redaction, "budget_messages": 0}
    visibility = {"working_set": ("tool", "model")}
    chat = Chat(provider, store, evidence=evidence, visibility=visibility, **settings)
    chat.say("I am ada@example.com.", answer=lambda ask: Answer("So." + trailer(ask, [item("w-1"), item("w-2")])))
    wait_for_summaries(60)
    other = [item("w-1", "other words")]
    chat.say("Rye.", answer=lambda ask: Answer("So." + trailer(ask, other, dropped=["w-2"])))
    tools = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}}]
    call = ToolCall("call-7", "lookup", "{}")
    reply = chat.say("Look it up.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)), tools=tools)
    assert ctxwrap.resources_for("tool", reply, tool_call_id="call-7")
    for mode in ("shadow", "readonly", "disabled"):
        chat.say("So?", context_mode=mode, answer=lambda ask: Answer("ada@example.com"))
    with pytest.raises(Exception, match="refused"):
        chat.say("Hello?", answer=lambda ask: Failure(401, "refused"))
    chat.say("My name is Ada.", answer=lambda ask: Answer("Hello Ada."))
    for _ in chat.say("A story.", stream=True):
        break
    chat.say("word " * 1400)
    chat.say("And now?", answer=within(1500, Told()))
    wait_for_summaries(60)
    forget("s", item="w-1", store=store)
    purge("s", message=1, store=store)


def without_stages(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] not in STAGES]


def apart_from_place(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what only the log gives to a record."""
    return [{**event, "ctx": (turn_in(event), event["ctx"]["time"])} for event in events]


def test_logged_stage_events_equal_the_events_derived_from_records(
    provider: Provider, store: MemoryStore, tmp_path: Path
) -> None:
    many_kinds_of_turns(provider, store, tmp_path / "files", "log")
    events = store.open(KEY).read("events")[0]
    projected = [event for _, event in Stages("s").among(numbered(without_stages(events)))]
    asked_for = [event for event in projected if "request" in event.get("data", {})]
    assert [event["data"]["request"] for event in asked_for] == ["forget", "forget", "purge"]
    assert apart_from_place(each for each in projected if each not in asked_for) == apart_from_place(events)
    assert {event["type"] for event in projected} >= STAGES - {"context.exported"}


def test_session_can_have_stage_events_of_every_class(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    asks = ctxwrap.Summariser(lambda *_: "Ada bakes.", every=2)
    manifest = working_set(tmp_path / "files", {"a.md": "what the house knows"})
    redaction = ctxwrap.Redaction(patterns=("emails",))
    settings = {"summariser": asks, "working_set": manifest, "redaction": redaction, "budget_messages": 0}
    chat = Chat(provider, store, **settings)
    chat.say("I am ada@example.com.", answer=lambda ask: Answer("So." + trailer(ask, [item("w-1"), item("w-2")])))
    wait_for_summaries(60)
    other = [item("w-1", "other words")]
    chat.say("Rye.", answer=lambda ask: Answer("So." + trailer(ask, other, dropped=["w-2"])))
    chat.say("word " * 1400)
    chat.say("And now?", answer=within(1500, Told()))
    record_export(envelope_of("s", store=store), "s", store=store)
    missing = {each for each in get_args(EventClass) if each.startswith("context.missing.")}
    assert {*get_args(EventClass)} - {*classes(store)} == missing


def test_the_evidence_of_a_turn_has_the_events_of_the_log(provider: Provider, store: MemoryStore) -> None:
    Chat(provider, store).say("My name is Ada.", answer=lambda ask: Answer("Noted." + trailer(ask, [item("w-1")])))
    evidence = require_consistent(envelope_of("s", turn=1, store=store))
    told = [event for event in logged(store) if not event["type"].startswith("context.missing.")]
    assert [(each.event_type, each.subject, each.time) for each in evidence.events[:-1]] == [
        (event["type"], event.get("subject", ""), event["ctx"]["time"]) for event in told
    ]
    assert evidence.events[-1].event_type == "context.exported"


def test_stage_events_contain_no_message_text(provider: Provider, store: MemoryStore) -> None:
    remembers = item("heliotrope-id", "heliotrope words")
    Chat(provider, store).say("heliotrope", answer=lambda ask: Answer("heliotrope" + trailer(ask, [remembers])))
    assert "heliotrope" not in str(logged(store))
