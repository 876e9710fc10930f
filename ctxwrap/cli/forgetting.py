"""The commands that make a session forget; they name what goes by id and number, never by what it says."""

from typing import TypedDict

import click

from ctxwrap.cli.text import printable
from ctxwrap.forgetting import forget, matching, purge


class Place(TypedDict):
    """Whose session, and where it is kept."""

    store: str | None
    tenant: str
    agent: str


def run_forget(session: str, item: str | None, query: str | None, place: Place, *, sure: bool) -> None:
    ids = matching(session, item=item, query=query, **place)
    if not ids:
        click.echo("nothing in memory matches; nothing was forgotten")
        return
    if not sure:
        click.confirm(f"Forget {_listed(ids)} for good?", abort=True)
    _tell(forget(session, item=item, query=query, **place))


def run_purge(session: str, message: str, place: Place, *, sure: bool) -> None:
    if not sure:
        click.confirm(f"Purge message {printable(message)}, and what memory made of it, for good?", abort=True)
    ids = purge(session, message=int(message) if message.isdecimal() else message, **place)
    click.echo(f"purged message {printable(message)}")
    _tell(ids)


def _tell(ids: tuple[str, ...]) -> None:
    if ids:
        click.echo(f"forgot {_listed(ids)}")


def _listed(ids: tuple[str, ...]) -> str:
    return f"{len(ids)} memory item{'s' if len(ids) > 1 else ''}: {', '.join(map(printable, ids))}"
