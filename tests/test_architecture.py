"""The promises of the layout: imports point down, importing is light, the twins are equal, the names are public."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ctxwrap

ROOT = Path(ctxwrap.__file__).parent

LAYERS = (
    ("errors", "patterns"),
    ("redacting", "visibility", "language", "quotas"),
    ("settings",),
    ("types",),
    ("storage",),
    ("protocol",),
    ("scope", "threads", "background", "records", "memory", "entries", "tokens"),
    ("wires",),
    ("stages", "stores", "retrieval"),
    ("reasking", "session", "workingset", "offers"),
    ("packing",),
    ("screening",),
    ("writing",),
    ("turn", "summarising", "telemetry"),
    ("documenting",),
    ("ending",),
    ("context",),
    ("calls",),
    ("drive", "drive_async"),
    ("clients",),
    (
        "wrapping",
        "inspection",
        "forgetting",
        "housekeeping",
        "children",
        "swap",
        "verifying",
        "archive",
        "previewing",
        "resolving",
        "pinning",
    ),
    ("evidence", "copying", "checkup"),
    ("service", "conformance"),
    ("practice", "mcp"),
    ("testing",),
    ("cli",),
    ("__main__",),
)
"""Rooms from the bottom up; a room imports itself and rooms below it."""

LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}


def room_of(module: str) -> str:
    return module.removeprefix("ctxwrap").lstrip(".").partition(".")[0]


def imports_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ctxwrap"):
            found |= (
                {node.module or ""} if node.module != "ctxwrap" else {f"ctxwrap.{name.name}" for name in node.names}
            )
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("ctxwrap")}
    return {room_of(module) for module in found} - {"__version__"}


MODULES = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    room = path.relative_to(ROOT).with_suffix("").parts[0]
    upward = {other for other in imports_of(path) if other != room and LEVEL[other] >= LEVEL[room]}
    assert not upward, f"{room} imports {upward}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_importing_is_light() -> None:
    heavy = {"pydantic", "asyncio", "httpx", "httpx2", "litellm", "openai", "anthropic", "tiktoken", "jsonschema"}
    heavy |= {"tenacity", "rich", "cryptography", "psycopg", "pytest"}
    code = f"import sys, ctxwrap; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_wrapping_loads_little_and_a_call_compiles_no_rule_before_it_needs_one() -> None:
    code = """
import gc, sys, openai, ctxwrap
client = openai.OpenAI(api_key="x")
before = set(sys.modules)
ctxwrap.wrap(client, session="s", store="memory:", context_mode="disabled")  # else a thread loads the tokenizer
wrapped = set(sys.modules) - before
import ctxwrap.clients.posting
called = set(sys.modules) - before
def rooms(loaded):
    return {name.split(".")[1] for name in loaded if name.startswith("ctxwrap.")}
foreign = {name.partition(".")[0] for name in called} - set(sys.stdlib_module_names) - {"openai", "ctxwrap"}
from ctxwrap.patterns import _Lazy
lazy = [each for each in gc.get_objects() if type(each) is _Lazy]
print(sorted(foreign), sorted(rooms(wrapped) & CALLS), sorted(rooms(called) & UNUSED))
print(len(lazy) > 100, sum("match" in vars(each) for each in lazy))
"""
    calls = {"calls", "drive", "language", "memory", "packing", "protocol", "retrieval", "session", "stages", "turn"}
    unused = {"archive", "checkup", "cli", "copying", "evidence", "inspection", "mcp", "practice", "service", "testing"}
    code = code.replace("CALLS", repr(calls)).replace("UNUSED", repr(unused))
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[] [] []\nTrue 0\n"


def test_the_public_names_are_what_they_are() -> None:
    assert ctxwrap.__all__ == [
        "Conflict",
        "ContextConflict",
        "ContextMissing",
        "CtxwrapError",
        "InvalidArchive",
        "InvalidId",
        "InvalidInput",
        "InvalidManifest",
        "KeyMismatch",
        "Memories",
        "MemoryRules",
        "NoSessionWarning",
        "NotFound",
        "PerTier",
        "QuotaExceeded",
        "Quotas",
        "Redaction",
        "SessionBusy",
        "Settings",
        "SettingsError",
        "Shares",
        "StoreCorrupt",
        "StoreError",
        "StoreUnavailable",
        "Summariser",
        "UnknownFormat",
        "UnsupportedClient",
        "WritesLost",
        "acompletion",
        "carry",
        "collect_garbage",
        "completion",
        "copy_sessions",
        "end_session",
        "export_session",
        "flush",
        "forget",
        "import_session",
        "offer",
        "open_store",
        "pin",
        "preview",
        "purge",
        "rebuild",
        "resolve_missing",
        "resources_for",
        "turn_of",
        "unpin",
        "using",
        "verify",
        "wrap",
    ]
    assert all(getattr(ctxwrap, name).__name__ == name for name in ctxwrap.__all__)
    import_module("ctxwrap.wrapping")
    assert callable(ctxwrap.wrap), "no submodule may hide a public name"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ctxwrap.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_drivers_are_the_same_text() -> None:
    sync = (ROOT / "drive.py").read_text()
    text = (ROOT / "drive_async.py").read_text()
    text = text.replace("from ctxwrap.threads import in_thread, in_thread_if\n", "").replace("AsyncCall", "Call")
    text = re.sub(r"await in_thread_if\([\w.]+\(\w+\), ([\w.]+), (\w+)\)", r"\1(\2)", text)
    text = re.sub(r"await in_thread\(([\w.]+)(?:, )?(.*?)\)", r"\1(\2)", text)
    text = text.replace("async def", "def").replace("await ", "").replace("SendAsync", "Send")
    text = text.replace("AsyncRetrying", "Retrying")
    assert text.partition("\n")[2] == sync.partition("\n")[2]
