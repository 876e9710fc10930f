"""A read-only check of a whole session: not even a file's timestamp changes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from ctxwrap.errors import StoreError
from ctxwrap.session.verify.files import FileCheck
from ctxwrap.session.verify.report import Fold, Verification, VerifyFinding, VerifyFindings
from ctxwrap.session.verify.streams import StreamCheck, lines_of
from ctxwrap.stores.base import STREAMS, Log
from ctxwrap.types import SessionKey

Progress = Callable[[int, int], None]
"""Called now and then with the work done and the work in all."""

_TRIES = 3
"""The most attempts for a session that is written to meanwhile."""

_EVERY = 500
"""Lines between two calls of `Progress`."""


def verified(key: SessionKey, log: Log, progress: Progress | None = None) -> Verification | None:
    """Verify a session; None if it does not exist. Derived files may be reported as behind while a call writes."""
    for _ in range(_TRIES):
        look = _Look(key, log, progress or (lambda done, total: None))
        verification = look.verification()
        if look.is_still_so():
            return verification
    if verification is None:
        return None
    what = "the session was written to meanwhile"
    note = VerifyFinding("note", "messages.jsonl", what, "look again when no call is under way")
    found = {**verification.found, "note": verification.found.get("note", 0) + 1}
    return replace(verification, findings=(*verification.findings, note), found=found)


class _Look:
    def __init__(self, key: SessionKey, log: Log, progress: Progress) -> None:
        self._key, self._log, self._progress = key, log, progress
        self._edition = log.edition()
        self._findings = VerifyFindings()
        self._streams = StreamCheck(self._findings)
        self._files = FileCheck(log.files, key, self._findings)
        self._fold = Fold(log.files)
        self._done = 0
        self._total = sum(size for name, size in self._files.sizes.items() if not name.startswith("context/"))

    def verification(self) -> Verification | None:
        for stream in STREAMS:
            self._read(stream)
        streams = self._streams.streams
        if not any(known.lines for known in streams.values()):
            if not any(name.startswith(("context/", "raw/")) for name in self._files.sizes):
                return None
            what = "both streams are empty, but what was made of them is there"
            remedy = "restore the session from an archive or a backup"
            self._findings.add(VerifyFinding("damage", "messages.jsonl", what, remedy))
        self._streams.finish(self._is_alive)
        self._check_files()
        return Verification(
            key=self._key,
            messages=streams["messages"].records,
            events=streams["events"].records,
            unchecked=self._streams.unchecked,
            contents=len(self._streams.contents),
            torn=len(self._files.torn),
            findings=self._findings.in_order(),
            found=dict(self._findings.found),
        )

    def is_still_so(self) -> bool:
        """Whether nothing was appended or rewritten since the check began."""
        if self._log.edition() != self._edition:
            return False
        return all(not self._log.read(stream, known.read)[0] for stream, known in self._streams.streams.items())

    def _read(self, stream: str) -> None:
        before = self._done
        for line, torn in lines_of(self._log, stream):
            self._streams.take(stream, line, torn)
            if line.record is not None and not self._fold.take(stream, line.record):
                self._passed_over(stream, line.number, line.start)
            self._done = before + line.end
            if line.number % _EVERY == 0:
                self._tell()

    def _passed_over(self, stream: str, number: int, byte: int) -> None:
        what = "ctxwrap cannot make sense of it and passes it over"
        self._findings.add(VerifyFinding("note", f"{stream}.jsonl", what, line=number, byte=byte))

    def _check_files(self) -> None:
        sizes, messages = self._files.sizes, self._streams.streams["messages"].number
        for name, reference in self._streams.contents.items():
            self._files.check_content(name, reference)
            self._done += sizes.get(f"raw/{name}", 0)
            self._tell()
        self._files.check_rest(self._streams.contents)
        self._files.check_sources(self._fold.state.memory.items, messages)
        self._files.check_derived(self._fold.computed(), messages)
        self._done = max(self._done, self._total)
        self._tell()

    def _tell(self) -> None:
        self._progress(self._done, max(self._done, self._total))

    def _is_alive(self, writer: str) -> bool:
        """Whether a writer is alive; True in doubt, as on a read-only medium."""
        with suppress(StoreError):
            return self._log.is_alive(writer)
        return True
