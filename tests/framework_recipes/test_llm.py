"""The command `llm`, over the proxy: streams, as it asks by itself, whole replies, tools and its own conversations."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.framework_recipes.conftest import REPLIES, THANKS, TOOL_TURN, Stage

pytestmark = pytest.mark.skipif(not shutil.which("llm"), reason="llm is not installed")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))


def test_recipe(served: Stage) -> None:
    assert served.run_shell("llm").splitlines() == list(REPLIES)
    served.check_two_turns()


def test_whole_replies_tools_and_conversations(served: Stage) -> None:
    served.run_shell("llm")
    served.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    served.answer("You are welcome.")
    tool = "def weather(city: str) -> str:\n    'The weather in a city.'\n    return 'Sunny.'"
    for arguments, reply in (
        (["How is Oslo?", "--functions", tool], "It is sunny."),
        (["--continue", "--no-stream", "Thank you."], "You are welcome."),
    ):
        command = ["llm", "-m", "remembering", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.stdout.strip() == reply, done.stderr
    served.check_later_turns(TOOL_TURN, THANKS)
