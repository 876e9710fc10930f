"""The command that shows what of a session's derived files is of no use, and removes it when told to."""

import json
from dataclasses import asdict

import click

from ctxwrap.cli.forgetting import Place
from ctxwrap.cli.text import one_line
from ctxwrap.housekeeping import Collectable, GarbageReport, collect_garbage


def run_gc(session: str, place: Place, *, sure: bool, as_json: bool) -> None:
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
