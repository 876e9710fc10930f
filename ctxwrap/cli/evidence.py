"""Envelopes to a file or the terminal and back, their schemas, and two turns beside each other."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.archive.writing import explained, put_in_place
from ctxwrap.cli.tables import Column, heading, show, table
from ctxwrap.cli.text import json_text, one_line
from ctxwrap.errors import SettingsError
from ctxwrap.evidence import Diff, diff_of, envelope_of, import_envelope, schema_of
from ctxwrap.evidence.keeping import LARGEST, is_envelope, note_export
from ctxwrap.evidence.schemas import NAMED
from ctxwrap.evidence.showing import Shown
from ctxwrap.evidence.vocabulary import EXPORT

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["is_envelope", "run_export_envelope", "run_import_envelope", "show_diff", "show_schema"]

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


def _stood(shown: Shown) -> str:
    return f"{shown.kind} in {' '.join(shown.blocks)}"


def _place(shown: Shown) -> str:
    return f"{shown.uri} {shown.part}".strip()
