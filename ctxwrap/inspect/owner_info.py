"""Users and teams: who there is, and when each item of their memory was learned and replaced."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ctxwrap.session.lookup import open_existing, owner_key
from ctxwrap.session.owner import owners_in
from ctxwrap.stores.base import Store
from ctxwrap.types import Record


class OwnerInfo(NamedTuple):
    name: str
    sessions: int
    items: int
    """Items in core."""
    updated_at: str


def owner_infos(store: Store, tenant: str, kind: str) -> tuple[OwnerInfo, ...]:
    """List the users, or the teams, of a tenant; those of whom everything was purged are left out."""
    found = ((name, open_existing(owner_key(kind, name, tenant), store)) for name in owners_in(store, tenant, kind))
    return tuple(
        OwnerInfo(name, len(owner.state.members), len(owner.memory.items), owner.state.derived.updated_at)
        for name, owner in found
        if owner.state.members
    )


def item_dates(events: Iterable[Record]) -> dict[str, dict[str, str]]:
    """When each item of an owner was told, and until when it was so, by id."""
    dates: dict[str, dict[str, str]] = {}
    for event in events:
        time = str((event.get("ctx") or {}).get("time") or "")
        for operation in event.get("operations") or ():
            _take(dates, operation, time)
    return dates


def _take(dates: dict[str, dict[str, str]], operation: dict[str, Any], time: str) -> None:
    id, kind, item = str(operation["id"]), operation["kind"], operation.get("item") or {}
    if kind == "add" and item.get("successor"):  # the former value of an item that the same turn changes
        dates[id] = {**dates.get(item["successor"], {}), "until": time}
        dates[item["successor"]] = {"since": time}
    elif kind == "add":
        dates[id] = {"since": time}
    elif kind == "drop":
        dates.setdefault(id, {})["until"] = time
    elif kind == "forget":
        dates.pop(id, None)
    elif item.get("tier") != "swap":
        dates.setdefault(id, {"since": time}).pop("until", None)
