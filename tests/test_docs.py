"""Every Python block of the README and of docs/ runs as it stands; commands, links and names in the pages exist."""

import ast
import inspect
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
from starlette.testclient import TestClient

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.testing.practice import Provider
from ctxwrap.types import Report, TurnRecord

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
TEXTS = {page.name: page.read_text() for page in PAGES}

COMPLETE = {"README.md", "frameworks.md", "recipes.md"}
"""Pages each of whose blocks is complete on its own; on others a block continues the ones before it."""

FRAMEWORKS = {
    *("agents", "autogen_agentchat", "crewai", "dspy", "haystack", "instructor", "langchain", "langchain_anthropic"),
    *("langchain_openai", "llama_index", "pydantic_ai", "semantic_kernel", "smolagents"),
    *("boto3", "cohere", "google", "wordllama"),
}
"""Packages that blocks may import and that the tests do not install."""

PROXY = "http://127.0.0.1:8787"
"""The address of `ctxwrap serve` on the pages; such recipes run with their frameworks (tests/frameworks.py)."""

_FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def _tests_in(code: str) -> list[str]:
    """The tests that pytest would collect from `code`, by name."""
    return re.findall(r"^(?:(?:async )?def (?=test_)|class (?=Test)|(?=Test\w+ =))(\w+)", code, re.MULTILINE)


@pytest.fixture(scope="module")
def practice() -> Iterator[Provider]:
    with Provider(record=False) as provider:
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
    if PROXY in block.code:
        pytest.skip("it needs a proxy")
    earlier = [] if block.page in COMPLETE else _blocks(block.page)[: block.number - 1]
    if tests := _tests_in(block.code):
        file = tmp_path / "test_page.py"
        file.write_text("\n".join(each.code for each in [*earlier, block]))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"{file}::{test}" for test in tests]
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


@pytest.mark.parametrize("page", TEXTS)
def test_docs_have_no_python_block_that_is_not_run(page: str) -> None:
    assert len(re.findall(r"^\s*(?:```|~~~)\s*py", TEXTS[page], re.MULTILINE)) == len(_blocks(page))


def test_readme_snippet_has_its_output() -> None:
    assert BLOCKS[0].page == "README.md"
    assert BLOCKS[0].printed


@pytest.mark.usefixtures("in_a_page")
def test_recipes_fastapi_app_remembers_each_user() -> None:
    (block,) = (each for each in _blocks("recipes.md") if "FastAPI(" in each.code)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    _run(block, namespace)
    with TestClient(namespace["app"]) as http:

        def ask(user: str, text: str) -> str:
            return http.post("/chat", json={"text": text}, headers={"x-user": user}).text

        assert ask("ada", "My name is Ada.") == "Nice to meet you, Ada."
        assert ask("ada", "What is my name?") == "Your name is Ada."
        assert "Ada" not in ask("bob", "What is my name?")


def _rows(page: str, heading: str) -> list[str]:
    """The first cells of the tables below a heading."""
    section = re.split(r"^## ", TEXTS[page].partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    return re.findall(r"^\| (?!---)(.*?) \|", section, re.MULTILINE)


def _names(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`(\w+)", cell)]


def _commands(group: click.Group, before: str = "") -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found |= (
            _commands(command, f"{before}{name} ") if isinstance(command, click.Group) else {before + name: command}
        )
    return found


COMMANDS = _commands(main)


def test_reference_lists_every_public_name() -> None:
    listed = [name for heading in ("Functions", "Classes", "Errors") for name in _names(_rows("reference.md", heading))]
    builtin = {"ValueError", "TypeError", "LookupError", "NoSessionWarning"}
    assert set(listed) - builtin == set(ctxwrap.__all__) - builtin
    assert "`NoSessionWarning` is a warning" in TEXTS["reference.md"]


def test_reference_names_the_parameters_of_functions() -> None:
    for cell in _rows("reference.md", "Functions"):
        for name, listed in re.findall(r"`(\w+)\(([^)]*)\)`", cell):
            parameters = inspect.signature(getattr(ctxwrap, name)).parameters.values()
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                assert set(re.findall(r"\w+(?=[,=]|$)", listed)) - {"True"} <= {each.name for each in parameters}, name


def test_reference_lists_the_methods_of_a_session_handle() -> None:
    listed = [
        call for cell in _rows("reference.md", "Session handles") for call in re.findall(r"`(\w+)\((.*?)\)`", cell)
    ]
    methods = {name: value for name, value in vars(ctxwrap.SessionHandle).items() if inspect.isfunction(value)}
    assert {name: re.findall(r"\w+", parameters) for name, parameters in listed} == {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in methods.items()
        if not name.startswith("_")
    }


def test_reference_lists_every_setting_with_its_default() -> None:
    table = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", TEXTS["reference.md"], re.MULTILINE)
    public = {name: getattr(ctxwrap, name) for name in ("Shares", "MemoryRules")}
    assert {name: eval(default, public) for name, default in table} == {
        field.name: getattr(ctxwrap.Settings(), field.name) for field in fields(ctxwrap.Settings)
    }


def test_reference_lists_every_field_of_a_turn() -> None:
    listed = _names(_rows("reference.md", "What `turn_of` returns"))
    assert sorted(listed) == sorted((*TurnRecord._fields, *Report._fields))


def test_reference_lists_every_command() -> None:
    listed = re.findall(r"^\| `ctxwrap ((?:workingset )?[a-z]+)", TEXTS["reference.md"], re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_reference_lists_every_environment_variable() -> None:
    source = "".join(path.read_text() for path in (ROOT / "ctxwrap").rglob("*.py"))
    listed = [name for name in _names(_rows("reference.md", "Environment variables")) if name.isupper()]
    assert sorted(listed) == sorted(set(re.findall(r"CTXWRAP_[A-Z_]*[A-Z]", source)))


def _prose(page: str) -> str:
    return _FENCE.sub("", TEXTS[page])


def _command_lines(page: str) -> list[str]:
    """What follows `ctxwrap` in code spans and in blocks of commands."""
    shells = [fence[2] for fence in _FENCE.finditer(TEXTS[page]) if fence[1] in ("", "bash", "console")]
    lines = [line for shell in shells for line in re.findall(r"(?:^|[ /(])ctxwrap ([^#&)\n]+)", shell, re.MULTILINE)]
    return [*re.findall(r"`ctxwrap ([^`]+)`", _prose(page)), *lines]


@pytest.mark.parametrize("page", TEXTS)
def test_docs_commands_and_options_exist(page: str) -> None:
    for line in _command_lines(page):
        first, second, *_ = *line.split(), ""
        name = f"{first} {second}" if first == "workingset" else first
        if name == "COMMAND":
            continue
        assert name in COMMANDS, f"ctxwrap {line}"
        known = {option for each in COMMANDS[name].params for option in (*each.opts, *each.secondary_opts)}
        given = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", line))
        assert given <= known | {"--help"}, f"ctxwrap {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_docs_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", _prose(page.name))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target.read_text()), link


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_docs_name_existing_files_of_the_repository(page: Path) -> None:
    named = re.findall(r"`((?:ctxwrap|tests|benchmarks|examples)/[\w/.-]+\.\w+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_map_of_the_code_names_existing_modules(page: Path) -> None:
    named = re.findall(r"`([a-z_]+/[\w/]*\.py)`", page.read_text())
    assert named
    assert [name for name in named if not (ROOT / name).exists() and not (ROOT / "ctxwrap" / name).exists()] == []


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_index_lists_every_page() -> None:
    listed = set(re.findall(r"^\| \[[^]]+\]\(([^)/]+)\)", TEXTS["index.md"], re.MULTILINE))
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} == listed
