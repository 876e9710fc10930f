"""Single fields as strangers write them: what was meant, or what is wrong with it."""

import re
from math import isfinite
from typing import Any

from ctxwrap.visibility import TARGETS, Target
from ctxwrap.workingset.plain import has_controls

_LARGEST = 10**9
_LONGEST_NUMBER = 40
_LONGEST_PATH = 1024
_SHOWN = 60


class Wrong(Exception):
    """A field that cannot be what it is, and what to write instead."""


def number(name: str, value: Any) -> float:
    """A finite number, also if it came as a text."""
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
    """Whom something is for, one or several; a word that names nobody is wrong, and not a way to be seen."""
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
    """A path that can name a file below a root."""
    if fault := path_fault(value):
        raise Wrong(fault)
    return str(value)


def path_fault(value: object) -> str:
    """Why it can name no file below a root, or nothing."""
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
    """A value for a message, short and on one line."""
    written = repr(value)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 3]}..."
