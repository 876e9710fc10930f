"""What a check is, and what it finds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeGuard, TypeVar

Level = Literal["MUST", "SHOULD"]
"""As the sentence says. A plain statement is a MUST, an example or a recommendation a SHOULD; no MAY can be broken."""

DOCUMENTS = {
    "CP": "Context Protocol",
    "AC": "Agent Context",
    "RA": "Context Runtime ABI",
    "MR": "Context & Summary Rules",
    "CA": "Context Assembly Protocol",
}
"""By the letters with which the ids of their checks begin."""

_SHOWN = 80


class Finding(NamedTuple):
    """One place where a sentence is broken."""

    found: str
    file: str = ""
    line: int | None = None
    path: str = ""
    """Where in a JSON or YAML value, such as `memory.core[0].decay`."""

    @property
    def where(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file or self._line
        return f"{place} {self.path}".strip()

    @property
    def _line(self) -> str:
        return f"line {self.line}" if self.line else ""


Subject = TypeVar("Subject")
Find = Callable[[Subject], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    id: str
    level: Level
    sentence: str
    find: Find[Subject]

    @property
    def document(self) -> str:
        return DOCUMENTS[self.id.partition("-")[0]]


def shown(value: Any) -> str:
    """A value for a message, short and on one line."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    written = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 1]}…"


def at(path: str, key: str | int) -> str:
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_share(value: object) -> bool:
    """Whether it is a number from 0 to 1."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def is_moment(value: object) -> bool:
    """Whether it is a time in ISO 8601."""
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False
