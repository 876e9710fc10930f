"""The commands `demo`, `practice` and `ui`, the terminal of `chat`, and readable `tail`, `diff` and `memory`."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main

SECONDS = 30


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the demo's session."""
    store = str(tmp_path_factory.mktemp("demo") / "home")
    made = CliRunner().invoke(main, ["demo", "--store", store])
    assert made.exit_code == 0, made.output
    return store


def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_demo_has_every_kind_of_turn(demo: str) -> None:
    handle = ctxwrap.open_session("demo", store=demo)
    turns, details = handle.turns(), handle.details()
    assert len(turns) == 30
    assert {turn.mode for turn in turns} == {"enabled", "disabled", "readonly", "shadow"}
    snapshots = [each.record for each in handle.events() if each.record["type"] == "snapshot"]
    assert "repaired" in {each["status"] for each in snapshots}
    assert any("runtime.round" in violation for each in snapshots for violation in each["violations"])
    assert details.branches
    assert any("purged" in each.record["ctx"] for each in handle.messages())
    assert any(item.kind == "working_set" for item in handle.pack(30).items)
    assert any(message.record.get("tool_calls") for message in handle.messages())
    assert not handle.verify().is_damaged


def test_demo_prints_commands_that_work(demo: str, tmp_path: Path) -> None:
    store = str(tmp_path / "home")
    printed = output_of("demo", "--store", store, "--session", "mine")
    commands = [line.split()[1:] for line in printed.splitlines() if line.startswith("  ctxwrap ")]
    assert commands[0][:2] == ["ui", "mine"]
    for command in commands[1:]:
        output_of(*command)


def test_demo_leaves_an_existing_session_alone(demo: str) -> None:
    result = CliRunner().invoke(main, ["demo", "--store", demo])
    assert result.exit_code == 1
    assert "session 'demo' exists" in result.output


def test_events_are_readable(demo: str) -> None:
    printed = output_of("tail", "demo", "--store", demo, "--events", "-n", "200")
    assert "{" not in re.sub(r"calls weather\(.*", "", printed)
    assert "snapshot: repaired" in printed
    assert "The user lives in Porto." in printed


def test_diff_shows_texts(demo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "I prefer museums to beaches." in output_of("diff", "demo", "25", "26", "--store", demo)


def test_memory_shows_strength_as_a_bar(demo: str) -> None:
    row = next(line for line in output_of("memory", "demo", "--store", demo).splitlines() if "task-2" in line)
    decay = float(re.search(r"\d\.\d\d", row)[0])  # type: ignore[index]
    assert row.count("█") == round(10 * (1 - decay))
    assert row.count("█") + row.count("░") == 10


@contextmanager
def running(*arguments: str, **options: object) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "ctxwrap", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            yield process
        finally:
            process.kill()


def test_practice_provider_answers_scripts() -> None:
    with running("practice") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(3)]
        url = lines[1].removeprefix("export OPENAI_BASE_URL=")
        client = openai.OpenAI(api_key="practice", base_url=url, timeout=SECONDS)
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "My name is Ada."}])
        assert "Ada" in (answer.choices[0].message.content or "")


def test_ui_prints_an_address_that_works_once(demo: str) -> None:
    import httpx

    with running("ui", "demo", "--store", demo) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("ctxwrap ui: ")
        assert address.endswith("#/s/default/default/demo")
        with httpx.Client(follow_redirects=True, timeout=SECONDS) as browser:
            assert "<title>ctxwrap</title>" in browser.get(address).text
            assert httpx.get(address, timeout=SECONDS).status_code == 403


class Terminal:
    """`ctxwrap chat` on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._end, other = pty.openpty()
        command = [sys.executable, "-m", "ctxwrap", "chat", *arguments]
        self._process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, start_new_session=True,
                                         preexec_fn=_own_terminal, env={**os.environ, "TERM": "dumb"})  # fmt: skip
        os.close(other)
        self._unread = ""

    def types(self, text: str) -> None:
        os.write(self._end, text.encode())

    def shows(self, text: str) -> None:
        """Read until the terminal shows `text` after what was read before."""
        while text not in self._unread:
            assert select.select([self._end], [], [], SECONDS)[0], f"no {text!r} in {self._unread!r}"
            self._unread += os.read(self._end, 4096).decode("utf-8", "replace")
        self._unread = self._unread.partition(text)[2]

    def interrupts(self) -> None:
        """Type Ctrl-C. One that comes just before the terminal waits is seen with the next, and counts once."""
        while True:
            self.types("\x03")
            if select.select([self._end], [], [], 1)[0]:
                return

    def ends(self) -> int:
        try:
            return self._process.wait(SECONDS)
        finally:
            self._process.kill()
            os.close(self._end)


def _own_terminal() -> None:
    import fcntl
    import termios

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background ignores it, and so would its children
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_chat_terminal_takes_pasted_lines_as_one_message_and_says_that_it_continues(home: Path) -> None:
    place = ("--store", str(home), "--session", "pasted")
    chat = Terminal(*place)
    chat.shows("you> ")
    chat.types("half a thou")
    chat.shows("half a thou")
    chat.interrupts()
    chat.shows("(Ctrl-C again, or /quit, leaves)")
    chat.shows("you> ")
    chat.types("My name is Ada.\nI like tea.\n")
    chat.shows("Ada")
    chat.shows("you> ")
    chat.interrupts()
    chat.shows("you> ")
    chat.interrupts()
    assert chat.ends() == 0
    messages = ctxwrap.open_session("pasted", store=str(home)).messages()
    assert [each.record["content"] for each in messages if each.record["role"] == "user"] == [
        "My name is Ada.\nI like tea."
    ]
    again = Terminal(*place)
    again.shows("continues after round 1 of session 'pasted'")
    again.shows("you> ")
    again.types("/quit\n")
    assert again.ends() == 0
