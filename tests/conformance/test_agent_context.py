"""Agent Context: the lifecycle, its thirteen objects, all kinds of context, and who may see what."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import openai
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.conformance.envelope import SCHEMAS
from ctxwrap.export.evidence import Evidence, envelope_of
from ctxwrap.export.evidence.vocabulary import TARGETS, ContextKind
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.testing.practice.answer import ToolCall
from tests.support import Told, item, lines, state_shown, trailer

KINDS = [
    "user_message",
    "system_prompt",
    "developer_instruction",
    "session_history",
    "thread_summary",
    "working_memory",
    "durable_memory",
    "knowledge_pack_item",
    "document_excerpt",
    "file_excerpt",
    "artifact_ref",
    "tool_result",
    "browser_state",
    "runtime_state",
    "team_memory",
    "policy_note",
    "external_resource",
    "manual_note",
    "computed_summary",
    "peer_agent_message",
    "retrieval_result",
    "custom",
]
OFFERED = ("knowledge_pack_item", "document_excerpt", "browser_state", "team_memory", "external_resource")
VISIBILITY = ("model", "tool", "runtime", "ui", "user", "reviewer", "peer_agent", "evidence_export")
LIFECYCLE = [
    "surface.created",
    "selection.started",
    "selection.completed",
    "budget.applied",
    "assembly.created",
    "injection.applied",
]
OBJECTS = {
    "context_envelope": "envelopes",
    "context_surface": "surfaces",
    "context_item": "items",
    "context_source_ref": "source_refs",
    "context_selection": "selections",
    "context_budget": "budgets",
    "context_window": "windows",
    "context_assembly": "assemblies",
    "context_injection": "injections",
    "context_compaction": "compactions",
    "context_summary": "summaries",
    "missing_context": "missing_context",
    "context_event": "events",
}


class Writer:
    """Writes summaries without a model."""

    model, every, max_tokens = "practice", 2, 200

    def ask(self, rules: str, texts: str) -> str:
        return "They spoke about bread."


@pytest.fixture(autouse=True)
def _offers_end_with_the_test() -> Iterator[None]:
    with ctxwrap.using():
        yield


@pytest.fixture
def chat(provider: Provider, home: Path, tmp_path: Path) -> Any:
    """A session that had a system prompt, tools, files, offers, a child, a summary and an open question."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.md").write_text("A file.")
    (files / "working-set.yml").write_text("files: [{path: a.md, priority: 0.9}, {path: gone.md, priority: 0.9}]\n")
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    settings: dict[str, Any] = {"store": home, "session": "s", "summariser": Writer()}
    first: Any = ctxwrap.wrap(bare, **settings)
    client: Any = ctxwrap.wrap(bare, **settings, working_set=str(files / "working-set.yml"))

    def ask(*said: Any, answer: Any = None, client: Any = client) -> Any:
        provider.answer = answer or Told()
        sent = [{"role": "user", "content": each} if isinstance(each, str) else each for each in said]
        return client.chat.completions.create(model="gpt-4o", messages=sent)

    def remembering(asked: Ask) -> Answer:
        state = {**state_shown(asked), "missing": [{"question": "Which flour?", "severity": "low"}]}
        state["memory"] = {"core": [item("c-1")], "working": [item("w-1")], "ephemeral": []}
        return Answer(f"Noted.\n\n<<<CONTEXT>>>\n{json.dumps(state)}")

    ask({"role": "system", "content": "Be kind."}, "I bake bread.", answer=remembering, client=first)
    ask("Go on.", answer=lambda asked: Answer("Fine." + trailer(asked, [item("w-2")])))
    ctxwrap.flush()
    call = ToolCall("call-1", "lookup", "{}")
    said: list[Any] = [{"role": "user", "content": "Look it up."}]
    said.append(ask(*said, answer=lambda _: Answer("", tool_calls=(call,))).choices[0].message.model_dump())
    for kind in OFFERED:
        ctxwrap.offer(kind, f"text of {kind}", session="s", source=f"{kind}.txt")
    ask(*said, {"role": "tool", "tool_call_id": "call-1", "content": "It is rye."})
    ctxwrap.flush()
    return ask


def exported(home: Path, target: str = "model", turn: int | None = None) -> Evidence:
    return envelope_of("s", turn=turn, target=target, store=home)


def test_context_kinds_are_the_documents() -> None:
    assert list(get_args(ContextKind)) == KINDS


def test_every_kind_that_callers_have_can_be_made_by_a_call(chat: Any, home: Path) -> None:
    evidence = exported(home)
    found = {each.context_kind: each for each in evidence.items}
    assert {*OFFERED, "user_message", "system_prompt", "developer_instruction", "session_history"} <= set(found)
    assert {"working_memory", "durable_memory", "file_excerpt", "tool_result", "runtime_state"} <= set(found)
    for kind in OFFERED:
        assert evidence.contents[found[kind].content_ref or ""] == f"text of {kind}"
        assert found[kind].trust_level == "file"


def test_lifecycle_stages_leave_events_in_their_order(chat: Any, home: Path) -> None:
    told = [each.event_type.removeprefix("context.") for each in exported(home, turn=1).events]
    places = [told.index(name) for name in LIFECYCLE]
    assert places == sorted(places)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_exported_as_the_published_schemas_ask(chat: Any, home: Path, name: str) -> None:
    records = json.loads(exported(home).as_bytes())[OBJECTS[name]]
    assert records, f"the session has no {name}"
    for record in records if name in SCHEMAS else ():
        assert [*Draft202012Validator(SCHEMAS[name]).iter_errors(record)] == []


def test_selected_and_omitted_are_all_candidates(chat: Any, home: Path) -> None:
    for selection in exported(home).selections:
        omitted = [each.item_ref for each in selection.omitted_item_refs]
        assert sorted([*selection.selected_item_refs, *omitted]) == sorted(selection.candidate_item_refs)
        assert all(each.reason for each in selection.omitted_item_refs)


def test_missing_context_lists_files_and_questions(chat: Any, home: Path) -> None:
    told = " ".join(each.question for each in exported(home).missing_context)
    assert "gone.md" in told


def test_visibility_targets_are_the_documents() -> None:
    assert TARGETS == VISIBILITY


@pytest.mark.parametrize("target", VISIBILITY)
def test_item_for_one_target_is_hidden_from_other_targets(provider: Provider, home: Path, target: str) -> None:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    client: Any = ctxwrap.wrap(bare, store=home, session="s")
    ctxwrap.offer("browser_state", "the page", session="s", visibility=[target])
    reply = client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hello?"}])
    assert ("the page" in json.dumps(provider.seen[-1].json)) == (target == "model")
    handed = {other for other in VISIBILITY if ctxwrap.resources_for(other, reply)}
    assert handed == {target} - {"model"}
    told = {other for other in VISIBILITY if "the page" in exported(home, other).as_bytes().decode()}
    assert told <= {target}
    assert told or target != "model"


def test_children_results_are_peer_messages(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    client: Any = ctxwrap.wrap(bare, store=store, session="s")
    said = [{"role": "user", "content": "Hello?"}]
    client.chat.completions.create(model="gpt-4o", messages=said)
    start_child("s", "baker", handoff="Bake.", store=store)
    attach_result("s", "baker", result="It is baked.", store=store)
    client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "And?"}])
    (found,) = [each for each in exported(home).items if each.context_kind == "peer_agent_message"]
    assert exported(home).contents[found.content_ref or ""].strip() == "It is baked."


def test_exported_envelope_can_be_imported(chat: Any, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_bytes(exported(home, "reviewer").as_bytes())
    there = tmp_path / "there"
    result = CliRunner().invoke(main, ["import", str(path), "--store", str(there)])
    assert result.exit_code == 0, result.output
    again = envelope_of("s", target="reviewer", store=there)
    assert again.as_bytes() == path.read_bytes()
    assert not lines(there, "s", "messages")
