"""The commands `sessions` and `show`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import (
    AGENT,
    ALL,
    AS_JSON,
    STORE,
    TENANT,
    Column,
    as_name,
    as_size,
    as_time,
    command,
    facts,
    heading,
    indented,
    json_text,
    session_command,
    show,
    table,
)
from ctxwrap.cli.turns import damage, turn_parts
from ctxwrap.inspect import Listing, SessionDetails, SessionInfo, TurnInfo, all_sessions, sessions_of
from ctxwrap.memory.items import LOCATIONS
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctxwrap.service.handle import SessionHandle


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
"""Shown if any session has replies without a snapshot."""

_SHOWN = 100
"""Rows of the table by default: each one takes a look at the session's files."""

_WHOSE_WIDTH = 24
"""Width of the columns of tenant and agent."""


@command("sessions")
@TENANT
@AGENT
@ALL
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List the newest N. [default: 100 in a table]")
@STORE
@AS_JSON
def sessions_command(
    tenant: str, agent: str, store: str | None, everybody: bool, limit: int | None, as_json: bool
) -> None:
    """List sessions, newest first."""
    place = open_store(store)
    if limit is None and not as_json:
        limit = _SHOWN
    if everybody:
        listing, whose = all_sessions(place, limit), ""
    else:
        tenant, agent = check_id("tenant", tenant), check_id("agent", agent)
        listing = sessions_of(place, tenant, agent, limit)
        whose = f" of tenant {as_name(tenant)} and agent {as_name(agent)}"
    if as_json:
        click.echo(json_text({"sessions": [info.as_json() for info in listing.sessions], "total": listing.total}))
    elif listing.sessions:
        _show(listing, everybody=everybody)
    else:
        others = "" if everybody else ", --all lists every tenant and agent"
        click.echo(f"no sessions{whose} in {as_name(str(getattr(place, 'root', None) or 'memory'))}")
        click.echo(f"`ctxwrap chat` starts one, --store names another store{others}")


def _show(listing: Listing, *, everybody: bool) -> None:
    whose = (*_WHOSE, *(column._replace(needs=column.needs and column.needs + _WHOSE_WIDTH) for column in _COLUMNS))
    columns = whose if everybody else _COLUMNS
    columns = (*columns, _MISSING) if any(info.missing_snapshots for info in listing.sessions) else columns
    show(table(columns, [_row(info, everybody=everybody) for info in listing.sessions]))
    if listing.total > len(listing.sessions):
        click.echo(f"newest {len(listing.sessions)} of {listing.total}; use --limit to list more")


def _row(info: SessionInfo, *, everybody: bool) -> tuple[object, ...]:
    whose = (as_name(info.key.tenant), as_name(info.key.agent)) if everybody else ()
    times = as_time(info.created_at), as_time(info.updated_at)
    counts = info.rounds, info.messages
    missing = f"{info.missing_share:.0%}" if info.missing_snapshots else ""
    return (*whose, as_name(info.key.session), info.state, *counts, *times, as_size(info.size), missing)


_SUMMARY = 12
"""Lines of the summary that are shown."""

_BRANCHES = 8
"""Branches that are listed, newest ones."""

_TURNS = (
    Column("turn", right=True),
    Column("id", needs=120),
    Column("round", right=True, needs=60),
    Column("mode", needs=80),
    Column("status"),
    Column("model", needs=110),
    Column("in", right=True, needs=90),
    Column("out", right=True, needs=90),
    Column("user", fills=True),
    Column("answer", fills=True, needs=60),
)


@session_command("show")
@click.option("--turn", metavar="N", help="Show one turn in full, by its number or id.")
@AS_JSON
def show_command(handle: "SessionHandle", turn: str | None, as_json: bool) -> None:
    """Show SESSION: its state, memory, summary and turns."""
    if turn is not None:
        about = handle.turn(turn)
        if as_json:
            click.echo(json_text({**handle.key._asdict(), **about.as_json()}))
        else:
            show(*turn_parts(about))
        return
    details = handle.details()
    if as_json:
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
            ("memory", ", ".join(f"{details.memory[place]} {place}" for place in LOCATIONS)),
            ("snapshots", _snapshots(details)),
            ("large contents", _contents(details)),
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
    """Return how many replies had no usable snapshot, by model if there are several."""
    counts = details.snapshots
    row = f"; none in the last {counts['in_a_row']}" if counts["in_a_row"] else ""
    models = [f"; {as_name(name) or 'no model'}: {_counted(count)}" for name, count in counts["models"].items()]
    return "".join((_counted(counts), row, *(models if len(models) > 1 else ())))


def _counted(count: Mapping[str, Any]) -> str:
    names = [f"{count[name]} {name}" for name in ("missing", "unusable") if count[name]]
    return ", ".join([f"{count['asked']} requested", *names]) if count["asked"] else ""


def _contents(details: SessionDetails) -> str:
    kept = details.contents
    saved = f", {as_size(kept.saved_bytes)} saved by deduplication" if kept.saved_bytes else ""
    return f"{kept.kept}, {as_size(kept.bytes)}{saved}" if kept.kept else ""


def _summary(text: str) -> "Iterator[RenderableType]":
    lines = [line for line in text.splitlines() if line.strip()]
    if lines:
        yield ""
        yield heading("summary")
        yield indented("\n".join(lines[1:][:_SUMMARY] + ["…"] * (len(lines) > _SUMMARY + 1)))


def _turn_row(turn: TurnInfo) -> tuple[object, ...]:
    kind = (turn.number, as_name(turn.id), turn.round, turn.mode, turn.status, turn.model)
    return (*kind, turn.tokens_in, turn.tokens_out, turn.said, turn.answer)
