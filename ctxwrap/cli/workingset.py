"""The commands on a directory's `working-set.yml`."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import AS_JSON, friendly_errors, one_line, printable
from ctxwrap.tokens.truncation import STRATEGIES
from ctxwrap.workingset.manifest import NAME, ROLES, Manifest, WorkingFile
from ctxwrap.workingset.safe_yaml import path_fault

if TYPE_CHECKING:  # they need a POSIX system, the other commands do not
    from ctxwrap.workingset.assembly import FileAssembly
    from ctxwrap.workingset.manifest_file import LoadedManifest

_FILE = click.option("--file", default=NAME, show_default=True, help="The manifest; its paths are relative to it.")
_USUAL_PRIORITY = 0.5
_BOUNDARY = "0" * 16
"""Nothing is sent from here, so it need not be secret."""


@click.group()
def workingset() -> None:
    """Which files a call gets to see: add, rm, ls and check entries of a working-set.yml."""


@workingset.command()
@click.argument("path")
@_FILE
@click.option("--priority", type=float, help="From 0 to 1; 1 is what the model must not be without. [default: 0.5]")
@click.option("--role", type=click.Choice(ROLES), help="How it is shown to the model. [default: context]")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="What is cut if it is too long. [default: end]")
@click.option("--max-lines", type=click.IntRange(1), help="How many lines of it at most.")
@click.option("--why", help="What it is for.")
@AS_JSON
def add(path: str, file: str, as_json: bool, strategy: str | None, **given: Any) -> None:
    """Add PATH to the working set, or change how it is used.

    PATH is relative to the manifest's directory.
    """
    named = {"truncate_strategy": strategy, **given}
    changes = {key: value for key, value in named.items() if value is not None}
    path = _inside(file, path)
    if not 0 <= changes.get("priority", 0) <= 1:
        raise click.UsageError("--priority must be from 0 to 1")

    def change(manifest: Manifest) -> Manifest:
        known = manifest.file(path) or WorkingFile(path, _USUAL_PRIORITY)
        return manifest.with_file(replace(known, **changes))

    manifest = _changed(file, change)
    state = _states(_assembly(file, manifest))[path]
    if "reason" in state:
        click.echo(f"note: {printable(path)}: {printable(state['reason'])}", err=True)
    added = [_entry(each) for each in manifest.files if each.path == path]
    _tell({"added": added[0]}, f"{printable(path)} is in the working set", as_json)


@workingset.command()
@click.argument("path")
@_FILE
@AS_JSON
def rm(path: str, file: str, as_json: bool) -> None:
    """Remove PATH from the working set; the file itself stays."""

    def change(manifest: Manifest) -> Manifest:
        listed = {file.path for file in manifest.files} | {fault.path for fault in manifest.faults}
        for name in (path, os.path.normpath(path)):
            if name in listed:
                return manifest.without_file(name)
        raise click.ClickException(f"{printable(path)} is not in the working set")

    _changed(file, change)
    _tell({"removed": path}, f"{printable(path)} is not in the working set any more", as_json)


@workingset.command()
@_FILE
@AS_JSON
def ls(file: str, as_json: bool) -> None:
    """List the working set, the most important files first, with what a call would get to see of them.

    Who added a file is the operator, the model or the orchestrator; behind the path stands why.
    """
    kept = _usable(file)
    assembly = _assembly(file, kept.manifest)
    files = sorted(kept.manifest.files, key=lambda each: -each.priority)
    states = _states(assembly)
    if as_json:
        _tell({"files": [{**_entry(each), **states[each.path]} for each in files]}, "", as_json)
        return
    click.echo("priority  role       strategy  tokens  added by      path")
    for each in files:
        state = states[each.path]
        tokens = state.get("tokens", "-")
        told = " (truncated)" if state.get("truncated") else f" ({state['reason']})" if "reason" in state else ""
        why = f": {one_line(each.why)}" if each.why else ""
        row = f"{each.priority:8.2f}  {each.role:9}  {each.truncate_strategy:8}  {tokens:>6}  {each.added_by:12}"
        click.echo(printable(f"{row}  {each.path}{told}{why}"))


@workingset.command()
@_FILE
@AS_JSON
@click.pass_context
def check(context: click.Context, file: str, as_json: bool) -> None:
    """Tell every problem of the manifest and its files; exit code 1 if the model would miss what it must see."""
    kept = _looked(file)
    report = _assembly(file, kept.manifest).report
    blocking = [f"{each.path or file}: {each.reason}; {each.resolution}" for each in report.blocking]
    blocking += [kept.problem] if kept.problem else []
    blocking += [f"there is no {file}; `ctxwrap workingset add PATH` begins one"] if kept.missing else []
    told = tuple(each.reason for each in report.blocking)
    warnings = [each for each in report.warnings if not (told and each.endswith(told))]
    if as_json:
        _tell({"blocking": blocking, "warnings": warnings, **report.as_json()}, "", as_json)
    else:
        for line in [*(f"blocking: {each}" for each in blocking), *(f"warning: {each}" for each in warnings)]:
            click.echo(one_line(line))
        used = f"about {report.used} of {report.budget.effective} tokens"
        click.echo(f"{len(report.included)} of {len(kept.manifest.files)} files, {used}")
    context.exit(1 if blocking else 0)


def _changed(file: str, change: Callable[[Manifest], Manifest]) -> Manifest:
    from ctxwrap.workingset.manifest_file import save

    kept = _usable(file)
    manifest = _dated(change(kept.manifest))
    with friendly_errors():
        save(file, manifest, kept)
    return manifest


def _dated(manifest: Manifest) -> Manifest:
    """With the time of this change and whose it is, where the manifest tells them."""
    if not manifest.metadata.last_updated:
        return manifest
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return replace(manifest, metadata=replace(manifest.metadata, last_updated=now, assembled_by="user"))


def _looked(file: str) -> "LoadedManifest":
    from ctxwrap.workingset.manifest_file import look

    return look(file)


def _usable(file: str) -> "LoadedManifest":
    kept = _looked(file)
    if kept.problem:
        raise click.ClickException(f"{printable(kept.problem)}; mend it or move it away, nothing was changed")
    return kept


def _directory(file: str) -> str:
    return os.path.dirname(file) or "."


def _inside(file: str, path: str) -> str:
    """The path as the manifest has it."""
    if os.path.isabs(path):
        path = os.path.relpath(path, os.path.abspath(_directory(file)))
    path = os.path.normpath(path) if path else path
    if fault := path_fault(path):
        raise click.ClickException(f"{printable(path)!r} cannot be in the working set: {fault}")
    return path


def _assembly(file: str, manifest: Manifest) -> "FileAssembly":
    from ctxwrap.workingset.assembly import assembled
    from ctxwrap.workingset.reader import Reader
    from ctxwrap.workingset.working_set import contents_of

    return assembled(manifest, contents_of(manifest, Reader(_directory(file))), boundary=_BOUNDARY)


def _states(assembly: "FileAssembly") -> dict[str, dict[str, Any]]:
    """By path: what is included of it, or why it is not."""
    report = assembly.report
    included = {each.path: {"included": True, **each.as_json()} for each in report.included}
    return included | {each.path: {"included": False, "reason": each.reason} for each in report.excluded}


def _entry(file: WorkingFile) -> dict[str, Any]:
    names = ("path", "priority", "role", "truncate_strategy", "max_lines", "why", "added_by")
    return {name: getattr(file, name) for name in names}


def _tell(values: dict[str, Any], text: str, as_json: bool) -> None:
    """JSON in ASCII, so that nothing gets lost and nothing steers a terminal."""
    click.echo(json.dumps(values, indent=2).replace("\x7f", "\\u007f") if as_json else text)
