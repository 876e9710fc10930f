"""The events that the stages of a call leave in the log."""

from pathlib import Path
from typing import Any, get_args

import pytest

import ctxwrap
from ctxwrap.evidence import envelope_of
from ctxwrap.evidence.integrity import checked
from ctxwrap.evidence.keeping import note_export
from ctxwrap.practice import Answer, Failure, Provider, within
from ctxwrap.practice.answer import ToolCall
from ctxwrap.stages.events import EventClass
from ctxwrap.stores.memory import MemoryStore
from tests.evidence.logs import KEY, Chat, working_set
from tests.support import Told, item, trailer


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def logged(store: Any) -> list[dict[str, Any]]:
    return [event for event in store.open(KEY).read("events")[0] if event["type"].startswith("context.")]


def classes(store: Any) -> list[str]:
    return [event["type"] for event in logged(store)]


PACKED = ["context.surface.created", "context.selection.started", "context.selection.completed"]
PACKED += ["context.budget.applied", "context.assembly.created"]


def test_a_call_leaves_the_events_of_its_stages_in_their_order(provider: Provider, store: MemoryStore) -> None:
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


def test_what_the_provider_calls_it_stands_in_events_and_in_no_message(provider: Provider, store: MemoryStore) -> None:
    call = ToolCall("call-7", "lookup", "{}")
    reply = Chat(provider, store).say("Look it up.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    applied = next(event for event in logged(store) if event["type"] == "context.injection.applied")
    told = applied["data"]["model_api"]
    assert (told["response_id"], told["tool_call_ids"]) == (reply.id, ["call-7"])
    assert told["input_tokens"] == reply.usage.prompt_tokens
    assert all(reply.id not in str(message) for message in store.open(KEY).read("messages")[0])


def test_a_smaller_request_updates_the_surface_and_only_it_was_taken(provider: Provider, store: MemoryStore) -> None:
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


def test_a_request_that_no_provider_took_is_not_injected(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    with pytest.raises(Exception, match="refused"):
        chat.say("Hello?", answer=lambda ask: Failure(401, "refused"))
    assert "context.assembly.created" in classes(store)
    assert "context.injection.applied" not in classes(store)
    assert checked(envelope_of("s", turn=1, store=store)).injections == ()


def test_no_stage_leaves_an_event_when_switched_off(provider: Provider, store: MemoryStore) -> None:
    Chat(provider, store, evidence=False).say("Hello.")
    assert classes(store) == []
    assert checked(envelope_of("s", turn=1, store=store)).injections  # what was packed and sent is told all the same


def test_a_session_can_have_every_class(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    asks = ctxwrap.Summariser(lambda *_: "Ada bakes.", every=2)
    manifest = working_set(tmp_path / "files", {"a.md": "what the house knows"})
    redaction = ctxwrap.Redaction(patterns=("emails",))
    settings = {"summariser": asks, "working_set": manifest, "redaction": redaction, "budget_messages": 0}
    chat = Chat(provider, store, **settings)
    chat.say("I am ada@example.com.", answer=lambda ask: Answer("So." + trailer(ask, [item("w-1"), item("w-2")])))
    ctxwrap.summarising.wait_for_summaries(60)
    other = [item("w-1", "other words")]
    chat.say("Rye.", answer=lambda ask: Answer("So." + trailer(ask, other, dropped=["w-2"])))
    chat.say("word " * 1400)
    chat.say("And now?", answer=within(1500, Told()))
    note_export(envelope_of("s", store=store), "s", store=store)
    missing = {each for each in get_args(EventClass) if each.startswith("context.missing.")}
    assert {*get_args(EventClass)} - {*classes(store)} == missing


def test_the_evidence_of_a_turn_has_the_events_of_the_log(provider: Provider, store: MemoryStore) -> None:
    Chat(provider, store).say("My name is Ada.", answer=lambda ask: Answer("Noted." + trailer(ask, [item("w-1")])))
    evidence = checked(envelope_of("s", turn=1, store=store))
    told = [event for event in logged(store) if not event["type"].startswith("context.missing.")]
    assert [(each.event_type, each.subject, each.time) for each in evidence.events[:-1]] == [
        (event["type"], event.get("subject", ""), event["ctx"]["time"]) for event in told
    ]
    assert evidence.events[-1].event_type == "context.exported"


def test_no_event_of_a_stage_holds_words_of_anybody(provider: Provider, store: MemoryStore) -> None:
    remembers = item("heliotrope-id", "heliotrope words")
    Chat(provider, store).say("heliotrope", answer=lambda ask: Answer("heliotrope" + trailer(ask, [remembers])))
    assert "heliotrope" not in str(logged(store))
