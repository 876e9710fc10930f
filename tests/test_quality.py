"""Format, lint and types, as strict as the configuration says."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("command", [("ruff", "format", "--check", "."), ("ruff", "check", "."), ("mypy",)])
def test_the_code_is_in_order(command: tuple[str, ...]) -> None:
    assert importlib.util.find_spec(command[0]), f"{command[0]} comes with pip install '.[test]'"
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
