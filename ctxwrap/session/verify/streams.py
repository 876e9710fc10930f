"""Checks of both streams: each line is intact, in its place, and refers to existing records and blobs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctxwrap.session.abi import Issue, issues_in_record
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.branch import ROOT
from ctxwrap.session.verify.report import FindingSeverity, VerifyFinding, VerifyFindings
from ctxwrap.stores.base import STREAMS, Log, StreamLine
from ctxwrap.stores.log_format import turn_in
from ctxwrap.types import Record

RESTORE = "restore the session from an archive or a backup, or go on without it: everything else is still read"


class LineRef(NamedTuple):
    """A line of a stream."""

    file: str
    line: int
    byte: int


class Reference(NamedTuple):
    """A blob that a record refers to."""

    digest: str
    place: LineRef
    """The first reference to it."""


def lines_of(log: Log, stream: str) -> Iterator[tuple[StreamLine, bool]]:
    """Every line, and whether it is an incomplete last one after a crash."""
    before: StreamLine | None = None
    for line in log.lines(stream):
        if before is not None:
            yield before, False
        before = line
    if before is not None:
        yield before, before.record is None and log.read(stream, before.start)[1] <= before.start


@dataclass(slots=True)
class _Stream:
    """The progress in a stream."""

    file: str
    records: int = 0
    lines: int = 0
    end: int = 0
    read: int = 0
    """The end of the complete lines."""
    number: int = 0
    """The number of the last record."""
    unreadable: int = 0
    """Unreadable lines since then."""
    ids: set[str] = field(default_factory=set)


class StreamCheck:
    """Give it all messages, then all events, then call `finish`."""

    def __init__(self, findings: VerifyFindings) -> None:
        self._findings = findings
        self.streams = {stream: _Stream(f"{stream}.jsonl") for stream in STREAMS}
        self.unchecked = 0
        self.contents: dict[str, Reference] = {}
        self._calls: set[str] = set()
        self._turns: dict[str, LineRef] = {}
        """The first message of each turn."""
        self._begun: dict[str, tuple[str, LineRef]] = {}
        """Open turns: their writers, and their first lines."""
        self._over: set[str] = set()
        self._promised = 0
        """The number of messages at the end of the last turn."""

    def take(self, stream: str, line: StreamLine, torn: bool = False) -> None:
        known = self.streams[stream]
        place = LineRef(known.file, line.number, line.start)
        known.lines, known.end = line.number, line.end
        if torn:
            what = "a crash cut it short; no record before it is affected"
            self._add("behind", place, what, "nothing: the next call sets it aside")
            return
        known.read = line.end
        if line.fault:
            self._add("damage", place, line.fault, RESTORE)
        if line.record is None:
            known.unreadable += 1
            return
        self._take_record(stream, line.record, place, checked=line.checked)

    def finish(self, is_alive: Callable[[str], bool]) -> None:
        """Report what shows only after all lines."""
        self._check_promise()
        for run, (writer, place) in self._begun.items():
            self._check_unfinished(run, place, alive=bool(writer) and is_alive(writer), named=bool(writer))
        for turn, place in self._turns.items():
            if turn not in self._begun and turn not in self._over:
                what = f"the events have no start of its turn {turn!r}: a crash came between the two, or it was lost"
                self._add("note", place, what)

    def _take_record(self, stream: str, record: Record, place: LineRef, *, checked: bool) -> None:
        known, control = self.streams[stream], record.get("ctx")
        control = control if isinstance(control, dict) else {}
        known.records += 1
        self.unchecked += not checked or control.get("unchecked") is True
        self._check_form(stream, record, place)
        self._check_number(known, control.get("seq"), place)
        self._check_id(known, control.get("id"), place)
        for blob in blobs_in(record):
            self.contents.setdefault(blob["id"], Reference(str(blob.get("digest")), place))
        if stream == "messages":
            self._check_message(record, control, place)
        else:
            self._check_event(record, control, place)

    def _check_form(self, stream: str, record: Record, place: LineRef) -> None:
        """A line with a valid checksum was written like this, so a violation of the ABI is a note."""
        issues = issues_in_record(stream, record)
        if issues:
            ours = "ctx" in record
            what = f"it is not what the ABI says: {'; '.join(map(_said, issues[:3]))}"
            self._add("note" if ours else "damage", place, what, "" if ours else "correct the line or remove it")

    def _check_number(self, known: _Stream, number: Any, place: LineRef) -> None:
        expected, unreadable = known.number + 1, known.unreadable
        known.unreadable = 0
        if not isinstance(number, int) or isinstance(number, bool):  # a record by another program counts as one
            known.number = expected
            return
        if number < expected:
            self._add("damage", place, f"it has the number {number} behind number {known.number}", RESTORE)
        elif number > expected + unreadable:
            missing = number - expected - unreadable
            self._add("damage", place, f"records are missing before it: {missing}", RESTORE)
        known.number = max(number, known.number)

    def _check_id(self, known: _Stream, id: Any, place: LineRef) -> None:
        if not isinstance(id, str):
            return
        if id in known.ids:
            self._add("damage", place, f"its id {id!r} is that of an earlier record", RESTORE)
        known.ids.add(id)

    def _check_message(self, message: Record, control: Record, place: LineRef) -> None:
        parent, turn, answers = control.get("parent"), turn_in(message), message.get("tool_call_id")
        if turn and "purged" not in control:
            self._turns.setdefault(turn, place)
        if isinstance(parent, str) and not self._has_message(parent):
            self._add("damage", place, f"it continues message {parent!r}, which is not before it", RESTORE)
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                self._calls.add(call["id"])
        if isinstance(answers, str) and answers and answers not in self._calls:
            self._add("note", place, f"it answers the call {answers!r}, which no message before it makes")

    def _has_message(self, id: str) -> bool:
        """Messages by other programs have no id; their position serves as one."""
        known = self.streams["messages"]
        return id == ROOT or id in known.ids or (id.isdecimal() and int(id) <= known.records > len(known.ids))

    def _check_event(self, event: Record, control: Record, place: LineRef) -> None:
        run, kind, count = event.get("run"), event.get("type"), control.get("messages")
        if isinstance(count, int):
            self._promised = max(self._promised, count)
        if kind == "entry":
            self._over.add(turn_in(event))
        if not isinstance(run, str):
            return
        if kind == "start":
            self._begun[run] = str(control.get("writer") or ""), place
        elif run not in self._begun and run not in self._over:
            ours = "seq" in control
            self._add("damage" if ours else "note", place, f"its run {run!r} has no start", RESTORE if ours else "")
            self._over.add(run)
        if kind == "done":
            self._begun.pop(run, None)
            self._over.add(run)

    def _check_promise(self) -> None:
        known = self.streams["messages"]
        first, missing = known.number + known.unreadable + 1, self._promised - known.number - known.unreadable
        if missing > 0:
            what = f"the last {missing} of {self._promised} messages are missing, from number {first} on"
            self._add("damage", LineRef(known.file, known.lines + 1, known.end), what, RESTORE)

    def _check_unfinished(self, run: str, place: LineRef, *, alive: bool, named: bool) -> None:
        if alive:
            self._add("note", place, f"turn {run!r} is under way")
        elif named:
            what = f"turn {run!r} never ended, and its process did"
            self._add("behind", place, what, "nothing: the next call closes it")
        else:
            self._add("note", place, f"turn {run!r} never ended, and does not say whose it is")

    def _add(self, severity: FindingSeverity, place: LineRef, what: str, remedy: str = "") -> None:
        self._findings.add(VerifyFinding(severity, place.file, what, remedy, place.line, place.byte))


def _said(issue: Issue) -> str:
    return " ".join(filter(None, (issue.kind, issue.field, repr(issue.value[:40]) if issue.value else "")))
