"""Parses untrusted YAML into strings, numbers, booleans, lists and mappings, and checks fields."""

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from ctxwrap.errors import InvalidManifest
from ctxwrap.redaction.visibility import TARGETS, Target

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8
MAX_NODES = 6_000

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,40}(?:[eE][-+][0-9]{1,3})?)?")
_WORDS = {"": None, "~": None} | {
    spelled: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelled in (word, word.title(), word.upper())
}
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Pairs(list[tuple[str, Any]]):
    """A mapping as it was written, with repeated keys."""


def pairs_of(text: str | bytes) -> list[Any]:
    """The documents of a YAML text, mappings as `Pairs`; raises InvalidManifest unless all values are plain."""
    checked = checked_text(text)
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return list(_documents(yaml.parse(checked, Loader=loader)))
    except yaml.YAMLError as error:
        raise InvalidManifest(f"it is no YAML: {_in_one_line(error)}") from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise error if isinstance(error, InvalidManifest) else InvalidManifest(f"it is no YAML: {error}") from None


def checked_text(text: str | bytes) -> str:
    """The text as a string; raises InvalidManifest if it is too long or not UTF-8."""
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidManifest(f"it has more than {MAX_BYTES} bytes")
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidManifest(f"it is not UTF-8 (byte {error.start})") from None


def mapping_in(text: str | bytes) -> dict[str, Any]:
    """The mapping that a YAML text contains; an empty text is an empty mapping."""
    documents = pairs_of(text)
    if len(documents) > 1:
        raise InvalidManifest("it has more than one document; leave out the '---' between them")
    value = without_doubles(documents[0]) if documents else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidManifest("it is no mapping; begin with a key such as 'files:'")
    return value


def without_doubles(value: Any) -> Any:
    """`value` with its `Pairs` as dicts; raises InvalidManifest if a key is repeated."""
    if isinstance(value, Pairs):
        found: dict[str, Any] = {}
        for key, part in value:
            if key in found:
                raise InvalidManifest(f"the key {key[:80]!r} stands twice in one mapping; keep one of them")
            found[key] = without_doubles(part)
        return found
    return [without_doubles(part) for part in value] if isinstance(value, list) else value


def has_controls(text: str) -> bool:
    """Whether a text has control characters, bidirectional marks or surrogates."""
    return _CONTROLS.search(text) is not None


def _documents(events: Iterator[Any]) -> Iterator[Any]:
    import yaml

    left = MAX_NODES
    open_ones: list[list[Any]] = []
    for event in events:
        _check_event(event)
        if isinstance(event, yaml.ScalarEvent):
            open_ones[-1].append(_scalar(event))
        elif isinstance(event, yaml.DocumentStartEvent):
            open_ones = [[]]
        elif isinstance(event, yaml.DocumentEndEvent):
            yield from open_ones[0]
        elif isinstance(event, yaml.CollectionEndEvent):
            done = open_ones.pop()
            open_ones[-1].append(_paired(done) if isinstance(event, yaml.MappingEndEvent) else done)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_ones) > MAX_DEPTH:
                raise InvalidManifest(f"it is nested deeper than {MAX_DEPTH} levels{_place(event)}")
            open_ones.append([])
        left -= 1
        if left < 0:
            raise InvalidManifest(f"it has more than {MAX_NODES} parts")


def _check_event(event: Any) -> None:
    import yaml

    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise InvalidManifest(f"it uses anchors or aliases (& and *){_place(event)}; write the value out")
    if getattr(event, "tag", None) or getattr(event, "tags", None):
        raise InvalidManifest(f"it uses tags (!){_place(event)}; leave them out")


def _paired(parts: list[Any]) -> Pairs:
    keys = parts[::2]
    for key in keys:
        if not isinstance(key, str):
            raise InvalidManifest("a key is no text; put it in quotes")
        if key == "<<":
            raise InvalidManifest("it uses the merge key '<<'; write the values out")
    return Pairs(zip(keys, parts[1::2], strict=True))


def _scalar(event: Any) -> Any:
    text: str = event.value
    if has_controls(text):
        raise InvalidManifest(f"it has a control character{_place(event)}; remove it")
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _place(event: Any) -> str:
    return f" in line {event.start_mark.line + 1}"


def _in_one_line(error: Exception) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    mark = getattr(error, "problem_mark", None)
    return f"{problem}{f' in line {mark.line + 1}' if mark else ''}"


_LARGEST = 10**9
_LONGEST_NUMBER = 40
_LONGEST_PATH = 1024
_SHOWN = 60


class Wrong(Exception):
    """An invalid field; the message says what is valid."""


def number(name: str, value: Any) -> float:
    """A finite number; a text is parsed."""
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            value = float(value)
        except ValueError:
            raise Wrong(f"{name} must be a number, not {shown(value)}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise Wrong(f"{name} must be a number, not {shown(value)}")
    return value


def count(name: str, value: Any, least: int = 0) -> int:
    found = number(name, value)
    if not least <= found <= _LARGEST or found != int(found):
        raise Wrong(f"{name} must be a whole number from {least} to {_LARGEST}, not {shown(value)}")
    return int(found)


def priority(value: Any) -> float:
    found = number("priority", value)
    if not 0 <= found <= 1:
        raise Wrong(f"priority must be from 0 to 1, not {shown(value)}")
    return float(found)


def choice(name: str, value: Any, choices: tuple[str, ...], default: str) -> Any:
    if value is None:
        return default
    if isinstance(value, str) and value.strip().lower() in choices:
        return value.strip().lower()
    raise Wrong(f"{name} must be one of {', '.join(choices)}, not {shown(value)}")


def targets(value: Any) -> tuple[Target, ...] | None:
    """One or several targets."""
    if value is None:
        return None
    given = [value] if isinstance(value, str) else value
    if isinstance(given, list) and given and all(isinstance(each, str) and each in TARGETS for each in given):
        return tuple(target for target in TARGETS if target in given)
    raise Wrong(f"visibility must be of {', '.join(TARGETS)}, not {shown(value)}")


def inline_text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise Wrong(f"text must be a text, not {shown(value)}; put it in quotes")
    return value


def path(value: Any) -> str:
    """A valid path below a root."""
    if fault := path_fault(value):
        raise Wrong(fault)
    return str(value)


def path_fault(value: object) -> str:
    """Why a value is no valid path below a root; empty if it is one."""
    if not isinstance(value, str) or not value:
        return "a path must be a text that is not empty"
    if has_controls(value) or any(mark in value for mark in "\t\n\r"):
        return "a path must not have control characters"
    if len(value) > _LONGEST_PATH:
        return f"a path must not be longer than {_LONGEST_PATH} characters"
    if value.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]", value):
        return "a path must be relative to the root of the working set"
    if any(part in ("", ".", "..") for part in value.split("/")):
        return "a path must be plain names with '/' between them, without '.', '..' or '//'"
    return ""


def text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else shown(value)


def shown(value: Any) -> str:
    """A value for an error message, shortened."""
    written = repr(value)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 3]}..."
