"""The commands `forget`, `purge` and `gc`."""

import json
from dataclasses import asdict
from typing import TypedDict

import click

from ctxwrap.cli.output import one_line, printable
from ctxwrap.session.gc import Collectable, GarbageReport, collect_garbage
from ctxwrap.session.purge import CHILD, forget, matching, purge


class SessionOptions(TypedDict):
    """Whose session, and where it is kept."""

    store: str | None
    tenant: str
    agent: str


def run_forget(session: str, item: str | None, query: str | None, place: SessionOptions, *, sure: bool) -> None:
    names = matching(session, item=item, query=query, **place)
    if not names:
        click.echo("nothing in memory or of a child matches; nothing was forgotten")
        return
    if not sure:
        click.confirm(f"Forget {_listed(names)} for good?", abort=True)
    _tell(forget(session, item=item, query=query, **place))


def run_purge(session: str, message: str | None, child: str | None, place: SessionOptions, *, sure: bool) -> None:
    if message is None:
        _run_purge_child(session, child or "", place, sure=sure)
        return
    if not sure:
        what = f"message {printable(message)}, what memory made of it and what children hold of it,"
        click.confirm(f"Purge {what} for good?", abort=True)
    names = purge(session, message=int(message) if message.isdecimal() else message, **place)
    click.echo(f"purged message {printable(message)}")
    _tell(names)


def _run_purge_child(session: str, child: str, place: SessionOptions, *, sure: bool) -> None:
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


def run_gc(session: str, place: SessionOptions, *, sure: bool, as_json: bool) -> None:
    report = collect_garbage(session, dry_run=not sure, **place)
    if as_json:
        click.echo(json.dumps(_as_json(report), indent=2).replace("\x7f", "\\u007f"))
        return
    if report.files:
        _print_table(report)
    click.echo(_total(report))


def _as_json(report: GarbageReport) -> dict[str, object]:
    files = [file._asdict() for file in report.files]
    return {"dry_run": report.dry_run, "policy": asdict(report.policy), "size": report.size, "files": files}


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
        return f"{_counted(report.files)} would go; nothing was removed: say --yes to do it"
    left = [file for file in report.files if not file.removed]
    problem = f"; {_counted(left)} could not be removed" if left else ""
    return f"removed {_counted([file for file in report.files if file.removed])}{problem}"


def _counted(files: "tuple[Collectable, ...] | list[Collectable]") -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}, {sum(file.size for file in files)} bytes"
