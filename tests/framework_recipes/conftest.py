"""Runs the recipes of docs/frameworks.md against a provider that answers what a test says."""

import io
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.testing import Answer, ScriptedProvider
from ctxwrap.testing.practice import ToolCall
from ctxwrap.testing.scripted import Request
from tests.service.serve.serving import proxy, upstreams_of
from tests.support import assert_clean, said

PAGE = Path(__file__).parent.parent.parent / "docs" / "frameworks.md"

ADDRESS = "http://127.0.0.1:8787"
SESSION = "user-42"
QUESTIONS = ("My name is Ada.", "What is my name?")
REPLIES = ("Nice to meet you, Ada.", "Your name is Ada.")
REMEMBERED = "The user's name is Ada."
TWO_TURNS = (Answer(REPLIES[0], remembers=REMEMBERED), Answer(REPLIES[1]))


def turn(question: str, reply: str) -> list[tuple[str, Any]]:
    """The messages of a turn, as the log has them."""
    return [("user", question), ("assistant", reply)]


def weather(city: str) -> str:
    """The weather in a city."""
    return "Sunny."


CONVERSATION = [*turn(QUESTIONS[0], REPLIES[0]), *turn(QUESTIONS[1], REPLIES[1])]
TOOL_TURN = [("user", "How is Oslo?"), ("assistant", ""), ("tool", weather("Oslo")), ("assistant", "It is sunny.")]
THANKS = turn("Thank you.", "You are welcome.")


class Stage:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.address = ADDRESS
        """Of `ctxwrap serve`, which takes the place of the page's in the recipes."""
        self._answers: list[Answer] = []
        self.provider = ScriptedProvider(lambda request: self._answers.pop(0))

    def answer(self, *answers: Answer | str) -> None:
        """What the model says to the next requests."""
        self._answers += [Answer(each) if isinstance(each, str) else each for each in answers]

    def call_tool(self, name: str, arguments: str, result: str) -> None:
        self.answer(Answer(tool_calls=(ToolCall("call_1", name, arguments),)), result)

    def run(self, heading: str, *answers: Answer | str, number: int = 0) -> dict[str, Any]:
        """Run a block below a heading of the page, check what it prints, and return its names."""
        self.answer(*(answers or TWO_TURNS))
        code, printed = self.blocks(heading)[number]
        names: dict[str, Any] = {"__name__": "__main__"}
        with redirect_stdout(io.StringIO()) as out:
            exec(compile(code, f"frameworks.md, {heading}", "exec"), names)
        assert_clean(out.getvalue())
        assert out.getvalue().endswith(printed)  # some frameworks print more
        return names

    def run_shell(self, heading: str, *answers: Answer | str) -> str:
        """Run the block of commands below a heading of the page; what it printed."""
        self.answer(*(answers or TWO_TURNS))
        ((code, _),) = self.blocks(heading, "bash")
        done = subprocess.run(["bash", "-ec", code], capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        assert_clean(done.stdout, done.stderr)
        return done.stdout

    def blocks(self, heading: str, language: str = "python") -> list[tuple[str, str]]:
        return [(code.replace(ADDRESS, self.address), printed) for code, printed in blocks(heading, language)]

    def requests(self) -> list[Request]:
        """What the model was asked, after it said all that it was to say."""
        assert self._answers == []
        return self.provider.requests

    def said(self) -> list[tuple[str, Any]]:
        """The messages of the log, of which none is there twice."""
        ctxwrap.flush()
        messages = said(self.home, SESSION)
        assert_clean(messages)
        assert max(Counter(map(str, messages)).values()) == 1
        return messages

    def check_two_turns(self) -> None:
        """The recipe was a conversation of two turns, and the second request has what the first reply remembered."""
        self.check_second_remembers()
        assert self.said() == CONVERSATION

    def check_two_turns_with_own_prompts(self, *replies: str) -> None:
        """The same of a framework that writes a system prompt, and prompts around the user's questions."""
        self.check_second_remembers()
        messages = self.said()
        assert [role for role, _ in messages] == ["system", "user", "assistant", "user", "assistant"]
        assert [text for role, text in messages if role == "assistant"] == list(replies)

    def check_second_remembers(self) -> None:
        """Of two requests the second has what the first reply remembered."""
        assert [request.memory for request in self.requests()] == [[], [REMEMBERED]]

    def check_later_turns(self, *turns: list[tuple[str, Any]]) -> None:
        """The conversation of the recipe went on with these turns, and its memory with it."""
        assert self.requests()[-1].memory == [REMEMBERED]
        assert self.said() == [*CONVERSATION, *chain(*turns)]


def blocks(heading: str, language: str = "python") -> list[tuple[str, str]]:
    """The blocks below a heading of the page, each with what it prints."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    pattern = rf"^```{language}\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    return [(code, printed or "") for code, printed in re.findall(pattern, section, re.MULTILINE | re.DOTALL)]


@pytest.fixture
def stage(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage(home)
    with stage.provider as provider:
        monkeypatch.chdir(tmp_path)
        for name, value in {
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": provider.openai_url,
            "OPENAI_API_BASE": provider.openai_url,
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": provider.anthropic_url,
            "CTXWRAP_HOME": str(home),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }.items():
            monkeypatch.setenv(name, value)
        yield stage


@pytest.fixture
def served(stage: Stage) -> Iterator[Stage]:
    """The same with a proxy before the provider."""
    with proxy(stage.home, *upstreams_of(stage.provider)) as at:
        stage.address = at.url
        yield stage
