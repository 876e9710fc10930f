"""The commands that make a session forget; they name what goes by id and number, never by what it says."""

from typing import TypedDict

import click

from ctxwrap.cli.text import printable
from ctxwrap.forgetting import CHILD, forget, matching, purge


class Place(TypedDict):
    """Whose session, and where it is kept."""

    store: str | None
    tenant: str
    agent: str


def run_forget(session: str, item: str | None, query: str | None, place: Place, *, sure: bool) -> None:
    names = matching(session, item=item, query=query, **place)
    if not names:
        click.echo("nothing in memory or of a child matches; nothing was forgotten")
        return
    if not sure:
        click.confirm(f"Forget {_listed(names)} for good?", abort=True)
    _tell(forget(session, item=item, query=query, **place))


def run_purge(session: str, message: str | None, child: str | None, place: Place, *, sure: bool) -> None:
    if message is None:
        _run_purge_child(session, child or "", place, sure=sure)
        return
    if not sure:
        what = f"message {printable(message)}, what memory made of it and what children hold of it,"
        click.confirm(f"Purge {what} for good?", abort=True)
    names = purge(session, message=int(message) if message.isdecimal() else message, **place)
    click.echo(f"purged message {printable(message)}")
    _tell(names)


def _run_purge_child(session: str, child: str, place: Place, *, sure: bool) -> None:
    if not sure:
        click.confirm(f"Purge all that the child {printable(child)} was handed and gave back, for good?", abort=True)
    done = purge(session, child=child, **place)
    click.echo(f"purged the contents of child {printable(child)}" if done else "nothing was left to purge")


def _tell(names: tuple[str, ...]) -> None:
    if names:
        click.echo(f"forgot {_listed(names)}")


def _listed(names: tuple[str, ...]) -> str:
    ids = [name for name in names if not name.startswith(CHILD)]
    children = [name.removeprefix(CHILD) for name in names if name.startswith(CHILD)]
    items = f"{len(ids)} memory item{'s' if len(ids) > 1 else ''}: {', '.join(map(printable, ids))}"
    told = f"what {', '.join(map(printable, children))} was handed or gave back of it"
    return ", and ".join([*([items] if ids else []), *([told] if children else [])])
