"""Compression: facts, decisions, tasks, references and a summary as typed files with their sources, without a model."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctxwrap.memory.items import MemoryItem, kind_of
from ctxwrap.memory.memory import Memory
from ctxwrap.session.abi import legal_name
from ctxwrap.session.append_only_file import line
from ctxwrap.session.extract import DigestRow, is_address, paths_in
from ctxwrap.session.swap import shortened
from ctxwrap.stores.log_format import message_range
from ctxwrap.types import Record

SUMMARY = "context/summary.md"

_HEAD = re.compile(
    rb"# Summary\n\nSource: messages:1-(\d{1,15}), (\d{1,15}) rounds\n"
    rb"(?:Snapshots: (\d{1,15}) of (\d{1,15}) missing\n)?(Ended: )?"
)
"""The heading of a summary."""

_PATH = 300
_DOTS = {".", ".."}

_TEXT = 1000
"""The maximum length of a text in a line."""


class CompressionInput(NamedTuple):
    """What compression takes from the log, beside memory."""

    messages: int = 0
    round: int = 0
    user: str = ""
    """The user's last message, shortened."""
    assistant: str = ""
    """The last answer, shortened."""
    summary: Record | None = None
    """The last summary by a model, with the messages it covers."""
    rows: tuple[DigestRow, ...] = ()
    """Extracts of each stretch of the conversation."""
    refs: tuple[Record, ...] = ()
    """References: named files, tool outputs, results of child sessions, chunks in swap."""
    asked: int = 0
    """Replies that should have had a snapshot."""
    missing: int = 0
    """Those of them without one."""
    ended_at: str = ""


class View(NamedTuple):
    """One memory item as the files show it."""

    item: MemoryItem
    kind: str
    text: str
    line: bytes


class Compression:
    """Renders the typed files; unchanged memory items are rendered once."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._kinds: dict[str, list[View]] = {}
        """The views of each kind, in the order of their ids."""
        self._refs: dict[str, tuple[Record, bytes]] = {}
        """The refs that are not in memory, with their lines, by id."""
        self._files: dict[str, bytes] = {}
        self._made_of: object = None

    def files(self, memory: Memory, given: CompressionInput) -> dict[str, bytes]:
        """The files with their contents."""
        self._look_at(memory)
        made_of = memory.active_task, given.refs, [(view.line, view.kind) for view in self._views.values()]
        if made_of != self._made_of:
            self._made_of, self._files = made_of, self._typed(memory.active_task, given.refs)
        return {**self._files, SUMMARY: self._summary(memory, given)}

    def _look_at(self, memory: Memory) -> None:
        known, self._views = self._views, {}
        for id, item in memory.items.items():
            view = known.get(id)
            self._views[id] = view if view is not None and view.item is item else _view(item)
        self._kinds = {}
        for view in sorted(self._views.values(), key=lambda view: view.item.id):
            self._kinds.setdefault(view.kind, []).append(view)

    def _of(self, kind: str) -> list[View]:
        return self._kinds.get(kind, [])

    def _typed(self, task: str, refs: Sequence[Record]) -> dict[str, bytes]:
        lines = {kind: b"".join(view.line for view in self._of(kind)) for kind in ("fact", "decision", "ref")}
        todo = [f"Active: {shortened(task, _TEXT)}", ""] if task else []
        todo += [f"- [ ] {view.text} ({view.item.source or view.item.id})" for view in self._of("todo")]
        return {
            "context/facts.jsonl": lines["fact"],
            "context/decisions.jsonl": lines["decision"],
            "context/refs.jsonl": lines["ref"] + b"".join(self._lines_of(refs)),
            "context/todo.md": _markdown(todo),
        }

    def _lines_of(self, refs: Sequence[Record]) -> Iterator[bytes]:
        """The lines of the refs that are not in memory; most were there the last time."""
        before, self._refs = self._refs, {}
        for ref in self._others(refs):
            known = before.get(ref["id"])
            if known is None or known[0] != ref:
                known = ref, line(ref)
            self._refs[ref["id"]] = known
            yield known[1]

    def _others(self, refs: Sequence[Record]) -> Iterator[Record]:
        """The refs that are not in memory: each id once, without files that memory already names."""
        known = {legal_name(view.item.id) for view in self._of("ref")}
        paths = {path for view in self._of("ref") if (path := path_of(view.item))}
        for ref in refs:
            if ref["path"] not in paths:
                yield ref if ref["id"] not in known else {**ref, "id": legal_name(f"{ref['kind']}/{ref['id']}")}

    def _summary(self, memory: Memory, given: CompressionInput) -> bytes:
        """The summary, in the order in which a newcomer would ask."""
        lines = ["# Summary", "", f"Source: messages:1-{given.messages}, {given.round} rounds"]
        if given.missing:
            lines.append(f"Snapshots: {given.missing} of {given.asked} missing")
        if given.ended_at:
            lines.append(f"Ended: {given.ended_at}")
        if memory.active_task:
            lines.append(f"Task: {shortened(memory.active_task, _TEXT)}")
        if given.summary:
            lines += ["", f"## So far ({given.summary['source']})", "", str(given.summary["text"]).strip()]
        said = (("user", given.user), ("assistant", given.assistant))
        behind = message_range(str(given.summary["source"]))[1] if given.summary else 0
        rows = [
            f"messages:{row.first}-{row.last}: {text}" for row in given.rows if row.last > behind and (text := row.text)
        ]
        sections = (
            ("Since then" if given.summary else "So far", rows),
            ("Known", [view.text for view in self._of("fact") if view.item.tier == "core"]),
            ("Decided", [view.text for view in self._of("decision")]),
            ("Open", [view.text for view in self._of("todo")]),
            ("Last said", [f"{who}: {what}" for who, what in said if what]),
        )
        for title, entries in sections:
            lines += ["", f"## {title}", "", *(f"- {entry}" for entry in entries)] if entries else []
        return _markdown(lines)


def _view(item: MemoryItem) -> View:
    kind, text = kind_of(item.type), shortened(item.content, _TEXT) or "(nothing)"
    said = _ref(item, text) if kind == "ref" else {"decision" if kind == "decision" else "text": text}
    return View(item, kind, text, line({"id": legal_name(item.id), **said, **_whence(item)}))


class SessionCountsLine(NamedTuple):
    """The line of a summary with the session's counts."""

    messages: int
    rounds: int
    missing: int
    """Replies without a snapshot, and replies that should have had one; both 0 if none are missing."""
    asked: int
    has_ended: bool


def counts_in(summary: bytes) -> SessionCountsLine | None:
    head = _HEAD.match(summary)
    if head is None:
        return None
    messages, rounds, missing, asked = (int(number or 0) for number in head.groups()[:4])
    return SessionCountsLine(messages, rounds, missing, asked, has_ended=bool(head[5]))


def _whence(item: MemoryItem) -> Record:
    source = item.source or f"rounds:{item.first}-{item.last}"
    named = {} if legal_name(item.id) == item.id else {"item": item.id}
    return {"source": source, "tier": item.tier, "origin": item.origin, **named}


def path_of(item: MemoryItem) -> str:
    """The path or address that an item names, or an empty string."""
    named = [str(item.extra.get("path") or ""), *paths_in(item.content[:_TEXT])]
    return next((path for each in named if (path := shortened(each, _PATH)) and not _DOTS & set(path.split("/"))), "")


def _ref(item: MemoryItem, text: str) -> Record:
    path = path_of(item)
    kind = "artifact" if is_address(path) or item.type.strip().casefold() == "artifact" else "file"
    return {"path": path or "messages.jsonl", "kind": kind, "summary": text}


def _markdown(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace") if lines else b""
