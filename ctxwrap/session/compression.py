"""Compression: what memory and log amount to, as typed files with where it comes from; made without a model."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ctxwrap.memory.items import Item
from ctxwrap.memory.memory import Memory
from ctxwrap.session.abi import legal_name
from ctxwrap.session.growing import line
from ctxwrap.session.swap import shortened
from ctxwrap.types import Record

_DECISIONS = frozenset({"decision", "decided", "choice", "agreement", "resolution"})
_OPEN_WORK = frozenset({"todo", "task", "action", "plan", "goal", "step", "next", "reminder", "question"})
_REFS = frozenset({"ref", "reference", "file", "path", "artifact", "link", "url", "document", "source"})

_HEAD = re.compile(rb"# Summary\n\nSource: messages:1-(\d{1,15}), (\d{1,15}) rounds\n")
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


def compressed(memory: Memory, told: Told) -> dict[str, bytes]:
    """The typed files and what is to stand in them."""
    items = sorted(memory.items.values(), key=lambda item: item.id)
    decisions = [item for item in items if kind_of(item) == "decision"]
    refs = [item for item in items if kind_of(item) == "ref"]
    todo = [item for item in items if kind_of(item) == "todo"]
    facts = [item for item in items if kind_of(item) == "fact"]
    return {
        "context/facts.jsonl": _lines(facts, lambda item: {"text": _text(item)}),
        "context/decisions.jsonl": _lines(decisions, lambda item: {"decision": _text(item)}),
        "context/refs.jsonl": b"".join(line(each) for each in (*map(_ref, refs), *told.refs)),
        "context/todo.md": _todo(memory.active_task, todo),
        "context/summary.md": _summary(memory, told, decisions, todo),
    }


def counts_in(summary: bytes) -> tuple[int, int] | None:
    """How many messages and rounds a summary is of."""
    head = _HEAD.match(summary)
    return (int(head[1]), int(head[2])) if head else None


def kind_of(item: Item) -> str:
    """fact, decision, todo or ref: what the model called the item, in our words."""
    name = item.type.strip().casefold()
    for kind, names in (("decision", _DECISIONS), ("todo", _OPEN_WORK), ("ref", _REFS)):
        if name in names:
            return kind
    return "fact"


def _lines(items: Iterable[Item], said: Callable[[Item], Record]) -> bytes:
    return b"".join(line({"id": legal_name(item.id), **said(item), **_whence(item)}) for item in items)


def _whence(item: Item) -> Record:
    named = {} if legal_name(item.id) == item.id else {"item": item.id}
    return {
        "source": item.source or f"rounds:{item.first}-{item.last}",
        "tier": item.tier,
        "origin": item.origin,
    } | named


def _text(item: Item) -> str:
    return shortened(item.content, _TEXT) or "(nothing)"


def _ref(item: Item) -> Record:
    path = shortened(str(item.extra.get("path") or item.content), 300)
    legal = path and not path.startswith("..") and "/../" not in path
    said = {
        "path": path if legal else f"context/facts.jsonl#{legal_name(item.id)}",
        "kind": "file",
        "summary": _text(item),
    }
    return {"id": legal_name(item.id), **said, **_whence(item)}


def _todo(task: str, items: Sequence[Item]) -> bytes:
    lines = [f"Active: {shortened(task, _TEXT)}", ""] if task else []
    lines += [f"- [ ] {_text(item)} ({item.source or item.id})" for item in items]
    return _markdown(lines)


def _summary(memory: Memory, told: Told, decisions: Sequence[Item], todo: Sequence[Item]) -> bytes:
    """What the session is about, in the order in which somebody new to it would ask."""
    known = sorted((item for item in memory.items.values() if item.tier == "core"), key=lambda item: item.id)
    lines = ["# Summary", "", f"Source: messages:1-{told.messages}, {told.round} rounds"]
    if memory.active_task:
        lines.append(f"Task: {shortened(memory.active_task, _TEXT)}")
    if told.summary:
        lines += ["", f"## So far ({told.summary['source']})", "", str(told.summary["text"]).strip()]
    sections = (
        ("Known", [_text(item) for item in known if kind_of(item) == "fact"]),
        ("Decided", [_text(item) for item in decisions]),
        ("Open", [_text(item) for item in todo]),
        ("Last said", [f"{who}: {what}" for who, what in (("user", told.user), ("assistant", told.assistant)) if what]),
    )
    for title, entries in sections:
        lines += ["", f"## {title}", "", *(f"- {entry}" for entry in entries)] if entries else []
    return _markdown(lines)


def _markdown(lines: Sequence[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace") if lines else b""
