"""The architecture: packages form layers, imports are light, sync and async are twins, public names are stable."""

import ast
import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

import ctxwrap
from benchmarks.architecture import PACKAGE, package_graph, trace_call
from tests.twins import as_sync, async_definitions

LAYERS = (
    ("encoding", "errors", "language"),
    ("documents", "redaction", "retrieval"),
    ("kinds",),
    ("settings",),
    ("types",),
    ("callers_list",),
    ("memory", "protocol", "stores"),
    ("tokens",),
    ("providers", "workingset"),
    ("pack",),
    ("session",),
    ("inspect", "testing", "turn"),
    ("clients", "export"),
    ("service",),
    ("conformance",),
    ("cli",),
    ("__main__",),
)
"""Packages from the bottom up; a package imports only packages of lower layers."""


def test_packages_import_only_lower_layers() -> None:
    level = {package: number for number, packages in enumerate(LAYERS) for package in packages}
    graph = package_graph()
    assert graph.keys() == level.keys()
    upward = [(one, other) for one in graph for other in graph[one] if level[other] >= level[one]]
    assert upward == []
    assert sum((PACKAGE / package).is_dir() for package in graph) <= 20


def test_modules_have_docstrings() -> None:
    assert [path for path in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))] == []


REPEATED_CLASSES = {"Answer", "Injection", "Item", "Memory", "Request", "Runtime"}
"""Classes whose name a published schema or a documented API fixes, beside ours of the same name."""

REPEATED_MODULES = {
    "__init__", "app", "assembly", "base", "chat", "clauses", "derived", "document", "documents", "envelope", "files",
    "format", "habits", "http", "intents", "items", "lifecycle", "log", "lookup", "memory", "messages", "missing",
    "models", "names", "persons", "reader", "reply", "report", "requests", "responses", "selection", "session",
    "sessions", "statements", "store", "streams", "turns", "values", "vocabulary",
}  # fmt: skip
"""Modules whose package says which one is meant, such as `stores.files.store` and `stores.postgres.store`."""


def test_names_of_classes_and_modules_are_unique() -> None:
    paths = list(PACKAGE.rglob("*.py"))
    classes = Counter(
        node.name for path in paths for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    )
    assert {name for name, times in classes.items() if times > 1} == REPEATED_CLASSES
    modules = Counter(path.stem for path in paths)
    assert {name for name, times in modules.items() if times > 1} == REPEATED_MODULES


def test_one_call_visits_few_packages() -> None:
    walk = trace_call()
    packages = {name for name in walk.packages if (PACKAGE / name).is_dir()}
    assert len(packages) <= 11, packages
    assert walk.changes <= 300


@pytest.mark.parametrize(("old", "new"), ctxwrap._MOVED.items())
def test_documented_modules_of_earlier_versions_are_importable(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        moved = import_module(old)
    assert moved is import_module(new)
    assert moved.__spec__ is not None
    assert moved.__spec__.name == moved.__name__ == new


def test_importing_is_light() -> None:
    heavy = {"pydantic", "asyncio", "httpx", "httpx2", "litellm", "openai", "anthropic", "tiktoken", "jsonschema"}
    heavy |= {"tenacity", "rich", "cryptography", "psycopg", "pytest"}
    code = f"import sys, ctxwrap; print(sorted({heavy!r} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_practice_model_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; from ctxwrap.testing.practice import Provider; print(Provider)"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_wrapping_loads_little_and_a_call_compiles_no_rule_before_it_needs_one() -> None:
    code = """
import gc, sys, openai, ctxwrap
client = openai.OpenAI(api_key="x")
before = set(sys.modules)
ctxwrap.wrap(client, session="s", store="memory:", context_mode="disabled")  # else a thread loads the tokenizer
import ctxwrap.clients.litellm
wrapped = set(sys.modules) - before
import ctxwrap.clients.sdk_call
called = set(sys.modules) - before
def rooms(loaded):
    return {name.split(".")[1] for name in loaded if name.startswith("ctxwrap.")}
foreign = {name.partition(".")[0] for name in called} - set(sys.stdlib_module_names) - {"openai", "ctxwrap"}
from ctxwrap.language.patterns import _Lazy
lazy = [each for each in gc.get_objects() if type(each) is _Lazy]
print(sorted(foreign), sorted(rooms(wrapped) & CALLS), sorted(rooms(called) & UNUSED), sorted(called & RARE))
print(len(lazy) > 100, sum("match" in vars(each) for each in lazy))
"""
    calls = {"memory", "pack", "protocol", "retrieval", "tokens", "workingset"}
    unused = {"cli", "conformance", "export", "inspect", "service", "testing", "workingset"}
    rare = {"ctxwrap.protocol.repair.steps", "ctxwrap.redaction.redactor", "ctxwrap.redaction.secrets"}
    code = code.replace("CALLS", repr(calls)).replace("UNUSED", repr(unused)).replace("RARE", repr(rare))
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[] [] [] []\nTrue 0\n"


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
        "SessionHandle",
        "Settings",
        "SettingsDict",
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
        "async_http_client",
        "async_transport",
        "bind",
        "carry",
        "collect_garbage",
        "completion",
        "copy_sessions",
        "end_session",
        "export_session",
        "flush",
        "forget",
        "http_client",
        "import_session",
        "offer",
        "open_session",
        "open_store",
        "pin",
        "preview",
        "purge",
        "rebuild",
        "resolve_missing",
        "resources_for",
        "transport",
        "turn_of",
        "unpin",
        "using",
        "verify",
        "wrap",
    ]
    assert all(getattr(ctxwrap, name).__name__ == name for name in ctxwrap.__all__)
    import_module("ctxwrap.clients.wrap")
    assert callable(ctxwrap.wrap), "no submodule may hide a public name"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ctxwrap.nonsense  # type: ignore[attr-defined]  # noqa: B018


ASYNC_ONLY = {"aclose"}
"""Async functions without a twin: litellm's sync streams have no `close`."""


def test_sync_and_async_twins_have_the_same_code() -> None:
    turn, clients = PACKAGE / "turn", sorted((PACKAGE / "clients").glob("*.py"))
    trees = {path: ast.parse(path.read_text()) for path in (turn / "sync.py", turn / "async_.py", *clients)}
    assert as_sync(trees[turn / "async_.py"]) == as_sync(trees[turn / "sync.py"])
    compared = []
    for path in clients:
        for name, definition, twin in async_definitions(trees[path]):
            if twin is not None:
                assert as_sync(definition) == as_sync(twin), f"{path.name}: {name}"
                compared.append(name)
            else:
                assert name in ASYNC_ONLY, f"{path.name}: {name} has no sync twin"
    assert {"AsyncRewrittenBody", "AsyncObservedBody", "rewrite_async", "post_async", "_async_call"} <= set(compared)
