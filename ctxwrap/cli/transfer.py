"""The commands `export`, `import`, `copy`, `schema` and `diff`."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import (
    AGENT,
    AS_JSON,
    STORE,
    TENANT,
    Column,
    command,
    heading,
    json_text,
    one_line,
    progress_bar,
    quietly,
    session_command,
    show,
    table,
)
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.export.archive import ArchiveLimits, import_session
from ctxwrap.export.archive.writer import replace_atomically, report_write_errors
from ctxwrap.export.copy import copy_sessions
from ctxwrap.export.evidence import Diff, import_envelope, schema_of
from ctxwrap.export.evidence.diff import MESSAGES, ItemOutcome
from ctxwrap.export.evidence.document import SCHEMAS
from ctxwrap.export.evidence.envelope import LARGEST_EVIDENCE, is_envelope
from ctxwrap.export.evidence.vocabulary import EXPORT_TARGET
from ctxwrap.export.validation import file_faults
from ctxwrap.inspect.streams import said_in
from ctxwrap.session.swap import shortened
from ctxwrap.stores import encrypts
from ctxwrap.stores.names import owner_kind
from ctxwrap.types import SessionKey

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctxwrap.service.handle import SessionHandle


@session_command("export", owners=True)
@click.option("-o", "--output", "file", metavar="FILE", help="File to write. An envelope goes to stdout by default.")
@click.option("--force", is_flag=True, help="Overwrite FILE, and export what is left of a damaged session.")
@click.option("--envelope", is_flag=True, help="Export what was sent and why, as records of Agent Context.")
@click.option("--turn", metavar="N", help="Envelope of one turn, by its number or id.")
@click.option("--target", metavar="NAME", help=f"Who may see the envelope. [default: {EXPORT_TARGET}]")
@AS_JSON
def export_command(
    handle: "SessionHandle",
    file: str | None,
    force: bool,
    envelope: bool,
    turn: str | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Write SESSION, or everything of a user, to one file, which `ctxwrap import` reads.

    An archive contains the whole session in plaintext: protect it like the session. An envelope lists what was sent,
    what was left out and why; it contains only texts that its target may see.
    """
    if envelope and owner_kind(handle.key.agent):
        raise click.UsageError("--envelope needs a SESSION")
    if not envelope and (turn or target):
        raise click.UsageError("--turn and --target need --envelope")
    if envelope:
        _export_envelope(handle, file, turn=turn, target=target or EXPORT_TARGET, force=force, as_json=as_json)
    elif file is None:
        raise click.UsageError("name the archive to write with -o FILE")
    else:
        _export_archive(handle, file, force=force, as_json=as_json)
    if encrypts(handle.store):
        click.echo("the session is encrypted, the exported file is not: keep it safe", err=True)


def _export_archive(handle: "SessionHandle", file: str, *, force: bool, as_json: bool) -> None:
    with quietly(), progress_bar("writing the archive") as progress:
        exported = handle.export(file, overwrite=force, incomplete=force, progress=progress)
    if as_json:
        click.echo(json.dumps(asdict(exported), indent=2))
        return
    for damaged in exported.damage:
        click.echo(one_line(f"not exported: {damaged}"), err=True)
    for name in exported.left_out:
        click.echo(one_line(f"not exported, its name is not allowed in an archive: {name}"), err=True)
    click.echo(one_line(f"{exported.file}: {_counts(exported)}, {exported.bytes} bytes"))


def _export_envelope(
    handle: "SessionHandle", file: str | None, *, turn: str | None, target: str, force: bool, as_json: bool
) -> None:
    evidence = handle.envelope(turn, target=target)
    data = evidence.as_bytes()
    if file is None:
        click.echo(data.decode().replace("\x7f", "\\u007f"), nl=False)
        handle.note_export(evidence)
        return
    path = os.path.abspath(file)
    with report_write_errors(path), replace_atomically(path, overwrite=force) as output:
        output.write(data)
    handle.note_export(evidence)
    envelopes, items, contents = len(evidence.envelopes), len(evidence.items), len(evidence.contents)
    if as_json:
        counts = {"envelopes": envelopes, "items": items, "contents": contents, "bytes": len(data)}
        click.echo(json_text({"file": file, "target": evidence.target, **counts}))
    else:
        counted = f"{envelopes} envelopes, {items} items, {contents} texts"
        click.echo(one_line(f"{file}: {counted} for {evidence.target}, {len(data)} bytes"))


@command("import")
@click.argument("file")
@click.option("--session", metavar="NAME", help="Name of the imported session. [default: its own name]")
@STORE
@TENANT
@AGENT
@click.option("--max-bytes", type=click.IntRange(min=1), help="Refuse a larger archive. [default: 128 MB]")
@click.option("--trust", is_flag=True, help="Also import its pinned texts, budget and policy.")
@AS_JSON
def import_command(
    file: str, session: str | None, max_bytes: int | None, trust: bool, as_json: bool, **place: Any
) -> None:
    """Import a session from an archive FILE, or the evidence of an envelope.

    Everything is checked before anything is written. An existing session is never changed.
    """
    if is_envelope(file):
        if trust:
            raise SettingsError("--trust is for archives: an envelope has no pinned texts, budget or policy")
        _import_envelope(file, session, max_bytes or LARGEST_EVIDENCE, place, as_json=as_json)
    else:
        limits = ArchiveLimits() if max_bytes is None else ArchiveLimits(bytes=max_bytes)
        _import_archive(file, session, limits, place, trust=trust, as_json=as_json)


def _import_archive(
    file: str, session: str | None, limits: ArchiveLimits, place: dict[str, Any], *, trust: bool, as_json: bool
) -> None:
    with quietly(), progress_bar("reading the archive") as progress:
        imported = import_session(file, session=session, trusted=trust, limits=limits, progress=progress, **place)
    if as_json:
        result = {**asdict(imported), "key": imported.key._asdict(), "origin": imported.origin._asdict()}
        click.echo(json.dumps(result, indent=2))
        return
    for damaged in imported.damage:
        click.echo(one_line(f"missing in the archive: {damaged}"), err=True)
    for name in imported.left_out:
        click.echo(one_line(f"not imported: {name} (--trust imports it)"), err=True)
    click.echo(one_line(f"{_name(imported.key)}: {_counts(imported)}"))


def _import_envelope(file: str, session: str | None, largest: int, place: dict[str, Any], *, as_json: bool) -> None:
    kept = import_envelope(file, session=session, largest=largest, **place)
    counts = {"envelopes": len(kept.evidence.envelopes), "items": len(kept.evidence.items)}
    if as_json:
        click.echo(json_text({"key": kept.key._asdict(), "root": kept.evidence.root, **counts}))
        return
    text = f"evidence of {counts['envelopes']} envelopes and {counts['items']} items, neither messages nor memory"
    click.echo(one_line(f"session {kept.key.session!r} of tenant {kept.key.tenant!r}: {text}"))


@command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--session", metavar="NAME", help="Copy only this session. [default: all sessions of all tenants]")
@TENANT
@AGENT
@AS_JSON
def copy_command(source: str, target: str, session: str | None, tenant: str, agent: str, as_json: bool) -> None:
    """Copy sessions from store FROM to store TO, under the same names.

    Every copied record is read back and compared. Run it again to resume an interrupted copy, or to copy what was
    added since.
    """
    with quietly(), progress_bar("copying") as progress:
        copied = copy_sessions(source, target, session=session, tenant=tenant, agent=agent, progress=progress)
        for each in copied:
            if as_json:
                click.echo(json_text({**each._asdict(), "key": each.key._asdict()}, indent=None))
            else:
                click.echo(one_line(f"{_name(each.key)}: {_counts(each)}, {each.new} new"))


def _name(key: SessionKey) -> str:
    return f"{owner_kind(key.agent) or 'session'} {key.session!r} of tenant {key.tenant!r}"


def _counts(result: Any) -> str:
    return f"{result.messages} messages, {result.events} events, {result.contents} contents"


@command("schema")
@click.argument("name", required=False)
@click.option("--check", metavar="FILE", help="Validate a file of JSON or JSON lines; exit code 1 if it is not valid.")
def schema_command(name: str | None, check: str | None) -> None:
    """Print the JSON Schema NAME, or all of them.

    NAME is snapshot, evidence, or a record of Agent Context such as context_item.
    """
    if not check:
        click.echo(json_text(schema_of(name) if name else {each: schema_of(each) for each in SCHEMAS}))
        return
    if not name:
        raise click.UsageError("--check needs the NAME of a schema")
    faults = [*file_faults(check, schema_of(name))]
    for fault in faults:
        click.echo(one_line(str(fault)))
    if faults:
        sys.exit(1)
    click.echo(one_line(f"{check}: valid"))


_SHOWN = (
    Column("kind"),
    Column("from", folds=True),
    Column("tokens", right=True),
    Column("why", folds=True),
    Column("text", folds=True, needs=70),
)
_TEXT = 120
"""Characters of a text."""
_MOVED = (Column("from", folds=True), Column("before"), Column("after", fills=True))
_CHANGES = (
    Column("turn", right=True),
    Column("what"),
    Column("id", folds=True),
    Column("to"),
    Column("why", fills=True),
)


@session_command("diff")
@click.argument("before", metavar="N")
@click.argument("after", metavar="M")
@AS_JSON
def diff_command(handle: "SessionHandle", before: str, after: str, as_json: bool) -> None:
    """Compare the packs of turns N and M of SESSION, and memory between them."""
    diff = handle.diff(before, after)
    if as_json:
        click.echo(json_text(diff.as_json()))
    else:
        show(*_parts(diff, _texts(handle, [*diff.entered, *diff.left])))


def _texts(handle: "SessionHandle", items: Sequence[ItemOutcome]) -> dict[str, str]:
    """The texts of messages and memory items, by part."""
    parts = {each.part: each.part.partition(".")[0] for each in items if each.uri == MESSAGES}
    numbers = {part: int(number) for part, number in parts.items() if number.isascii() and number.isdecimal()}
    if not any(each.part for each in items):
        return {}
    try:
        memory = handle.memory()
    except NotFound:  # only its evidence was imported
        return {}
    records = handle.store.open(handle.key).pick("messages", numbers.values())
    said = {part: said_in(records[number]) for part, number in numbers.items() if number in records}
    remembered = [*(item for tier in memory["memory"].values() for item in tier), *memory["swap"]]
    return {**{item["id"]: item["content"] for item in remembered}, **said}


def _parts(diff: Diff, texts: dict[str, str]) -> "Iterator[RenderableType]":
    yield heading(f"turn {diff.before} to turn {diff.after}")
    for title, shown in (("entered", diff.entered), ("left", diff.left)):
        rows = [
            (each.kind, _place(each), each.tokens, each.reason, shortened(texts.get(each.part, ""), _TEXT))
            for each in shown
        ]
        yield from _table(title, _SHOWN, rows)
    moved = [(_place(before), _block(before), _block(after)) for before, after in diff.moved]
    yield from _table("moved", _MOVED, moved)
    changes = [(each.turn, each.kind, each.id, each.tier, each.reason) for each in diff.operations]
    yield from _table("memory", _CHANGES, changes)
    if diff.gaps:
        yield from _table("not in the evidence", (Column("what", fills=True),), [(each,) for each in diff.gaps])


def _table(title: str, columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> "Iterator[RenderableType]":
    yield ""
    yield heading(title if rows else f"{title}: nothing")
    if rows:
        yield table(columns, rows)


def _block(shown: ItemOutcome) -> str:
    return f"{shown.kind} in {' '.join(shown.blocks)}"


def _place(shown: ItemOutcome) -> str:
    return f"{shown.uri} {shown.part}".strip()
