"""Validation of JSON against a JSON Schema, with faults that name the path and what was expected."""

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ctxwrap.errors import InvalidInput, NotFound
from ctxwrap.session.abi.names import parsed

_LONGEST = 80
"""Most characters of a value that a fault repeats."""


class SchemaFault(NamedTuple):
    path: str
    """Where in the value, such as `items[0].id`; empty for the whole value."""
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def json_path(keys: Iterable[str | int]) -> str:
    path = ""
    for key in keys:
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
    return path


def schema_faults(value: Any, schema: dict[str, Any]) -> Iterator[SchemaFault]:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
    from jsonschema.exceptions import best_match  # type: ignore[import-untyped]

    for error in Draft202012Validator(schema).iter_errors(value):
        cause = best_match([error])  # descends into the alternative of an anyOf that fits best, unless several do
        message = " or ".join(each.message for each in cause.context or [cause])
        written = repr(cause.instance)
        short = written if len(written) <= _LONGEST else f"{written[:_LONGEST]}…"
        yield SchemaFault(json_path(cause.absolute_path), message.replace(written, short))


def file_faults(file: str | os.PathLike[str], schema: dict[str, Any]) -> Iterator[SchemaFault]:
    """Check a file of JSON or JSON lines; faults in JSON lines name the line."""
    path = os.fspath(file)
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except OSError as error:
        raise NotFound(f"cannot read {path!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path!r} is not UTF-8 (byte {error.start})") from None
    try:
        yield from schema_faults(parsed(text), schema)
    except ValueError as error:
        if not _is_json(text.partition("\n")[0]):
            yield SchemaFault("", f"not valid JSON: {error}")
            return
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            if not _is_json(line):
                yield SchemaFault(f"line {number}", "not valid JSON")
                continue
            for fault in schema_faults(parsed(line), schema):
                yield fault._replace(path=f"line {number} {fault.path}".strip())


def _is_json(text: str) -> bool:
    try:
        parsed(text)
    except ValueError:
        return False
    return True
