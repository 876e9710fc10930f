"""A working set in use: its manifest and files as they are before each call."""

import logging
import os

from ctxwrap.stages.truncation import Count
from ctxwrap.tokens import counter_for
from ctxwrap.types import PackItem, Supplement
from ctxwrap.workingset.assembling import Assembly, assembled
from ctxwrap.workingset.boot import Boot
from ctxwrap.workingset.keeping import load
from ctxwrap.workingset.reading import FileText, Reader, Unread

logger = logging.getLogger("ctxwrap")


class WorkingSet:
    """Files lie below the directory of the manifest; what did not change is not read again."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._readers: dict[str, Reader] = {}
        """By the name of what counts their tokens."""

    def supplement(self, model: str, session: str, boundary: str, *, strict: bool = False) -> Supplement:
        """What the files bring to a call of that model; with `strict` a vital one that is missing is an error."""
        counter, kept = counter_for(model), load(self._path)

        def count(text: str) -> int:
            return counter.at_most(counter.count(text))

        reader = self._reader(counter.name, count)
        contents = {file.path: reader.read(file.path) for file in kept.manifest.files}
        directory, name = os.path.split(self._path)
        # no word on tools: they are the caller's, and have a contract of their own
        boot = Boot(root=f"{os.path.basename(directory)}/", session=session, working_set=name, tool_contract="")
        assembly = assembled(kept.manifest, contents, boundary=boundary, count=count, boot=boot, strict=strict)
        problems = [kept.problem] if kept.problem else []
        for problem in (*problems, *(f"{each.path!r}: {each.reason}" for each in assembly.report.blocking)):
            logger.warning("ctxwrap: working set %s: %s", self._path, problem)
        return _supplement(assembly, contents, problems)

    def _reader(self, name: str, count: Count) -> Reader:
        return self._readers.setdefault(name, Reader(os.path.dirname(self._path), count))


def _supplement(assembly: Assembly, contents: dict[str, FileText | Unread], problems: list[str]) -> Supplement:
    texts = {group.role: group.text for group in assembly.groups}
    report = assembly.report.as_json()["assembly_report"]
    return Supplement(
        instructions="\n".join(text for role, text in texts.items() if role != "user"),
        context=texts.get("user", ""),
        items=_items(assembly, contents),
        report={**report, "warnings": [*problems, *report["warnings"]]},
    )


def _items(assembly: Assembly, contents: dict[str, FileText | Unread]) -> tuple[PackItem, ...]:
    """Every file of the manifest, with the reason why it is in or out."""
    report = assembly.report
    header = [PackItem("boot_header", "working set", report.header_tokens, True, "tells the model where it is")]
    included = [
        PackItem("working_set", each.path, each.tokens, True, f"truncated from {each.original_tokens}")
        if each.truncated
        else PackItem("working_set", each.path, each.tokens, True, f"as {each.role}, whole")
        for each in report.included
    ]
    excluded = [
        PackItem("working_set", path, _size(contents.get(path)), False, reason) for path, reason in report.excluded
    ]
    return (*(header if report.header_tokens else []), *included, *excluded)


def _size(found: FileText | Unread | None) -> int:
    return found.tokens if isinstance(found, FileText) else 0
