"""The README is short, its two commands are those of CI, and every example runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_readme_commands_set_up_everything_and_ci_runs_the_second() -> None:
    chat, test = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)
    assert chat.endswith("&& .venv/bin/ctxwrap chat")
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == test


def test_readme_has_at_most_1200_words() -> None:
    assert len(README.split()) <= 1200


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs_offline(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Ada" in done.stdout


def test_settings_each_have_a_description() -> None:
    source = (ROOT / "ctxwrap" / "settings.py").read_text()
    fields = re.findall(r"^    (\w+): .*=", source, re.MULTILINE)
    documented = re.findall(r'^    (\w+): .*=.*\n    """', source, re.MULTILINE)
    assert fields == documented
