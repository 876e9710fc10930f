"""The report of a verification, and the state and derived files computed from the log."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from ctxwrap.session import blobs
from ctxwrap.session.state import SessionState
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Files
from ctxwrap.stores.memory import MemoryFiles
from ctxwrap.types import Record, SessionKey

FindingSeverity = Literal["damage", "behind", "note"]
"""`damage`: content is lost or in doubt. `behind`: it repairs itself or can be rebuilt from the log. `note`: worth
knowing."""

SEVERITIES: tuple[FindingSeverity, ...] = get_args(FindingSeverity)

_KEPT = 1000
"""The most findings kept per severity; others are counted."""

_FIRST = ("messages.jsonl", "events.jsonl")


class VerifyFinding(NamedTuple):
    severity: FindingSeverity
    file: str
    what: str
    remedy: str = ""
    line: int = 0
    """Counted from 1; 0 for the whole file."""
    byte: int = 0
    """The byte offset of that line."""

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line} (byte {self.byte})" if self.line else self.file

    def as_json(self) -> dict[str, Any]:
        place = {"line": self.line, "byte": self.byte} if self.line else {}
        return {"severity": self.severity, "file": self.file, **place, "what": self.what, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification."""

    key: SessionKey
    messages: int
    events: int
    unchecked: int
    """Lines without a checksum, or imported without one."""
    contents: int
    """Blobs."""
    torn: int
    """Incomplete ends of streams that a later writer set aside."""
    findings: tuple[VerifyFinding, ...]
    """Damage first, in the order of the log."""
    found: Mapping[FindingSeverity, int]
    """The number per severity, including unlisted ones."""

    @property
    def is_damaged(self) -> bool:
        return bool(self.found.get("damage"))

    def as_json(self) -> dict[str, Any]:
        counts = ("messages", "events", "unchecked", "contents", "torn")
        return {
            **self.key._asdict(),
            "damaged": self.is_damaged,
            **{name: getattr(self, name) for name in counts},
            "found": {severity: self.found.get(severity, 0) for severity in SEVERITIES},
            "findings": [finding.as_json() for finding in self.findings],
        }


class VerifyFindings:
    """Collects findings."""

    def __init__(self) -> None:
        self.found: Counter[FindingSeverity] = Counter()
        self._kept: list[VerifyFinding] = []

    def add(self, finding: VerifyFinding) -> None:
        self.found[finding.severity] += 1
        if self.found[finding.severity] <= _KEPT:
            self._kept.append(finding)

    def in_order(self) -> tuple[VerifyFinding, ...]:
        return tuple(sorted(self._kept, key=_rank))


def _rank(finding: VerifyFinding) -> tuple[int, int, int]:
    place = _FIRST.index(finding.file) if finding.file in _FIRST else len(_FIRST)
    return SEVERITIES.index(finding.severity), place, finding.line or 1 << 62


class Computed(MemoryFiles):
    """Files in memory, for comparison; blobs are not loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}

    def link(self, name: str, other: str) -> None:
        self.links.setdefault(other, name)


@dataclass(slots=True)
class Fold:
    """A session's state, record by record: all messages, then all events."""

    files: Files
    """The files with the blobs."""
    state: SessionState = field(default_factory=lambda: SessionState(Settings()))

    def take(self, stream: str, record: Record) -> bool:
        """Fold a record; False if it is malformed."""
        return self.state.take(stream, record, self._whole)

    def computed(self) -> Computed:
        files = Computed()
        self.state.derived.save(files, self.state.memory, self.state.turns.state)
        return files

    def _whole(self, record: Record) -> Record:
        try:
            return blobs.inline(record, self.files)
        except LookupError:
            return record


def folded(files: Files, messages: Iterable[Record], events: Iterable[Record], step: Callable[[], None]) -> Fold:
    fold = Fold(files)
    for stream, records in (("messages", messages), ("events", events)):
        for record in records:
            fold.take(stream, record)
            step()
    return fold
