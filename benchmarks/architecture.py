"""Print the graph of ctxwrap's packages, and the packages and files that one call of a running chat visits.

python benchmarks/architecture.py
"""

import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
PACKAGE = ROOT / "ctxwrap"


def package_of(path: Path) -> str:
    """The package of a module's file, or the name of a module that is in none."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imported_by(path: Path) -> set[str]:
    """The packages that a module imports at run time, also inside functions."""
    return {name.split(".")[1] for name in _imports(ast.parse(path.read_text())) if "." in name}


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ctxwrap":
        module = node.module or ""
        yield from [module] if "." in module else [f"{module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.startswith("ctxwrap."))
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def package_graph() -> dict[str, set[str]]:
    """Every package and top-level module of ctxwrap with those it imports."""
    graph: dict[str, set[str]] = {}
    names = {path.stem for path in PACKAGE.iterdir()}
    for path in PACKAGE.rglob("*.py"):
        package = package_of(path)
        if package != "__init__":
            graph.setdefault(package, set()).update((imported_by(path) & names) - {package})
    return graph


class Walk(NamedTuple):
    """What one call visits."""

    packages: set[str]
    files: set[str]
    changes: int
    """How often the call goes from one package to another."""


def trace_call() -> Walk:
    """The walk of the tenth turn of a chat, in the caller's thread."""
    import openai

    import ctxwrap
    from ctxwrap.testing.practice import Provider

    visited: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)) and "practice" not in name:
            visited.append(name)

    with tempfile.TemporaryDirectory() as home, Provider() as provider:
        client = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        chat = ctxwrap.wrap(client, session="s", store=home)
        for turn in range(10):
            if turn == 9:
                sys.setprofile(note)
            content = f"My sister Ada moved to Oslo in {2000 + turn}."
            chat.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": content}])
        sys.setprofile(None)
        ctxwrap.flush()
    packages = [package_of(Path(name)) for name in visited]
    changes = sum(1 for before, after in pairwise(packages) if before != after)
    return Walk(set(packages), set(visited), changes)


def main() -> None:
    graph = package_graph()
    for package in sorted(graph):
        print(f"{package:12} -> {', '.join(sorted(graph[package])) or '-'}")
    print(f"\n{sum((PACKAGE / name).is_dir() for name in graph)} packages")
    files = list(PACKAGE.rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in files)
    print(f"{len(files)} files, {lines} lines")
    walk = trace_call()
    by_package = Counter(package_of(Path(name)) for name in walk.files)
    print(f"\none call: {len(walk.packages)} packages, {len(walk.files)} files, {walk.changes} changes of package")
    print(", ".join(f"{package} {count}" for package, count in by_package.most_common()))


if __name__ == "__main__":
    main()
