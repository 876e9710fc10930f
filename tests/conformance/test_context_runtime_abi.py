"""Context Runtime ABI: the files of a session, as somebody reads them who knows only the document."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.session.abi import pack_issues, record_issues
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.session.gc import Policy, policy_in
from ctxwrap.testing import Answer, Failure, Request, ScriptedProvider, ToolCall

FACT = "CortexFS root contains status, bin, model, agent, tool, home, shared."
DECISION = "DESIGN.md is an index; normative details live under spec/."
REMEMBERED = [
    {"id": "f1", "type": "fact", "tier": "core", "content": FACT},
    {"id": "d1", "type": "decision", "tier": "core", "content": DECISION},
    {"id": "t1", "type": "task", "tier": "core", "content": "Write the spec of the model ABI."},
    {"id": "r1", "type": "file", "tier": "core", "content": "/work/DESIGN.md: current design draft"},
    {"id": "e1", "type": "hint", "tier": "ephemeral", "content": "The build runs on machine seven."},
]
LOG = "full test log from failed build\n" + "".join(f"test {number} FAILED\n" for number in range(300))
PLACE = ["--tenant", "u1", "--agent", "coder"]
RUNS = 3


class Chat:
    """A coder's session, in which a tool says the same three times before much else is talked about."""

    def __init__(self, store: Path, provider: ScriptedProvider) -> None:
        self.store, self.provider = store, provider
        self.directory = store / "home/u1/agent/coder/session/default"
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        self.client = ctxwrap.wrap(bare, store=store, tenant="u1", agent="coder", session="default")
        self.calls = 0

    def answer(self, request: Request) -> Answer:
        newest = request.ask.body["messages"][-1]
        if newest["role"] == "user" and "run the tests" in newest["content"]:
            self.calls += 1
            return Answer(tool_calls=(ToolCall(f"c{self.calls}", "run_tests", '{"target":"build"}'),))
        return Answer("Noted.", remembers=REMEMBERED if len(self.provider.requests) == 1 else ())

    def ask(self, *messages: Any) -> Any:
        return self.client.chat.completions.create(model="gpt-4o", messages=list(messages)).choices[0].message

    def run_tests(self) -> None:
        question = {"role": "user", "content": "Please run the tests."}
        call = self.ask(question).model_dump(exclude_none=True, include={"role", "tool_calls"})
        result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": LOG}
        self.ask(question, {"content": None, **call}, result)

    def put(self, name: str, text: str) -> None:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        (self.directory / name).write_text(text)

    def text(self, name: str) -> str:
        return (self.directory / name).read_text()

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text(name).splitlines()]

    @property
    def pack(self) -> dict[str, Any]:
        return json.loads(self.text("context/pack.json"))  # type: ignore[no-any-return]

    def command(self, *words: str) -> str:
        name, *options = words
        result = CliRunner().invoke(main, [name, "default", *PLACE, "--store", str(self.store), *options])
        assert result.exit_code == 0, result.output
        return result.output


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with ScriptedProvider(lambda request: chat.answer(request)) as provider:
        chat = Chat(tmp_path_factory.mktemp("abi"), provider)
        place: dict[str, Any] = {"tenant": "u1", "agent": "coder", "store": chat.store}
        chat.ask({"role": "user", "content": f"{FACT} {DECISION}"})
        chat.put("context/pinned/system.md", "Always be terse.\n")
        chat.put("context/budget", "32000\n")
        start_child("default", "rev-123", handoff="Review the code.", child_agent="reviewer", **place)
        attach_result("default", "rev-123", result="Two bugs were found in parser.py.", **place)
        for _ in range(RUNS):
            chat.run_tests()
        chat.ask({"role": "user", "content": "What failed?"})
        for number in range(40):
            chat.ask({"role": "user", "content": f"Let us discuss chapter {number} of the handbook, about cats."})
        ctxwrap.flush()
        yield chat


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The context of a session whose model never writes a snapshot."""
    store = tmp_path_factory.mktemp("silent")
    said = ["My name is Ada and I live in Berlin.", "We decided to use PostgreSQL for the store."]
    said += ["I need to renew my passport by Friday.", "The current design draft is /work/DESIGN.md, please read it."]
    said += [f"Tell me about chapter {number} of the handbook." for number in range(30)]
    with ScriptedProvider(lambda _: Answer("Here is what I know.", trailer="none")) as provider:
        client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=store, session="s")
        for text in said:
            client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": text}])
        ctxwrap.flush()
    return store / "home/default/agent/default/session/s/context"


SESSION = ("messages.jsonl", "events.jsonl", "latest.md", "state", "cwd", "created_at", "updated_at", "meta.json")
CONTEXT = ("budget", "pack.json", "pack.md", "summary.md", "facts.jsonl", "decisions.jsonl", "todo.md", "refs.jsonl")
FOLDERS = ("pinned/system.md", "swap/index.jsonl", "dedup/index.jsonl", "child/rev-123/result.md")


@pytest.mark.parametrize("name", [*SESSION, *(f"context/{name}" for name in (*CONTEXT, *FOLDERS))])
def test_session_layout_under_home_uid_agent_session(chat: Chat, name: str) -> None:
    assert (chat.directory / name).is_file()


def test_messages_jsonl_is_logical_history_and_compression_replaces_none_of_it(chat: Chat) -> None:
    messages = chat.lines("messages.jsonl")
    assert [message["ctx"]["seq"] for message in messages] == list(range(1, len(messages) + 1))
    assert messages[0]["content"] == f"{FACT} {DECISION}"
    assert len([message for message in messages if message["role"] == "user"]) == 1 + RUNS + 1 + 40


def test_events_jsonl_has_tool_calls_child_agents_and_state_changes(chat: Chat) -> None:
    events, messages = chat.lines("events.jsonl"), chat.lines("messages.jsonl")
    calls = [event for event in events if event["type"] == "tool_call"]
    results = [event for event in events if event["type"] == "tool_result"]
    assert [(event["id"], event["name"]) for event in calls] == [(f"c{at}", "run_tests") for at in (1, 2, 3)]
    assert [(event["id"], event["name"], event["bytes"]) for event in results] == [
        (f"c{at}", "run_tests", len(LOG)) for at in (1, 2, 3)
    ]
    assert [messages[event["message"] - 1]["tool_calls"][0]["id"] for event in calls] == ["c1", "c2", "c3"]
    assert [messages[event["message"] - 1]["tool_call_id"] for event in results] == ["c1", "c2", "c3"]
    assert {"agent.child.start", "agent.child.result", "snapshot", "start", "done"} <= {each["type"] for each in events}


def test_events_jsonl_has_errors(tmp_path: Path) -> None:
    with ScriptedProvider([Failure(500)]) as provider:
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, store=tmp_path, session="s")
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Hello?"}])
    events = (tmp_path / "home/default/agent/default/session/s/events.jsonl").read_text().splitlines()
    assert json.loads(events[-1])["status"] == "error"


def test_context_may_be_rebuilt(chat: Chat) -> None:
    context = chat.directory / "context"
    before = {path: path.read_bytes() for path in context.rglob("*") if path.is_file()}
    inputs = {path: data for path, data in before.items() if path.name == "budget" or path.parent.name == "pinned"}
    shutil.rmtree(context)
    for path, data in inputs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    chat.command("rebuild")
    assert {path: path.read_bytes() for path in context.rglob("*") if path.is_file()} == before
    assert "damage" not in chat.command("verify")


def test_pack_json_has_the_documents_fields_and_kinds(chat: Chat) -> None:
    pack = chat.pack
    assert (pack["session"], pack["agent"], pack["budget_tokens"]) == ("default", "coder", 32000)
    items = {(item["kind"], item["source"]): item for item in pack["items"]}
    assert ("system", "context/pinned/system.md") in items
    assert ("facts", "context/facts.jsonl") in items
    assert ("child_result", "context/child/rev-123/result.md") in items
    recent = items["recent_messages", "messages.jsonl"]
    count = int(recent["range"].removeprefix("tail:"))
    last = len(chat.lines("messages.jsonl")) - 2  # the call's own message and its answer came behind
    assert recent["refs"] == [f"{last - count + 1}-{last}"]
    assert all(item["tokens"] > 0 for item in pack["items"])


def test_pack_json_has_a_summary_item_when_a_summary_is_sent(tmp_path: Path) -> None:
    with ScriptedProvider(lambda _: Answer("Fine.")) as provider:
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
        summariser = ctxwrap.Summariser(lambda _: "They talked about the model ABI.", every=2)
        client = ctxwrap.wrap(bare, store=tmp_path, session="s", summariser=summariser)
        for number in range(30):
            client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": f"Part {number}?"}])
            ctxwrap.flush()
    pack = json.loads((tmp_path / "home/default/agent/default/session/s/context/pack.json").read_text())
    assert ("summary", "context/summary.md") in [(item["kind"], item["source"]) for item in pack["items"]]


def test_pack_items_identify_their_source(chat: Chat) -> None:
    assert pack_issues(chat.text("context/pack.json")) == ()
    assert all((chat.directory / item["source"]).is_file() for item in chat.pack["items"])


def test_pack_shows_what_was_sent(chat: Chat) -> None:
    shown, sent = chat.text("context/pack.md"), chat.provider.last.ask.body["messages"]
    spoken = [message["content"] for message in sent[2:-1]]  # between those that carry more than was said
    assert spoken
    assert all(text in shown for text in spoken)
    assert chat.pack["budget_tokens"] == json.loads(chat.command("pack", "--json"))["budget_tokens"]


def test_pack_respects_context_budget(chat: Chat) -> None:
    budget = chat.pack["budget"]
    assert (budget["limit"], budget["set_by"]) == (32000, "context/budget")
    assert budget["fixed"] + budget["used"] <= 32000


def test_facts_decisions_and_todo_have_the_documents_shape(chat: Chat) -> None:
    (fact,) = chat.lines("context/facts.jsonl")
    assert (fact["id"], fact["text"], fact["source"]) == ("f1", FACT, "messages:1-2")
    (decision,) = chat.lines("context/decisions.jsonl")
    assert (decision["id"], decision["decision"], decision["source"]) == ("d1", DECISION, "messages:1-2")
    assert "- [ ] Write the spec of the model ABI." in chat.text("context/todo.md")


def test_refs_are_paths_of_files_tool_outputs_child_results_and_swap(chat: Chat) -> None:
    refs = chat.lines("context/refs.jsonl")
    assert record_issues("refs", chat.text("context/refs.jsonl")) == ()
    assert len({ref["id"] for ref in refs}) == len(refs)
    by_kind = {ref["kind"]: ref for ref in refs}
    named = {ref["path"]: ref for ref in refs if ref["kind"] == "file"}
    assert named["/work/DESIGN.md"]["summary"] == "/work/DESIGN.md: current design draft"
    assert by_kind["child_result"]["path"] == "context/child/rev-123/result.md"
    assert [ref["path"] for ref in refs if ref["kind"] == "tool_output"] == [by_kind["tool_output"]["path"]]
    assert by_kind["swap"]["path"].startswith("context/swap/chunk/sha256-")
    kept = [ref["path"] for ref in refs if ref["kind"] != "file"]
    assert all((chat.directory / path).is_file() for path in kept)


def test_summary_is_of_the_current_task_and_of_the_whole_history(chat: Chat) -> None:
    summary = chat.text("context/summary.md")
    for part in (f"- {FACT}", f"- {DECISION}", "- Write the spec of the model ABI.", "- messages:1-"):
        assert part in summary


def test_compression_without_any_snapshot(silent: Path) -> None:
    summary = (silent / "summary.md").read_text()
    assert "- messages:1-" in summary
    assert "PostgreSQL" in summary.partition("## Known")[0]
    texts = [json.loads(line)["text"] for line in (silent / "facts.jsonl").read_text().splitlines()]
    assert texts == ["The user's name is Ada.", "The user lives in Berlin."]
    (decision,) = map(json.loads, (silent / "decisions.jsonl").read_text().splitlines())
    assert decision["decision"] == "The user and others decided to use PostgreSQL for the store."
    assert "renew their passport by Friday" in (silent / "todo.md").read_text()
    refs = [json.loads(line) for line in (silent / "refs.jsonl").read_text().splitlines()]
    assert [ref["path"] for ref in refs if ref["kind"] == "file"] == ["/work/DESIGN.md"]


def test_swap_lists_only_what_is_out_of_the_window(chat: Chat) -> None:
    index = chat.lines("context/swap/index.jsonl")
    ranges = [line["range"].split("-") for line in index if line["kind"] != "memory"]
    first_sent = int(
        next(item["refs"][0] for item in chat.pack["items"] if "tail" in item.get("range", "")).split("-")[0]
    )
    assert ranges
    assert all(int(last) < first_sent for _, last in ranges)
    assert len({line["id"] for line in index}) == len(index)


def test_swap_summaries_say_what_is_inside(chat: Chat) -> None:
    summaries = [line["summary"] for line in chat.lines("context/swap/index.jsonl")]
    assert any(FACT in summary for summary in summaries)
    assert any("of the handbook, about cats" in summary for summary in summaries)


def test_swap_of_a_tool_output_names_its_event(chat: Chat) -> None:
    (output,) = [line for line in chat.lines("context/swap/index.jsonl") if line["kind"] == "tool_output"]
    assert (output["source"], output["summary"].startswith("full test log from failed build")) == ("events.jsonl", True)
    (event,) = [event for event in chat.lines("events.jsonl") if event["ctx"]["id"] == output["event"]]
    assert (event["type"], event["id"]) == ("tool_result", "c3")


def test_swap_chunks_are_references_to_raw_history(chat: Chat) -> None:
    ids = {record["ctx"]["id"] for name in ("messages", "events") for record in chat.lines(f"{name}.jsonl")}
    index = chat.lines("context/swap/index.jsonl")
    for line in index:
        chunk = json.loads(chat.text(f"context/swap/chunk/{line['id']}"))
        assert chunk["hash"].removeprefix("sha256:").startswith(line["id"].removeprefix("sha256-"))
        if line["kind"] == "memory":
            assert chunk["content"] == "The build runs on machine seven."
        else:
            assert chunk.keys() == {"source", "start_event", "end_event", "hash"}
            assert {chunk["start_event"], chunk["end_event"]} <= ids
    assert {line["kind"] for line in index} == {"message_range", "tool_output", "memory"}


def test_swapped_content_is_found_and_brought_back(chat: Chat) -> None:
    (output,) = [line for line in chat.lines("context/swap/index.jsonl") if line["kind"] == "tool_output"]
    assert "test 299 FAILED" in chat.command("swap", "--id", output["id"])


def test_dedup_keeps_large_repeated_output_once_and_counts_its_uses(chat: Chat) -> None:
    last = chat.lines("context/dedup/index.jsonl")[-1]
    assert (last["bytes"], last["count"]) == (len(LOG), RUNS)
    assert all(ref.startswith("messages:") for ref in last["refs"])
    assert chat.text(f"context/dedup/blob/{last['hash']}") == LOG


def test_large_repeated_output_is_sent_once_and_referenced_after_that(chat: Chat) -> None:
    asked = next(each for each in chat.provider.requests if each.messages[-1][1].startswith("What failed?"))
    results = [each for each in asked.ask.body["messages"] if each["role"] == "tool"]
    assert [each["tool_call_id"] for each in results] == ["c1", "c2", "c3"]
    assert [each["content"] == LOG for each in results] == [True, False, False]
    assert all("tool call c1 above" in each["content"] for each in results[1:])
    newest = [each for each in chat.provider.requests if each.ask.body["messages"][-1]["role"] == "tool"]
    assert [each.ask.body["messages"][-1]["content"] for each in newest] == [LOG] * RUNS


def test_child_results_are_merged(chat: Chat) -> None:
    assert "Two bugs were found in parser.py." in chat.provider.last.text
    assert "Two bugs were found in parser.py." in chat.text("context/child/rev-123/result.md")


def test_gc_policy_of_the_document_is_read() -> None:
    text = "pack_ttl=1d\nswap_ttl=30d\ndedup_min_refs=1\nkeep_messages=1\nkeep_events=1\n"
    assert policy_in(text) == Policy(pack_ttl=86400, swap_ttl=30 * 86400, dedup_min_refs=1)


def test_gc_keeps_history_and_child_results(chat: Chat, tmp_path: Path) -> None:
    copy = Chat(tmp_path / "copy", chat.provider)
    shutil.copytree(chat.store, copy.store, dirs_exist_ok=True)
    copy.put("context/gc.policy", "pack_ttl=1s\nswap_ttl=1s\ndedup_min_refs=9\n")
    for path in (copy.directory / "context").rglob("*"):
        os.utime(path, (10**9, 10**9))
    copy.command("gc", "--yes")
    left = {str(path.relative_to(copy.directory)) for path in copy.directory.rglob("*") if path.is_file()}
    assert {"messages.jsonl", "events.jsonl", "context/child/rev-123/result.md", "context/swap/index.jsonl"} <= left
    assert not any(name.startswith(("context/pack.", "context/swap/chunk/")) for name in left)
    copy.command("rebuild")
    assert copy.text("context/swap/index.jsonl") == chat.text("context/swap/index.jsonl")
