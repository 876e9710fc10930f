"""The assembly report: included, excluded and missing files, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ctxwrap.errors import ContextMissing
from ctxwrap.workingset.manifest import FileBudget, FileRole

FileSeverity = Literal["low", "medium", "blocking"]


class Included(NamedTuple):
    path: str
    role: FileRole
    tokens: int
    """With its frame, as sent."""
    truncated: bool
    original_tokens: int
    """Of the whole file."""
    digest: str
    """SHA-256 of the whole file."""

    def as_json(self) -> dict[str, Any]:
        original = {"original_tokens": self.original_tokens} if self.truncated else {}
        known = {"path": self.path, "role": self.role, "tokens": self.tokens, "truncated": self.truncated}
        return {**known, **original, "digest": self.digest}


class Excluded(NamedTuple):
    path: str
    reason: str


class MissingFile(NamedTuple):
    """A file that the model should see and does not."""

    path: str
    reason: str
    severity: FileSeverity
    resolution: str
    """How to resolve it."""
    status: Literal["open"] = "open"


def context_missing(missing: Sequence[MissingFile]) -> ContextMissing:
    listed = "; ".join(f"{each.path!r}: {each.reason} ({each.resolution})" for each in missing)
    return ContextMissing(f"vital files of the working set are not in the context: {listed}")


@dataclass(frozen=True, slots=True)
class AssemblyReport:
    budget: FileBudget
    header_tokens: int = 0
    included: tuple[Included, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    missing: tuple[MissingFile, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def used(self) -> int:
        """The tokens of the header and of all included files."""
        return self.header_tokens + sum(each.tokens for each in self.included)

    @property
    def blocking(self) -> tuple[MissingFile, ...]:
        return tuple(each for each in self.missing if each.severity == "blocking")

    def as_json(self) -> dict[str, Any]:
        budget = {
            "max": self.budget.max_tokens,
            "used": self.used,
            "remaining": self.budget.max_tokens - self.used,
            "remaining_effective": self.budget.effective - self.used,
        }
        report = {
            "budget": budget,
            "order": "by role, then by priority",
            "included": [each.as_json() for each in self.included],
            "excluded": [each._asdict() for each in self.excluded],
            "missing_context": [each._asdict() for each in self.missing],
            "warnings": list(self.warnings),
        }
        return {"assembly_report": report}
