"""The receipt of a pack: what was chosen, what was left out and why, in few bytes.

An item that looks like most of its kind is a row: the name of its shape, its tokens, its refs, and what is otherwise
than in its shape. A row is read as it was written, so a name that has been written once keeps its meaning; anything
else is an object with all that is not usual, as all items were before format 3.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ctxwrap.records import count_in
from ctxwrap.types import PackItem, Record

_NO_ROOM = "over budget: memory has more than its share holds"
_MEMORY = {
    "facts": "context/facts.jsonl",
    "decisions": "context/decisions.jsonl",
    "todo": "context/todo.md",
    "refs": "context/refs.jsonl",
}
_MARKS = {"": "remembered", "?": "remembered, and asked about", "-": _NO_ROOM}
_LOG = "messages.jsonl"

_SHAPES: dict[str, PackItem] = {
    "protocol": PackItem("system", "protocol", 0, True, "tells the model what the blocks are", 1.0),
    "frames": PackItem("memory", "events.jsonl", 0, True, "frames, and the runtime fields", 1.0),
    "caller": PackItem("request", "caller", 0, True, "sent by the caller", 1.0, origin="user"),
    **{
        f"{kind}{mark}": PackItem(kind, source, 0, reason != _NO_ROOM, reason, 0.8, origin="assistant")
        for kind, source in _MEMORY.items()
        for mark, reason in _MARKS.items()
    },
    "recent": PackItem("recent_messages", _LOG, 0, True, "recent history", origin="user"),
    "older": PackItem("recent_messages", _LOG, 0, False, "older than the budget reaches", origin="user"),
    "found": PackItem("retrieved", _LOG, 0, True, "found", origin="assistant"),
    "missed": PackItem("retrieved", _LOG, 0, False, "it did not fit", origin="assistant"),
}
_NAMES = {(shape.kind, shape.source, shape.included, shape.reason): name for name, shape in _SHAPES.items()}
_ALIKE = {"retrieved": ("missed", "found")}
"""The shapes of a kind with reasons of many kinds, for what is left out and what is in."""


def rows(items: Iterable[PackItem]) -> list[Any]:
    """Items as an event keeps them."""
    return [_row(item) for item in items]


def _row(item: PackItem) -> Any:
    name = _NAMES.get(item[:2] + item[3:5])
    if name is None and item.kind in _ALIKE and item.source == _LOG:
        name = _ALIKE[item.kind][item.included]
    if name is None:
        return item.as_json()
    shape, row = _SHAPES[name], [name, item.tokens, *item.refs]
    usual = (shape.reason, shape.priority, _freshness(shape.source, item.refs), shape.origin, shape.visibility)
    if item[4:9] != usual:
        told = zip(PackItem._fields[4:9], item[4:9], usual, strict=True)
        row.append({field: value for field, value, known in told if value != known})
    return row


def _freshness(source: str, refs: tuple[str, ...]) -> int:
    """The newest message that refs such as `115-118` or `106.0` name; 0 if they name none."""
    if source != _LOG or len(refs) != 1:
        return 0
    last = refs[0].rpartition(",")[2].rpartition("-")[2].partition(".")[0]
    return int(last) if last.isdecimal() and last.isascii() and len(last) <= _DIGITS else 0


_DIGITS = 15


def items_in(event: Record) -> tuple[PackItem, ...]:
    """The items that an event tells of; a LookupError, TypeError or ValueError if they make no sense."""
    return tuple(_read(each) if isinstance(each, list) else item_in(each) for each in event["pack"])


def _read(row: list[Any]) -> PackItem:
    name, tokens, *refs = row
    told = refs.pop() if refs and isinstance(refs[-1], dict) else {}
    shape, named = _SHAPES[name], tuple(map(str, refs))
    freshness = told.get("freshness", _freshness(shape.source, named))
    known = {**shape._asdict(), "tokens": tokens, "refs": named, "freshness": freshness}
    return item_in({**known, **told})


def item_in(value: Mapping[str, Any]) -> PackItem:
    """The inverse of `as_json`."""
    known = {name: value[name] for name in PackItem._fields if name in value}
    return PackItem(**known | {name: tuple(known[name]) for name in ("visibility", "refs") if name in known})


def budget_as_json(budget: Record) -> Record:
    """A budget as an event keeps it: without what is usual, and what follows from the rest."""
    spent = {name: tokens for name, tokens in budget["spent"].items() if tokens or name not in _NOTHING}
    short = {**budget, "spent": spent}
    usual = {**_USUAL, **_reckoned(short)}
    return {name: value for name, value in short.items() if name == "spent" or usual.get(name) != value}


def budget_in(event: Record) -> Record:
    """What an event says there was to spend; nothing if it does not say it."""
    told = event.get("budget")
    if not isinstance(told, dict) or not isinstance(told.get("spent"), dict):
        return told if isinstance(told, dict) else {}
    known = {**_USUAL, **_reckoned(told), **told, "spent": {**_NOTHING, **told["spent"]}}
    return {name: known[name] for name in (*_ORDER, *known) if name in known}


_USUAL = {"set_by": "settings", "exact": True}
_ORDER = ("limit", "set_by", "reply", "fixed", "effective", "used", "spent")
_NOTHING = dict.fromkeys(("pinned", "summary", "memory", "recent", "retrieved", "children"), 0)


def _reckoned(budget: Record) -> Record:
    spent = sum(count_in(budget["spent"], name) or 0 for name in budget["spent"])
    return {"effective": max(0, (count_in(budget, "limit") or 0) - (count_in(budget, "fixed") or 0)), "used": spent}
