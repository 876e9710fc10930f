"""Claude Code, over the proxy; it names its own session."""

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from ctxwrap.testing import Answer, ToolCall
from tests.framework_recipes.conftest import QUESTIONS, REPLIES, Stage, blocks
from tests.service.serve.serving import proxy, upstreams_of
from tests.support import assert_clean

pytestmark = pytest.mark.skipif(not shutil.which("claude"), reason="Claude Code is not installed")


@pytest.fixture
def claude(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A proxy with the settings of the page, and a home for Claude Code."""
    for name in ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    ((config, _),) = blocks("Claude Code", "toml")
    with proxy(stage.home, *upstreams_of(stage.provider), settings=tomllib.loads(config)["settings"]) as at:
        stage.address = at.url
        monkeypatch.setenv("ANTHROPIC_BASE_URL", at.url)
        yield stage


def logged(stage: Stage) -> list[tuple[str, Any]]:
    """What user, model and tools said in the only session; Claude Code's system prompt may change with every call."""
    ctxwrap.flush()
    store = ctxwrap.open_store(stage.home)
    (name,) = store.sessions("default", "default")
    records = [each.record for each in ctxwrap.open_session(name, store=store).messages()]
    assert_clean(*records)
    return [(record["role"], record["content"]) for record in records if record["role"] != "system"]


def test_recipe(claude: Stage) -> None:
    assert claude.run_shell("Claude Code").splitlines() == list(REPLIES)
    claude.check_second_remembers()
    roles, texts = zip(*logged(claude), strict=True)
    assert roles == ("user", "assistant", "user", "assistant")
    assert [text.splitlines()[-1] for text in texts] == [QUESTIONS[0], REPLIES[0], QUESTIONS[1], REPLIES[1]]


def test_tools(claude: Stage) -> None:
    call = ToolCall("toolu_1", "Bash", '{"command": "echo sunny", "description": "look"}')
    claude.answer(Answer(tool_calls=(call,)), "It is sunny.")
    command = ["claude", "-p", "How is Oslo?", "--allowedTools", "Bash(echo:*)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
    assert done.stdout == "It is sunny.\n", done.stderr
    assert len(claude.requests()) == 2
    assert [role for role, _ in logged(claude)] == ["user", "assistant", "tool", "assistant"]
    assert ("tool", "sunny") in logged(claude)
