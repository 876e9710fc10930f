"""The acceptance scenarios of the standard, the cases of its runtime profile, and its failure cases: one test each."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import ctxwrap
from ctxwrap.errors import InvalidArchive
from ctxwrap.export.evidence import Evidence, envelope_of, faults_in
from ctxwrap.export.evidence.document import digest, require_consistent
from ctxwrap.export.evidence.objects import Compaction, Event, Item, Missing, Summary
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Failure, Provider
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.turn.summariser import wait_for_summaries
from tests.export.logs import FIXED, KEY, TIME, Chat, append, begin, done, entry, frame, say, working_set
from tests.support import Told, item, trailer

VERSION = {"schema_version": "0.1.1"}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def kinds(evidence: Evidence, ids: Any) -> list[str]:
    items = {each.item_id: each.context_kind for each in evidence.items}
    return [items[id] for id in ids]


def whole(store: Any, turn: int | None = None, target: str = "model") -> Evidence:
    """Evidence that holds together."""
    return require_consistent(envelope_of("s", turn=turn, target=target, store=store))


# --- acceptance scenarios -------------------------------------------------------------------------------


def test_scenario_1_turn_snapshot(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    manifest = working_set(tmp_path / "files", {"a.md": "what the house knows"})
    remembers = lambda ask: Answer("Noted." + trailer(ask, [item("w-1")], [item("c-1", tier="core")]))  # noqa: E731
    Chat(provider, store).say("My name is Ada.", answer=remembers)
    chat = Chat(provider, store, working_set=manifest)
    call = ToolCall("call-1", "lookup", "{}")
    said: list[Any] = [{"role": "user", "content": "Look it up."}]
    reply = chat.say(*said, answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    said.append(reply.choices[0].message.model_dump(exclude_none=True))
    said.append({"role": "tool", "tool_call_id": "call-1", "content": "what the tool gave"})
    chat.say(*said)
    evidence = whole(store, turn=3)
    (surface,), (selection,), (assembly,) = evidence.surfaces, evidence.selections, evidence.assemblies
    (budget,), (window,), injections = evidence.budgets, evidence.windows, evidence.injections
    selected = set(kinds(evidence, selection.selected_item_refs))
    assert {"user_message", "session_history", "working_memory", "durable_memory"} <= selected
    assert {"file_excerpt", "tool_result", "system_prompt", "runtime_state"} <= selected
    envelope = evidence.envelope
    assert (envelope.scope, envelope.lifecycle, envelope.budget_ref) == ("turn", "injected", budget.budget_id)
    assert envelope.surface_refs == (surface.surface_id,)
    assert envelope.assembly_refs == (assembly.assembly_id,)
    assert envelope.injection_refs == tuple(each.injection_id for each in injections)
    assert {each.injection_point for each in injections} == {
        "system_prompt",
        "message_history",
        "user_message_appendix",
    }
    assert set(selection.selected_item_refs) == set(assembly.source_item_refs)
    assert {ref for each in window.segments for ref in each.item_refs} == set(selection.selected_item_refs)
    tool = next(each for each in evidence.items if each.context_kind == "tool_result")
    assert evidence.contents[tool.content_ref or ""] == "what the tool gave"


def test_scenario_2_omitted_candidates_and_their_reasons(store: MemoryStore) -> None:
    say(store, ("user", "Which?"))
    snippets = [
        entry("retrieved", "messages.jsonl", at < 3, refs=[f"{at}.0"], reason="x" if at < 3 else "")
        for at in range(1, 6)
    ]
    snippets[3]["reason"], snippets[4]["reason"] = "over budget: 7 tokens, 3 left", "others are more to the point"
    begin(store, *FIXED, *snippets, conversation="1", found=[(1, 0, "", "user"), (2, 0, "", "user")])
    (selection,) = whole(store, 1).selections
    omitted = {each.reason for each in selection.omitted_item_refs}
    assert len(selection.candidate_item_refs) == 8
    assert len(selection.omitted_item_refs) == 3
    assert omitted == {"budget_limit", "low_relevance"}


def test_scenario_3_compaction_of_a_long_session(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    told = iter(["Ada bakes bread."] * 9)
    chat = Chat(provider, store, summariser=ctxwrap.Summariser(lambda *_: next(told), every=4))
    for said in ("I bake.", "Rye.", "At six."):
        chat.say(said)
        wait_for_summaries(60)
    chat.say("And now?")
    evidence = whole(store, turn=4)
    (compaction,), (summary,) = evidence.compactions, evidence.summaries
    (source,) = (each for each in evidence.items if each.item_id in compaction.source_item_refs)
    assert compaction.summary_ref == summary.summary_id
    assert evidence.contents[summary.content_ref or ""] == "Ada bakes bread."
    assert (compaction.coverage["first"], source.context_kind) == (1, "session_history")
    assert compaction.loss_notes
    assert compaction.replacement_policy == "sources_kept"
    assert "thread_summary" in kinds(evidence, evidence.selections[0].selected_item_refs)
    assert {"context.compaction.completed", "context.summary.created"} <= {each.event_type for each in evidence.events}
    assert len(whole(store).compactions) >= 1


def test_scenario_4_a_resource_for_a_tool_is_not_injected_into_the_model(store: MemoryStore) -> None:
    say(store, ("user", "Use it."))
    hidden = entry(
        "pinned", "context/pinned/key.md", False, visibility=["tool"], reason="it is not for the model to see"
    )
    begin(store, *FIXED, hidden, conversation="1")
    done(store)
    evidence = whole(store, 1)
    (resource,) = (each for each in evidence.items if each.visibility == ("tool",))
    (omission,) = evidence.selections[0].omitted_item_refs
    assert (omission.item_ref, omission.reason) == (resource.item_id, "not_visible_to_target")
    assert all(resource.item_id not in each.item_refs for each in evidence.injections)
    shown = _shown_to_a_tool(evidence, resource)
    assert list(faults_in(shown)) == []
    tool, model = shown.injections[-1], shown.injections[0]
    assert (tool.target, tool.injection_point) == ("tool", "tool_visible_resource")
    assert resource.item_id in tool.item_refs
    assert resource.item_id not in model.item_refs
    faults = " ".join(faults_in(_shown_to_a_tool(evidence, resource, target="model")))
    assert f"delivers '{resource.item_id}' to model, which may not see it" in faults


def _shown_to_a_tool(evidence: Evidence, resource: Item, target: str = "tool") -> Evidence:
    """What a runtime adds that hands a resource to a tool: a selection, an assembly and an injection of their own."""
    surface, selection = evidence.surfaces[0], evidence.selections[0]
    assembly, injection = evidence.assemblies[0], evidence.injections[0]
    block = assembly.ordered_blocks[0].model_copy(
        update={"block_id": "block-t", "item_refs": (resource.item_id,), "content_ref": None, "hash": None}
    )
    chosen = {"selection_id": "selection-t", "candidate_item_refs": (resource.item_id,), "omitted_item_refs": ()}
    chosen |= {"selected_item_refs": (resource.item_id,), "ranking_signals": {}, "surface_id": surface.surface_id}
    made = {"assembly_id": "assembly-t", "target": target, "ordered_blocks": (block,)}
    made |= {"source_item_refs": (resource.item_id,)}
    put = {"injection_id": "injection-t", "assembly_id": "assembly-t", "target": target, "block_refs": ("block-t",)}
    put |= {"item_refs": (resource.item_id,), "injection_point": "tool_visible_resource", "visibility": ("tool",)}
    envelope = evidence.envelope.model_copy(
        update={
            "selection_refs": (*evidence.envelope.selection_refs, "selection-t"),
            "assembly_refs": (*evidence.envelope.assembly_refs, "assembly-t"),
            "injection_refs": (*evidence.envelope.injection_refs, "injection-t"),
        }
    )
    return evidence.model_copy(
        update={
            "envelopes": (envelope,),
            "selections": (selection, selection.model_copy(update=chosen)),
            "assemblies": (assembly, assembly.model_copy(update=made)),
            "injections": (*evidence.injections, injection.model_copy(update=put)),
        }
    )


def test_scenario_5_a_missing_file(provider: Provider, store: MemoryStore, tmp_path: Path) -> None:
    manifest = working_set(tmp_path / "files", {"a.md": "here"}, {"gone.md": 1.0})
    chat = Chat(provider, store, working_set=manifest)
    chat.say("Go on.")
    (missing,) = whole(store, 1).missing_context
    assert (missing.severity, missing.status) == ("blocking", "open")
    assert missing.candidate_sources[0].uri == "workingset:gone.md"
    assert missing.blocked_actions
    assert missing.requested_from == "operator"
    (tmp_path / "files" / "gone.md").write_text("found again")
    chat.say("And now?")
    evidence = whole(store)
    (missing,) = evidence.missing_context
    resolution = next(each for each in evidence.items if each.item_id in missing.resolution_refs)
    assert missing.status == "resolved"
    assert evidence.contents[resolution.content_ref or ""].strip() == "found again"
    assert [each.event_type for each in evidence.events if each.subject == missing.missing_id] == [
        "context.missing.detected",
        "context.missing.resolved",
    ]
    assert whole(store, 1).missing_context[0].status == "open", "an envelope is a snapshot of its turn"


def test_scenario_6_redaction_of_a_selected_item(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    chat = Chat(provider, store)
    chat.say("The door code is 4711-0815-2342.")
    chat.say("Thanks!")
    ctxwrap.purge("s", message=1, store=store)
    evidence = whole(store, 2)
    (gone,) = (each for each in evidence.items if each.redaction_state == "removed" and each.freshness)
    (block,) = (each for each in evidence.assemblies[0].ordered_blocks if gone.item_id in each.item_refs)
    assert (gone.redaction_method, gone.policy_refs) == ("forgotten", ("policy:forgetting",))
    assert gone.item_id in evidence.selections[0].selected_item_refs
    assert (block.redaction_state, block.content_ref, block.hash) == ("removed", None, None)
    assert evidence.assemblies[0].redaction_state == "removed"
    assert any(each.event_type == "context.redaction.applied" for each in whole(store).events)


def test_scenario_7_runtime_linkage(provider: Provider, store: MemoryStore) -> None:
    reply = Chat(provider, store).say("Hello!")
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    evidence = whole(store, 1)
    for each in (evidence.envelope, *evidence.events):
        assert (each.session_id, each.thread_id) == ("s", "s")
        assert (each.turn_id, each.run_id, each.task_id) == (turn.id, turn.id, "round-1")
        assert each.context_id == evidence.envelope.context_id
    assert {(each.kind, each.id) for each in evidence.envelope.runtime_refs} >= {
        ("session", "s"),
        ("turn", turn.id),
        ("task", "round-1"),
    }
    assert envelope_of("s", turn=turn.id, store=store).envelope.context_id == evidence.envelope.context_id
    assert {each.native_id for each in evidence.injections} == {reply.id}


# --- the runtime profile --------------------------------------------------------------------------------


def test_actx_ar_id_001_ids_are_the_runtimes(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    turns = [ctxwrap.turn_of(chat.say(said)) for said in ("one", "two", "three")]
    envelopes = [each for each in whole(store).envelopes if each.scope == "turn"]
    assert sorted(each.turn_id for each in envelopes) == sorted(turn.id for turn in turns if turn)


def test_actx_ar_id_002_a_retry_keeps_what_the_first_attempt_was(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    for number in range(6):
        chat.say(f"Message {number}: " + "bread " * 60)
    told = Told()
    too_long = Failure(
        400,
        "This model's maximum context length is 600 tokens. However, your messages resulted in 1800 tokens.",
        code="context_length_exceeded",
    )
    answers = iter([lambda ask: too_long, told])
    reply = chat.say("And now?", answer=lambda ask: next(answers)(ask))
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.report.repacked
    evidence = whole(store, 7)
    first, second = evidence.selections
    assert evidence.envelope.attempt_id == f"{turn.id}.2"
    assert {each.id for each in evidence.envelope.runtime_refs if each.kind == "attempt"} == {
        f"{turn.id}.1",
        f"{turn.id}.2",
    }
    assert len(first.selected_item_refs) > len(second.selected_item_refs), "the first attempt is still there"
    assert {each.assembly_id for each in evidence.injections} == {evidence.assemblies[1].assembly_id}
    assert {each.run_id for each in evidence.events} == {turn.id}
    assert evidence.envelope.budget_ref == evidence.budgets[1].budget_id


def test_actx_ar_sel_001_every_candidate_is_selected_or_omitted_with_a_reason(store: MemoryStore) -> None:
    say(store, *[("user", f"message {number}") for number in range(1, 10)])
    old = entry("recent_messages", "messages.jsonl", False, refs=["1-6"], reason="older than the budget reaches")
    recent = entry("recent_messages", "messages.jsonl", refs=["7-8"], freshness=8)
    begin(store, *FIXED, recent, old, conversation="7-9")
    (selection,) = whole(store, 1).selections
    assert len(selection.selected_item_refs) + len(selection.omitted_item_refs) == len(selection.candidate_item_refs)
    assert [each.reason for each in selection.omitted_item_refs] == ["budget_limit"]
    assert [each.note for each in selection.omitted_item_refs] == ["older than the budget reaches"]


def test_actx_ar_budget_001_limit_and_use_are_exported(store: MemoryStore) -> None:
    say(store, ("user", "hi"))
    cut = entry("pinned", "context/pinned/a.md", reason="truncated from 99")
    begin(store, *FIXED, cut, conversation="1", texts={"pinned": frame("context/pinned/a.md", "short")})
    evidence = whole(store, 1)
    (budget,), (window,) = evidence.budgets, evidence.windows
    assert (budget.max_tokens, budget.reserved_tokens, budget.actual_tokens, budget.actual_items) == (100, 20, 44, 4)
    assert [(each.original_tokens, each.tokens) for each in budget.truncation_records] == [(99, 7)]
    assert [segment.actual_tokens for segment in window.segments] == [7, 7, 7, 7]


def test_actx_ar_asm_001_blocks_stand_in_the_order_of_the_request(provider: Provider, store: MemoryStore) -> None:
    asked: list[Any] = []
    answer = lambda ask: asked.append(ask.body) or Told()(ask)  # type: ignore[func-returns-value]  # noqa: E731
    said = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello!"}]
    Chat(provider, store).say(*said, answer=answer)
    evidence = whole(store, 1)
    (assembly,) = evidence.assemblies
    assert [block.wrapper for block in assembly.ordered_blocks] == [
        "protocol",
        "system",
        "message",
        "state",
        "reminder",
    ]
    texts = [evidence.contents[block.content_ref or ""] for block in assembly.ordered_blocks]
    places = [json.dumps(asked[0]).index(json.dumps(text)[1:-1]) for text in texts]
    assert places == sorted(places)
    assert {each.hash for each in evidence.injections} == {f"sha256:{_start(store)['sha256']}"}


def _start(store: Any) -> dict[str, Any]:
    return next(event for event in store.open(KEY).read("events")[0] if event["type"] == "start")


def test_actx_ar_missing_001_owner_action_and_safe_summary(store: MemoryStore) -> None:
    say(store, ("user", "hi"))
    known = {"path": "secret-plan.md", "reason": "it is not there", "severity": "medium"}
    report = {"included": [], "missing_context": [{**known, "resolution": "create it", "status": "open"}]}
    begin(store, *FIXED, conversation="1", report=report)
    (missing,) = whole(store, 1, "evidence_export").missing_context
    assert (missing.metadata["owner"], missing.metadata["requested_action"]) == ("operator", "create it")
    assert "secret-plan" not in str(missing.metadata["safe_summary"])


def test_actx_ar_compact_001_a_summary_refers_to_its_window_and_is_no_answer(store: MemoryStore) -> None:
    summary = {"type": "summary", "text": "They baked.", "source": "messages:1-4", "origin": "user", "model": "m"}
    append(store, "events", summary)
    say(store, *[("user", "x")] * 5)
    told = entry("summary", "context/summary.md", visibility=["model", "reviewer"])
    begin(store, *FIXED, told, conversation="5", texts={"background": frame("context/summary.md", "They baked.")})
    for target in ("model", "reviewer", "user"):
        evidence = whole(store, 1, target)
        (compaction,) = evidence.compactions
        assert compaction.coverage == {"messages": "1-4", "first": 1, "last": 4}
        assert ("They baked." in evidence.contents.values()) == (target != "user")
    with pytest.raises(ValidationError, match="final_answer"):
        Summary.model_validate({**evidence.summaries[0].model_dump(), "summary_kind": "final_answer"})


def test_actx_ar_policy_001_blocked_item_has_a_reason_and_no_content(store: MemoryStore) -> None:
    say(store, ("user", "the raw secret 12345678"))
    begin(store, *FIXED, conversation="1")
    evidence = whole(store, 1, "evidence_export")
    (blocked,) = (each for each in evidence.items if each.context_kind == "user_message")
    assert (blocked.redaction_state, blocked.policy_refs) == ("policy_blocked", ("policy:visibility",))
    assert (blocked.content_mode, blocked.content_ref) == ("opaque", None)
    written = evidence.as_bytes().decode()
    assert "raw secret" not in written
    assert digest("the raw secret 12345678").removeprefix("sha256:") not in written, "a digest of few words tells them"


def test_actx_ar_evid_001_an_export_is_an_event_and_resolves_in_itself(store: MemoryStore) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, conversation="1")
    evidence = whole(store, None, "evidence_export")
    (exported,) = (each for each in evidence.events if each.event_type == "context.exported")
    assert exported.event_id in evidence.envelope.evidence_refs
    assert exported.data == {"target": "evidence_export"}


def test_actx_ar_gov_001_policies_are_exported_by_name(store: MemoryStore) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, conversation="1")
    evidence = whole(store, 1, "evidence_export")
    named = {ref for each in evidence.items for ref in each.policy_refs}
    assert named
    assert named <= evidence.policies.keys()
    assert all(evidence.policies.values())


# --- failure cases --------------------------------------------------------------------------------------

EVENT = {**VERSION, "event_id": "e", "source": "x", "time": TIME, "context_id": "c"}
MISSING = {**VERSION, "missing_id": "m", "scope": "turn", "question": "?", "severity": "low", "created_at": TIME}
COMPACTION = {**VERSION, "compaction_id": "c", "scope": "session", "source_item_refs": ("i",), "created_at": TIME}


@pytest.mark.parametrize("name", ["turn_status", "status", "completed", "Tool-Success", "taskState", "done", "outcome"])
def test_failure_record_that_declares_completion_is_rejected(name: str) -> None:
    good = {**EVENT, "event_type": "context.exported"}
    assert Event(**good, data={"count": 1})
    for where in ({"data": {name: "ok"}}, {"metadata": {"deep": [{name: True}]}}, {name: "ok"}):
        with pytest.raises(ValidationError):
            Event(**good, **where)
    for kind in ("turn.completed", "context.turn.completed", "tool.succeeded"):
        with pytest.raises(ValidationError):
            Event(**{**EVENT, "event_type": kind})


def test_failure_no_export_declares_how_a_turn_ended(provider: Provider, store: MemoryStore) -> None:
    chat = Chat(provider, store)
    chat.say("Hello!")
    with pytest.raises(Exception, match="no"):
        chat.say("Fail.", answer=lambda ask: Failure(400, "no"))
    written = whole(store).as_bytes().decode()
    for word in ('"ok"', '"error"', '"stop"', '"complete"', '"finish', '"done"'):
        assert word not in written


def test_failure_missing_context_as_approval_is_rejected() -> None:
    assert Missing(**MISSING, status="requested", requested_from="operator")
    for claim in ({"status": "approved"}, {"status": "open", "metadata": {"approval": "granted"}}):
        with pytest.raises(ValidationError):
            Missing(**MISSING, **claim)
    with pytest.raises(ValidationError, match="resolved"):
        Missing(**MISSING, status="resolved")


def test_failure_compaction_as_final_answer_is_rejected() -> None:
    good = {**COMPACTION, "method": "rolling_summary", "replacement_policy": "sources_kept"}
    assert Compaction(**good)
    for claim in ({"metadata": {"final_answer": "42"}}, {"replacement_policy": "final_answer"}, {"answer": "42"}):
        with pytest.raises(ValidationError):
            Compaction(**{**good, **claim})


@pytest.mark.parametrize("lost", [{"session_id": ""}, {"turn_id": ""}, {"runtime_refs": ()}])
def test_failure_runtime_ids_are_dropped(store: MemoryStore, lost: dict[str, Any]) -> None:
    say(store, ("user", "hi"))
    begin(store, *FIXED, conversation="1")
    evidence = whole(store, 1)
    damaged = evidence.model_copy(update={"envelopes": (evidence.envelope.model_copy(update=lost),)})
    with pytest.raises(InvalidArchive, match="runtime"):
        require_consistent(damaged)


def test_failure_redacted_text_appears_nowhere_else_in_the_export(provider: Provider, home: Path) -> None:
    store, secret = FileStore(home), "The vault opens with heliotrope-seventeen."
    summariser = ctxwrap.Summariser(lambda *_: f"They said: {secret}", every=2)
    chat = Chat(provider, store, summariser=summariser)
    remembers = lambda ask: Answer("Noted." + trailer(ask, [item("w-1", secret)]))  # noqa: E731
    chat.say(secret, answer=remembers)
    wait_for_summaries(60)
    start_child("s", "one", handoff="look", store=store)
    attach_result("s", "one", result=f"It says: {secret}", store=store)
    chat.say("What opens the vault?")
    assert "heliotrope" in whole(store).as_bytes().decode()
    ctxwrap.purge("s", message=1, store=store)
    for target in ("model", "evidence_export", "reviewer", "ui"):
        for turn in (None, 1, 2):
            assert "heliotrope" not in whole(store, turn, target).as_bytes().decode()
    done_again = [each.redaction_state for each in whole(store).summaries]
    assert set(done_again) <= {"removed"}
