"""The command that finds what left the prompt window, and brings it back."""

import json

import click

from ctxwrap.cli.forgetting import Place
from ctxwrap.cli.text import one_line, printable
from ctxwrap.swap import Hit, Returned, bring_back, search_swap

_LISTED = 50


def run_swap(session: str, place: Place, *, query: str | None, id: str | None, as_json: bool) -> None:
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


def _print_table(hits: tuple[Hit, ...]) -> None:
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


def _told(returned: Returned) -> str:
    if returned.item is not None:
        item = returned.item
        return f"{item.id} ({returned.origin}, {returned.source}) is in {item.tier} memory: {one_line(item.content)}"
    assert returned.message is not None
    return f"{returned.source} {returned.message.role} ({returned.origin}): {returned.message.text}"


def _returned_json(returned: Returned) -> dict[str, object]:
    said = returned.message and {**returned.message._asdict(), "extra": dict(returned.message.extra)}
    remembered = returned.item and returned.item.as_json()
    return {"source": returned.source, "origin": returned.origin, "message": said, "item": remembered}


def _json(value: object) -> str:
    """In ASCII, so that nothing gets lost and nothing steers a terminal."""
    return json.dumps(value, indent=2, default=str).replace("\x7f", "\\u007f")
