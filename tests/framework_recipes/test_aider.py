"""aider, over the proxy; what its weak model writes, such as commit messages, stays out of the conversation."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.framework_recipes.conftest import CONVERSATION, REPLIES, SESSION, Stage
from tests.support import said

pytestmark = pytest.mark.skipif(not shutil.which("aider"), reason="aider is not installed")

QUIET = {
    "AIDER_ANALYTICS_DISABLE": "true",
    "AIDER_CHECK_UPDATE": "false",
    "AIDER_DETECT_URLS": "false",
    "AIDER_SHOW_MODEL_WARNINGS": "false",
    "AIDER_SHOW_RELEASE_NOTES": "false",
    "AIDER_YES_ALWAYS": "true",
}


@pytest.fixture(autouse=True)
def _own_home(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**QUIET, "AIDER_GIT": "false", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OPENAI_BASE_URL")  # the recipe sets aider's own variable


def test_recipe(served: Stage) -> None:
    printed = served.run_shell("aider")
    assert all(reply in printed for reply in REPLIES)
    served.check_second_remembers()
    assert all(request.ask.stream for request in served.requests())
    lines = [(role, text.splitlines()[0]) for role, text in said(served.home, SESSION)]
    assert lines[-4:] == CONVERSATION


def test_commit_messages_are_auxiliary(served: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDER_GIT", "true")
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "ada")
        monkeypatch.setenv(f"{name}_EMAIL", "ada@example.com")
    subprocess.run(["git", "init", "-q"], check=True)
    served.run_shell("aider", "Here it is.\n\nhello.txt\n```\nhi\n```\n", "feat: add a greeting", "You are Ada.")
    log = subprocess.run(["git", "log", "--format=%s"], capture_output=True, text=True, check=True).stdout
    assert "feat: add a greeting" in log
    _, commit, question = served.requests()
    assert commit.ask.model == "gpt-5-mini"
    assert commit.context is None
    assert "add a greeting" not in question.text + str(said(served.home, SESSION))
