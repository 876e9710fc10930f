"""The commands `workingset add`, `rm`, `ls` and `check` for a `working-set.yml`."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import AS_JSON, friendly_errors, json_text, one_line, printable
from ctxwrap.tokens.measure import STRATEGIES
from ctxwrap.workingset.manifest import NAME, ROLES, Manifest, WorkingFile
from ctxwrap.workingset.safe_yaml import path_fault

if TYPE_CHECKING:  # these need a POSIX system, `ctxwrap --help` does not
    from ctxwrap.workingset.assembly import FileAssembly
    from ctxwrap.workingset.manifest_file import LoadedManifest

_FILE = click.option(
    "--file", default=NAME, show_default=True, help="The manifest. Paths are relative to its directory."
)
_USUAL_PRIORITY = 0.5
_BOUNDARY = "0" * 16
"""Nothing is sent, so the boundary need not be secret."""


@click.group("workingset")
def workingset_command() -> None:
    """Edit and check the files of a working-set.yml."""


@workingset_command.command()
@click.argument("path")
@_FILE
@click.option("--priority", type=float, help="From 0 to 1; a file of priority 1 is vital. [default: 0.5]")
@click.option("--role", type=click.Choice(ROLES), help="How the model sees it. [default: context]")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="Which part is cut if it is too long. [default: end]")
@click.option("--max-lines", type=click.IntRange(1), help="Limit of lines.")
@click.option("--why", help="Reason why it is in the working set.")
@AS_JSON
def add(path: str, file: str, as_json: bool, strategy: str | None, **given: Any) -> None:
    """Add PATH to the working set, or change its entry.

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
    _print({"added": added[0]}, f"{printable(path)} is in the working set", as_json)


@workingset_command.command()
@click.argument("path")
@_FILE
@AS_JSON
def rm(path: str, file: str, as_json: bool) -> None:
    """Remove PATH from the working set; keep the file itself."""

    def change(manifest: Manifest) -> Manifest:
        listed = {file.path for file in manifest.files} | {fault.path for fault in manifest.faults}
        for name in (path, os.path.normpath(path)):
            if name in listed:
                return manifest.without_file(name)
        raise click.ClickException(f"{printable(path)} is not in the working set")

    _changed(file, change)
    _print({"removed": path}, f"removed {printable(path)} from the working set", as_json)


@workingset_command.command()
@_FILE
@AS_JSON
def ls(file: str, as_json: bool) -> None:
    """List the working set, highest priority first, with the tokens of each file in a request.

    A file was added by the operator, the model or the orchestrator; the reason follows its path.
    """
    kept = _usable(file)
    assembly = _assembly(file, kept.manifest)
    files = sorted(kept.manifest.files, key=lambda each: -each.priority)
    states = _states(assembly)
    if as_json:
        _print({"files": [{**_entry(each), **states[each.path]} for each in files]}, "", as_json)
        return
    click.echo("priority  role       strategy  tokens  added by      path")
    for each in files:
        state = states[each.path]
        tokens = state.get("tokens", "-")
        note = " (truncated)" if state.get("truncated") else f" ({state['reason']})" if "reason" in state else ""
        why = f": {one_line(each.why)}" if each.why else ""
        row = f"{each.priority:8.2f}  {each.role:9}  {each.truncate_strategy:8}  {tokens:>6}  {each.added_by:12}"
        click.echo(printable(f"{row}  {each.path}{note}{why}"))


@workingset_command.command()
@_FILE
@AS_JSON
@click.pass_context
def check(context: click.Context, file: str, as_json: bool) -> None:
    """List problems of the manifest and its files; exit code 1 if a required file would be missing."""
    kept = _loaded(file)
    report = _assembly(file, kept.manifest).report
    blocking = [f"{each.path or file}: {each.reason}; {each.resolution}" for each in report.blocking]
    blocking += [kept.problem] if kept.problem else []
    blocking += [f"there is no {file}; `ctxwrap workingset add PATH` creates one"] if kept.missing else []
    reasons = tuple(each.reason for each in report.blocking)
    warnings = [each for each in report.warnings if not (reasons and each.endswith(reasons))]
    if as_json:
        _print({"blocking": blocking, "warnings": warnings, **report.as_json()}, "", as_json)
    else:
        for line in [*(f"blocking: {each}" for each in blocking), *(f"warning: {each}" for each in warnings)]:
            click.echo(one_line(line))
        used = f"about {report.used} of {report.budget.effective} tokens"
        click.echo(f"{len(report.included)} of {len(kept.manifest.files)} files, {used}")
    context.exit(1 if blocking else 0)


def _changed(file: str, change: Callable[[Manifest], Manifest]) -> Manifest:
    from ctxwrap.workingset.manifest_file import save_manifest

    kept = _usable(file)
    manifest = _dated(change(kept.manifest))
    with friendly_errors():
        save_manifest(file, manifest, kept)
    return manifest


def _dated(manifest: Manifest) -> Manifest:
    """Update the time and author of the last change, if the manifest has them."""
    if not manifest.metadata.last_updated:
        return manifest
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return replace(manifest, metadata=replace(manifest.metadata, last_updated=now, assembled_by="user"))


def _loaded(file: str) -> "LoadedManifest":
    from ctxwrap.workingset.manifest_file import load_manifest

    return load_manifest(file)


def _usable(file: str) -> "LoadedManifest":
    kept = _loaded(file)
    if kept.problem:
        raise click.ClickException(f"{printable(kept.problem)}; fix or move it, nothing was changed")
    return kept


def _directory(file: str) -> str:
    return os.path.dirname(file) or "."


def _inside(file: str, path: str) -> str:
    """Return the path as the manifest stores it."""
    if os.path.isabs(path):
        path = os.path.relpath(path, os.path.abspath(_directory(file)))
    path = os.path.normpath(path) if path else path
    if fault := path_fault(path):
        raise click.ClickException(f"{printable(path)!r} cannot be in the working set: {fault}")
    return path


def _assembly(file: str, manifest: Manifest) -> "FileAssembly":
    from ctxwrap.workingset.assembly import assemble_files
    from ctxwrap.workingset.reader import Reader
    from ctxwrap.workingset.working_set import contents_of

    return assemble_files(manifest, contents_of(manifest, Reader(_directory(file))), boundary=_BOUNDARY)


def _states(assembly: "FileAssembly") -> dict[str, dict[str, Any]]:
    """Map each path to what is included of it, or why it is not."""
    report = assembly.report
    included = {each.path: {"included": True, **each.as_json()} for each in report.included}
    return included | {each.path: {"included": False, "reason": each.reason} for each in report.excluded}


def _entry(file: WorkingFile) -> dict[str, Any]:
    names = ("path", "priority", "role", "truncate_strategy", "max_lines", "why", "added_by")
    return {name: getattr(file, name) for name in names}


def _print(values: dict[str, Any], text: str, as_json: bool) -> None:
    click.echo(json_text(values) if as_json else text)
