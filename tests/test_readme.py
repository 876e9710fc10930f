"""The README and the examples do what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"```bash\n(.*?)\n```", README, re.DOTALL)


def test_two_commands_do_all_set_up_and_ci_runs_the_second() -> None:
    chat, test = COMMANDS
    assert chat.endswith("&& .venv/bin/ctxwrap chat")
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == test


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_runs_offline(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Ada" in done.stdout


def test_every_room_is_in_the_readme() -> None:
    rooms = {
        path.stem for path in (ROOT / "ctxwrap").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    table = README[README.index("## For developers") :]
    small = {"__init__", "__main__", "context", "records", "scope", "threads", "wrapping"}
    assert {room for room in rooms - small if f"`{room}" not in table} == set()


def test_files_named_in_the_readme_exist() -> None:
    for link in re.findall(r"\]\((?!http)([^)]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_setting_says_what_it_is_for() -> None:
    source = (ROOT / "ctxwrap" / "settings.py").read_text()
    fields = re.findall(r"^    (\w+): .*=", source, re.MULTILINE)
    documented = re.findall(r'^    (\w+): .*=.*\n    """', source, re.MULTILINE)
    assert fields == documented
