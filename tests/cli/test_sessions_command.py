"""The commands that look at sessions: what they print, for people and programs, and that no text can steer them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.cli.output import as_name, as_size, as_time
from ctxwrap.cli.turns import follow_stream
from ctxwrap.inspect import Numbered, StreamFollower
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Provider
from ctxwrap.testing.practice.answer import ToolCall
from ctxwrap.types import SessionKey
from tests.inspect.test_inspect import Chat, appended, note, write_elsewhere
from tests.support import Told, apart_from_stages

KEY = SessionKey("default", "default", "s")
STEERING = "\x1b[2J\x1b]52;c;aGFjaw==\x07\x9b31m\u202edesrever\u2066\x00\x7f\r\x08"
HOSTILE = f"{STEERING}[red]not markup[/red] :smile: [link=http://x]x[/link]\nturn  status\n  99  forged\u2028#99 forged"
FORBIDDEN = set("\x00\x07\x08\r\x1b\x7f\x9b\u202e\u2066\u2028")


def command(home: Path, *arguments: str, columns: int = 120) -> Result:
    name, *rest = arguments
    return CliRunner().invoke(main, [name, "--store", str(home), *rest], env={"COLUMNS": str(columns)})


def shown(home: Path, *arguments: str, columns: int = 120) -> list[str]:
    """The lines that a command prints, none of which is longer than the screen."""
    result = command(home, *arguments, columns=columns)
    assert result.exit_code == 0, result.output
    assert not FORBIDDEN & set(result.output)
    lines = result.stdout.splitlines()
    assert all(len(line) <= columns for line in lines if line.isascii())
    return lines


def data(home: Path, *arguments: str) -> Any:
    result = command(home, *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.isascii()
    return json.loads(result.stdout)


@pytest.fixture
def chat(provider: Provider, home: Path) -> Chat:
    return Chat(provider, FileStore(home))


def row(lines: list[str], *words: str) -> list[str]:
    """The words of the one line that begins with these."""
    (found,) = [line for line in lines if line.split()[: len(words)] == list(words)]
    return found.split()


# --- sessions -------------------------------------------------------------------------------------------


def test_sessions_command_prints_a_table(chat: Chat, provider: Provider, home: Path) -> None:
    chat.say("Hello!")
    Chat(provider, FileStore(home), session="Ada's").say("Hi.")
    lines = shown(home, "sessions")
    assert lines[0].split() == [
        "session",
        "state",
        "rounds",
        "messages",
        "created",
        "(UTC)",
        "updated",
        "(UTC)",
        "size",
    ]
    assert [line.split()[0] for line in lines[1:]] == ["Ada's", "s"]
    assert row(lines, "s")[1:4] == ["done", "1", "2"]
    assert row(lines, "s")[-1] == "kB"
    first, second = data(home, "sessions")["sessions"]
    assert (first["session"], second["session"], second["messages"]) == ("Ada's", "s", 2)
    assert shown(home, "sessions", "--limit", "1")[1:] == [lines[1], "newest 1 of 2; use --limit to list more"]
    assert data(home, "sessions", "--limit", "1") == {"sessions": [first], "total": 2}


def test_sessions_command_shows_the_newest_hundred_and_reads_no_log(chat: Chat, home: Path) -> None:
    chat.say("Hello!")
    ctxwrap.flush()
    (first,) = home.glob("home/*/agent/*/session/s")
    meta = json.loads((first / "meta.json").read_text())
    for stream in ("messages", "events"):
        (first / f"{stream}.jsonl").unlink()
        (first / f"{stream}.jsonl").mkdir()  # whoever opens it fails
    for number in range(100):
        copy = shutil.copytree(first, first.with_name(f"s{number}"))
        (copy / "meta.json").write_text(json.dumps({**meta, "session": copy.name}))
        (copy / "updated_at").write_text(f"2999-01-01T00:00:00.{number:06}Z\n")
    lines = shown(home, "sessions")
    assert [line.split()[0] for line in lines[1:-1]] == [f"s{number}" for number in reversed(range(100))]
    assert row(lines, "s99")[1:4] == ["done", "1", "2"]
    assert lines[-1] == "newest 100 of 101; use --limit to list more"
    assert len(shown(home, "sessions", "--limit", "200")) == 102
    assert len(data(home, "sessions")["sessions"]) == 101


def test_sessions_of_all_tenants_are_listed_with_tenant_and_agent(provider: Provider, home: Path) -> None:
    for tenant in ("acme", "bolt"):
        Chat(provider, FileStore(home), tenant=tenant, agent="bot").say(f"from {tenant}")
    lines = shown(home, "sessions", "--all")
    assert lines[0].split()[:3] == ["tenant", "agent", "session"]
    assert [line.split()[:4] for line in lines[1:]] == [["bolt", "bot", "s", "done"], ["acme", "bot", "s", "done"]]
    assert "bolt" not in "\n".join(shown(home, "sessions", "--tenant", "acme", "--agent", "bot"))
    for name in ("show", "tail"):
        result = command(home, name, "s", "--tenant", "acme", "--agent", "bot")
        assert "from acme" in result.output
        assert "bolt" not in result.output
        assert "bolt" not in command(home, name, "x", "--tenant", "acme", "--agent", "bot").output


def test_an_empty_store_says_what_to_do(home: Path) -> None:
    first, second = command(home, "sessions").stdout.splitlines()
    assert first == f"no sessions of tenant default and agent default in {home}"
    assert "`ctxwrap chat` starts one" in second
    assert "--all" in second
    assert command(home, "sessions", "--all").stdout.startswith("no sessions in ")
    assert data(home, "sessions") == {"sessions": [], "total": 0}
    assert not home.exists()


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 200])
def test_tables_fit_any_terminal_width(chat: Chat, home: Path, columns: int) -> None:
    chat.say("A rather long sentence of which not everything finds room. " * 3)
    for arguments in (["sessions"], ["sessions", "--all"], ["show", "s"], ["show", "s", "--turn", "1"], ["tail", "s"]):
        lines = shown(home, *arguments, columns=columns)
        assert lines
        assert all(line == line.rstrip() for line in lines)
    assert row(shown(home, "sessions", columns=columns), "s")[1] == "done"
    last = shown(home, "show", "s", columns=columns)[-1].split()
    assert last[0] == "1"
    assert {"ok", "A"} < set(last)


# --- show -----------------------------------------------------------------------------------------------


def test_show_command_summarises_a_session(chat: Chat, home: Path) -> None:
    chat.say("Hello!")
    chat.say("Quietly.", context_mode="disabled")
    lines = shown(home, "show", "s")
    assert row(lines, "session") == ["session", "s"]
    assert row(lines, "memory")[1:3] == ["0", "core,"]
    assert "  Source: messages:1-4, 2 rounds" in lines
    details = data(home, "show", "s")
    columns = ["id", "round", "mode", "status", "model", "in", "out", "user", "answer"]
    assert row(lines, "turn")[1:] == columns
    assert row(lines, "2")[1:6] == [details["turns"][1]["id"], "2", "disabled", "ok", "practice"]
    assert [turn["said"] for turn in details["turns"]] == ["Hello!", "Quietly."]
    assert (details["tenant"], details["rounds"], details["damaged"]) == ("default", 2, 0)
    assert not [line for line in lines if line.startswith(("damage", "branches"))]
    assert row(lines, "large", "contents")[2] == "1,", "the protocol's words"


def test_show_command_lists_branches_contents_and_damage(chat: Chat, home: Path) -> None:
    chat.say("x" * 20_000)
    chat.say("Two.")
    chat.say("One, but another.", {"role": "assistant", "content": "Hello, world."}, "Three.")
    path = home / "home/default/agent/default/session/s/events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"reason":"stop"', b'"reason":"Stop"', 1))
    lines = shown(home, "show", "s")
    assert "1: message 5 after root" in next(line for line in lines if line.startswith("branches"))
    assert row(lines, "large", "contents")[2] == "2,"
    assert "1 line of the log damaged" in next(line for line in lines if line.startswith("damage"))
    assert data(home, "show", "s")["damaged"] == 1
    assert "damage" in command(home, "show", "s", "--turn", "1").stdout


def test_show_command_prints_all_details_of_a_turn(chat: Chat, home: Path) -> None:
    call = ToolCall("call-1", "lookup", '{"of": "tea"}')
    chat.say("Look it up.", answer=lambda ask: Answer("Wait.", tool_calls=(call,)))
    assert '  calls lookup({"of": "tea"}) as call-1' in shown(home, "show", "s", "--turn", "1")
    chat.say("Thanks.", answer=Told("You are welcome."), n=2)
    lines = shown(home, "show", "s", "--turn", "2")
    assert lines[0].startswith("turn           2 (")
    for name, value in (("status", "ok"), ("mode", "enabled"), ("round", "2"), ("wire", "openai_chat")):
        assert row(lines, name)[1] == value
    assert row(lines, "usage")[1] == "prompt_tokens"
    assert row(lines, "#3")[1] == "user,"
    assert "  Thanks." in lines
    assert [line.split()[0] for line in lines if "protocol" in line] == ["yes"]
    assert "snapshot: clean" in lines
    assert row(lines, "add", "w-1")[2] == "working"
    assert "choice 1, not part of the conversation" in lines
    about = data(home, "show", "s", "--turn", "2")
    happened = [event["type"] for event in apart_from_stages(about["events"])]
    assert happened == ["start", "snapshot", "choice", "done"]
    assert [message["content"] for message in about["messages"]] == ["Thanks.", "You are welcome."]
    assert data(home, "show", "s", "--turn", about["turn"]["id"]) == about


def test_show_command_prints_a_reasked_turn(chat: Chat, home: Path) -> None:
    answers = iter(("Hello.\n\n<<<CONTEXT>>>\n{nonsense", "still nonsense"))
    chat.say("Hi.", answer=lambda ask: Answer(next(answers)))
    lines = shown(home, "show", "s", "--turn", "1")
    assert any(line.startswith("asked again, 1: ") for line in lines)
    assert row(lines, "operations") == ["operations", "not", "applied"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["show", "x"],
            1,
            "Error: there is no session 'x' of tenant 'default' and agent 'default'; known sessions: 's'",
        ),
        (
            ["tail", "x"],
            1,
            "Error: there is no session 'x' of tenant 'default' and agent 'default'; known sessions: 's'",
        ),
        (["tail", "x", "-f"], 1, "Error: there is no session 'x'"),
        (["show", "s", "--turn", "7"], 1, "Error: session 's' has no turn '7': it has turns 1 to 1"),
        (["show", ""], 1, "Error: a session id must be a text"),
        (["sessions", "--tenant", ""], 1, "Error: a tenant id must be a text"),
        (["sessions", "--limit", "0"], 2, "Invalid value for '--limit'"),
        (["tail", "s", "-n", "-1"], 2, "Invalid value for '-n'"),
        (["show", "\x1b[2J\u202e"], 1, r"Error: there is no session '\x1b[2J\u202e'"),
    ],
)
def test_invalid_arguments_are_a_one_line_error(
    chat: Chat, home: Path, arguments: list[str], code: int, said: str
) -> None:
    chat.say("Hello!")
    result = command(home, *arguments)
    assert result.exit_code == code
    assert said in result.output
    assert "Traceback" not in result.output
    assert not FORBIDDEN & set(result.output)


# --- tail -----------------------------------------------------------------------------------------------


def test_tail_command_prints_the_newest_records(chat: Chat, home: Path) -> None:
    for number in range(1, 8):
        chat.say(f"Number {number}.")
    lines = shown(home, "tail", "s", "-n", "3")
    assert [line.split(",")[0] for line in lines[::2]] == ["#12 assistant", "#13 user", "#14 assistant"]
    assert lines[1::2] == ["  Hello, world.", "  Number 7.", "  Hello, world."]
    assert len(shown(home, "tail", "s")) == 20
    assert shown(home, "tail", "s", "-n", "0") == []
    printed = command(home, "tail", "s", "-n", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["content"] for line in printed] == ["Number 7.", "Hello, world."]
    events = command(home, "tail", "s", "-n", "2", "--events", "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in events] == ["snapshot", "done"]
    staged = command(home, "tail", "s", "-n", "2", "--stages", "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in staged] == ["context.item.updated", "done"]
    assert shown(home, "tail", "s", "-n", "1", "--events")[0].split()[1] == "done,"


def test_tail_command_truncates_long_contents(chat: Chat, home: Path) -> None:
    chat.say("word " * 5000)
    text = " ".join(shown(home, "tail", "s"))
    assert "more characters in --json)" in text
    assert len(text) < 4000
    whole = command(home, "tail", "s", "--json").stdout.splitlines()[0]
    assert json.loads(whole)["content"] == "word " * 5000


def interrupting(*steps: Callable[[], None]) -> Callable[[], None]:
    """A pause in which these things happen one after the other, and then Ctrl-C."""
    left = iter(steps)

    def pause() -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    return pause


def test_following_prints_what_other_processes_append(home: Path) -> None:
    appended(FileStore(home), KEY, "messages", note("here"))
    printed: list[list[Any]] = []

    def printing(records: Any) -> None:
        printed.append([record["content"] for _, record in records])

    following = StreamFollower(FileStore(home).open(KEY), "messages")
    follow_stream(following, printing, interrupting(lambda: write_elsewhere(home, "there"), lambda: None))
    assert printed == [["here"], ["there"], []]


def test_interrupt_while_printing_ends_following(home: Path) -> None:
    def printing(records: list[Numbered]) -> None:
        raise KeyboardInterrupt

    follow_stream(StreamFollower(FileStore(home).open(KEY), "messages"), printing, lambda: None)  # type: ignore[arg-type]


def test_tail_follows_until_it_is_interrupted(home: Path) -> None:
    appended(FileStore(home), KEY, "messages", note("here"))
    arguments = [sys.executable, "-m", "ctxwrap", "tail", "s", "--store", str(home), "-f", "--json"]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also where tests run in the background
    with subprocess.Popen(arguments, stdout=-1, stderr=-1, text=True, preexec_fn=heeds) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["content"] == "here"
        appended(FileStore(home), KEY, "messages", note("there"))
        assert json.loads(process.stdout.readline())["content"] == "there"
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
        assert process.stdout.read() == process.stderr.read() == ""


# --- what may not be seen -------------------------------------------------------------------------------


def test_hostile_contents_cannot_control_the_terminal(provider: Provider, home: Path) -> None:
    session = f"s{HOSTILE}".replace("\x00", "")
    key = SessionKey("default", "default", session)
    chat = Chat(provider, FileStore(home), session=session)
    call = ToolCall(f"id{STEERING}", f"name{STEERING}", json.dumps({"of": HOSTILE}))
    chat.say(HOSTILE, answer=lambda ask: Answer(HOSTILE, tool_calls=(call,)))
    files = FileStore(home).open(key).files
    files.save("state", f"done{STEERING}\n".encode())
    files.save("updated_at", f"now{STEERING}\n".encode())
    files.save("context/summary.md", f"# Summary\n\n{HOSTILE}\n".encode())
    files.save("context/child/one/status", f"done{STEERING}\n".encode())
    odd = {"role": HOSTILE, "name": HOSTILE, "content": HOSTILE, "tool_call_id": HOSTILE}
    appended(FileStore(home), key, "messages", {**odd, "ctx": {"v": 1, "turn": HOSTILE, "parent": HOSTILE}})
    event = {
        "type": "start",
        "run": HOSTILE,
        "mode": HOSTILE,
        "model": HOSTILE,
        "wire": HOSTILE,
        "runtime": {HOSTILE: HOSTILE},
    }
    pack = {"pack": [{"kind": HOSTILE, "source": HOSTILE, "tokens": HOSTILE, "reason": HOSTILE}]}
    other = [
        {"type": kind, "run": HOSTILE, "status": HOSTILE, "reason": HOSTILE, "text": HOSTILE, "violations": [HOSTILE]}
        for kind in ("snapshot", "reask", "choice", "done", HOSTILE)
    ]
    operations = {"type": "recall", "run": HOSTILE, "operations": [{HOSTILE: 1, "kind": HOSTILE, "id": HOSTILE}]}
    control = {"ctx": {"v": 1, "turn": HOSTILE}}
    appended(FileStore(home), key, "events", *({**each, **control} for each in ({**event, **pack}, operations, *other)))
    for columns in (30, 120):
        for arguments in (
            ["sessions"],
            ["sessions", "--all"],
            ["show", "--", session],
            ["show", "--turn", "1", "--", session],
            ["show", "--turn", HOSTILE, "--", session],
            ["tail", "--", session],
            ["tail", "--events", "--", session],
        ):
            lines = shown(home, *arguments, columns=columns)
            forged = [line for line in lines if line.startswith(("#99", "  99  forged", "turn  status"))]
            assert forged == [line for line in forged if line.startswith("turn  status  user")], arguments
            assert (
                command(home, *arguments[:-2], "--json", *arguments[-2:]).exit_code == 0 or arguments[0] == "sessions"
            )
    assert data(home, "sessions")["sessions"][0]["session"] == session
    assert json.loads(command(home, "show", "--json", "--", session).stdout)["session"] == session


def test_log_warnings_cannot_control_the_terminal(home: Path) -> None:
    directory = home / "home/default/agent/default/session/s"
    appended(FileStore(home), KEY, "events", {"type": "note", "ctx": {"v": 1}})
    foreign = {"type": "snapshot", "operations": [{"\x1b]52;c;aGFjaw==\x07": 1}]}
    with (directory / "events.jsonl").open("a") as file:
        file.write(json.dumps(foreign) + "\n")
    result = command(home, "show", "s")
    assert result.exit_code == 0
    assert "malformed record" in result.stderr
    assert "Traceback" not in result.stderr
    assert not FORBIDDEN & set(result.output)


def test_forgotten_and_purged_texts_are_never_shown(chat: Chat, home: Path) -> None:
    chat.say("The code is swordfish.", answer=Told("I will keep swordfish."))
    chat.say("Next.")
    ctxwrap.forget("s", item="w-1", store=str(home))
    for number in (1, 2):
        ctxwrap.purge("s", message=number, store=str(home))
    views = [["show", "s"], ["show", "s", "--turn", "1"], ["tail", "s"], ["tail", "s", "--events"]]
    for arguments in (*views, *([*view, "--json"] for view in views)):
        result = command(home, *arguments)
        assert result.exit_code == 0
        assert "swordfish" not in result.output
        assert "canary" not in result.output
    assert "[purged]" in command(home, "show", "s").output


# --- the plumbing ---------------------------------------------------------------------------------------


def test_pipes_get_wide_lines_and_no_colours(chat: Chat, home: Path) -> None:
    chat.say("Hello!")
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment |= {"TERM": "xterm-256color", "FORCE_COLOR": "1"}
    arguments = [sys.executable, "-m", "ctxwrap", "show", "s", "--store", str(home)]
    done = subprocess.run(
        arguments, capture_output=True, text=True, check=True, env=environment, stdin=subprocess.DEVNULL
    )
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) in range(80, 121)


def test_help_loads_no_tables() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from ctxwrap.cli import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "print(sorted({'rich', 'litellm', 'openai', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_different_ids_are_printed_differently() -> None:
    ids = ["a b", "a  b", "a\nb", "a\u200bb", " a b", "'a\\nb'", "a\u202eb", "ä", "a\ud800b", "", "''"]
    names = [as_name(id) for id in ids]
    assert len(set(names)) == len(ids)
    assert all(name.isprintable() for name in names)
    assert names[0] == "a b"
    assert names[7] == "ä"


def test_sizes_and_times_are_short() -> None:
    assert [as_size(size) for size in (None, 0, 999, 1000, 1_250_000, 3 * 10**12)] == [
        "",
        "0 B",
        "999 B",
        "1.0 kB",
        "1.2 MB",
        "3000.0 GB",
    ]
    assert as_time("2026-11-16T08:33:44.165547Z") == "2026-11-16 08:33:44"
    assert as_time("yesterday") == "yesterday"
