"""The commands `export`, `import`, `copy`, `schema` and `diff`."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import Column, heading, json_text, one_line, progress_bar, quietly, show, table
from ctxwrap.errors import SettingsError
from ctxwrap.export.archive import ArchiveLimits, export_session, import_session
from ctxwrap.export.archive.writer import explained, put_in_place
from ctxwrap.export.copy import copy_sessions
from ctxwrap.export.evidence import Diff, diff_of, envelope_of, import_envelope, schema_of
from ctxwrap.export.evidence.diff import ItemOutcome
from ctxwrap.export.evidence.document import NAMED
from ctxwrap.export.evidence.envelope import LARGEST, is_envelope, note_export
from ctxwrap.export.evidence.vocabulary import EXPORT
from ctxwrap.export.validation import file_faults

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    limits = ArchiveLimits() if max_bytes is None else ArchiveLimits(bytes=max_bytes)
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


def run_copy(*, source: str, target: str, session: str | None, tenant: str, agent: str, as_json: bool) -> None:
    with quietly(), progress_bar("copying") as progress:
        copied = copy_sessions(source, target, session=session, tenant=tenant, agent=agent, progress=progress)
        for each in copied:
            if as_json:
                click.echo(json_text({**each._asdict(), "key": each.key._asdict()}, indent=None))
            else:
                counts = f"{each.messages} messages, {each.events} events, {each.contents} contents, {each.new} new"
                click.echo(one_line(f"session {each.key.session!r} of tenant {each.key.tenant!r}: {counts}"))


__all__ = ["check_schema", "is_envelope", "run_export_envelope", "run_import_envelope", "show_diff", "show_schema"]

_SHOWN = (Column("kind"), Column("from", folds=True), Column("tokens", right=True), Column("why", fills=True))
_MOVED = (Column("from", folds=True), Column("before"), Column("after", fills=True))
_CHANGES = (
    Column("turn", right=True),
    Column("what"),
    Column("id", folds=True),
    Column("to"),
    Column("why", fills=True),
)


def run_export_envelope(
    session: str, file: str | None, *, turn: str | None, target: str | None, force: bool, as_json: bool, **place: Any
) -> None:
    evidence = envelope_of(session, turn=turn, target=target or EXPORT, **place)
    data = evidence.as_bytes()
    if file is None:
        click.echo(data.decode().replace("\x7f", "\\u007f"), nl=False)
        note_export(evidence, session, **place)
        return
    path = os.path.abspath(file)
    with explained(path), put_in_place(path, overwrite=force) as handle:
        handle.write(data)
    note_export(evidence, session, **place)
    known = {"file": file, "target": evidence.target, "envelopes": len(evidence.envelopes)}
    known |= {"items": len(evidence.items), "contents": len(evidence.contents), "bytes": len(data)}
    if as_json:
        click.echo(json_text(known))
    else:
        counts = f"{known['envelopes']} envelopes, {known['items']} items, {known['contents']} texts"
        click.echo(one_line(f"{file}: {counts} for {evidence.target}, {len(data)} bytes"))


def run_import_envelope(
    file: str, session: str | None, place: dict[str, Any], *, max_bytes: int | None, trust: bool, as_json: bool
) -> None:
    if trust:
        raise SettingsError("--trust is for archives: an envelope brings nothing that is an operator's word")
    kept = import_envelope(file, session=session, largest=max_bytes or LARGEST, **place)
    counts = {"envelopes": len(kept.evidence.envelopes), "items": len(kept.evidence.items)}
    if as_json:
        click.echo(json_text({"key": kept.key._asdict(), "root": kept.evidence.root, **counts}))
        return
    told = f"evidence of {counts['envelopes']} envelopes and {counts['items']} items, neither messages nor memory"
    click.echo(one_line(f"session {kept.key.session!r} of tenant {kept.key.tenant!r}: {told}"))


def show_schema(name: str | None) -> None:
    click.echo(json_text(schema_of(name) if name else {each: schema_of(each) for each in NAMED}))


def check_schema(name: str, file: str) -> None:
    """Print the faults of a JSON or JSON lines file, and exit with code 1 if there are any."""
    faults = [*file_faults(file, schema_of(name))]
    for fault in faults:
        click.echo(one_line(str(fault)))
    if faults:
        sys.exit(1)
    click.echo(one_line(f"{file}: valid"))


def show_diff(*, session: str, before: str, after: str, as_data: bool, **place: Any) -> None:
    diff = diff_of(session, before, after, **place)
    if as_data:
        click.echo(json_text(diff.as_json()))
    else:
        show(*_parts(diff))


def _parts(diff: Diff) -> "Iterator[RenderableType]":
    yield heading(f"turn {diff.before} to turn {diff.after}")
    for title, shown in (("entered", diff.entered), ("left", diff.left)):
        yield from _table(title, _SHOWN, [(each.kind, _place(each), each.tokens, each.reason) for each in shown])
    moved = [(_place(before), _stood(before), _stood(after)) for before, after in diff.moved]
    yield from _table("moved", _MOVED, moved)
    changes = [(each.turn, each.kind, each.id, each.tier, each.reason) for each in diff.operations]
    yield from _table("memory", _CHANGES, changes)
    if diff.gaps:
        yield from _table("not told by the evidence", (Column("what", fills=True),), [(each,) for each in diff.gaps])


def _table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> "Iterator[RenderableType]":
    yield ""
    yield heading(title if rows else f"{title}: nothing")
    if rows:
        yield table(columns, rows)


def _stood(shown: ItemOutcome) -> str:
    return f"{shown.kind} in {' '.join(shown.blocks)}"


def _place(shown: ItemOutcome) -> str:
    return f"{shown.uri} {shown.part}".strip()
