"""The sessions there are, the newest first."""

import click

from ctxwrap.cli.tables import Column, show, table
from ctxwrap.cli.text import as_name, as_size, as_time, json_text
from ctxwrap.inspection import Listing, SessionInfo, all_sessions, sessions_of
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

_WHOSE = (Column("tenant", folds=True), Column("agent", folds=True))
_COLUMNS = (
    Column("session", folds=True),
    Column("state"),
    Column("rounds", right=True, needs=50),
    Column("messages", right=True, needs=60),
    Column("created (UTC)", needs=100),
    Column("updated (UTC)", needs=40),
    Column("size", right=True, needs=76),
)
_MISSING = Column("no snapshot", right=True, needs=60)
"""Shown if any of the sessions has replies without one."""

_SHOWN = 100
"""So many are shown in a table unless the caller says how many; of each more the size on disk is taken, to be read by
nobody."""

_ROOM = 24
"""What a tenant and an agent take beside a session."""


def list_sessions(
    *, tenant: str, agent: str, store: str | None, everybody: bool, limit: int | None, as_data: bool
) -> None:
    place = open_store(store)
    if limit is None and not as_data:
        limit = _SHOWN
    if everybody:
        listing, whose = all_sessions(place, limit), ""
    else:
        tenant, agent = check_id("tenant", tenant), check_id("agent", agent)
        listing = sessions_of(place, tenant, agent, limit)
        whose = f" of tenant {as_name(tenant)} and agent {as_name(agent)}"
    if as_data:
        click.echo(json_text({"sessions": [info.as_json() for info in listing.sessions], "total": listing.total}))
    elif listing.sessions:
        _show(listing, everybody=everybody)
    else:
        others = "" if everybody else ", --all lists everybody's"
        click.echo(f"no sessions{whose} in {as_name(str(getattr(place, 'root', None) or 'memory'))}")
        click.echo(f"`ctxwrap chat` begins one, --store looks elsewhere{others}")


def _show(listing: Listing, *, everybody: bool) -> None:
    whose = (*_WHOSE, *(column._replace(needs=column.needs and column.needs + _ROOM) for column in _COLUMNS))
    columns = whose if everybody else _COLUMNS
    columns = (*columns, _MISSING) if any(info.missing_snapshots for info in listing.sessions) else columns
    show(table(columns, [_row(info, everybody=everybody) for info in listing.sessions]))
    if listing.total > len(listing.sessions):
        click.echo(f"the newest {len(listing.sessions)} of {listing.total}; --limit says how many")


def _row(info: SessionInfo, *, everybody: bool) -> tuple[object, ...]:
    whose = (as_name(info.key.tenant), as_name(info.key.agent)) if everybody else ()
    times = as_time(info.created_at), as_time(info.updated_at)
    counts = info.rounds, info.messages
    missing = f"{info.missing_share:.0%}" if info.missing_snapshots else ""
    return (*whose, as_name(info.key.session), info.state, *counts, *times, as_size(info.size), missing)
