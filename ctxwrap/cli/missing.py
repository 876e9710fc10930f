"""The commands `missing` and `swap`."""

import json

import click

from ctxwrap.cli.cleanup import SessionOptions
from ctxwrap.cli.output import Column, json_text, one_line, printable, show, table
from ctxwrap.session.operator import missing_in, resolve_missing
from ctxwrap.session.swap_search import ReturnedContent, SwapHit, bring_back, search_swap
from ctxwrap.types import MissingContext

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
    place = SessionOptions(store=store, tenant=tenant, agent=agent)
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


def _row(each: MissingContext) -> tuple[object, ...]:
    told = f"{each.question} ({each.reason})" if each.reason else each.question
    return each.id, each.severity, each.status, f"round {each.round}", each.requested_from, told


_LISTED = 50


def run_swap(session: str, place: SessionOptions, *, query: str | None, id: str | None, as_json: bool) -> None:
    if id is not None:
        returned = bring_back(session, id, **place)
        lines = [_json([_returned_json(each) for each in returned])] if as_json else list(map(_told, returned))
        for line in lines:
            click.echo(printable(line))
        return
    hits = search_swap(session, query, limit=_LISTED, **place)
    if as_json:
        click.echo(_json([{**hit.entry._asdict(), "share": hit.share} for hit in hits]))
    elif hits:
        _print_table(hits)
    else:
        click.echo("nothing in swap" if query is None else "nothing in swap holds any of these words")


def _print_table(hits: tuple[SwapHit, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "what", "from", "tokens", "match", "summary", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for entry, share in hits:
        what = f"memory of {entry.origin}" if entry.item else entry.kind.replace("_", " ")
        numbers = (str(entry.tokens), f"{share:.0%}")
        cells = (entry.item or entry.id, what, entry.source, *numbers, entry.summary)
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    Console(highlight=False).print(table)


def _told(returned: ReturnedContent) -> str:
    if returned.item is not None:
        item = returned.item
        return f"{item.id} ({returned.origin}, {returned.source}) is in {item.tier} memory: {one_line(item.content)}"
    assert returned.message is not None
    return f"{returned.source} {returned.message.role} ({returned.origin}): {returned.message.text}"


def _returned_json(returned: ReturnedContent) -> dict[str, object]:
    said = returned.message and {**returned.message._asdict(), "extra": dict(returned.message.extra)}
    remembered = returned.item and returned.item.as_json()
    return {"source": returned.source, "origin": returned.origin, "message": said, "item": remembered}


def _json(value: object) -> str:
    """In ASCII, so that nothing gets lost and nothing steers a terminal."""
    return json.dumps(value, indent=2, default=str).replace("\x7f", "\\u007f")
