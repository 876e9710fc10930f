"""One session at a glance, or one of its turns with everything about it."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.tables import Column, facts, heading, indented, show, table
from ctxwrap.cli.text import as_name, as_size, as_time, json_text
from ctxwrap.cli.turns import damage, turn_parts
from ctxwrap.inspection import SessionDetails, TurnInfo, session_details, turn_details
from ctxwrap.memory.items import PLACES
from ctxwrap.session.finding import key_for
from ctxwrap.stores import open_store

if TYPE_CHECKING:
    from rich.console import RenderableType

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
