"""The commands `sessions` and `show`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import Column, as_name, as_size, as_time, facts, heading, indented, json_text, show, table
from ctxwrap.cli.turns import damage, turn_parts
from ctxwrap.inspect import (
    Listing,
    SessionDetails,
    SessionInfo,
    TurnInfo,
    all_sessions,
    session_details,
    sessions_of,
    turn_details,
)
from ctxwrap.memory.items import PLACES
from ctxwrap.session.lookup import key_for
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

if TYPE_CHECKING:
    from rich.console import RenderableType


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


_SUMMARY = 12
"""So many lines of a summary are shown."""

_BRANCHES = 8
"""So many of the newest branches are named."""

_TURNS = (
    Column("turn", right=True),
    Column("id", needs=120),
    Column("round", right=True, needs=60),
    Column("mode", needs=80),
    Column("status"),
    Column("model", needs=110),
    Column("in", right=True, needs=90),
    Column("out", right=True, needs=90),
    Column("said", fills=True),
    Column("answer", fills=True, needs=60),
)


def show_session(*, session: str, tenant: str, agent: str, store: str | None, turn: str | None, as_data: bool) -> None:
    place, key = open_store(store), key_for(session, tenant, agent)
    if turn is not None:
        about = turn_details(place, key, turn)
        if as_data:
            click.echo(json_text({**key._asdict(), **about.as_json()}))
        else:
            show(*turn_parts(about))
        return
    details = session_details(place, key)
    if as_data:
        click.echo(json_text(details.as_json()))
    else:
        show(*_session(details))


def _session(details: SessionDetails) -> "Iterator[RenderableType]":
    info = details.info
    yield facts(
        [
            ("session", as_name(info.key.session)),
            ("tenant", as_name(info.key.tenant)),
            ("agent", as_name(info.key.agent)),
            ("state", info.state),
            ("created (UTC)", as_time(info.created_at)),
            ("updated (UTC)", as_time(info.updated_at)),
            ("rounds", info.rounds),
            ("messages", info.messages),
            ("branches", _branches(details)),
            ("memory", ", ".join(f"{details.memory[place]} {place}" for place in PLACES)),
            ("snapshots", _snapshots(details)),
            ("kept apart", _contents(details)),
            ("size", as_size(info.size)),
            ("damage", damage(details.damaged)),
        ]
    )
    if details.children:
        yield ""
        rows = [(child.name, as_name(child.agent), as_name(child.session), child.status) for child in details.children]
        yield table([Column("child"), Column("agent"), Column("session", folds=True), Column("status")], rows)
    yield from _summary(details.summary)
    if details.turns:
        yield ""
        yield table(_TURNS, map(_turn_row, details.turns))


def _branches(details: SessionDetails) -> str:
    if not details.branches:
        return ""
    newest = details.branches[-_BRANCHES:]
    named = ", ".join(f"message {each.message} after {as_name(each.parent)}" for each in newest)
    return f"{len(details.branches)}: {'…, ' if len(newest) < len(details.branches) else ''}{named}"


def _snapshots(details: SessionDetails) -> str:
    """How many replies had none; by model if there are several."""
    told = details.snapshots
    row = f"; the last {told['in_a_row']} had none" if told["in_a_row"] else ""
    models = [f"{as_name(name) or 'no model'}: {_counted(count)}" for name, count in told["models"].items()]
    return "".join((_counted(told), row, *(f"; {model}" for model in models[: len(models) > 1 and len(models)])))


def _counted(count: Mapping[str, Any]) -> str:
    """Nothing if none was asked for."""
    names = [f"{count[name]} {name}" for name in ("missing", "unusable") if count[name]]
    return ", ".join([f"{count['asked']} asked for", *names]) if count["asked"] else ""


def _contents(details: SessionDetails) -> str:
    kept = details.contents
    saved = f", {as_size(kept.saved_bytes)} saved by keeping each once" if kept.saved_bytes else ""
    return f"{kept.kept} contents of {as_size(kept.bytes)}{saved}" if kept.kept else ""


def _summary(text: str) -> "Iterator[RenderableType]":
    lines = [line for line in text.splitlines() if line.strip()]
    if lines:
        yield ""
        yield heading("summary")
        yield indented("\n".join(lines[1:][:_SUMMARY] + ["…"] * (len(lines) > _SUMMARY + 1)))


def _turn_row(turn: TurnInfo) -> tuple[object, ...]:
    kind = (turn.number, as_name(turn.id), turn.round, turn.mode, turn.status, turn.model)
    return (*kind, turn.tokens_in, turn.tokens_out, turn.said, turn.answer)
