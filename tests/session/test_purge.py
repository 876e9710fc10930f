"""Forgetting on request: what goes is gone from every file, what stays goes on as before."""

import itertools
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from click.testing import CliRunner, Result

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.inspect import memory_of
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import SessionKey
from tests.stores.test_files import dies_at
from tests.support import events, item, messages, said, state_shown

KEY = SessionKey("default", "default", "s")
SECRET = 'The "code" of the safé is\nswordfish-42 😀'
FACT = "The safe opens with swordfish-42."
OTHER = "Ada drinks green tea every morning."


class Model:
    """Answers in turn what it was told to, and writes into memory what it was told to."""

    def __init__(self) -> None:
        self.text = "Noted."
        self.adds: list[dict[str, Any]] = []
        self.active_task: str | None = None
        self.tail: str | None = None
        self.choices: tuple[str, ...] = ()
        self.seen: list[Ask] = []

    def __call__(self, ask: Ask) -> Answer:
        self.seen.append(ask)
        if not asks_for_trailer(ask.system):
            return Answer(self.text)
        state = state_shown(ask)
        known = {each["id"] for each in self.adds}
        state["memory"]["working"] = [e for e in state["memory"]["working"] if e["id"] not in known] + self.adds
        if self.active_task is not None:
            state["active_task"] = self.active_task
        tail = self.tail if self.tail is not None else json.dumps(state, ensure_ascii=False)
        return Answer(f"{self.text}\n\n{SEPARATOR}\n{tail}")


@pytest.fixture
def model(provider: Provider) -> Model:
    provider.answer = model = Model()
    return model


class Chat:
    def __init__(self, provider: Provider, model: Model, store: Store | Path, **names: Any) -> None:
        client = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        self.client = ctxwrap.wrap(client, store=store, session="s", **{"derive": "inline", **names})
        self.model = model
        self.state: list[Any] = []

    def say(self, text: str, *adds: dict[str, Any], answer: str = "Noted.", whole: bool = False, **how: Any) -> Any:
        self.model.adds, self.model.text = list(adds), answer
        self.state.append({"role": "user", "content": text})
        reply = self.client.chat.completions.create(
            model="practice", messages=self.state if whole else self.state[-1:], **how
        )
        self.state.append({"role": "assistant", "content": reply.choices[0].message.content})
        return reply


@pytest.fixture(params=["inline", "behind"])
def chat(provider: Provider, model: Model, home: Path, request: pytest.FixtureRequest) -> Chat:
    return Chat(provider, model, home, derive=request.param)


def files_with(home: Path, *texts: str) -> list[str]:
    """The files below `home` that hold one of the texts, plain or as JSON."""
    forms = {
        form.encode()
        for text in texts
        for once in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        for form in (once, json.dumps(once)[1:-1], json.dumps(once, ensure_ascii=False)[1:-1])
    }
    return [str(path) for path in home.rglob("*") if path.is_file() and any(f in path.read_bytes() for f in forms)]


def remembered(store: Store | Path, key: SessionKey = KEY) -> dict[str, str]:
    opened = FileStore(store) if isinstance(store, Path) else store
    state = memory_of(opened, key)["memory"]
    return {each["id"]: each["content"] for tier in state.values() for each in tier}


def unsealed(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "ctx": {name: value for name, value in record["ctx"].items() if name != "c"}}


def everything(home: Path) -> dict[Path, bytes]:
    ctxwrap.flush()
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


# --- items ----------------------------------------------------------------------------------------------


def test_an_item_is_forgotten_by_its_id(chat: Chat, home: Path) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER))
    chat.say("go on", item("w-1", f"{FACT} Twice."))
    chat.say("go on")
    assert ctxwrap.forget("s", item="w-1", store=home) == ("w-1",)
    assert remembered(home) == {"w-2": OTHER}
    assert files_with(home, FACT, "swordfish") == []
    assert files_with(home, OTHER) != []
    *_, event = events(home, "s")
    assert event["type"] == "forget"
    assert event["operations"] == [
        {"kind": "forget", "id": "w-1", "tier": "working", "item": None, "reason": "on request"}
    ]
    assert event["round"] == 3
    chat.say("and now?")
    shown = state_shown(chat.model.seen[-1])["memory"]
    assert [each["id"] for tier in shown.values() for each in tier] == ["w-2"]


@pytest.mark.parametrize("query", ["swordfish", "SAFE opens", "42"])
def test_query_matches_only_items_with_all_its_words(chat: Chat, home: Path, query: str) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER), item("w-3", "The safe is green."))
    assert ctxwrap.forget("s", query="safe tea", store=home) == ()
    assert ctxwrap.forget("s", query="swordfis", store=home) == ()
    assert ctxwrap.forget("s", query=query, store=home) == ("w-1",)
    assert remembered(home).keys() == {"w-2", "w-3"}
    assert files_with(home, FACT) == []


def test_items_in_swap_are_forgotten(chat: Chat, home: Path) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER))
    state = {"memory": {"core": [], "working": [item("w-2", OTHER)], "ephemeral": []}}
    chat.model.tail = json.dumps({**state, "dropped": ["w-1"], "capabilities": [], "active_task": ""})
    chat.say("go on")
    chat.model.tail = None
    assert remembered(home).keys() == {"w-2"}
    assert ctxwrap.forget("s", query="swordfish", store=home) == ("w-1",)
    assert files_with(home, FACT) == []


@pytest.mark.parametrize("damage", ["", "'"], ids=["whole", "damaged"])
def test_a_model_that_repeats_an_item_does_not_bring_it_back(chat: Chat, home: Path, damage: str) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER))
    ctxwrap.forget("s", item="w-1", store=home)
    if damage:
        chat.model.tail = json.dumps(
            {"memory": {"core": [], "working": [item("w-1", FACT), item("w-2", OTHER)], "ephemeral": []}}
        ).replace('"', damage)
    chat.say("go on", item("w-1", FACT))
    assert remembered(home) == {"w-2": OTHER}
    assert files_with(home, FACT) == []


def test_an_item_forgotten_while_a_turn_is_under_way_does_not_come_back(chat: Chat, home: Path) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER))
    chat.model.adds = [item("w-1", FACT), item("w-2", OTHER)]
    stream = chat.client.chat.completions.create(
        model="practice", messages=[{"role": "user", "content": "go on"}], stream=True
    )
    ctxwrap.forget("s", item="w-1", store=home)
    list(stream)
    assert remembered(home) == {"w-2": OTHER}
    assert files_with(home, FACT) == []
    assert events(home, "s")[-1]["type"] == "done"


def test_forgetting_leaves_other_items_in_place(chat: Chat, home: Path) -> None:
    for number in range(8):
        chat.say(f"{number}", item(f"w-{number}", f"Fact number {number} is about the sea."))
    before = memory_of(FileStore(home), KEY)
    ctxwrap.forget("s", item="w-3", store=home)
    after = memory_of(FileStore(home), KEY)
    for tier, items in before["memory"].items():
        assert after["memory"][tier] == [each for each in items if each["id"] != "w-3"]


@pytest.mark.parametrize(
    ("names", "error"),
    [
        ({"item": "w-9"}, ctxwrap.NotFound),
        ({}, ctxwrap.SettingsError),
        ({"item": "w-1", "query": "x"}, ctxwrap.SettingsError),
        ({"query": " . "}, ctxwrap.SettingsError),
        ({"item": "w-1", "tenant": "other"}, ctxwrap.NotFound),
        ({"item": "w-1", "agent": "other"}, ctxwrap.NotFound),
    ],
)
def test_forgetting_or_purging_an_unknown_target_is_an_error(
    chat: Chat, home: Path, names: dict[str, str], error: type[Exception]
) -> None:
    chat.say("hi", item("w-1", FACT))
    before = everything(home)
    with pytest.raises(error):
        ctxwrap.forget("s", store=home, **names)
    for message in (9, "nobody", 0):
        with pytest.raises(ctxwrap.NotFound, match="there is no message"):
            ctxwrap.purge("s", message=message, store=home)
    with pytest.raises(ctxwrap.NotFound, match="there is no session 'new'"):
        ctxwrap.purge("new", message=1, store=home)
    assert everything(home) == before


def test_forgetting_and_purging_do_not_reach_other_tenants(provider: Provider, model: Model, home: Path) -> None:
    chats = [Chat(provider, model, home, tenant=tenant) for tenant in ("one", "two")]
    for chat in chats:
        chat.say(SECRET, item("w-1", FACT))
    ctxwrap.forget("s", item="w-1", store=home, tenant="one")
    ctxwrap.purge("s", message=1, store=home, tenant="one")
    assert remembered(home, KEY._replace(tenant="one")) == {}
    assert remembered(home, KEY._replace(tenant="two")) == {"w-1": FACT}
    assert files_with(home / "home" / "one", SECRET, FACT) == []
    assert said(home, "s", tenant="two")[0] == ("user", SECRET)


# --- messages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["number", "id"])
def test_purged_message_is_in_no_file(chat: Chat, home: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxwrap.session.session._CHECKPOINT_EVERY", 64)
    chat.say("hello", item("w-1", OTHER))
    chat.model.active_task = "Open the safe with swordfish-42"
    chat.say(SECRET, item("w-2", FACT), item("w-3", SECRET))
    chat.model.active_task = None
    chat.say("go on", item("w-4", f"Somebody said: {SECRET}!"))
    for number in range(30):
        chat.say(f"go on {number}")
    ctxwrap.flush()
    chat.say("and now?")  # its derived files may wait
    directory = FileStore(home).open(KEY).directory
    assert (directory / ".checkpoint").exists()
    for name in ("messages.jsonl.torn-7", "events.jsonl.torn-9", ".checkpoint.new"):
        (directory / name).write_text(f"half of {SECRET}")
    with open(directory / "messages.jsonl", "ab") as file:
        file.write(f"by hand: {json.dumps(SECRET)}\n".encode())
    assert files_with(home, SECRET) != []
    whole = [json.loads(line) for line in (directory / "messages.jsonl").read_bytes().splitlines()[:-1]]
    wanted = 3 if by == "number" else whole[2]["ctx"]["id"]
    assert ctxwrap.purge("s", message=wanted, store=home) == ("w-2", "w-3")
    assert files_with(home, SECRET, FACT, "swordfish-42") == []
    left = messages(home, "s")[2]
    kept = {name: whole[2]["ctx"][name] for name in ("v", "seq", "id", "time", "round")}
    assert {name: left["ctx"][name] for name in kept} == kept
    assert (left["role"], left["content"]) == ("user", "")
    assert left.keys() == {"role", "content", "ctx"}
    assert left["ctx"]["purged"] > whole[2]["ctx"]["time"]
    assert remembered(home) == {"w-1": OTHER, "w-4": "Somebody said: [forgotten]!"}
    assert memory_of(FileStore(home), KEY)["active_task"] == ""
    (event,) = [event for event in events(home, "s") if event["type"] == "purge"]
    assert (event["message"], event["id"], event["reason"]) == (3, left["ctx"]["id"], "on request")


def contents(home: Path) -> list[Path]:
    return [*home.glob("home/*/agent/*/session/*/raw/*")]


def test_purged_message_leaves_the_redo_log_too(provider: Provider, model: Model, home: Path) -> None:
    chat = Chat(provider, model, home, durability="turn")
    chat.say("hello")
    chat.say(SECRET, item("w-2", FACT))
    (redo,) = home.rglob(".redo")
    assert str(redo) in files_with(home, SECRET)
    assert ctxwrap.purge("s", message=3, store=home) == ("w-2",)
    assert files_with(home, SECRET, FACT) == []
    chat.say("go on")
    assert messages(home, "s")[-1]["role"] == "assistant"
    assert not ctxwrap.verify("s", store=home).findings


def test_large_content_is_removed_with_its_last_message(chat: Chat, home: Path) -> None:
    large = f"{FACT} " * 2000
    for _ in range(2):
        chat.say(large)
        chat.say("go on")
    assert len(contents(home)) == 2, "it, and the protocol's words"
    ctxwrap.purge("s", message=1, store=home)
    assert len(contents(home)) == 2
    (second,) = (number for number, line in enumerate(messages(home, "s"), 1) if line["content"] == large)
    ctxwrap.purge("s", message=second, store=home)
    assert files_with(home, FACT, "swordfish") == []
    (protocol,) = contents(home)
    assert SEPARATOR in protocol.read_text()
    chat.say("and now?")


def test_purge_removes_all_parts_of_a_long_streamed_reply(provider: Provider, chat: Chat, home: Path) -> None:
    provider.answer = lambda ask: Answer(" ".join(f"{FACT} {number}" for number in range(300)))
    question = [{"role": "user", "content": "Tell me all."}]
    list(chat.client.chat.completions.create(model="practice", messages=question, stream=True))
    assert [event["type"] for event in events(home, "s")].count("delta") > 1
    ctxwrap.purge("s", message=2, store=home)
    assert files_with(home, FACT, "swordfish") == []


def test_forgotten_item_in_swap_is_in_no_index(chat: Chat, home: Path) -> None:
    chat.say("hi", item("w-1", FACT), item("w-2", OTHER))
    for number in range(60):
        chat.say(f"number {number}")
    ctxwrap.flush()
    index = next(home.glob("home/*/agent/*/session/*/context/swap/index.jsonl"))
    assert FACT in index.read_text()
    ctxwrap.forget("s", item="w-1", store=home)
    assert files_with(home, FACT, "swordfish") == []
    assert OTHER in index.read_text()


def test_purge_leaves_other_records_unchanged(chat: Chat, home: Path) -> None:
    for number in range(5):
        chat.say(f"say {number}", item(f"w-{number}", f"Fact number {number} is about the sea."))
    before, old = messages(home, "s"), events(home, "s")
    ctxwrap.purge("s", message=5, store=home)
    after, new = messages(home, "s"), events(home, "s")
    assert after[:4] == before[:4]
    assert [unsealed(record) for record in after[5:]] == [unsealed(record) for record in before[5:]]
    assert [unsealed(event) for event in new[:6]] == [unsealed(event) for event in old[:6]]
    assert [event["type"] for event in new] == [*(event["type"] for event in old), "forget", "purge"]


@pytest.mark.parametrize("whole", [True, False])
def test_history_with_a_purged_message_is_still_aligned(chat: Chat, home: Path, whole: bool) -> None:
    chat.say("hello")
    chat.say(SECRET, answer="A fine word.")
    chat.say("go on", answer="Gladly.")
    ctxwrap.purge("s", message=3, store=home)
    ctxwrap.purge("s", message=6, store=home)
    chat.say("and now?", answer="Well.", whole=whole)
    texts = [text for _, text in said(home, "s")]
    assert texts == ["hello", "Noted.", "", "A fine word.", "go on", "", "and now?", "Well."]
    assert not any("parent" in record["ctx"] for record in messages(home, "s"))
    chat.state[-2] = {"role": "user", "content": "edited"}
    del chat.state[-1]
    chat.client.chat.completions.create(model="practice", messages=chat.state)
    assert messages(home, "s")[8]["ctx"]["parent"] == messages(home, "s")[5]["ctx"]["id"]
    if not whole:
        sent = [text for _, text in chat.model.seen[-2].messages]
        assert "[purged]" in sent
        assert SECRET not in "".join(sent)


def test_history_with_a_purged_system_message_is_still_aligned(chat: Chat, home: Path) -> None:
    system = {"role": "system", "content": SECRET}
    for text in ("one", "two", "three"):
        chat.client.chat.completions.create(model="practice", messages=[system, {"role": "user", "content": text}])
        if text == "two":
            ctxwrap.purge("s", message=1, store=home)
    assert [role for role, _ in said(home, "s")] == ["system", *["user", "assistant"] * 3]
    assert files_with(home, SECRET) == []


def test_purged_tool_call_and_result_stay_linked(chat: Chat, home: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": SECRET})}}
    chat.state = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": SECRET},
    ]
    chat.say("go on", whole=True)
    for number in (2, 3):
        ctxwrap.purge("s", message=number, store=home)
    assert files_with(home, SECRET, "swordfish") == []
    assert messages(home, "s")[1]["tool_calls"] == [{"id": "c1", "name": "f", "arguments": "{}"}]
    assert messages(home, "s")[2]["tool_call_id"] == "c1"
    chat.say("and now?", whole=True)
    assert len(messages(home, "s")) == 7
    chat.say("only this")
    called, result = chat.model.seen[-1].body["messages"][2:4]
    assert (called["tool_calls"][0]["id"], result["tool_call_id"], result["content"]) == ("c1", "c1", "[purged]")


def test_item_supported_by_another_message_is_kept(chat: Chat, home: Path) -> None:
    chat.say("My name is Ada.", item("w-1", "The user's name is Ada."), answer="Hello Ada!")
    assert ctxwrap.purge("s", message=2, store=home) == ()
    assert remembered(home) == {"w-1": "The user's name is Ada."}
    assert ctxwrap.purge("s", message=1, store=home) == ("w-1",)
    assert remembered(home) == {}


def test_item_of_uncertain_source_is_purged_with_its_message(chat: Chat, home: Path) -> None:
    chat.say("Ich bin gegen Nüsse allergisch.", item("w-1", "The user has a nut allergy."))
    assert ctxwrap.purge("s", message=1, store=home) == ("w-1",)
    assert files_with(home, "nut allergy") == []


def test_purge_removes_an_earlier_wording_and_keeps_the_item(chat: Chat, home: Path) -> None:
    chat.say(SECRET, item("w-1", FACT))
    chat.say("go on")
    chat.say("The safe opens with tulip-7 now.", item("w-1", "The safe opens with tulip-7."))
    assert ctxwrap.purge("s", message=1, store=home) == ()
    assert remembered(home) == {"w-1": "The safe opens with tulip-7."}
    assert files_with(home, FACT, "swordfish") == []


def test_purging_a_short_message_removes_no_other_text(chat: Chat, home: Path) -> None:
    chat.say("I like tea.", item("w-1", OTHER))
    chat.say("tea", item("w-2", "The team is well."))
    assert ctxwrap.purge("s", message=3, store=home) == ("w-2",)
    assert remembered(home) == {"w-1": OTHER}


def test_purge_removes_reasked_texts_and_other_choices(provider: Provider, chat: Chat, home: Path) -> None:
    answers = iter([f"Well.\n\n{SEPARATOR}\n{{{SECRET}", f"{SECRET}, of course"])
    provider.answer = lambda ask: Answer(next(answers))
    chat.say(SECRET)
    assert {event["type"] for event in events(home, "s")} >= {"reask"}
    ctxwrap.purge("s", message=1, store=home)
    assert files_with(home, SECRET, "swordfish") == []
    provider.answer = lambda ask: Answer(f"You said {SECRET}")
    chat.state.append({"role": "user", "content": SECRET})
    chat.client.chat.completions.create(model="practice", messages=chat.state[-1:], n=3)
    assert [event["type"] for event in events(home, "s")].count("choice") == 2
    ids = [record["ctx"]["id"] for record in messages(home, "s")]
    for id in ids:
        ctxwrap.purge("s", message=id, store=home)
    assert files_with(home, SECRET, "swordfish") == []


def test_message_purged_during_its_turn_leaves_nothing(chat: Chat, home: Path) -> None:
    chat.model.adds, chat.model.active_task = [item("w-1", FACT)], "Open the safe with swordfish-42"
    stream = chat.client.chat.completions.create(
        model="practice", messages=[{"role": "user", "content": SECRET}], stream=True
    )
    ctxwrap.purge("s", message=1, store=home)
    list(stream)
    assert remembered(home) == {}
    assert said(home, "s") == [("user", ""), ("assistant", "Noted.")]
    assert files_with(home, SECRET, "swordfish") == []


def test_purging_again_changes_nothing(chat: Chat, home: Path) -> None:
    chat.say(SECRET, item("w-1", FACT))
    assert ctxwrap.purge("s", message=1, store=home) == ("w-1",)
    before = everything(home)
    assert ctxwrap.purge("s", message=1, store=home) == ()
    assert everything(home) == before


# --- other sessions of the same log ---------------------------------------------------------------------


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, home: Path) -> Store:
    return FileStore(home) if request.param == "files" else MemoryStore()


def test_open_clients_reread_the_log_after_a_purge(provider: Provider, model: Model, store: Store) -> None:
    one, two = Chat(provider, model, store), Chat(provider, model, store)
    one.say(SECRET, item("w-1", FACT), item("w-2", OTHER))
    two.say("and I am two")
    ctxwrap.purge("s", message=1, store=store)
    two.say("who is there?")
    shown = state_shown(model.seen[-1])["memory"]["working"]
    assert [each["id"] for each in shown] == []
    assert SECRET not in json.dumps(model.seen[-1].body, ensure_ascii=False)
    one.say("me")
    ctxwrap.purge("s", message=3, store=store)
    one.say("still me")
    log = store.open(KEY)
    records = log.read("messages")[0]
    assert [record["ctx"]["seq"] for record in records] == list(range(1, 11))
    assert [record["content"] for record in records if record["role"] == "user"] == [
        "", "", "who is there?", "me", "still me",
    ]  # fmt: skip
    assert [event["ctx"]["seq"] for event in log.read("events")[0]] == list(range(1, len(log.read("events")[0]) + 1))


def test_another_process_may_purge(chat: Chat, home: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(3):
        chat.say(f"say {number}")
    chat.say(SECRET, item("w-1", FACT))
    code = f"import ctxwrap; print(ctxwrap.purge('s', message=7, store={str(home)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "('w-1',)\n"
    with caplog.at_level(logging.WARNING, "ctxwrap"):
        chat.say("and now?")
    assert caplog.records == []
    assert [text for role, text in said(home, "s") if role == "user"] == ["say 0", "say 1", "say 2", "", "and now?"]
    assert files_with(home, SECRET, FACT) == []


def test_interrupted_purge_can_be_repeated(chat: Chat, home: Path) -> None:
    chat.say("hello", item("w-0", OTHER))
    chat.say(SECRET, item("w-1", FACT))
    directory = FileStore(home).open(KEY).directory
    before = everything(directory)
    deaths = 0
    for step in itertools.count(0, 3):
        for path in directory.glob("*.new"):
            path.unlink()
        for path, data in before.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        died = dies_at(step, lambda: _purge_third(home))
        deaths += died
        assert remembered(home).keys() in ({"w-0", "w-1"}, {"w-0"})
        if "w-1" not in remembered(home):
            assert FACT.encode() not in (directory / "events.jsonl").read_bytes()
        ctxwrap.purge("s", message=3, store=home)
        assert files_with(home, SECRET, FACT) == []
        assert remembered(home) == {"w-0": OTHER}
        if not died:
            break
    assert deaths > 3


def _purge_third(home: Path) -> None:
    ctxwrap.purge("s", message=3, store=home)


# --- the command line -----------------------------------------------------------------------------------


def command(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=typed)


@pytest.fixture
def place(chat: Chat, home: Path) -> tuple[str, str]:
    chat.say(SECRET, item("w-1", FACT), item("w-2", OTHER))
    return ("--store", str(home))


def test_forget_command_asks_for_confirmation(place: tuple[str, str], home: Path) -> None:
    asked = command("forget", "s", "--query", "swordfish", *place, typed="n\n")
    assert asked.exit_code == 1
    assert "1 memory item: w-1" in asked.output
    assert remembered(home).keys() == {"w-1", "w-2"}
    done = command("forget", "s", "--query", "swordfish", *place, typed="y\n")
    assert done.exit_code == 0
    assert "deleted 1 memory item: w-1" in done.output
    assert "swordfish" not in asked.output + done.output
    assert remembered(home).keys() == {"w-2"}
    assert command("forget", "s", "--item", "w-2", "--yes", *place).output == "deleted 1 memory item: w-2\n"
    assert "nothing was deleted" in command("forget", "s", "--query", "tea", "--yes", *place).output


def test_purge_command_asks_for_confirmation(place: tuple[str, str], home: Path) -> None:
    assert command("purge", "s", "--message", "1", *place, typed="\n").exit_code == 1
    assert said(home, "s")[0] == ("user", SECRET)
    done = command("purge", "s", "--message", "1", "--yes", *place)
    assert done.exit_code == 0
    assert done.output.splitlines()[0] == "deleted message 1"
    assert "w-1" in done.output
    assert "swordfish" not in done.output
    assert files_with(home, SECRET) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["forget", "s"], 2),
        (["forget", "s", "--item", "a", "--query", "b"], 2),
        (["forget", "s", "--item", "w-9"], 1),
        (["forget", "nobody", "--item", "w-1"], 1),
        (["forget", "s", "--item", "w-1", "--tenant", "other"], 1),
        (["purge", "s"], 2),
        (["purge", "s", "--message", "9", "--yes"], 1),
    ],
)
def test_invalid_commands_change_nothing(place: tuple[str, str], home: Path, arguments: list[str], code: int) -> None:
    before = everything(home)
    result = command(*arguments, *place)
    assert result.exit_code == code
    assert "Error: " in result.output
    assert "Traceback" not in result.output
    assert everything(home) == before
