"""The working set of a client: reads manifest and files before each call, and packs those that fit."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ctxwrap.kinds import EXCERPTS, KINDS
from ctxwrap.redaction import Redaction
from ctxwrap.stores.names import safe_name
from ctxwrap.tokens.measure import CountTokens, Measure
from ctxwrap.types import Offer, PackedFiles, PackItem, SessionKey, SourcedText
from ctxwrap.workingset.assembly import Boot, FileAssembly, assemble_files
from ctxwrap.workingset.manifest import OFFER, Fault, Manifest, WorkingFile
from ctxwrap.workingset.manifest_file import load_manifest
from ctxwrap.workingset.reader import FileText, Hints, Reader, Unread, load_hints
from ctxwrap.workingset.report import Included
from ctxwrap.workingset.requests import ADD, Decision, FileRequest, Outcome, RequestLimits, decide_requests, with_grants

logger = logging.getLogger("ctxwrap")


OUTPUT = "tool://"
"""The prefix of tool outputs. No file has such a path, because one of its parts is empty."""

_OUTPUT_SINK = "messages.jsonl"
"""The file that gets the model's answers."""
_HIGHEST = 0.95
"""The highest priority that a model may give to files of the operator: below vital ones."""
_MOST_WARNINGS = 1000

Own = Mapping[str, Mapping[str, Any]]
"""The grants of a session's model, by path."""


class WorkingSetView(NamedTuple):
    """A manifest with the contents of its files, as read before a call."""

    path: str
    """The path of the manifest."""
    manifest: Manifest
    contents: Mapping[str, FileText | Unread]
    boot: Boot
    problems: tuple[str, ...] = ()
    hints: Hints = Hints()
    adjusted: tuple[Decision, ...] = ()
    """The adjusted priorities, with reasons."""
    outputs: tuple[Decision, ...] = ()
    """The tool outputs added and removed since the last turn."""
    warned: set[str] | None = None
    """The problems that were logged before."""

    @property
    def output_paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.manifest.files if file.path.startswith(OUTPUT))

    def texts(self, kind: str) -> Iterator[SourcedText]:
        """The contents of a kind that could be read."""
        for file in self.manifest.files:
            found = self.contents.get(file.path)
            if file.kind == kind and isinstance(found, FileText):
                yield SourcedText(file.path, found.text, "file")


class WorkingSet:
    """All files are below the directory of the manifest; unchanged ones are not read again."""

    def __init__(self, path: str, redaction: Redaction | None = None, *, operators_too: bool = False) -> None:
        self._path = os.path.abspath(path)
        usual = RequestLimits()
        self._limits = RequestLimits(
            reserved=(os.path.basename(self._path), *usual.reserved),
            operators_too=operators_too,
            max_priority=_HIGHEST if operators_too else usual.max_priority,
        )
        self._redaction = redaction
        self._warned: set[str] = set()
        self._readers: dict[str, Reader] = {}
        """By name of the token counter."""

    def offer(self, model: str, key: SessionKey, own: Own | None = None) -> WorkingSetView:
        """Read the files for a call; `own` are the grants of its session."""
        measure, kept = Measure(model), load_manifest(self._path)
        manifest = with_grants(kept.manifest, own or {}, self._limits)
        directory, name = os.path.split(self._path)
        problem = f"{name!r} is not there" if kept.missing else kept.problem
        if problem:
            manifest = replace(manifest, faults=(Fault(name, problem, blocking=True),))
        reader = self._readers.get(measure.name)
        if reader is None:
            reader = Reader(os.path.dirname(self._path), measure.text, redaction=self._redaction)
            self._readers[measure.name] = reader
        contents = contents_of(manifest, reader)
        hints = load_hints(directory)
        boot = Boot(
            root=manifest.header.root or f"{os.path.basename(directory)}/",
            session=self._session_path(key),
            output_sink=manifest.header.output_sink or _OUTPUT_SINK,
            working_set=name,
            cache_hints=hints.files,
            tool_contract=manifest.header.tool_contract,
            highest=self._limits.max_priority,
        )
        return WorkingSetView(self._path, manifest, contents, boot, hints.problems, hints, warned=self._warned)

    def _session_path(self, key: SessionKey) -> str:
        """The directory of the session, relative to the root of the store."""
        shown = [self._redaction.redacted(name).text for name in key] if self._redaction else key
        tenant, agent, session = map(safe_name, shown)
        return f"home/{tenant}/agent/{agent}/session/{session}/"

    def decide(self, requests: Sequence[FileRequest], own: Own, turn: int) -> tuple[Decision, ...]:
        """Decide about requests of a session's model, given its earlier grants."""
        kept = load_manifest(self._path)
        if kept.problem:
            return refuse_all(requests, kept.problem)
        return self._decided(with_grants(kept.manifest, own, self._limits), requests, turn).decisions

    def _decided(self, manifest: Manifest, requests: Sequence[FileRequest], turn: int) -> Outcome:
        """Decide about requests; files that cannot be read are refused, or every call would report them."""
        reader = Reader(os.path.dirname(self._path))
        granted = decide_requests(manifest, requests, self._limits, turn)
        unread = {
            each.path: found.reason
            for each in granted.decisions
            if each.granted and each.action == ADD and isinstance(found := reader.read(each.path), Unread)
        }
        faulty = [
            each._replace(fault=unread[each.path]) if each.action == ADD and each.path in unread else each
            for each in requests
        ]
        return decide_requests(manifest, faulty, self._limits, turn) if unread else granted


def contents_of(manifest: Manifest, reader: Reader) -> dict[str, FileText | Unread]:
    """The contents of a manifest's entries, by path."""
    return {
        file.path: reader.read(file.path) if file.text is None else reader.given(file.path, file.text)
        for file in manifest.files
    }


def with_offers(
    files: WorkingSetView | None, offers: Sequence[Offer], model: str, redaction: Redaction | None
) -> WorkingSetView:
    """The files of a call, if it has any, and the texts that its caller offers."""
    reader = Reader("", Measure(model).text, redaction=redaction)
    new: dict[str, WorkingFile] = {}
    for each in offers:
        path = source = OFFER + (redaction.redacted(each.source).text if redaction else each.source)
        while path in new:
            path = f"{source}#{len(new) + 1}"
        new[path] = WorkingFile(
            path, each.priority, pin=True, visibility=each.visibility, kind=each.kind, text=each.text
        )
    known = files or WorkingSetView("", Manifest(), {}, Boot(working_set=""))
    manifest = replace(known.manifest, files=(*known.manifest.files, *new.values()))
    texts = contents_of(Manifest(tuple(new.values())), reader)
    return known._replace(manifest=manifest, contents={**known.contents, **texts})


def refuse_all(requests: Sequence[FileRequest], reason: str) -> tuple[Decision, ...]:
    """Refuse all requests."""
    return tuple(Decision(each.action, each.path, False, reason, each.why) for each in requests)


def pack_files(
    offered: WorkingSetView, boundary: str, limit: int, count: CountTokens, *, strict: bool = False, quiet: bool = False
) -> PackedFiles:
    """The files that fit into `limit` tokens and the budget of the manifest.

    With `strict`, a vital file that is missing raises ContextMissing. `quiet` does not log problems again.
    """
    own = offered.manifest.budget
    budget = replace(own, max_tokens=min(own.effective, limit) + own.reserved_for_response)
    assembly = assemble_files(
        offered.manifest,
        offered.contents,
        boundary=boundary,
        count=count,
        boot=offered.boot,
        budget=budget if limit < own.effective else own,
        strict=strict,
    )
    blocking = [f"{each.path!r}: {each.reason}" for each in assembly.report.blocking]
    if not quiet:
        _warn(offered, [*offered.problems, *blocking])
    texts = {group.role: group.text for group in assembly.groups}
    report = assembly.report.as_json()["assembly_report"]
    return PackedFiles(
        instructions="\n".join(texts[role] for role in ("system", "developer") if role in texts),
        context=texts.get("user", ""),
        offered=texts.get("offered", ""),
        tokens=assembly.report.used,
        items=_items(assembly, offered),
        report={
            **report,
            "adjusted": [_as_adjusted(each) for each in offered.adjusted],
            "warnings": [*offered.problems, *report["warnings"]],
        },
    )


def _warn(offered: WorkingSetView, problems: Sequence[str]) -> None:
    """Log each problem once, not with every call."""
    logged = set() if offered.warned is None else offered.warned
    for problem in problems:
        if problem not in logged and len(logged) < _MOST_WARNINGS:
            logged.add(problem)
            logger.warning("ctxwrap: working set %s: %s", offered.path, problem)


def _items(assembly: FileAssembly, offered: WorkingSetView) -> tuple[PackItem, ...]:
    """Every file of the manifest, with the reason why it is included or not."""
    report = assembly.report
    known = {file.path: file for file in offered.manifest.files}

    def item(path: str, tokens: int, included: bool, reason: str) -> PackItem:
        file = known.get(path) or WorkingFile(path, 0.0)
        origin = "tool" if path.startswith(OUTPUT) else "user" if file.kind == EXCERPTS else "file"
        return PackItem(file.kind, path, tokens, included, reason, file.priority, origin=origin)

    boot = KINDS["boot_header"]
    header = [PackItem(boot.name, boot.source, report.header_tokens, True, boot.reason)]
    files = [item(each.path, each.tokens, True, _as_included(each)) for each in report.included]
    files += [item(path, _size(offered.contents.get(path)), False, reason) for path, reason in report.excluded]
    return (*(header if report.header_tokens else []), *files)


def _as_adjusted(decision: Decision) -> dict[str, Any]:
    adjusted = {"path": decision.path, "granted": decision.granted, "reason": decision.reason}
    return adjusted if decision.priority is None else {**adjusted, "priority": decision.priority}


def _as_included(file: Included) -> str:
    return f"truncated from {file.original_tokens}" if file.truncated else f"as {file.role}, whole"


def _size(found: FileText | Unread | None) -> int:
    return found.tokens if isinstance(found, FileText) else 0
