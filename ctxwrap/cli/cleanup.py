"""The commands `forget`, `purge` and `gc`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import AS_JSON, json_text, one_line, printable, session_command
from ctxwrap.session.gc import Collectable, GarbageReport
from ctxwrap.session.purge import CHILD, IN_SESSION
from ctxwrap.stores.names import owner_kind

if TYPE_CHECKING:
    from ctxwrap.service.handle import SessionHandle
    from ctxwrap.types import SessionKey

_SURE = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@session_command("forget", owners=True)
@_SURE
@click.option("--item", metavar="ID", help="Delete the memory item of this id.")
@click.option("--query", metavar="TEXT", help="Delete every memory item that contains all of these words.")
def forget_command(handle: "SessionHandle", item: str | None, query: str | None, yes: bool) -> None:
    """Delete memory items of SESSION, or of a user or a team, permanently.

    With --user or --team, all sessions of that owner lose what they have of it, including the messages that tell it.
    Of a session, their text is removed from its files, including the handoffs and results of child sessions; with
    --query, also every line of these that contains all of the words. There messages are kept (see purge).
    """
    if (item is None) == (query is None):
        raise click.UsageError("name either --item or --query")
    names = handle.would_forget(item=item, query=query)
    if not names:
        click.echo("no memory item or child session matches; nothing was deleted")
        return
    if not yes:
        click.confirm(f"Delete {_listed(names)} permanently?", abort=True)
    _print_deleted(handle.forget(item=item, query=query))


@session_command("purge", owners=True)
@_SURE
@click.option("--message", metavar="N", help="Delete the message of this number or id.")
@click.option("--child", metavar="NAME", help="Delete the handoff and result of this child session instead.")
def purge_command(handle: "SessionHandle", message: str | None, child: str | None, yes: bool) -> None:
    """Delete a message of SESSION, the texts of a child, or everything of a user, permanently.

    With --user or --team, every text of that owner is deleted: its log, and all sessions that belong to it. With a
    message go the memory items and the texts of child sessions derived from it. A tombstone keeps its place, so
    that the conversation continues. Other messages that quote it are kept.
    """
    if kind := owner_kind(handle.key.agent):
        _purge_owner(handle, kind, message is not None or child is not None, yes=yes)
        return
    if (message is None) == (child is None):
        raise click.UsageError("name either --message or --child")
    what = f"message {message} and everything derived from it" if message is not None else f"the texts of child {child}"
    if not yes:
        click.confirm(f"Delete {printable(what)} permanently?", abort=True)
    number = int(message) if message is not None and message.isdecimal() else message
    names = handle.purge(message=number, child=child)
    if child is not None:
        click.echo(f"deleted the texts of child {printable(child)}" if names else "nothing left to delete")
        return
    click.echo(f"deleted message {printable(str(message))}")
    _print_deleted(names)


def _purge_owner(handle: "SessionHandle", kind: str, has_part: bool, *, yes: bool) -> None:
    if has_part:
        raise click.UsageError("--message and --child need a SESSION")
    sessions, name = handle.sessions(), printable(handle.key.session)
    if not yes:
        click.confirm(f"Delete everything of {kind} {name} and all texts of {_counted_sessions(sessions)}?", abort=True)
    handle.purge()
    click.echo(f"deleted everything of {kind} {name} and all texts of {_counted_sessions(sessions)}")


def _counted_sessions(sessions: "tuple[SessionKey, ...]") -> str:
    return f"{len(sessions)} session{'' if len(sessions) == 1 else 's'}"


def _print_deleted(names: tuple[str, ...]) -> None:
    if names:
        click.echo(f"deleted {_listed(names)}")


def _listed(names: tuple[str, ...]) -> str:
    ids = [name for name in names if not name.startswith((CHILD, IN_SESSION))]
    sessions = [name.removeprefix(IN_SESSION) for name in names if name.startswith(IN_SESSION)]
    children = [name.removeprefix(CHILD) for name in names if name.startswith(CHILD)]
    items = f"{len(ids)} memory item{'s' if len(ids) > 1 else ''}: {', '.join(map(printable, ids))}"
    texts = f"texts of child {', '.join(map(printable, children))}"
    elsewhere = f"what these sessions had of it: {', '.join(map(printable, sessions))}"
    parts = ((items, ids), (texts, children), (elsewhere, sessions))
    return ", and ".join(text for text, named in parts if named)


@session_command("gc")
@click.option("--yes", is_flag=True, help="Remove the files instead of listing them.")
@AS_JSON
def gc_command(handle: "SessionHandle", yes: bool, as_json: bool) -> None:
    """List derived files of SESSION that are no longer needed, and why.

    The session's context/gc.policy sets the limits. Messages, events, the contents they refer to, child sessions and
    your own files are never removed.
    """
    report = handle.gc(dry_run=not yes)
    if as_json:
        files = [file._asdict() for file in report.files]
        policy = asdict(report.policy)
        click.echo(json_text({"dry_run": report.dry_run, "policy": policy, "size": report.size, "files": files}))
        return
    if report.files:
        _print_table(report)
    click.echo(_total(report))


def _print_table(report: GarbageReport) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("file", "bytes", "why", box=None, pad_edge=False)
    table.columns[0].overflow = table.columns[2].overflow = "fold"
    table.columns[1].justify = "right"
    for file in report.files:
        why = f"{file.reason}; not removed: {file.problem}" if file.problem else file.reason
        table.add_row(Text(one_line(file.name)), str(file.size), Text(one_line(why)))
    Console(highlight=False).print(table)


def _total(report: GarbageReport) -> str:
    if not report.files:
        return "nothing to collect"
    if report.dry_run:
        return f"{_counted(report.files)} can be removed; use --yes to remove them"
    left = [file for file in report.files if not file.removed]
    problem = f"; {_counted(left)} could not be removed" if left else ""
    return f"removed {_counted([file for file in report.files if file.removed])}{problem}"


def _counted(files: "tuple[Collectable, ...] | list[Collectable]") -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}, {sum(file.size for file in files)} bytes"
