"""What type checkers tell a project that uses ctxwrap, and that they need not read litellm for it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
from typing import assert_type
import ctxwrap

class Client:
    pass

client = ctxwrap.wrap(Client(), session="s", context_mode="readonly", budget=8000)
assert_type(client, Client)
assert_type(ctxwrap.bind(client, session="t", tenant="acme", agent="bot", context_mode="enabled"), Client)
options: ctxwrap.SettingsDict = {"strict": True, "contextMode": "shadow"}
ctxwrap.wrap(Client(), **options)
with ctxwrap.using(session="s", contextMode="shadow"):
    ctxwrap.completion(model="m", messages=[])

ctxwrap.wrap(Client(), sesion="s")  # wrong
ctxwrap.wrap(Client(), context_mode="enabeld")  # wrong
ctxwrap.wrap(Client(), budget="8000")  # wrong
ctxwrap.wrap(Client(), clock="noon")  # wrong
ctxwrap.bind(client, sesion="s")  # wrong
ctxwrap.bind(client, session=None)  # wrong
ctxwrap.bind(client, budget=8000)  # wrong
with ctxwrap.using(sesion="s"):  # wrong
    pass
with ctxwrap.using(context_mode="off"):  # wrong
    pass
"""

WRONG = [number for number, line in enumerate(PROJECT.splitlines(), 1) if line.endswith("# wrong")]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("project")
    (directory / "app.py").write_text(PROJECT)
    (directory / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    return directory


def check(project: Path, *command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def wrong_lines(said: str) -> list[int]:
    return sorted({int(line) for line in re.findall(r"app\.py:(\d+):.*error", said)})


def test_mypy_finds_misspelt_names_and_values_and_reads_no_litellm(project: Path) -> None:
    said = check(project, "mypy", "--strict", "--verbose", "--cache-dir", "cache", "app.py")
    assert wrong_lines(said) == WRONG, said
    read = re.findall(r"Parsing (\S+)", said)
    assert any(path.endswith("/ctxwrap/clients/wrap.py") for path in read)
    assert [path for path in read if "/site-packages/litellm/" in path] == []


def test_pyright_finds_misspelt_names_and_values(project: Path) -> None:
    pytest.importorskip("basedpyright", reason="pip install basedpyright: pyright's engine, 300 MB with node")
    said = check(project, "basedpyright", "--pythonpath", sys.executable, "app.py")
    assert wrong_lines(said) == WRONG, said
