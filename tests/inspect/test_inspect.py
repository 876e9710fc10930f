"""Read-only questions about sessions: the same answers from every store, of the one session that was asked for."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.errors import NotFound
from ctxwrap.inspect import StreamFollower, all_sessions, session_details, sessions_of, turn_details
from ctxwrap.pack.injection import INSTRUCTIONS
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.session.redaction import PURGED
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Answer, Failure, Provider
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.types import SessionKey
from tests.support import PassingLog, Told, apart_from_stages

KEY = SessionKey("default", "default", "s")
LARGE = "a large result " * 200


class Chat:
    """A wrapped client that says things in a session."""

    def __init__(self, provider: Provider, store: Store, **names: Any) -> None:
        plain = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        self.provider = provider
        self.client: Any = ctxwrap.wrap(plain, store=store, **{"session": "s", **names})

    def say(self, *messages: str | dict[str, Any], answer: Any = None, **how: Any) -> Any:
        self.provider.answer = answer or Told()
        sent = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        return self.client.chat.completions.create(model="practice", messages=sent, **how)


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, home: Path) -> Store:
    return FileStore(home) if request.param == "files" else MemoryStore()


@pytest.fixture
def chat(provider: Provider, store: Store) -> Chat:
    return Chat(provider, store)


def appended(store: Store, key: SessionKey, stream: str, *records: dict[str, Any]) -> None:
    log = store.open(key)
    with log.locked():
        log.append({stream: records})


def note(text: str, **control: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "ctx": {"v": 1, **control}}


class Closed(PassingLog):
    """A log that nobody may read."""

    def read(self, *_: Any) -> Any:
        raise AssertionError("the log is read")

    lines = load_checkpoint = locked = read


class ClosedStore:
    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, key: SessionKey) -> Any:
        return Closed(self.inner.open(key))


# --- which sessions there are ---------------------------------------------------------------------------


def test_sessions_are_listed_newest_first(provider: Provider, store: Store) -> None:
    for session in ("b", "a", "c", "a"):
        Chat(provider, store, session=session).say("Hello!")
    listing = sessions_of(store, "default", "default")
    assert [info.key.session for info in listing.sessions] == ["a", "c", "b"]
    newest = listing.sessions[0]
    assert (newest.state, newest.rounds, newest.messages) == ("done", 2, 4)
    assert newest.created_at < newest.updated_at > listing.sessions[1].updated_at > listing.sessions[2].updated_at
    assert sessions_of(store, "default", "default", limit=2) == (listing.sessions[:2], 3)


def test_listing_a_thousand_sessions_reads_no_log() -> None:
    store = MemoryStore()
    for number in range(1000):
        key = SessionKey("default", "default", f"s{number:04}")
        appended(store, key, "messages", note("hi"))
        files = store.open(key).files
        files.save("state", b"done\n")
        files.save("updated_at", f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z\n".encode())
        files.save("context/summary.md", b"# Summary\n\nSource: messages:1-7, 3 rounds\n\n- Source: messages:1-9\n")
    closed: Any = ClosedStore(store)
    for listing in (sessions_of(closed, "default", "default"), all_sessions(closed)):
        assert listing.total == 1000
        assert [info.key.session for info in listing.sessions] == [f"s{number:04}" for number in reversed(range(1000))]
        assert {(info.rounds, info.messages, info.created_at, info.size) for info in listing.sessions} == {
            (3, 7, "", None)
        }


def test_session_without_derived_files_is_listed_by_its_log(provider: Provider, store: Store) -> None:
    for session in ("old", "new"):
        Chat(provider, store, session=session).say("Hello!")
    before = sessions_of(store, "default", "default")
    files = store.open(SessionKey("default", "default", "new")).files
    for entry in files.entries():
        if not entry.name.endswith((".jsonl", "meta.json")):
            files.remove(entry.name)
    after = sessions_of(store, "default", "default")
    known = ("key", "state", "rounds", "messages", "created_at", "updated_at")
    assert [[getattr(info, name) for name in known] for info in after.sessions] == [
        [getattr(info, name) for name in known] for info in before.sessions
    ]


def test_unknown_session_fields_are_empty(store: Store) -> None:
    appended(store, KEY, "messages", note("hi"))
    (info,) = sessions_of(store, "default", "default").sessions
    assert (info.state, info.rounds, info.messages, info.created_at, info.updated_at) == ("", None, None, "", "")
    details = session_details(store, KEY)
    assert (details.info.messages, details.info.rounds, details.turns) == (1, 0, ())


def test_messages_are_not_counted_while_a_turn_is_under_way(chat: Chat, store: Store) -> None:
    chat.say("Hello!")
    ctxwrap.flush()
    stream = chat.say("And now?", stream=True)
    (info,) = sessions_of(store, "default", "default").sessions
    assert (info.state, info.rounds, info.messages) == ("active", 1, None)
    details = session_details(store, KEY)
    assert (details.info.messages, details.turns[-1].status) == (3, "open")
    list(stream)
    (info,) = sessions_of(store, "default", "default").sessions
    assert (info.state, info.rounds, info.messages) == ("done", 2, 4)


def test_size_counts_every_content_once(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    _call_a_tool(Chat(provider, store))
    ctxwrap.flush()
    directory = home / "home/default/agent/default/session/s"
    kept = {path.stat().st_ino: path for path in directory.rglob("[!.]*") if path.is_file()}
    (info,) = sessions_of(store, "default", "default").sessions
    assert info.size == sum(path.stat().st_size for path in kept.values())


def test_malformed_control_files_are_tolerated(store: Store) -> None:
    appended(store, KEY, "messages", note("hi"))
    files = store.open(KEY).files
    files.save("state", b"\xff" * 10_000)
    files.save("context/summary.md", b"# Summary\n\nSource: messages:1-x, 3 rounds\n")
    files.save("context/dedup/index.jsonl", b'{"hash":1}\nnonsense\n[]\n' + b"[" * 100_000 + b"\n")
    (info,) = sessions_of(store, "default", "default").sessions
    assert (len(info.state), info.messages) == (100, None)
    assert session_details(store, KEY).contents == (0, 0, 0)


def test_one_tenant_never_sees_another(provider: Provider, store: Store) -> None:
    keys = [SessionKey(tenant, agent, "s") for tenant in ("acme", "bolt") for agent in ("one", "two")]
    for key in keys:
        chat = Chat(provider, store, tenant=key.tenant, agent=key.agent)
        chat.say(f"canary {key.tenant} {key.agent}", answer=Told(f"yes, {key.tenant} {key.agent}"))
        appended(store, key._replace(session=f"only {key.tenant} {key.agent}"), "messages", note("x"))
    for key in keys:
        seen = repr(
            [
                sessions_of(store, key.tenant, key.agent),
                session_details(store, key),
                turn_details(store, key, 1),
                StreamFollower(store.open(key), "messages").new(),
                _error(store, key._replace(session="nobody")),
            ]
        )
        assert f"only {key.tenant} {key.agent}" in seen
        assert f"canary {key.tenant} {key.agent}" in seen
        for other in set(keys) - {key}:
            assert f"{other.tenant} {other.agent}" not in seen
    assert sorted(info.key for info in all_sessions(store).sessions if info.key.session == "s") == keys
    with pytest.raises(NotFound, match="known sessions: none"):
        session_details(store, SessionKey("nobody", "one", "s"))


def _error(store: Store, key: SessionKey) -> str:
    with pytest.raises(NotFound) as caught:
        turn_details(store, key, 1)
    return str(caught.value)


# --- one session, one turn ------------------------------------------------------------------------------


def _call_a_tool(chat: Chat, times: int = 2) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Look it up."}]
    for number in range(times):
        call = ToolCall(f"call-{number}", "lookup", '{"of": "tea"}')
        reply = chat.say(*said, answer=lambda ask, call=call: Answer("Wait.", tool_calls=(call,)))
        said.append(reply.choices[0].message.model_dump(exclude_none=True))
        said.append({"role": "tool", "tool_call_id": f"call-{number}", "content": LARGE})
    chat.say(*said, answer=Told("Found it."))
    return said


def test_turn_details_show_tool_calls_and_results(chat: Chat, store: Store) -> None:
    _call_a_tool(chat)
    details = session_details(store, KEY)
    assert [turn.round for turn in details.turns] == [1, 1, 1]
    assert details.turns[0].answer == 'Wait. lookup({"of": "tea"})'
    assert details.turns[1].said.startswith("tool: a large result")
    assert len(details.turns[1].said) <= 200
    words = INSTRUCTIONS["delta"].as_text().encode()
    assert details.contents == (2, len(LARGE) + len(words), len(LARGE))
    about = turn_details(store, KEY, 2)
    assert [(message["role"], message["content"]) for message in about.messages] == [
        ("tool", LARGE),
        ("assistant", "Wait."),
    ]
    assert about.messages[1]["tool_calls"][0]["name"] == "lookup"


def test_lost_content_is_reported(chat: Chat, store: Store) -> None:
    _call_a_tool(chat, times=1)
    files = store.open(KEY).files
    for entry in files.entries("raw"):
        files.remove(entry.name)
    tool, _ = turn_details(store, KEY, 2).messages
    assert tool["content"].startswith("a large result")
    assert tool["ctx"]["fault"].endswith("is missing")


def test_turn_details_cover_every_kind_of_turn(chat: Chat, store: Store) -> None:
    chat.say("Hello!")
    chat.say("Quietly.", context_mode="disabled")
    stream = chat.say("Count.", answer=Told("One two three four."), stream=True)
    next(iter(stream))
    next(iter(stream))
    stream.close()
    with pytest.raises(openai.InternalServerError):
        chat.say("Break.", answer=Failure(500))
    turns = session_details(store, KEY).turns
    assert [(turn.number, turn.mode, turn.status, turn.said) for turn in turns] == [
        (1, "enabled", "ok", "Hello!"),
        (2, "disabled", "ok", "Quietly."),
        (3, "enabled", "cancelled", "Count."),
        (4, "enabled", "error", "Break."),
    ]
    assert [turn.answer for turn in turns] == ["Hello, world.", "Hello, world.", "One", ""]
    assert turns[3].reason.startswith("provider_error")
    assert turns[0].model == "practice"
    assert turns[0].tokens_in
    assert turns[0].tokens_out
    assert turns[2].tokens_in is None
    about = turn_details(store, KEY, turns[1].id)
    assert [event["type"] for event in about.events] == ["start", "done"]
    assert about.info == turns[1]
    happened = apart_from_stages(turn_details(store, KEY, "1").events)
    assert [event["type"] for event in happened] == ["start", "snapshot", "done"]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, (3, 4)),
        ({"input_tokens": 3, "output_tokens": 4}, (3, 4)),
        ({"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": None}, (23, None)),
        ({"input_tokens": "3", "output_tokens": True}, (None, None)),
        ("nonsense", (None, None)),
    ],
)
def test_token_usage_is_read_in_every_spelling(usage: Any, tokens: tuple[Any, Any]) -> None:
    store = MemoryStore()
    control = {"v": 1, "turn": "t"}
    appended(store, KEY, "events", {"type": "done", "run": "t", "status": "ok", "usage": usage, "ctx": control})
    (turn,) = session_details(store, KEY).turns
    assert (turn.tokens_in, turn.tokens_out) == tokens


def test_running_turn_shows_the_reply_so_far() -> None:
    store = MemoryStore()
    deltas = [{"type": "delta", "run": "t", "text": text, "ctx": {"turn": "t"}} for text in ("One ", "two")]
    appended(store, KEY, "events", *deltas)
    (turn,) = session_details(store, KEY).turns
    assert (turn.status, turn.answer) == ("open", "One two")


def test_imported_history_is_not_shown_as_the_reply(chat: Chat, store: Store) -> None:
    past: list[Any] = ["One.", {"role": "assistant", "content": "Before."}, "Two."]
    with pytest.raises(openai.InternalServerError):
        chat.say(*past, answer=Failure(500))
    (turn,) = session_details(store, KEY).turns
    assert (turn.said, turn.answer) == ("Two.", "")


def test_branches_name_their_parent(chat: Chat, store: Store) -> None:
    answer = chat.say("One.").choices[0].message
    past: list[Any] = ["One.", {"role": "assistant", "content": answer.content}]
    chat.say(*past, "Two.")
    chat.say(*past, "Another.")
    details = session_details(store, KEY)
    (branching,) = details.branches
    log = store.open(KEY).read("messages")[0]
    assert branching.message == 5
    assert (branching.id, branching.parent) == (log[4]["ctx"]["id"], log[1]["ctx"]["id"])
    assert [turn.said for turn in details.turns] == ["One.", "Two.", "Another."]


def test_children_and_memory_are_counted(chat: Chat, store: Store) -> None:
    chat.say("Hello!")
    child = start_child("s", "one", handoff="Go.", child_agent="helper", store=store)
    attach_result("s", "one", result="It is done.", artifacts={"status": b"no child"}, store=store)
    details = session_details(store, KEY)
    assert details.children == (("one", "helper", child.session, "done"),)
    assert details.memory == {"core": 0, "working": 1, "ephemeral": 0, "swap": 0}
    assert details.summary.startswith("# Summary\n")


def test_damaged_log_still_shows_its_other_records(provider: Provider, home: Path) -> None:
    store = FileStore(home)
    chat = Chat(provider, store)
    for text in ("One.", "Two.", "Three."):
        chat.say(text)
    _damage(home, "events", b'"type":"start"', nth=1)
    _damage(home, "messages", b"Three.", nth=0)
    details = session_details(FileStore(home), KEY)
    assert details.damaged == 2
    assert [(turn.number, turn.round, turn.mode, turn.said) for turn in details.turns] == [
        (1, 1, "enabled", "One."),
        (2, 2, "", "Two."),
        (3, 3, "enabled", ""),
    ]
    assert turn_details(FileStore(home), KEY, 2).damaged == 2


def _damage(home: Path, stream: str, text: bytes, nth: int) -> None:
    """Damage one of the lines that hold a text."""
    path = home / f"home/default/agent/default/session/s/{stream}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    line = [at for at, each in enumerate(lines) if text in each][nth]
    lines[line] = lines[line].replace(text, text.swapcase())
    path.write_bytes(b"".join(lines))


def test_malformed_records_are_tolerated(chat: Chat, store: Store) -> None:
    chat.say("Hello!")
    control = {"turn": "t", "round": "x", "seq": True, "parent": 7, "blob": 3}
    odd: list[dict[str, Any]] = [
        {"role": 7, "content": [{"type": "text"}], "tool_calls": 3, "ctx": control},
        {"role": "user", "content": {"a": 1}, "ctx": {"turn": "t", "blob": {"id": "../../meta.json"}}},
        {"role": "tool", "tool_calls": [1, {"id": 2}], "content": 5, "ctx": {"turn": "t", "status": 1}},
    ]
    appended(store, KEY, "messages", *odd)
    starts = {"type": "start", "run": "t", "runtime": 3, "pack": 4, "mode": [], "model": {}, "ctx": {"turn": "t"}}
    appended(store, KEY, "events", starts, {"type": [], "run": "t", "ctx": {"turn": "t"}}, {"type": "done", "ctx": {}})
    assert [turn.id for turn in session_details(store, KEY).turns][1:] == ["t"]
    about = turn_details(store, KEY, "t")
    assert [message["ctx"].get("fault", "") != "" for message in about.messages] == [True, True, False]


@pytest.mark.parametrize("turn", [0, 3, -1, "3", "nonsense", "²", ""])
def test_missing_turn_is_an_error(chat: Chat, store: Store, turn: Any) -> None:
    chat.say("One.")
    chat.say("Two.")
    with pytest.raises(NotFound, match=r"session 's' has no turn .*: it has turns 1 to 2"):
        turn_details(store, KEY, turn)


def test_inspection_does_not_create_a_missing_session(store: Store) -> None:
    for name in "abcdefg":
        appended(store, KEY._replace(session=name), "messages", note("x"))
    wanted = r"^there is no session 's' of tenant .*; known sessions: 'a', 'b', 'c', 'd', 'e' and 2 more$"
    for ask in (session_details, lambda store, key: turn_details(store, key, 1)):
        with pytest.raises(NotFound, match=wanted):
            ask(store, KEY)
    assert "s" not in store.sessions("default", "default")


def test_inspection_changes_nothing(provider: Provider, home: Path) -> None:
    _call_a_tool(Chat(provider, FileStore(home)))
    ctxwrap.flush()
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")}
    store = FileStore(home)
    sessions_of(store, "default", "default")
    session_details(store, KEY)
    turn_details(store, KEY, 2)
    StreamFollower(store.open(KEY), "events").new()
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*")} == before


# --- following ------------------------------------------------------------------------------------------


def test_following_gives_every_record_once(store: Store) -> None:
    appended(store, KEY, "messages", note("a"), note("b"))
    following = StreamFollower(store.open(KEY), "messages")
    assert _contents(following) == ["a", "b"]
    assert _contents(following) == []
    appended(store, KEY, "messages", note("c", seq=7))
    assert [(each.number, each.record["content"]) for each in following.new()] == [(7, "c")]


def test_following_continues_through_a_rewrite(chat: Chat, store: Store) -> None:
    chat.say("One.")
    chat.say("My secret.")
    spoken, events = (StreamFollower(store.open(KEY), stream) for stream in ("messages", "events"))
    assert [len(spoken.new()), len(_happened(events))] == [4, 6]
    ctxwrap.purge("s", message=3, store=store)
    chat.say("Two.")
    assert _contents(spoken) == ["Two.", "Hello, world."]
    kinds = _happened(events)
    assert kinds[-3:] == ["start", "snapshot", "done"]
    assert "purge" in kinds[:-3]
    assert [each.number for each in StreamFollower(store.open(KEY), "messages").new()] == [1, 2, 3, 4, 5, 6]


def _happened(following: StreamFollower) -> list[str]:
    return [event["type"] for event in apart_from_stages(each.record for each in following.new())]


def test_following_sees_what_another_process_writes(home: Path) -> None:
    appended(FileStore(home), KEY, "messages", note("here"))
    following = StreamFollower(FileStore(home).open(KEY), "messages")
    assert _contents(following) == ["here"]
    write_elsewhere(home, "there")
    assert _contents(following) == ["there"]


def write_elsewhere(home: Path, text: str) -> None:
    """Append a message in a process of its own."""
    code = (
        "import sys; from ctxwrap.stores.files.store import FileStore; from ctxwrap.types import SessionKey\n"
        "log = FileStore(sys.argv[1]).open(SessionKey('default', 'default', 's'))\n"
        "with log.locked(): log.append({'messages': [{'role': 'user', 'content': sys.argv[2], 'ctx': {'v': 1}}]})"
    )
    subprocess.run([sys.executable, "-c", code, str(home), text], check=True)


def _contents(following: StreamFollower) -> list[Any]:
    return [each.record["content"] for each in following.new()]


def test_purged_text_is_in_no_inspection_result(chat: Chat, store: Store) -> None:
    secret = "swordfish " * 3000
    chat.say(secret, answer=Told("Noted."))
    ctxwrap.purge("s", message=1, store=store)
    following = StreamFollower(store.open(KEY), "messages")
    assert "swordfish" not in repr([session_details(store, KEY), turn_details(store, KEY, 1), following.new()])
    assert session_details(store, KEY).turns[0].said == PURGED
    words = INSTRUCTIONS["delta"].as_text().encode()
    assert session_details(store, KEY).contents == (1, len(words), 0)
