"""What is missing in a session: a fold of the events that tell of it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ctxwrap.stages.missing import CLASSES, DETECTED, MODEL, REQUESTED, RESOLVED, Known, is_open, severity_in
from ctxwrap.types import Missing, MissingStatus, Record

_HELD, _LONGEST, _FEW = 256, 2000, 8
"""A log may come from anybody: so many are held at most, so many characters of each text, so many actions."""

_OVER = ("resolved", "expired")
_SETTLED: tuple[MissingStatus, ...] = ("resolved", "declined", "expired")


def changed_by(told: Record, before: Missing | None) -> Missing | None:
    """What an event makes of something that is missing, if it is about that; what is settled says how."""
    data, kind = told.get("data"), told.get("type")
    data = data if isinstance(data, dict) else {}
    if kind == DETECTED:
        new = _read(told, data)
        if before is None or before.status in _OVER:
            return new
        kept = before._replace(severity=new.severity, blocked_actions=new.blocked_actions)
        return kept._replace(needed_for=new.needed_for or before.needed_for) if is_open(before) else before
    if before is None:
        return None
    if kind == REQUESTED and is_open(before):
        return before._replace(status="requested", requested_from=_text(data.get("requested_from")))
    if kind == RESOLVED:
        return before._replace(status=_status_in(data), resolution=_text(data.get("resolution")))
    return before


def taken(known: Known, told: Record) -> Known:
    """What is known after one more event of the log."""
    id = told.get("subject")
    if told.get("type") not in CLASSES or not isinstance(id, str) or not id:
        return known
    at = next((at for at, each in enumerate(known) if each.id == id), len(known))
    new = changed_by(told, known[at] if at < len(known) else None)
    stays = new is not None and (is_open(new) or new.status == "declined")
    return (*known[:at], *([new] if new and stays else []), *known[at + 1 :])[-_HELD:]


def history(events: Iterable[Record]) -> Known:
    """All that was ever missing, as it ended; what was detected anew counts from then on."""
    found: dict[str, Missing] = {}
    for told in events:
        id = told.get("subject")
        if told.get("type") in CLASSES and isinstance(id, str) and id:
            before = found.get(id)
            new = changed_by(told, before)
            if before and before.status in _OVER and told["type"] == DETECTED:
                del found[id]
            found |= {id: new} if new else {}
    return tuple(found.values())


def _read(told: Record, data: Mapping[str, Any]) -> Missing:
    number, blocked = data.get("round"), data.get("blocked_actions")
    return Missing(
        id=_text(told.get("subject")),
        question=_text(data.get("question")),
        severity=severity_in(data) or "medium",
        source=_text(data.get("source")) or MODEL,
        needed_for=_text(data.get("needed_for")),
        requested_from=_text(data.get("requested_from")),
        blocked_actions=tuple(map(_text, blocked[:_FEW])) if isinstance(blocked, list) else (),
        reason=_text(data.get("reason")),
        remedy=_text(data.get("remedy")),
        turn=_text(told.get("run")),
        round=number if isinstance(number, int) else 0,
    )


def _text(value: Any) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _status_in(data: Mapping[str, Any]) -> MissingStatus:
    return next((word for word in _SETTLED if word == data.get("status")), "resolved")


def from_json(value: Any) -> Known:
    """What is known, as a checkpoint holds it."""
    found = (Missing(*each) for each in value)
    return tuple(each._replace(blocked_actions=tuple(each.blocked_actions)) for each in found)
