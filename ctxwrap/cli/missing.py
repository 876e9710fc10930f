"""The command that shows what is missing, and settles it."""

import click

from ctxwrap.cli.forgetting import Place
from ctxwrap.cli.tables import Column, show, table
from ctxwrap.cli.text import json_text, printable
from ctxwrap.resolving import missing_in, resolve_missing
from ctxwrap.types import Missing

_COLUMNS = (
    Column("id"),
    Column("severity"),
    Column("status"),
    Column("since", right=True),
    Column("from", needs=60),
    Column("question", folds=True, fills=True),
)


def run_missing(
    session: str,
    *,
    resolve: str | None,
    decline: str | None,
    note: str,
    everything: bool,
    as_json: bool,
    store: str | None,
    tenant: str,
    agent: str,
) -> None:
    place = Place(store=store, tenant=tenant, agent=agent)
    for id, status in ((resolve, "resolved"), (decline, "declined")):
        if id is not None:
            resolve_missing(session, id, status=status, note=note, **place)  # type: ignore[arg-type]  # the words above
            click.echo(printable(f"{status} {id}"))
            return
    found = missing_in(session, everything=everything, **place)
    if as_json:
        click.echo(json_text([each._asdict() for each in found]))
    elif found:
        show(table(_COLUMNS, map(_row, found)))
    else:
        click.echo("nothing is missing")


def _row(each: Missing) -> tuple[object, ...]:
    told = f"{each.question} ({each.reason})" if each.reason else each.question
    return each.id, each.severity, each.status, f"round {each.round}", each.requested_from, told
