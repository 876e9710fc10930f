"""Finding out what a path or a text is, and running every check that applies to it."""

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

MOST_BYTES = 64 << 20
"""Of one file that is no session."""
MOST_SHOWN = 20
"""Findings of one check."""

_YAML = re.compile(r"(?m)^(?:protocol:[ \t]*[\"']?CONTEXT-ASSEMBLY|files:|(assembly_report:))")


def _records(text: str) -> Records:
    try:
        records = records_in(parsed(text))
    except ValueError as error:
        raise InvalidInput(f"it is no JSON: {error}") from None
    if not records.all:
        raise InvalidInput("it holds no record of Agent Context")
    return records


class _Form(NamedTuple):
    read: Callable[[str], Any]
    checks: tuple[Check[Any], ...]


_FORMS: Mapping[InputKind, _Form] = {
    "session": _Form(lambda path: SessionFolder(_session_folder(path)), SESSION_CHECKS),
    "envelope": _Form(_records, ENVELOPE_CHECKS),
    "manifest": _Form(read_manifest, MANIFEST_CHECKS),
    "report": _Form(read_report, REPORT_CHECKS),
    "reply": _Form(read_reply, REPLY_CHECKS),
    "disabled-reply": _Form(read_reply, DISABLED_REPLY_CHECKS),
    "context": _Form(str, CONTEXT_CHECKS),
    "summary": _Form(str, SUMMARY_CHECKS),
}

CHECKS: tuple[Check[Any], ...] = tuple(check for form in _FORMS.values() for check in form.checks)


@dataclass(frozen=True, slots=True)
class Broken:
    """A sentence that is broken, and where."""

    check: Check[Any]
    findings: tuple[Finding, ...]
    """The first of them."""
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
        """Whether no MUST is broken and, if it is strict, no SHOULD."""
        return not any(strict or each.check.level == "MUST" for each in self.broken)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many sentences of each document were checked, and how many of each level are broken."""
        checked = [check.document for check in _FORMS[self.kind].checks]
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
    """What at `path` breaks the documents; an InvalidInput if it cannot be checked at all.

    With `stdin`, the path is only a name.
    """
    try:
        if stdin is None and os.path.isdir(path):
            if kind not in (None, "session"):
                raise InvalidInput(f"it is a folder, and no {kind}")
            return _checked(path, "session", path)
        if kind == "session":
            raise InvalidInput("it is no folder, and so no session")
        text = _decoded(_read(path) if stdin is None else stdin.read(MOST_BYTES + 1))
        return _checked(path, kind or kind_of(text, path), text)
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}") from None


def _checked(name: str, kind: InputKind, given: str) -> Conformance:
    form = _FORMS[kind]
    subject = form.read(given)
    broken = []
    for check in form.checks:
        findings = check.find(subject)
        first = tuple(islice(findings, MOST_SHOWN))
        if first:
            broken.append(Broken(check, first, len(first) + sum(1 for _ in findings)))
    return Conformance(name, kind, tuple(broken))


def kind_of(text: str, name: str = "") -> InputKind:
    """What a text is, by what stands in it and what its file is called."""
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
        raise InvalidInput("it is a session that is encrypted")
    if not folder.entries.keys() & {"messages.jsonl", "context"}:
        raise InvalidInput("it has neither messages.jsonl nor context/, and so is no session")
    return folder


def _read(path: str) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe must not wait for whoever writes it
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InvalidInput("it is no file")
        return file.read(MOST_BYTES + 1)


def _decoded(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"it has more than {MOST_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"it is no text in UTF-8 (byte {error.start})") from None
