"""A working set in use: its manifest and files as they are before each call, and what of them a call gets to see."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ctxwrap.stages.truncation import Count
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import PackItem
from ctxwrap.workingset.assembling import Assembly, assembled
from ctxwrap.workingset.boot import Boot
from ctxwrap.workingset.keeping import load
from ctxwrap.workingset.manifest import Manifest
from ctxwrap.workingset.reading import FileText, Reader, Unread
from ctxwrap.workingset.report import Included

logger = logging.getLogger("ctxwrap")


class Offered(NamedTuple):
    """A manifest and the files it names, as they were read."""

    path: str
    """Of the manifest."""
    manifest: Manifest
    contents: Mapping[str, FileText | Unread]
    boot: Boot
    problems: tuple[str, ...] = ()


class Supplement(NamedTuple):
    """What files bring to a call."""

    instructions: str = ""
    """For the place of the system's own words."""
    context: str = ""
    """Data."""
    tokens: int = 0
    items: tuple[PackItem, ...] = ()
    report: Mapping[str, Any] = {}
    """What is in, what is not and why."""


class WorkingSet:
    """Files lie below the directory of the manifest; what did not change is not read again."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._readers: dict[str, Reader] = {}
        """By the name of what counts their tokens."""

    def offer(self, model: str, session: str) -> Offered:
        """The files as they are now, for a call of that model."""
        measure, kept = Measure(model), load(self._path)
        reader = self._readers.setdefault(measure.name, Reader(os.path.dirname(self._path), measure.text))
        contents = {file.path: reader.read(file.path) for file in kept.manifest.files}
        directory, name = os.path.split(self._path)
        # no word on tools: they are the caller's, and have a contract of their own
        boot = Boot(root=f"{os.path.basename(directory)}/", session=session, working_set=name, tool_contract="")
        problems = (kept.problem,) if kept.problem else ()
        return Offered(self._path, kept.manifest, contents, boot, problems)


def supplement(offered: Offered, boundary: str, room: int, count: Count, *, strict: bool = False) -> Supplement:
    """What fits into `room` and the manifest's own budget; with `strict` a vital file that is missing is an error."""
    own = offered.manifest.budget
    budget = replace(own, max_tokens=min(own.effective, room) + own.reserved_for_response)
    assembly = assembled(
        offered.manifest,
        offered.contents,
        boundary=boundary,
        count=count,
        boot=offered.boot,
        budget=budget if room < own.effective else own,
        strict=strict,
    )
    blocking = [f"{each.path!r}: {each.reason}" for each in assembly.report.blocking]
    for problem in (*offered.problems, *blocking):
        logger.warning("ctxwrap: working set %s: %s", offered.path, problem)
    texts = {group.role: group.text for group in assembly.groups}
    report = assembly.report.as_json()["assembly_report"]
    return Supplement(
        instructions="\n".join(text for role, text in texts.items() if role != "user"),
        context=texts.get("user", ""),
        tokens=assembly.report.used,
        items=_items(assembly, offered),
        report={**report, "warnings": [*offered.problems, *report["warnings"]]},
    )


def _items(assembly: Assembly, offered: Offered) -> tuple[PackItem, ...]:
    """Every file of the manifest, with the reason why it is in or out."""
    report = assembly.report
    priorities = {file.path: file.priority for file in offered.manifest.files}

    def item(path: str, tokens: int, included: bool, reason: str) -> PackItem:
        return PackItem("working_set", path, tokens, included, reason, priorities.get(path, 0.0), origin="file")

    header = [PackItem("boot_header", "working set", report.header_tokens, True, "tells the model where it is")]
    files = [item(each.path, each.tokens, True, _as_included(each)) for each in report.included]
    files += [item(path, _size(offered.contents.get(path)), False, reason) for path, reason in report.excluded]
    return (*(header if report.header_tokens else []), *files)


def _as_included(file: Included) -> str:
    return f"truncated from {file.original_tokens}" if file.truncated else f"as {file.role}, whole"


def _size(found: FileText | Unread | None) -> int:
    return found.tokens if isinstance(found, FileText) else 0
