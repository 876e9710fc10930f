"""Checks of a session folder against the Context Runtime ABI: layout, history and garbage collection."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ctxwrap.conformance.checks import Check, Finding, Folder, FolderLines, describe
from ctxwrap.session.abi import SESSION_FILES
from ctxwrap.session.abi.names import parsed

MESSAGES, EVENTS = "messages.jsonl", "events.jsonl"
DERIVED = {
    "facts": "context/facts.jsonl",
    "decisions": "context/decisions.jsonl",
    "refs": "context/refs.jsonl",
    "swap_index": "context/swap/index.jsonl",
    "dedup_index": "context/dedup/index.jsonl",
}
CHILDREN = "context/child/"

_CONTEXT_FILES = ("budget", "pack.json", "pack.md", "summary.md", "facts.jsonl", "decisions.jsonl", "todo.md")
_FILES = (*SESSION_FILES, *(f"context/{name}" for name in (*_CONTEXT_FILES, "refs.jsonl", "gc.policy")))
_DIRECTORIES = ("context", *(f"context/{name}" for name in ("pinned", "swap", "dedup", "child")))
_LARGE = 4096
"""Fewest characters of a large content."""

_RANGE = re.compile(r"(?:messages(?:\.jsonl)?:)?([0-9]{1,12})(?:-([0-9]{1,12}))?")
_POLICY = re.compile(r"(?:pack_ttl|swap_ttl)=[0-9]+[smhdw]?|dedup_min_refs=[0-9]+|keep_(?:messages|events)=[01]")


@dataclass(slots=True)
class History:
    """What the checks need of a stream, which may be too large to hold."""

    lines: int = 0
    """Number of the last line."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    tool_line: int = 0
    """The first line with a tool call or result."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    """Lines that repeat a large tool output, and the first line with it."""


def read_history(folder: Folder, name: str) -> History:
    history, outputs = History(), dict[bytes, int]()
    for number, record in folder.values(name):
        history.lines = number
        if isinstance(record, str):
            history.faults.append((number, record))
            continue
        history.ids |= _ids(record)
        if isinstance(record.get("type"), str):
            history.types.add(record["type"])
        if record.get("tool_calls") or record.get("role") == "tool":
            history.tool_line = history.tool_line or number
        content = record.get("content")
        if record.get("role") == "tool" and isinstance(content, str) and len(content) >= _LARGE:
            first = outputs.setdefault(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest(), number)
            if first != number:
                history.copies.append((number, first))
    return history


def _ids(record: dict[str, Any]) -> set[str]:
    """Return a record's ids; the specification does not define the field, and ctxwrap uses `ctx`."""
    control = record.get("ctx")
    ids = (record.get("id"), control.get("id") if isinstance(control, dict) else None)
    return {id for id in ids if isinstance(id, str)}


class SessionFolder:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    @cached_property
    def messages(self) -> History:
        return read_history(self.folder, MESSAGES)

    @cached_property
    def events(self) -> History:
        return read_history(self.folder, EVENTS)

    @cached_property
    def derived(self) -> dict[str, FolderLines]:
        return {kind: self.folder.lines(name) for kind, name in DERIVED.items()}

    @cached_property
    def pack(self) -> Any:
        """The content of `pack.json`; a ValueError if it is not JSON, None if it does not exist."""
        if not self.folder.has("context/pack.json"):
            return None
        try:
            return parsed(self.folder.text("context/pack.json"))
        except ValueError as error:
            return error

    def pack_items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        items = self.pack.get("items") if isinstance(self.pack, dict) else None
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield f"items[{number}]", item

    @cached_property
    def policy(self) -> dict[str, str]:
        lines = (line.partition("=") for line in self.folder.text("context/gc.policy").splitlines())
        return {key.strip(): value.strip() for key, _, value in lines}

    def references(self) -> Iterator[tuple[str, int | None, str]]:
        """Yield every reference of the session's context: file, line and referenced path."""
        for path, item in self.pack_items():
            if isinstance(item.get("source"), str):
                yield f"context/pack.json {path}", None, item["source"]
        for kind, name in (("refs", "path"), ("swap_index", "source")):
            for number, record in self.derived[kind].objects:
                if isinstance(record.get(name), str):
                    yield DERIVED[kind], number, record[name]
        for number, record in self.derived["dedup_index"].objects:
            refs = record.get("refs")
            for ref in refs if isinstance(refs, list) else ():
                if isinstance(ref, str):
                    yield DERIVED["dedup_index"], number, ref


def range_in(text: object) -> tuple[int, int] | None:
    """Return the messages in a text such as `12-18` or `messages:12-18`."""
    found = _RANGE.fullmatch(text) if isinstance(text, str) else None
    return (int(found[1]), int(found[2] or found[1])) if found else None


def _wrong_layout(session: SessionFolder) -> Iterator[Finding]:
    for names, kind in ((_FILES, "file"), (_DIRECTORIES, "directory")):
        for name in names:
            if session.folder.entries.get(name, kind) not in (kind, "outside"):
                yield Finding(f"not a {kind}", file=name)


def _links_outside(session: SessionFolder) -> Iterator[Finding]:
    for name, kind in session.folder.entries.items():
        if kind == "outside":
            yield Finding("a link that leads out of the session", file=name)


def _bad_messages(session: SessionFolder) -> Iterator[Finding]:
    yield from (Finding(why, file=MESSAGES, line=number) for number, why in session.messages.faults)


def _bad_events(session: SessionFolder) -> Iterator[Finding]:
    yield from (Finding(why, file=EVENTS, line=number) for number, why in session.events.faults)


def _missing_messages(session: SessionFolder) -> Iterator[Finding]:
    """Find derived records whose source messages do not exist."""
    for file, number, text in _sources(session):
        if text.startswith("messages") and (found := range_in(text)) and found[1] > session.messages.lines:
            yield Finding(f"{describe(text)}, but there are {session.messages.lines} messages", file=file, line=number)


def _sources(session: SessionFolder) -> Iterator[tuple[str, int | None, str]]:
    for kind in ("facts", "decisions"):
        for number, record in session.derived[kind].objects:
            if isinstance(record.get("source"), str):
                yield DERIVED[kind], number, record["source"]
    yield from (each for each in session.references() if each[0] == DERIVED["dedup_index"])


def _missing_events(session: SessionFolder) -> Iterator[Finding]:
    for number, record in session.derived["swap_index"].objects:
        event = record.get("event")
        if isinstance(event, str) and session.events.ids and event not in session.events.ids:
            yield Finding(f"event {describe(event)} does not exist", file=DERIVED["swap_index"], line=number)


def _unrecorded_events(session: SessionFolder) -> Iterator[Finding]:
    if not session.events.lines:
        return
    line, types = session.messages.tool_line, session.events.types
    if line and not any("tool" in type for type in types):
        yield Finding("a tool was called, but there is no tool event", file=MESSAGES, line=line)
    if not any("child" in type for type in types):
        yield from (
            Finding("there is a child session, but no child event", file=name)
            for name in session.folder.names(CHILDREN)
        )


def _only_a_summary(session: SessionFolder) -> Iterator[Finding]:
    is_empty = session.folder.has(MESSAGES) and not session.messages.lines
    if is_empty and session.folder.text("context/summary.md").strip():
        yield Finding("a summary of messages that do not exist", file="context/summary.md")


def _removed_messages(session: SessionFolder) -> Iterator[Finding]:
    if not session.folder.has(MESSAGES) and session.policy.get("keep_messages") != "0":
        yield Finding("it does not exist", file=MESSAGES)


def _removed_events(session: SessionFolder) -> Iterator[Finding]:
    if session.folder.has(EVENTS) or session.policy.get("keep_events") == "0":
        return
    for number, record in session.derived["swap_index"].objects:
        if record.get("source") == EVENTS:
            yield Finding("events.jsonl does not exist", file=DERIVED["swap_index"], line=number)


def _removed_results(session: SessionFolder) -> Iterator[Finding]:
    for file, number, place in session.references():
        name = place.removeprefix("./")
        if name.startswith(CHILDREN) and name not in session.folder.entries:
            yield Finding(f"{describe(place)} does not exist", file=file, line=number)


def _unmerged_results(session: SessionFolder) -> Iterator[Finding]:
    if not isinstance(session.pack, dict) and (session.pack is not None or not session.folder.has(DERIVED["refs"])):
        return
    named = {"/".join(place.removeprefix("./").split("/", 3)[:3]) for _, _, place in session.references()}
    for child in session.folder.names(CHILDREN):
        if child not in named and session.folder.text(f"{child}/result.md").strip():
            yield Finding("no pack item or reference refers to it", file=f"{child}/result.md")


def _copied_outputs(session: SessionFolder) -> Iterator[Finding]:
    for number, first in session.messages.copies:
        yield Finding(f"repeats the output of line {first}", file=MESSAGES, line=number)


def _bad_policy(session: SessionFolder) -> Iterator[Finding]:
    for number, line in enumerate(session.folder.text("context/gc.policy").splitlines(), 1):
        bare = re.sub(r"\s", "", line)
        if bare and not bare.startswith("#") and not _POLICY.fullmatch(bare):
            yield Finding(describe(line), file="context/gc.policy", line=number)


HISTORY_CHECKS: tuple[Check[SessionFolder], ...] = (
    Check("RA-layout", "MUST", "A durable agent session may contain: messages.jsonl … context/ …", _wrong_layout),
    Check("RA-inside", "MUST", "Context files stay under the owning session, not the root ABI.", _links_outside),
    Check("RA-messages", "MUST", "messages.jsonl append-only logical conversation history", _bad_messages),
    Check(
        "RA-messages-append-only",
        "MUST",
        "messages.jsonl MUST be append-only logical history.",
        _missing_messages,
    ),
    Check("RA-events", "MUST", "events.jsonl tool calls, child agents, errors, and state changes", _bad_events),
    Check("RA-events-append-only", "SHOULD", "events.jsonl SHOULD be append-only runtime history.", _missing_events),
    Check(
        "RA-events-recorded",
        "SHOULD",
        "events.jsonl tool calls, child agents, errors, and state changes",
        _unrecorded_events,
    ),
    Check("RA-summary-only-copy", "MUST", "A summary is never the only copy of history.", _only_a_summary),
    Check(
        "RA-gc-messages",
        "MUST",
        "MUST NOT delete messages.jsonl unless explicit archive/delete policy allows it.",
        _removed_messages,
    ),
    Check(
        "RA-gc-events",
        "MUST",
        "MUST NOT delete events.jsonl unless explicit archive/delete policy allows it.",
        _removed_events,
    ),
    Check(
        "RA-gc-child-result",
        "MUST",
        "MUST NOT delete a child result while parent context references it.",
        _removed_results,
    ),
    Check(
        "RA-gc-policy",
        "SHOULD",
        "Example: pack_ttl=1d swap_ttl=30d dedup_min_refs=1 keep_messages=1 keep_events=1",
        _bad_policy,
    ),
    Check(
        "RA-child-merged",
        "SHOULD",
        "child results SHOULD be merged as result refs, summaries, and artifacts.",
        _unmerged_results,
    ),
    Check(
        "RA-dedup-outputs",
        "SHOULD",
        "large repeated tool output SHOULD be referenced instead of copied.",
        _copied_outputs,
    ),
)
