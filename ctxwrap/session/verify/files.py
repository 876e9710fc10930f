"""Checks of the files beside the streams: blobs, control files and derived files."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ctxwrap.memory.items import MemoryItem
from ctxwrap.session import blobs, swap
from ctxwrap.session.abi import (
    CONTEXT_FILES,
    ControlName,
    RecordKind,
    blob_name,
    budget_in,
    control_issues,
    pack_issues,
    record_issues,
)
from ctxwrap.session.derived import is_derived
from ctxwrap.session.verify.report import Computed, VerifyFinding, VerifyFindings
from ctxwrap.session.verify.streams import RESTORE, Reference
from ctxwrap.stores.base import FileEntry, Files
from ctxwrap.types import Record, SessionKey

_KINDS: dict[str, RecordKind] = {
    "context/facts.jsonl": "facts",
    "context/decisions.jsonl": "decisions",
    "context/refs.jsonl": "refs",
    swap.INDEX: "swap_index",
    blobs.INDEX: "dedup_index",
}

_OF_THE_LAST_CALL = {f"context/{name}" for name in CONTEXT_FILES if name.startswith(("pack.", "plan."))}

_FEW = 3
"""The most missing files named per directory; more are counted."""


class FileCheck:
    def __init__(self, files: Files, key: SessionKey, findings: VerifyFindings) -> None:
        self._files = files
        self._key = key
        self._findings = findings
        self._entries = {entry.name: entry for entry in files.entries()}
        self._bad: set[str] = set()
        """Missing or damaged blobs."""

    @property
    def torn(self) -> list[FileEntry]:
        return [entry for entry in self._entries.values() if ".jsonl.torn-" in entry.name]

    @property
    def sizes(self) -> Mapping[str, int]:
        return {entry.name: entry.size for entry in self._entries.values()}

    def check_content(self, name: str, reference: Reference) -> None:
        """Whether a blob matches its reference."""
        data = self._files.load(f"raw/{name}") if f"raw/{name}" in self._entries else None
        if data is not None and blob_name(data)[1] == reference.digest:
            return
        self._bad.add(f"raw/{name}")
        what = f"its content raw/{name} is {'missing' if data is None else 'not what it was'}"
        place = reference.place
        self._findings.add(VerifyFinding("damage", place.file, what, RESTORE, place.line, place.byte))

    def check_rest(self, known: Mapping[str, Reference]) -> None:
        """Check for unused blobs, ends that were set aside, and control files."""
        for name in self._entries:
            if name.startswith("raw/") and name.removeprefix("raw/") not in known:
                self._note(name, "no record refers to it", "remove it, if no call is under way")
        for entry in self.torn:
            what = f"a crash cut {entry.size} bytes short, and a later writer set them aside"
            self._note(entry.name, what, "look at it, then remove it")
        self._check_meta()
        self._check_small("cwd")
        self._check_budget()

    def check_sources(self, items: Mapping[str, MemoryItem], messages: int) -> None:
        """Check that the sources of memory items exist."""
        for item in items.values():
            first, last = _range(item.source)
            if last > messages:
                what = f"memory item {item.id!r} is from messages {first} to {last}, and the log ends with {messages}"
                self._findings.add(VerifyFinding("damage", "events.jsonl", what, RESTORE))

    def check_derived(self, computed: Computed, messages: int) -> None:
        """Compare derived files with those that a rebuild would write."""
        wanted = {entry.name for entry in computed.entries()} | computed.links.keys()
        self._tell_missing(sorted(wanted - self._entries.keys()))
        for name in sorted(wanted & self._entries.keys()):
            reason = self._differs(name, computed, messages)
            if reason:
                self._behind(name, reason)
        for name in sorted(self._entries.keys() - wanted):
            if name in _OF_THE_LAST_CALL:
                self._check_pack(name)
            elif is_derived(name):
                self._note(name, "it does not follow from the log", "keep it elsewhere: a rebuild removes it")

    def _differs(self, name: str, computed: Computed, messages: int) -> str:
        data = self._files.load(name)
        if name in computed.links:
            raw = computed.links[name]
            return "" if raw in self._bad or data == self._files.load(raw) else f"it is not what {raw} is"
        wanted = computed.load(name) or b""
        if data == wanted:
            return ""
        text, right = ((each or b"").decode("utf-8", "surrogateescape") for each in (data, wanted))
        return self._why(name, text, right, messages) or "it is not what the log says"

    def _why(self, name: str, text: str, wanted: str, messages: int) -> str:
        """The first fault in a derived file, if one can be located."""
        if name in _KINDS:
            issues = record_issues(_KINDS[name], text)
            if issues:
                return f"line {issues[0].at}: {issues[0].kind}"
            chunks = (line for line in _lines(wanted) if line.get("kind") == "message_range")
            ranges = {line.get("range"): line.get("digest") for line in chunks}
            for number, line in enumerate(_lines(text), 1):
                reason = self._line_reason(line, messages, ranges)
                if reason:
                    return f"line {number}: {reason}"
        elif name in get_args(ControlName):
            return "; ".join(issue.kind for issue in control_issues(name, text))  # type: ignore[arg-type]
        return ""

    def _line_reason(self, line: Record, messages: int, ranges: Mapping[Any, Any]) -> str:
        first, last = _range(str(line.get("range") or line.get("source") or ""))
        if last > messages:
            return f"messages {first} to {last} are not in the log"
        if line.get("kind") == "message_range":
            digest = ranges.get(line.get("range"))
            if digest != line.get("digest"):
                return f"its digest is not that of messages {first} to {last}"
        if "hash" in line and f"raw/{line['hash']}" not in self._entries:
            return f"raw/{line['hash']} is not there"
        return ""

    def _tell_missing(self, names: list[str]) -> None:
        directories: dict[str, list[str]] = defaultdict(list)
        for name in names:
            directories[name.rpartition("/")[0]].append(name)
        for directory, missing in directories.items():
            if len(missing) > _FEW:
                self._behind(f"{directory}/" if directory else missing[0], f"{len(missing)} files are missing")
            else:
                for name in missing:
                    self._behind(name, "it is missing")

    def _check_meta(self) -> None:
        if "meta.json" not in self._entries:
            if self._entries.keys() & {"messages.jsonl", "events.jsonl"}:
                self._findings.add(
                    VerifyFinding("behind", "meta.json", "it is missing", "nothing: the next call makes it")
                )
            return
        text = self._text("meta.json")
        try:
            known = json.loads(text)
            named = SessionKey(known["tenant"], known["agent"], known["session"])
        except (ValueError, RecursionError, LookupError, TypeError):
            named = None
        if named != self._key:
            what = f"it does not name session {self._key.session!r} of tenant {self._key.tenant!r}"
            remedy = "move the directory back to where it came from, or restore the file"
            self._findings.add(VerifyFinding("damage", "meta.json", what, remedy))
        else:
            self._check_small("meta.json")

    def _check_small(self, name: ControlName) -> None:
        if name in self._entries:
            issues = control_issues(name, self._text(name))
            if issues:
                self._note(name, f"it is not what the ABI says: {issues[0].kind}", "correct it")

    def _check_budget(self) -> None:
        if "context/budget" in self._entries:
            try:
                budget_in(self._text("context/budget"))
            except ValueError as error:
                self._note("context/budget", str(error), "correct it, or remove it")

    def _check_pack(self, name: str) -> None:
        issues = pack_issues(self._text(name)) if name == "context/pack.json" else ()
        if issues:
            self._behind(name, f"it is no pack: {issues[0].kind}")

    def _text(self, name: str) -> str:
        return (self._files.load(name) or b"").decode("utf-8", "surrogateescape")

    def _behind(self, name: str, what: str) -> None:
        self._findings.add(VerifyFinding("behind", name, what, f"ctxwrap rebuild {self._key.session}"))

    def _note(self, name: str, what: str, remedy: str = "") -> None:
        self._findings.add(VerifyFinding("note", name, what, remedy))


def _lines(text: str) -> Iterator[Record]:
    """The records of a valid derived file."""
    for line in text.split("\n"):
        if line.strip():
            yield json.loads(line)


def _range(source: str) -> tuple[int, int]:
    """The numbers in `messages:12-18` or `12-18`; zeros for anything else."""
    first, _, last = source.removeprefix("messages:").partition("-")
    numbers = (first, last or first)
    return (int(first), int(numbers[1])) if all(each.isascii() and each.isdecimal() for each in numbers) else (0, 0)
