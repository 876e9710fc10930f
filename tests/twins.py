"""Compares async code with its sync twin: the same code without `async`, `await`, threads and async names."""

import ast
import re
from collections.abc import Iterator
from typing import Any

_NAMES = {
    "aclose": "close",
    "aread": "read",
    "aiter": "iter",
    "aiter_bytes": "iter_bytes",
    "anext": "next",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "acompletion": "completion",
    "AsyncByteStream": "SyncByteStream",
}
"""Async names, and those of their twins; all others only lose the word `async`."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sync_name(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    return re.sub(
        r"^async_$", "sync", re.sub(r"(?<=.)_async\b|\basync_(?=.)|(?<=_)async_", "", name.replace("Async", ""))
    )


class _ToSync(ast.NodeTransformer):
    """Rewrites async code to what its sync twin must be."""

    def visit_Module(self, node: ast.Module) -> Any:
        node.body = [each for each in node.body if not isinstance(each, ast.ImportFrom)]
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.name = sync_name(node.name)
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.name = sync_name(node.name)
        return self._without_docstring(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self.visit(ast.FunctionDef(**dict(ast.iter_fields(node))))

    def visit_Await(self, node: ast.Await) -> Any:
        return self.visit(node.value)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> Any:
        loop = ast.For(**dict(ast.iter_fields(node)))
        body = loop.body[0]
        if isinstance(body, ast.Expr) and isinstance(body.value, ast.Yield):
            return self.visit(ast.Expr(ast.YieldFrom(loop.iter)))
        return self.generic_visit(loop)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        if node.generators[0].is_async:  # `[each async for each in them]` is `them`
            return self.visit(node.generators[0].iter)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in ("in_thread", "in_thread_if", "finish_in_thread"):
            _, *args = node.args if node.func.id == "in_thread_if" else [None, *node.args]
            node = ast.Call(args[0], args[1:], node.keywords)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Name(sync_name(node.id), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        return self.generic_visit(ast.Attribute(node.value, sync_name(node.attr), node.ctx))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        names = [ast.alias(sync_name(each.name), each.asname) for each in node.names]
        return ast.ImportFrom(node.module, names, node.level)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return ast.Constant(sync_name(node.value)) if isinstance(node.value, str) else node

    def _without_docstring(self, node: Any) -> Any:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        return node


def as_sync(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(_ToSync().visit(node)))


def async_definitions(scope: ast.Module | _Definition) -> Iterator[tuple[str, _Definition, _Definition | None]]:
    """The name of each async function or class, its definition, and that of its twin in the same scope."""
    definitions = {each.name: each for each in scope.body if isinstance(each, _Definition)}
    for name, each in definitions.items():
        if isinstance(each, ast.AsyncFunctionDef) or sync_name(name) != name:
            twin = definitions.get(sync_name(name))
            yield name, each, None if twin is each else twin
        else:
            yield from async_definitions(each)
