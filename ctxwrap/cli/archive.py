"""A session to an archive file and back."""

import json
from dataclasses import asdict
from typing import Any

import click

from ctxwrap.archive import Limits, export_session, import_session
from ctxwrap.cli.options import quietly
from ctxwrap.cli.progress import progress_bar
from ctxwrap.cli.text import one_line


def run_export(session: str, file: str, place: dict[str, Any], *, force: bool, as_json: bool) -> None:
    with quietly(), progress_bar("writing the archive") as progress:
        exported = export_session(session, file, overwrite=force, incomplete=force, progress=progress, **place)
    if as_json:
        click.echo(json.dumps(asdict(exported), indent=2))
        return
    for damaged in exported.damage:
        click.echo(one_line(f"not exported: {damaged}"), err=True)
    for name in exported.left_out:
        click.echo(one_line(f"left out, since no archive can carry its name: {name}"), err=True)
    counts = f"{exported.messages} messages, {exported.events} events, {exported.contents} contents"
    click.echo(one_line(f"{exported.file}: {counts}, {exported.bytes} bytes"))


def run_import(
    file: str, session: str | None, place: dict[str, Any], *, max_bytes: int | None, trust: bool, as_json: bool
) -> None:
    limits = Limits() if max_bytes is None else Limits(bytes=max_bytes)
    with quietly(), progress_bar("reading the archive") as progress:
        imported = import_session(file, session=session, trusted=trust, limits=limits, progress=progress, **place)
    if as_json:
        told = {**asdict(imported), "key": imported.key._asdict(), "origin": imported.origin._asdict()}
        click.echo(json.dumps(told, indent=2))
        return
    for damaged in imported.damage:
        click.echo(one_line(f"missing since it was exported: {damaged}"), err=True)
    for name in imported.left_out:
        click.echo(one_line(f"left out, since it is an operator's word: {name} (--trust brings it)"), err=True)
    counts = f"{imported.messages} messages, {imported.events} events, {imported.contents} contents"
    click.echo(one_line(f"session {imported.key.session!r} of tenant {imported.key.tenant!r}: {counts}"))
