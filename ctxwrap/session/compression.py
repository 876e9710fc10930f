"""Compression: what memory and log amount to, as typed files with where it comes from; made without a model."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ctxwrap.memory.items import Item
from ctxwrap.memory.kinds import kind_of
from ctxwrap.memory.memory import Memory
from ctxwrap.session.abi import legal_name
from ctxwrap.session.growing import line
from ctxwrap.session.swap import shortened
from ctxwrap.types import Record

SUMMARY = "context/summary.md"

_HEAD = re.compile(
    rb"# Summary\n\nSource: messages:1-(\d{1,15}), (\d{1,15}) rounds\n"
    rb"(?:Snapshots: (\d{1,15}) of (\d{1,15}) missing\n)?(Ended: )?"
)
"""How a summary begins."""

_TEXT = 1000
"""No text in a line is longer than that."""


class Told(NamedTuple):
    """What the log tells beside memory."""

    messages: int = 0
    round: int = 0
    user: str = ""
    """What the user said last, in short."""
    assistant: str = ""
    """What was answered last, in short."""
    summary: Record | None = None
    """The last summary that a model wrote, with the messages it is of."""
    refs: tuple[Record, ...] = ()
    """Tool outputs and results of children that can be looked up."""
    asked: int = 0
    """How many replies should have had a snapshot."""
    missing: int = 0
    """How many of them had none."""
    ended_at: str = ""


class View(NamedTuple):
    """One item as the files show it."""

    item: Item
    kind: str
    text: str
    line: bytes


class Compression:
    """The typed files; what did not change in memory is not looked at twice."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._files: dict[str, bytes] = {}
        self._made_of: object = None

    def files(self, memory: Memory, told: Told) -> dict[str, bytes]:
        """The files and what is to stand in them."""
        self._look_at(memory)
        made_of = memory.active_task, told.refs, [(view.line, view.kind) for view in self._views.values()]
        if made_of != self._made_of:
            self._made_of, self._files = made_of, self._typed(memory.active_task, told.refs)
        return {**self._files, SUMMARY: self._summary(memory, told)}

    def _look_at(self, memory: Memory) -> None:
        known, self._views = self._views, {}
        for id, item in memory.items.items():
            view = known.get(id)
            self._views[id] = view if view is not None and view.item is item else _view(item)

    def _of(self, kind: str) -> list[View]:
        return sorted((view for view in self._views.values() if view.kind == kind), key=lambda view: view.item.id)

    def _typed(self, task: str, refs: Sequence[Record]) -> dict[str, bytes]:
        lines = {kind: b"".join(view.line for view in self._of(kind)) for kind in ("fact", "decision", "ref")}
        todo = [f"Active: {shortened(task, _TEXT)}", ""] if task else []
        todo += [f"- [ ] {view.text} ({view.item.source or view.item.id})" for view in self._of("todo")]
        return {
            "context/facts.jsonl": lines["fact"],
            "context/decisions.jsonl": lines["decision"],
            "context/refs.jsonl": lines["ref"] + b"".join(map(line, refs)),
            "context/todo.md": _markdown(todo),
        }

    def _summary(self, memory: Memory, told: Told) -> bytes:
        """What the session is about, in the order in which somebody new to it would ask."""
        lines = ["# Summary", "", f"Source: messages:1-{told.messages}, {told.round} rounds"]
        if told.missing:
            lines.append(f"Snapshots: {told.missing} of {told.asked} missing")
        if told.ended_at:
            lines.append(f"Ended: {told.ended_at}")
        if memory.active_task:
            lines.append(f"Task: {shortened(memory.active_task, _TEXT)}")
        if told.summary:
            lines += ["", f"## So far ({told.summary['source']})", "", str(told.summary["text"]).strip()]
        said = (("user", told.user), ("assistant", told.assistant))
        sections = (
            ("Known", [view.text for view in self._of("fact") if view.item.tier == "core"]),
            ("Decided", [view.text for view in self._of("decision")]),
            ("Open", [view.text for view in self._of("todo")]),
            ("Last said", [f"{who}: {what}" for who, what in said if what]),
        )
        for title, entries in sections:
            lines += ["", f"## {title}", "", *(f"- {entry}" for entry in entries)] if entries else []
        return _markdown(lines)


def _view(item: Item) -> View:
    kind, text = kind_of(item.type), shortened(item.content, _TEXT) or "(nothing)"
    said = _ref(item, text) if kind == "ref" else {"decision" if kind == "decision" else "text": text}
    return View(item, kind, text, line({"id": legal_name(item.id), **said, **_whence(item)}))


class Counts(NamedTuple):
    """What a summary says of its session in numbers."""

    messages: int
    rounds: int
    missing: int
    """Replies without a snapshot, of so many that were asked for one; both 0 if there are none."""
    asked: int
    has_ended: bool


def counts_in(summary: bytes) -> Counts | None:
    head = _HEAD.match(summary)
    if head is None:
        return None
    messages, rounds, missing, asked = (int(number or 0) for number in head.groups()[:4])
    return Counts(messages, rounds, missing, asked, has_ended=bool(head[5]))


def _whence(item: Item) -> Record:
    source = item.source or f"rounds:{item.first}-{item.last}"
    named = {} if legal_name(item.id) == item.id else {"item": item.id}
    return {"source": source, "tier": item.tier, "origin": item.origin, **named}


def _ref(item: Item, text: str) -> Record:
    path = shortened(str(item.extra.get("path") or item.content), 300)
    if not path or ".." in path.split("/"):
        path = "context/refs.jsonl"
    return {"path": path, "kind": "file", "summary": text}


def _markdown(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace") if lines else b""
