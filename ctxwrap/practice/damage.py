"""The ways in which the practice model breaks the protocol when it is told to."""

import hashlib
from collections.abc import Callable
from copy import deepcopy

from ctxwrap.practice.answer import JSON


def fraction(*parts: object) -> float:
    """A number from 0 up to 1 that depends on nothing but `parts`."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def damaged(text: str, where: float) -> str:
    """`text`, a JSON object, broken in the way that `where` (from 0 up to 1) picks."""
    return WAYS[int(where * len(WAYS))](text)


def forged(state: JSON) -> JSON:
    """`state` with a runtime the system did not set."""
    runtime = deepcopy(state["runtime"])
    given = runtime.get("round")
    runtime["round"] = (given if isinstance(given, int) else 0) + 41
    runtime["datetime"] = "1999-12-31T23:59:59Z"
    runtime["startup_at"] = "1999-01-01T00:00:00Z"
    return state | {"runtime": runtime}


def _trailing_comma(text: str) -> str:
    return f"{text[:-1]},}}"


def _code_fence(text: str) -> str:
    return f"```json\n{text}\n```"


def _cut_off(text: str) -> str:
    return text[: len(text) * 3 // 5]


def _single_quotes(text: str) -> str:
    return text.replace('"', "'")


def _line_in_string(text: str) -> str:
    return text.replace('"active_task":"', '"active_task":"now\n', 1)


def _afterword(text: str) -> str:
    return f"{text}\n\nLet me know if there is anything else!"


def _comment(text: str) -> str:
    return f"{{ // the state\n{text[1:]}"


def _missing_brace(text: str) -> str:
    return text[:-1]


WAYS: tuple[Callable[[str], str], ...] = (
    _trailing_comma,
    _code_fence,
    _cut_off,
    _single_quotes,
    _line_in_string,
    _afterword,
    _comment,
    _missing_brace,
)
