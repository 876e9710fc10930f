"""Every Python block of the README and of docs/ runs as it stands; commands, links and names in the pages exist."""

import ast
import asyncio
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.practice import Provider

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
TEXTS = {page.name: page.read_text() for page in PAGES}

STORIES = {"testing.md"}
"""Pages whose blocks continue the blocks before them; every other block is complete on its own."""

FRAMEWORKS = {"agents", "instructor", "langchain_openai", "llama_index", "pydantic_ai", "wordllama"}
"""Packages that blocks may import and that the tests do not install."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: str
    number: int
    line: int
    code: str
    printed: str | None
    """What the page says that the block prints: the `text` block behind it."""


def _blocks(page: str) -> list[Block]:
    text, blocks = TEXTS[page], []
    fences = list(_FENCE.finditer(text))
    for index, fence in enumerate(fences):
        if fence[1] != "python":
            continue
        after = fences[index + 1] if index + 1 < len(fences) else None
        between = text[fence.end() : after.start()] if after else ""
        is_output = after is not None and after[1] == "text" and (not between.strip() or "print" in between)
        line = text.count("\n", 0, fence.start()) + 1
        blocks.append(Block(page, len(blocks) + 1, line, fence[2], after[2] if after and is_output else None))
    return blocks


BLOCKS = [block for page in TEXTS for block in _blocks(page)]


def _imports(code: str) -> set[str]:
    """The packages that `code` imports, at whatever place."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def _run(block: Block, namespace: dict[str, Any]) -> None:
    source = "\n" * block.line + block.code  # an error then has the page's own line
    try:
        exec(compile(source, block.page, "exec"), namespace)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == block.page]
        raise AssertionError(f"{block.page}:{lines[-1] if lines else block.line}: {error!r}") from error


def _defines_tests(code: str) -> bool:
    return re.search(r"^(?:async )?def test_|^class Test|^Test\w+ =", code, re.MULTILINE) is not None


@pytest.fixture(scope="module")
def practice() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture
def in_a_page(practice: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader has: keys and addresses in the environment, an empty directory, a home for sessions."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "OPENAI_API_KEY": "practice",
        "OPENAI_BASE_URL": practice.openai_url,
        "ANTHROPIC_API_KEY": "practice",
        "ANTHROPIC_BASE_URL": practice.anthropic_url,
        "CTXWRAP_HOME": str(tmp_path / "home"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.number}")
@pytest.mark.usefixtures("in_a_page")
def test_docs_python_block_runs(block: Block, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    absent = {name for name in FRAMEWORKS & _imports(block.code) if find_spec(name) is None}
    if absent:
        pytest.skip(f"{', '.join(sorted(absent))} is not installed")
    earlier = [each for each in _blocks(block.page)[: block.number - 1] if block.page in STORIES]
    if _defines_tests(block.code):
        file = tmp_path / "test_page.py"
        file.write_text("\n".join(each.code for each in [*earlier, block]))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for each in earlier:
        _run(each, namespace)
    capsys.readouterr()
    _run(block, namespace)
    if block.printed is not None:
        assert capsys.readouterr().out == block.printed
