"""The JSON of each view of the page."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from ctxwrap.clients.preview import preview_request
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.inspect import (
    SessionInfo,
    TurnDetails,
    all_sessions,
    cost_of,
    curves_of,
    details_of,
    totals_of,
    turn_details,
    turns_before,
)
from ctxwrap.inspect.streams import control_in, text_in
from ctxwrap.inspect.turns import REQUESTS, epoch_at, pack_in, turn_near
from ctxwrap.memory.memory import rules_from_json
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.service.handle import SessionHandle
from ctxwrap.session.lookup import owner_key
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.session import Session
from ctxwrap.settings import MemoryRules, Settings
from ctxwrap.stores.base import Store
from ctxwrap.stores.log_format import count_in
from ctxwrap.tokens.reported_usage import usage_in
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.types import Record, SessionKey

SESSIONS = 100
"""Sessions on one page of the list."""

_POINTS = 120
"""Rounds of a strength curve; longer histories are sampled."""

_PREFIX = ("tools", "protocol", "system", "pinned", "memory")
"""The parts of a request before its messages, in the order of `prefix.head`."""


def sessions_view(store: Store, search: str = "", offset: int = 0) -> dict[str, Any]:
    """Sessions whose tenant, agent or name contains `search`, newest first."""
    found = [info for info in all_sessions(store).sessions if _matches(info, search)]
    page = found[offset : offset + SESSIONS]
    rows = [{**info.as_json(), **totals_of(store, info.key)._asdict()} for info in page]
    return {"total": len(found), "offset": offset, "sessions": rows}


def _matches(info: SessionInfo, search: str) -> bool:
    return all(word in " ".join(info.key).casefold() for word in search.casefold().split())


def turns_view(store: Store, key: SessionKey, before: int | None = None) -> dict[str, Any]:
    """A page of turns, newest first; `before` leads to the next page."""
    page = turns_before(store, key, before)
    earlier: Mapping[str, Any] = {}
    rows = []
    for turn in page.turns:
        request = _request_in(turn.events)
        rows.append({**_row(turn, request), "changed": _first_change(earlier, request)})
        earlier = request or earlier
    return {"before": page.before, "owners": page.owners, "turns": rows[::-1]}


def _row(turn: TurnDetails, request: Record) -> dict[str, Any]:
    done = next((event for event in turn.events if event.get("type") == "done"), {})
    snapshots = [event for event in turn.events if event.get("type") == "snapshot"]
    usage = usage_in(done.get("usage"))
    numbers = [number for record in turn.messages if (number := count_in(control_in(record), "seq"))]
    return {
        **turn.info.as_json(),
        "event": count_in(control_in(turn.events[0]), "seq") if turn.events else None,
        "numbers": [min(numbers), max(numbers)] if numbers else None,
        "seconds": _seconds(turn.info.started_at, text_in(control_in(done), "time")),
        "cached": usage.cached,
        "stable": request.get("stable"),
        "reasks": sum(event.get("type") == "reask" for event in turn.events),
        "repairs": sum(len(event.get("repairs") or ()) for event in snapshots),
        "violations": sum(len(event.get("violations") or ()) for event in snapshots),
        "snapshot": text_in(snapshots[-1], "status") if snapshots else "",
        "operations": sum(len(event.get("operations") or ()) for event in turn.events),
    }


def _request_in(events: Sequence[Record]) -> Record:
    """The last request of a turn."""
    return next((event for event in reversed(events) if event.get("type") in REQUESTS), {})


def _first_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The first part of a request that differs from the request before; empty if the prefix was kept."""
    one, other = before.get("prefix") or {}, after.get("prefix") or {}
    if not one or not other:
        return ""
    heads = zip(_PREFIX, one.get("head") or (), other.get("head") or (), strict=False)
    changed = next((name for name, old, new in heads if old != new), "")
    if changed:
        return changed
    first = [str(prefix.get("messages") or "").partition("-")[0].partition(",")[0] for prefix in (one, other)]
    return "" if first[0] == first[1] else "first message"


def _seconds(start: str, end: str) -> float | None:
    try:
        return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(), 3)
    except ValueError:
        return None


def turn_view(store: Store, key: SessionKey, turn: str, event: int | None = None) -> dict[str, Any]:
    """One turn: what was said, what was sent and left out, and what the reply changed; `event` is its first one."""
    details = turn_details(store, key, turn) if event is None else turn_near(store, key, turn, event)
    session = Session(key, store.open(key))
    session.refresh()
    request = _request_in(details.events)
    return {
        **_row(details, request),
        "messages": [_message(record) for record in details.messages],
        "pack": _pack(session, details),
        "changes": [_change(each, _shown_before(session, request)) for each in _operations(details)],
        "snapshots": [_snapshot(event) for event in details.events if event.get("type") == "snapshot"],
    }


def _message(record: Record) -> dict[str, Any]:
    control = control_in(record)
    return {
        **{name: record.get(name) for name in ("role", "content", "tool_calls")},
        "number": control.get("seq"),
        "time": text_in(control, "time"),
        "purged": "purged" in control,
    }


def _pack(session: Session, details: TurnDetails) -> dict[str, Any] | None:
    try:
        return pack_as_json(pack_in(session, details))
    except NotFound:
        return None


def pack_as_json(view: PackView) -> dict[str, Any]:
    """A pack with every candidate and the text of every block."""
    return {
        "model": view.model,
        "mode": view.mode,
        "round": view.round,
        "budget": view.budget,
        "items": [
            {**item._asdict(), "visibility": list(item.visibility), "refs": list(item.refs)} for item in view.items
        ],
        "blocks": [block._asdict() for block in view.blocks],
        "notes": list(view.notes),
        "missing": [each._asdict() for each in view.missing],
    }


def _operations(details: TurnDetails) -> list[Record]:
    return [each for event in details.events for each in event.get("operations") or () if isinstance(each, dict)]


def _shown_before(session: Session, request: Record) -> dict[str, Record]:
    """The memory items that a request showed, by id: those of its epoch, and the changes since."""
    state = (request.get("sent") or {}).get("state") or {}
    tiers = [epoch_at(session, request) or {}, state.get("memory") or {}]
    return {
        item["id"]: {**item, "tier": tier}
        for each in tiers
        for tier, items in each.items()
        for item in items
        if isinstance(item, dict) and "id" in item
    }


def _change(operation: Record, shown: Mapping[str, Record]) -> dict[str, Any]:
    """An operation with the fields that it changed, as far as the request showed them."""
    before, after = shown.get(str(operation.get("id")), {}), operation.get("item") or {}
    fields = [
        {"name": name, "before": before[name], "after": after.get(name)}
        for name in ("content", "tier", "type", "tags", "decay")
        if after and name in before and before[name] != after.get(name)
    ]
    return {
        "kind": operation.get("kind"),
        "id": operation.get("id"),
        "reason": operation.get("reason"),
        "content": after.get("content") or before.get("content"),
        "fields": fields,
    }


def _snapshot(event: Record) -> dict[str, Any]:
    trailer = text_in(event, "trailer")
    return {
        "status": event.get("status"),
        "repairs": event.get("repairs") or [],
        "violations": event.get("violations") or [],
        "trailer": trailer,
        "fault": _fault_in(trailer),
    }


def _fault_in(trailer: str) -> int | None:
    """Where the JSON of a snapshot is damaged; None if it is not."""
    start = trailer.find("{")
    if start < 0:
        return None
    try:
        json.JSONDecoder().raw_decode(trailer, start)
    except json.JSONDecodeError as error:
        return error.pos
    except RecursionError:
        return start
    return None


def memory_view(store: Store, key: SessionKey, round: int | None = None) -> dict[str, Any]:
    """Memory now or at the end of a round, with the rules by which it ages."""
    session = Session(key, store.open(key))
    session.refresh()
    rules = rules_from_json(session.state.rules)[0] if session.state.rules else MemoryRules()
    newest = session.state.round
    is_newest = round is None or round >= newest
    state = details_of(store, key, None if is_newest else round)
    return {
        **state,
        "owned": _owned_items(store, key, session.state.owners) if is_newest else {},
        "newest": newest,
        "thresholds": {tier: getattr(rules.thresholds, tier) for tier in ("core", "working", "ephemeral")},
    }


def _owned_items(store: Store, key: SessionKey, owners: Mapping[str, str]) -> dict[str, Any]:
    """The core items of the session's user and team, which requests show beside its own."""
    found = {}
    for kind, name in owners.items():
        with suppress(NotFound):
            found[f"{kind} {name}"] = details_of(store, owner_key(kind, name, key.tenant))["memory"]["core"]
    return found


def curves_view(store: Store, key: SessionKey) -> dict[str, Any]:
    """The strength of every item that was ever in memory, by round."""
    curves = []
    for curve in curves_of(store, key):
        step = max(1, len(curve.points) // _POINTS)
        points = [point for at, point in enumerate(curve.points) if at % step == 0 or at == len(curve.points) - 1]
        curves.append({"id": curve.id, "content": curve.content, "points": [list(point) for point in points]})
    return {"curves": curves}


def compare_view(store: Store, key: SessionKey, before: str, after: str) -> dict[str, Any]:
    """The packs of two turns, item by item."""
    found: dict[str, Any] = SessionHandle(key, store).diff(before, after).as_json()
    return found


def missing_view(store: Store, key: SessionKey) -> dict[str, Any]:
    return {"missing": [each._asdict() for each in SessionHandle(key, store).missing(everything=True)]}


def cost_view(store: Store, key: SessionKey) -> dict[str, Any]:
    return cost_of(store, key).as_json()


def preview_view(store: Store, key: SessionKey, message: str, model: str, budget: int | None) -> dict[str, Any]:
    """What a request with this message would contain."""
    if not message.strip():
        raise SettingsError("a preview needs a message")
    settings = Settings() if budget is None else Settings(budget=budget)
    binding = ClientBinding(store=store, settings=settings)
    body = {"model": model, "messages": [{"role": "user", "content": message}]}
    return pack_as_json(preview_request(binding, CallScope(key, "enabled"), CHAT, body))
