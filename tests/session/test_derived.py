"""What is made of a log: up to date after every turn, and the same bytes when it is made anew."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.session.abi import control_issues, event_issues, message_issues, record_issues
from ctxwrap.session.derived import _WAITING
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.session.state import SessionState
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Files
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Ask, Provider, ToolCall
from ctxwrap.turn.summariser import wait_for_summaries
from ctxwrap.types import Message, Record
from tests.clients.running import PATIENCE
from tests.session.telling import KEY, NOW, Teller, directory_of
from tests.session.telling import item as fact
from tests.support import item, messages, trailer

TIMES = ("created_at", "updated_at")
OUTPUT = "a line of output\n" * 500
KINDS = ("fact", "decision", "task", "file", "preference")


def directory(home: Path, session: str = "s") -> Path:
    ctxwrap.flush()
    return home / "home/default/agent/default/session" / session


def answers(ask: Ask) -> Answer:
    """Calls a tool if it is told to, and remembers one thing more in every round."""
    if "use the tool" in ask.last_user and not ask.body["messages"][-1].get("tool_call_id"):
        return Answer("", tool_calls=(ToolCall("c1", "look", "{}"),))
    number = len(ask.body["messages"])
    kept = [
        {**item(f"w-{at}", f"Number {at} of many things"), "type": KINDS[at % len(KINDS)]}
        for at in range(max(0, number - 6), number)
    ]
    return Answer(f"Answer {number}." + trailer(ask, kept))


def chatted(provider: Provider, home: Path, turns: int = 50, derive: str = "behind") -> None:
    """A chat with tools, whose output repeats, branches, large messages and summaries."""
    provider.answer = answers
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    summariser = ctxwrap.Summariser(lambda text: f"A talk of {len(text)} letters.", every=20)
    client: Any = ctxwrap.wrap(bare, store=home, session="s", history="caller", summariser=summariser, derive=derive)
    past: list[Any] = [{"role": "system", "content": "Be brief."}]

    def ask() -> None:
        reply = client.chat.completions.create(model="m", messages=past).choices[0].message
        past.append(reply.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))

    for number in range(turns):
        if number % 10 == 7:
            del past[-2:]
        text = "use the tool" if number % 5 == 3 else f"Question {number}: " + "word " * (5000 if number == 20 else 5)
        past.append({"role": "user", "content": text})
        ask()
        if past[-1].get("tool_calls"):
            past.append({"role": "tool", "tool_call_id": "c1", "content": OUTPUT})
            ask()
    assert wait_for_summaries(PATIENCE)


def context(home: Path) -> dict[str, bytes]:
    """Everything that follows from the log."""
    root = directory(home)
    names = [path for path in (root / "context").rglob("*") if path.is_file()]
    names += [root / name for name in ("state", "latest.md")]
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(names)}


def rebuilt(home: Path) -> None:
    session = open_existing(key_for("s"), home)
    with session.locked():
        session.rebuild()


@pytest.mark.parametrize("derive", ["inline", "behind"])
def test_rebuild_restores_derived_files_byte_for_byte(provider: Provider, home: Path, derive: str) -> None:
    chatted(provider, home, derive=derive)
    before = context(home)
    names = {"context/facts.jsonl", "context/decisions.jsonl", "context/todo.md", "context/refs.jsonl"}
    names |= {"context/summary.md", "context/swap/index.jsonl", "context/dedup/index.jsonl", "latest.md"}
    assert names <= set(before)
    assert all(before[name] for name in names)
    assert b"A talk of" in before["context/summary.md"]
    shutil.rmtree(directory(home) / "context")
    (directory(home) / "latest.md").unlink()
    rebuilt(home)
    assert context(home) == before


@pytest.mark.parametrize("derive", ["inline", "behind"])
def test_next_turn_restores_deleted_derived_files(provider: Provider, home: Path, derive: str) -> None:
    chatted(provider, home, 45, derive)
    shutil.rmtree(directory(home) / "context")
    chatted(provider, home, 45, derive)
    healed = context(home)
    rebuilt(home)
    assert context(home) == healed


@pytest.mark.parametrize("without_checkpoint", [True, False])
def test_another_process_writes_the_same_derived_files(
    provider: Provider, home: Path, without_checkpoint: bool
) -> None:
    for turns in (30, 33, 36):
        chatted(provider, home, turns)
        if without_checkpoint:
            (directory(home) / ".checkpoint").unlink(missing_ok=True)
    before = context(home)
    rebuilt(home)
    assert context(home) == before


def test_reader_waits_for_the_derived_files_of_its_own_store_only(provider: Provider, tmp_path: Path) -> None:
    stores = [tmp_path / "read", tmp_path / "other"]
    for store in stores:
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, store=store, session="s")
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}])
    assert not ctxwrap.verify("s", store=stores[0]).findings
    assert [len(list(store.rglob("summary.md"))) for store in stores] == [1, 0]


def records_of_a_chat() -> list[tuple[str, Record]]:
    """The records of a chat that has all kinds of derived files, in the order of their writing."""
    teller, session = Teller(MemoryStore()), None
    for turn in range(60):
        more = [Message("tool", OUTPUT, tool_call_id="c1")] if turn % 7 == 3 else []
        kept = [fact(f"w-{turn}", f"Number {turn} is {turn * turn}.", anchor=turn, first=turn, last=turn)]
        teller.says(f"Look at src/file{turn}.py, please.", *more, answer=f"Answer {turn}.", keeps=kept)
        if turn % 9 == 4:
            session = teller.session
            with session.locked():
                session.append(f"e{turn}", [], [{"type": "session_end", "by": "caller", "ctx": {}}], NOW)
    assert session is not None
    every = [(stream, record) for stream in ("messages", "events") for record in session.log.read(stream)[0]]
    return sorted(every, key=lambda each: (each[1]["ctx"]["id"].partition("-")[0][1:].zfill(3), each[0] == "events"))


RECORDS = records_of_a_chat()


@given(st.sets(st.integers(0, len(RECORDS) - 1)))
def test_derived_files_do_not_depend_on_when_somebody_looked_at_them(looks: set[int]) -> None:
    states = [SessionState(Settings()), SessionState(Settings())]
    for at, (stream, record) in enumerate(RECORDS):
        for state in states:
            assert state.take(stream, record, lambda record: record)
        always, sometimes = states
        assert (always.derived.ended_at, always.derived.compliance.as_json()) == (
            sometimes.ended_at,
            sometimes.compliance.as_json(),
        )
        assert len(sometimes._derived._waiting) <= _WAITING
        if at in looks:
            assert sometimes.derived.as_json() == always.derived.as_json()
    assert states[0].derived.as_json() == states[1].derived.as_json()


def test_derived_file_that_another_worker_changed_is_written_again() -> None:
    store = MemoryStore()
    workers = [Teller(store), Teller(store)]
    for turn, (worker, answer) in enumerate([(0, "Yes."), (1, "No."), (0, "Yes.")]):
        workers[worker].turns = turn
        workers[worker].says("Really?", answer=answer)
        assert store.open(KEY).files.load("latest.md") == f"{answer}\n".encode()


@pytest.mark.parametrize(
    "damage",
    [lambda path: None, Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 9999)],
    ids=["none", "deleted", "emptied", "replaced"],
)
def test_file_that_becomes_longer_is_whole(home: Path, damage: Callable[[Path], None]) -> None:
    teller = Teller(FileStore(home))
    facts = directory_of(teller.store) / "context" / "facts.jsonl"
    for number in range(5):
        teller.says("Remember this.", keeps=[fact(f"f-{number}", f"Fact {number}", tier="core")])
        written = facts.read_bytes()
        assert written.count(b"\n") == number + 1
        damage(facts)
    with teller.session.locked():
        teller.session.rebuild()
    assert facts.read_bytes() == written


def test_derived_files_conform_to_the_abi(provider: Provider, home: Path) -> None:
    chatted(provider, home)
    root = directory(home)

    def text(name: str) -> str:
        return (root / name).read_text("utf-8", "surrogateescape")

    assert message_issues(text("messages.jsonl")) == event_issues(text("events.jsonl")) == ()
    kinds = {"facts": "facts.jsonl", "decisions": "decisions.jsonl", "refs": "refs.jsonl"}
    kinds |= {"swap_index": "swap/index.jsonl", "dedup_index": "dedup/index.jsonl"}
    for kind, name in kinds.items():
        assert record_issues(kind, text(f"context/{name}")) == ()  # type: ignore[arg-type]
    for name in ("state", "cwd", *TIMES, "meta.json"):
        assert control_issues(name, text(name)) == ()  # type: ignore[arg-type]
    index = root.parent / "index"
    assert control_issues("index/list", (index / "list").read_text()) == ()
    assert control_issues("index/current", (index / "current").read_text()) == ()
    assert (index / "current").read_text() == "s\n"


def test_repeated_tool_output_is_stored_once(provider: Provider, home: Path) -> None:
    chatted(provider, home)
    outputs = [message for message in messages(home, "s") if message["role"] == "tool"]
    assert len(outputs) > 5
    assert {message["content"] for message in outputs} == {OUTPUT}
    names = {message["ctx"]["blob"]["id"] for message in outputs}
    assert len(names) == 1
    (name,) = names
    raw, linked = directory(home) / "raw" / name, directory(home) / "context/dedup/blob" / name
    assert raw.read_text() == OUTPUT
    assert raw.stat().st_ino == linked.stat().st_ino
    assert OUTPUT.splitlines()[0] * 2 not in (directory(home) / "messages.jsonl").read_text()
    lines = [json.loads(line) for line in (directory(home) / "context/dedup/index.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["hash"] == name][-1]
    assert last["count"] == len(outputs)
    assert last["saved_bytes"] == (len(outputs) - 1) * len(OUTPUT)
    assert last["saved_tokens"] > 0


def test_a_caller_gets_large_contents_back_from_the_log(provider: Provider, home: Path) -> None:
    large = "an important letter " * 2000
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    for text in (large, "And now?"):
        client = ctxwrap.wrap(bare, store=home, session="s", history_tokens=100_000, budget_messages=0)
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    assert len((directory(home) / "messages.jsonl").read_bytes()) < 5000
    assert provider.seen[-1].json["messages"][1]["content"] == large


def test_missing_or_changed_large_content_does_not_stop_the_session(provider: Provider, home: Path) -> None:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    large = "an important letter " * 2000

    def ask(text: str) -> Any:
        client = ctxwrap.wrap(bare, store=home, session="s", history_tokens=100_000, budget_messages=0, strict=True)
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])

    ask(large)
    (raw,) = (path for path in (directory(home) / "raw").iterdir() if path.read_text() == large)
    raw.write_text("something else")
    ask("And now?")
    assert provider.seen[-1].json["messages"][1]["content"].startswith("an important letter")
    assert "something else" not in provider.seen[-1].json["messages"][1]["content"]
    ask(large)
    assert raw.read_text() == large


def test_rules_are_part_of_the_log(provider: Provider, home: Path) -> None:
    provider.answer = answers
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    short = ctxwrap.MemoryRules(capacity=ctxwrap.PerTier(core=1, working=2, ephemeral=1))
    client = ctxwrap.wrap(bare, store=home, session="s", memory=short)
    for number in range(8):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"Question {number}"}])
    starts = [json.loads(line) for line in (directory(home) / "events.jsonl").read_bytes().splitlines()]
    assert ["rules" in event for event in starts if event["type"] == "start"] == [True] + [False] * 7
    memory = open_existing(key_for("s"), home).memory
    assert memory.rules == short
    before = context(home)
    rebuilt(home)
    assert context(home) == before


def test_memory_store_derives_the_same_files(provider: Provider, home: Path) -> None:
    store = MemoryStore()
    for place in (store, home):
        provider.answer = answers
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, store=place, session="s")
        for number in range(12):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"Question {number}"}])
    ctxwrap.flush()
    files: Files = store.open(key_for("s")).files
    assert {entry.name for entry in files.entries("context")} == {name for name in context(home) if "/" in name}
    assert files.load("context/facts.jsonl") == context(home)["context/facts.jsonl"]
