"""The commands `missing` and `swap`."""

from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import AS_JSON, Column, json_text, one_line, printable, session_command, show, table
from ctxwrap.session.swap_search import ReturnedContent, SwapHit
from ctxwrap.types import MissingContext

if TYPE_CHECKING:
    from ctxwrap.service.handle import SessionHandle

_COLUMNS = (
    Column("id"),
    Column("severity"),
    Column("status"),
    Column("since", right=True),
    Column("from", needs=60),
    Column("question", folds=True, fills=True),
)


@session_command("missing")
@click.option("--all", "everything", is_flag=True, help="Also list resolved, declined and expired entries.")
@click.option("--resolve", metavar="ID", help="Close this entry as resolved.")
@click.option("--decline", metavar="ID", help="Close this entry as declined: nobody will provide it.")
@click.option("--note", default="", help="How it was resolved, or why not.")
@AS_JSON
def missing_command(
    handle: "SessionHandle", resolve: str | None, decline: str | None, note: str, everything: bool, as_json: bool
) -> None:
    """List missing context of SESSION: files, omitted texts, open questions."""
    if resolve is not None and decline is not None:
        raise click.UsageError("name either --resolve or --decline")
    if resolve is not None:
        handle.resolve_missing(resolve, note=note)
        click.echo(printable(f"resolved {resolve}"))
        return
    if decline is not None:
        handle.resolve_missing(decline, status="declined", note=note)
        click.echo(printable(f"declined {decline}"))
        return
    found = handle.missing(everything=everything)
    if as_json:
        click.echo(json_text([each._asdict() for each in found]))
    elif found:
        show(table(_COLUMNS, map(_row, found)))
    else:
        click.echo("nothing is missing")


def _row(each: MissingContext) -> tuple[object, ...]:
    question = f"{each.question} ({each.reason})" if each.reason else each.question
    return each.id, each.severity, each.status, f"round {each.round}", each.requested_from, question


_LISTED = 50


@session_command("swap")
@click.option("--query", metavar="TEXT", help="List entries that contain these words, best match first.")
@click.option("--id", metavar="ID", help="Print the messages of this entry, or bring its memory item back.")
@AS_JSON
def swap_command(handle: "SessionHandle", query: str | None, id: str | None, as_json: bool) -> None:
    """List what left the prompt of SESSION, newest first."""
    if query is not None and id is not None:
        raise click.UsageError("name either --query or --id")
    if id is not None:
        returned = handle.bring_back(id)
        lines = [json_text([_returned_json(each) for each in returned])] if as_json else map(_returned_line, returned)
        for line in lines:
            click.echo(printable(line))
        return
    hits = handle.swap(query, limit=_LISTED)
    if as_json:
        click.echo(json_text([{**hit.entry._asdict(), "share": hit.share} for hit in hits]))
    elif hits:
        _print_table(hits)
    else:
        click.echo("nothing in swap" if query is None else "nothing in swap contains any of these words")


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


def _returned_line(returned: ReturnedContent) -> str:
    if returned.item is not None:
        item = returned.item
        return f"{item.id} ({returned.origin}, {returned.source}) is in {item.tier} memory: {one_line(item.content)}"
    assert returned.message is not None
    return f"{returned.source} {returned.message.role} ({returned.origin}): {returned.message.text}"


def _returned_json(returned: ReturnedContent) -> dict[str, object]:
    message = returned.message and {**returned.message._asdict(), "extra": dict(returned.message.extra)}
    item = returned.item and returned.item.as_json()
    return {"source": returned.source, "origin": returned.origin, "message": message, "item": item}
