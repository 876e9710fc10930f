"""Detects the kind of a path or text, and runs all checks of that kind."""

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

from ctxwrap.conformance.assembly import MANIFEST_CHECKS, REPORT_CHECKS, read_manifest, read_report
from ctxwrap.conformance.checks import DOCUMENTS, Check, Finding, Folder, Level
from ctxwrap.conformance.derived import SESSION_CHECKS
from ctxwrap.conformance.documents import CONTEXT_CHECKS, SUMMARY_CHECKS
from ctxwrap.conformance.envelope import ENVELOPE_CHECKS, Records, records_in
from ctxwrap.conformance.reply import DISABLED_REPLY_CHECKS, REPLY_CHECKS, read_reply
from ctxwrap.conformance.session import SessionFolder
from ctxwrap.errors import InvalidInput
from ctxwrap.protocol.grammar import SEPARATOR
from ctxwrap.session.abi.names import parsed
from ctxwrap.stores.base import KEY_FILE

InputKind = Literal["session", "envelope", "manifest", "report", "reply", "disabled-reply", "context", "summary"]
KINDS: tuple[InputKind, ...] = get_args(InputKind)

LARGEST_FILE = 64 << 20
"""Largest file other than a session folder, in bytes."""
MOST_FINDINGS = 20
"""Most findings to list per check."""

_YAML = re.compile(r"(?m)^(?:protocol:[ \t]*[\"']?CONTEXT-ASSEMBLY|files:|(assembly_report:))")


def _records(text: str) -> Records:
    try:
        records = records_in(parsed(text))
    except ValueError as error:
        raise InvalidInput(f"it is not valid JSON: {error}") from None
    if not records.all:
        raise InvalidInput("it has no record of Agent Context")
    return records


class _KindChecks(NamedTuple):
    read: Callable[[str], Any]
    checks: tuple[Check[Any], ...]


_CHECKS_BY_KIND: Mapping[InputKind, _KindChecks] = {
    "session": _KindChecks(lambda path: SessionFolder(_session_folder(path)), SESSION_CHECKS),
    "envelope": _KindChecks(_records, ENVELOPE_CHECKS),
    "manifest": _KindChecks(read_manifest, MANIFEST_CHECKS),
    "report": _KindChecks(read_report, REPORT_CHECKS),
    "reply": _KindChecks(read_reply, REPLY_CHECKS),
    "disabled-reply": _KindChecks(read_reply, DISABLED_REPLY_CHECKS),
    "context": _KindChecks(str, CONTEXT_CHECKS),
    "summary": _KindChecks(str, SUMMARY_CHECKS),
}

CHECKS: tuple[Check[Any], ...] = tuple(check for known in _CHECKS_BY_KIND.values() for check in known.checks)


@dataclass(frozen=True, slots=True)
class Broken:
    """A violated sentence and its findings."""

    check: Check[Any]
    findings: tuple[Finding, ...]
    """The first findings."""
    count: int

    def as_json(self) -> dict[str, Any]:
        check = self.check
        findings = [{"where": each.where, **each._asdict()} for each in self.findings]
        known = {"id": check.id, "document": check.document, "sentence": check.sentence, "level": check.level}
        return {**known, "count": self.count, "findings": findings}


@dataclass(frozen=True, slots=True)
class Conformance:
    name: str
    kind: InputKind
    broken: tuple[Broken, ...]

    def holds(self, *, strict: bool = False) -> bool:
        """Whether no MUST is violated and, if `strict`, no SHOULD."""
        return not any(strict or each.check.level == "MUST" for each in self.broken)

    def counts(self) -> dict[str, dict[str, int]]:
        """Count, per specification, the checked sentences and the violated ones of each level."""
        checked = [check.document for check in _CHECKS_BY_KIND[self.kind].checks]
        levels: tuple[Level, ...] = get_args(Level)
        return {
            document: {
                "checked": checked.count(document),
                **{
                    level: sum((each.check.document, each.check.level) == (document, level) for each in self.broken)
                    for level in levels
                },
            }
            for document in DOCUMENTS.values()
            if document in checked
        }

    def as_json(self) -> dict[str, Any]:
        broken = [each.as_json() for each in self.broken]
        return {"name": self.name, "kind": self.kind, "documents": self.counts(), "broken": broken}


def conform(path: str, kind: InputKind | None = None, *, stdin: BinaryIO | None = None) -> Conformance:
    """Check the file or session folder at `path`; raises InvalidInput if it cannot be checked.

    With `stdin`, the input is read from there and the path is only a name.
    """
    try:
        if stdin is None and os.path.isdir(path):
            if kind not in (None, "session"):
                raise InvalidInput(f"it is a directory, not a {kind}")
            return _run_checks(path, "session", path)
        if kind == "session":
            raise InvalidInput("it is not a directory, so it is not a session")
        text = _decode(_read(path) if stdin is None else stdin.read(LARGEST_FILE + 1))
        return _run_checks(path, kind or detect_kind(text, path), text)
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}") from None


def _run_checks(name: str, kind: InputKind, given: str) -> Conformance:
    known = _CHECKS_BY_KIND[kind]
    subject = known.read(given)
    broken = []
    for check in known.checks:
        findings = check.find(subject)
        first = tuple(islice(findings, MOST_FINDINGS))
        if first:
            broken.append(Broken(check, first, len(first) + sum(1 for _ in findings)))
    return Conformance(name, kind, tuple(broken))


def detect_kind(text: str, name: str = "") -> InputKind:
    """Detect the kind of a text by its content and file name."""
    if SEPARATOR in text:
        return "reply"
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = parsed(text)
        except ValueError:
            value = None
        if isinstance(value, dict) and "assembly_report" in value:
            return "report"
        if records_in(value).all:
            return "envelope"
    found = {match[1] is not None for match in _YAML.finditer(text)}
    if True in found:
        return "report"
    return "manifest" if found or name.endswith((".yml", ".yaml")) else "reply"


def _session_folder(path: str) -> Folder:
    folder = Folder(path)
    if folder.has(KEY_FILE):
        raise InvalidInput("it is an encrypted session")
    if not folder.entries.keys() & {"messages.jsonl", "context"}:
        raise InvalidInput("it has neither messages.jsonl nor context/, so it is not a session")
    return folder


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # opening a pipe must not wait for a writer
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InvalidInput("it is not a regular file")
        return file.read(LARGEST_FILE + 1)


def _decode(data: bytes) -> str:
    if len(data) > LARGEST_FILE:
        raise InvalidInput(f"it has more than {LARGEST_FILE} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"it is not UTF-8 text (byte {error.start})") from None
