"""The command line: it explains itself, chats with the practice model, and shows what it keeps."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import COMMANDS, main
from ctxwrap.cli.output import printable
from tests.support import events, said


def ctxwrap(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(main, arguments, input=typed)


def test_help_describes_wrap_and_chat() -> None:
    result = ctxwrap("--help")
    assert result.exit_code == 0
    for word in ("ctxwrap.wrap(client)", "chat", "no key and no network"):
        assert word in result.output


def test_help_of_a_command_begins_with_its_line_in_the_list() -> None:
    for name, (_, summary) in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert (command.name, (command.help or "").partition("\n\n")[0]) == (name, summary)


def test_unknown_commands_are_an_error() -> None:
    result = ctxwrap("forgt")
    assert (result.exit_code, "No such command 'forgt'" in result.output) == (2, True)


def test_commands_import_only_their_own_module() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from ctxwrap.cli import main\n"
        "assert CliRunner().invoke(main, sys.argv[1:]).exit_code == 0\n"
        "print(sorted(name for name in sys.modules if name.startswith('ctxwrap.cli.')))"
    )
    for arguments, modules in ((["--help"], []), (["key"], ["ctxwrap.cli.maintenance", "ctxwrap.cli.output"])):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout == f"{modules}\n"


def test_python_m_ctxwrap_runs_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "ctxwrap", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ctxwrap, version ")


def test_a_chat_remembers_within_and_between_runs(home: Path) -> None:
    first = ctxwrap("chat", "--store", str(home), typed="My name is Ada and I like tea\n/memory\n/quit\n")
    assert first.exit_code == 0
    assert "Nice to meet you, Ada." in first.output
    assert "The user's name is Ada." in first.output
    second = ctxwrap("chat", "--store", str(home), typed="What is my name?\n/pack\n")
    assert "Your name is Ada." in second.output
    assert "recent history" in second.output
    assert [role for role, _ in said(home, "chat")] == ["user", "assistant"] * 2


def test_memory_of_a_chat_with_a_user_shows_what_the_user_told(home: Path) -> None:
    ctxwrap("chat", "--store", str(home), "--user", "ada", "--session", "one", typed="My name is Ada.\n/quit\n")
    other = ctxwrap("chat", "--store", str(home), "--user", "ada", "--session", "two", typed="Hello!\n/memory\n/quit\n")
    assert "core of user ada\n  0.05  user+core-name  The user's name is Ada." in other.output


def test_chat_log_records_the_usage(home: Path) -> None:
    ctxwrap("chat", "--store", str(home), typed="My name is Ada\n")
    done = [event for event in events(home, "chat") if event["type"] == "done"]
    assert [event["usage"]["prompt_tokens"] > 100 for event in done] == [True]


def test_chat_mode_can_be_changed(home: Path) -> None:
    typed = "My name is Ada\n/mode disbled\n/mode disabled\nWhat is my name?\n/mode enabled\nWhat is my name?\n"
    result = ctxwrap("chat", "--store", str(home), "--session", "s", typed=typed)
    assert "did you mean 'disabled'?" in result.output
    assert result.output.index("You have not told me your name.") < result.output.index("Your name is Ada.")


@pytest.mark.parametrize("arguments", [["--mode", "off"], ["--session", ""], ["--store", "redis://x"]])
def test_bad_arguments_are_a_one_line_error(arguments: list[str]) -> None:
    result = ctxwrap("chat", *arguments)
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert "Traceback" not in result.output


def test_unreachable_model_does_not_end_the_chat(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    typed = "hello\n/help\n/quit\n"
    result = ctxwrap("chat", "--store", str(home), "--model", "openai/nothing", typed=typed)
    assert result.exit_code == 0
    assert "no answer:" in result.output
    assert "/memory" in result.output
    assert said(home, "chat") == [("user", "hello")]


def test_printed_text_cannot_control_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\u202ec\td\n") == "a[2Jbc\td\n"
