"""A pack in readable form: `pack.json` and `pack.md`."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from ctxwrap.kinds import kind_named
from ctxwrap.session.abi import source_issue
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import numbers_in
from ctxwrap.types import MissingContext, PackItem, Record


class PackBlock(NamedTuple):
    """One part of a request, in the order in which the model reads it."""

    name: str
    """protocol, boot, system, pinned, memory, background, message, found, offered, state or reminder."""
    role: str
    """The role of the message that holds it: system, user, assistant or tool."""
    source: str
    text: str
    tokens: int


class PackView(NamedTuple):
    turn: str
    """The id of the turn; empty for a preview."""
    session: str
    agent: str
    round: int
    at: str
    model: str
    mode: str
    items: tuple[PackItem, ...]
    budget: Record
    blocks: tuple[PackBlock, ...]
    sha256: str = ""
    """The hash of the whole request as JSON with sorted keys."""
    report: Mapping[str, Any] = {}
    """The `assembly_report` of the working set."""
    notes: tuple[str, ...] = ()
    """What can no longer be shown, and why."""
    missing: tuple[MissingContext, ...] = ()
    """The missing context that is open at the end of the turn."""
    body: Mapping[str, Any] = {}
    """The whole request of a preview."""

    @property
    def included(self) -> tuple[PackItem, ...]:
        return tuple([item for item in self.items if item.included])

    @property
    def left_out(self) -> tuple[PackItem, ...]:
        return tuple([item for item in self.items if not item.included])

    @property
    def boot_header(self) -> str:
        """The lines of the boot header; empty if there are none."""
        found = next((match for block in self.blocks if (match := _BOOT.search(block.text))), None)
        return found[0].strip("\n") + "\n" if found else ""

    def as_markdown(self) -> str:
        """The content of `pack.md`."""
        return pack_markdown(self)

    def as_json(self) -> Record:
        """The content of `pack.json`: items name files of the session, or the log."""
        return {
            "session": self.session,
            "agent": self.agent,
            "budget_tokens": None if self.budget.get("set_by") == "nothing" else self.budget.get("limit"),
            "turn": self.turn,
            "round": self.round,
            "at": self.at,
            "model": self.model,
            "mode": self.mode,
            "sha256": self.sha256,
            "budget": self.budget,
            "items": [self._listed(item) for item in self.included],
            "left_out": [self._listed(item) for item in self.left_out],
            **({"missing": [each._asdict() for each in self.missing]} if self.missing else {}),
            "blocks": list(self._outline()),
            **({"assembly_report": self.report} if self.report else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }

    def _listed(self, item: PackItem) -> Record:
        listed = item.as_json()
        listed["kind"] = _label(item)
        if item.source == "messages.jsonl":  # as most
            if item.refs:
                listed["range"] = self._range(item)
        elif source_issue(item.source):
            listed |= {"path": item.source, "source": "events.jsonl"}
        return listed

    def _range(self, item: PackItem) -> str:
        """`tail:40` for the last forty messages before those of the call, otherwise their numbers."""
        if item.kind != "recent_messages" or not item.included:
            return ",".join(dict.fromkeys([ref.partition(".")[0] for ref in item.refs]))
        (span,) = item.refs
        numbers = numbers_in(span)
        named = (block.source.partition("messages:")[2] for block in self.blocks)
        behind = min((int(number) for number in named if number.isdecimal() and int(number) > numbers[-1]), default=0)
        is_tail = numbers == list(range(numbers[0], numbers[-1] + 1)) and behind == numbers[-1] + 1
        return f"tail:{len(numbers)}" if is_tail else span

    def _outline(self) -> Iterator[Record]:
        """The blocks without their texts; consecutive messages are one block, as `items` lists them."""
        for is_message, run in groupby(self.blocks, key=lambda block: block.name == "message"):
            blocks = list(run)
            if is_message:
                tokens = sum(block.tokens for block in blocks)
                yield {"name": "messages", "source": "messages.jsonl", "count": len(blocks), "tokens": tokens}
            else:
                names = ("name", "role", "source", "tokens")
                yield from ({name: getattr(block, name) for name in names} for block in blocks)


_BOOT = re.compile(r"^Root: .*?(?=\n\n|\n<)", re.MULTILINE | re.DOTALL)


def _label(item: PackItem) -> str:
    return kind_named(item.kind).label or item.kind


_FENCE = re.compile("`{3,}")
_SPACES = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_ESCAPES = str.maketrans(dict.fromkeys(_SPACES, " ") | {mark: f"\\{mark}" for mark in "|\\`<>[]*_"})
"""Every white space is a space in a table cell, and a mark of Markdown is escaped."""


def pack_markdown(view: PackView) -> str:
    return "\n".join(_lines(view)) + "\n"


def _lines(view: PackView) -> Iterator[str]:
    budget = view.budget
    yield f"# Pack of round {view.round}"
    yield ""
    yield f"- turn: {_cell(view.turn or 'not sent')}, session {_cell(view.session)}, at {_cell(view.at)}"
    yield f"- model: {_cell(view.model)}, mode {_cell(view.mode)}"
    if budget:
        kind = "exact" if budget["exact"] else "estimated, with a margin"
        yield f"- budget: {budget['limit']} tokens by {_cell(budget['set_by'])}, {budget['fixed']} fixed,"
        yield f"  {budget['used']} of {budget['effective']} used; counted by {_cell(budget['counter'])}, {kind}"
    yield f"- sha256 of the request: {view.sha256 or 'none'}"
    yield from (f"- note: {_cell(note)}" for note in view.notes)
    yield from _table("In", view.included)
    yield from _table("Left out", view.left_out)
    yield from _missing(view.missing)
    yield from ("", "## Sent")
    yield from (_block(number, block) for number, block in enumerate(view.blocks, 1))


def _table(title: str, items: Iterable[PackItem]) -> Iterator[str]:
    rows = [(_label(item), item.source, str(item.tokens), item.reason, " ".join(item.refs)) for item in items]
    yield from ("", f"## {title}", "")
    if not rows:
        yield "Nothing."
        return
    yield from ("| kind | source | tokens | why | which |", "| --- | --- | ---: | --- | --- |")
    for row in rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _missing(missing: Iterable[MissingContext]) -> Iterator[str]:
    rows = [(each.severity, each.status, each.question, each.reason, each.id) for each in missing]
    if rows:
        yield from ("", "## Missing", "")
        yield from ("| severity | status | question | why | id |", "| --- | --- | --- | --- | --- |")
    for row in rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _block(number: int, block: PackBlock) -> str:
    text, fence = block.text, "```"
    if fence in text:
        fence = "`" * (1 + max(map(len, _FENCE.findall(text))))
    title = f"### {number}. {block.name} ({block.role}), {block.tokens} tokens, from {block.source}"
    return f"\n{title}\n\n{fence}\n{text}\n{fence}"


def _cell(text: str) -> str:
    """A text, escaped for a table cell."""
    return text.translate(_ESCAPES)


PACK_JSON = "context/pack.json"
PACK_MARKDOWN = "context/pack.md"


def save_pack(view: PackView, files: Files) -> None:
    files.save(PACK_JSON, _written(view.as_json()).encode() + b"\n")
    files.save(PACK_MARKDOWN, pack_markdown(view).encode("utf-8", "backslashreplace"))


def _written(pack: Record) -> str:
    """JSON with a line per item: indenting everything would take longer than writing the log."""
    return "{\n" + ",\n".join([f'"{name}": {_listed(value, _FIRST.get(name))}' for name, value in pack.items()]) + "\n}"


_FIRST = {"items": "kind", "left_out": "kind", "blocks": "name"}
"""The first field of each item in a list."""


def _listed(value: Any, first: str | None) -> str:
    if not isinstance(value, list) or not value:
        return _encode(value)
    if first is None:
        return "[\n" + ",\n".join(map(_encode, value)) + "\n]"
    # encoding all at once takes less time; in a text, the quotes would be escaped
    lines = _encode(value)[1:-1].replace(f', {{"{first}": ', f',\n{{"{first}": ')
    return f"[\n{lines}\n]"


_encode = json.JSONEncoder().encode
