"""Conformance with the five documents, on a terminal and for a program that asks."""

import sys
from collections.abc import Iterator

import click

from ctxwrap.cli.tables import Column, show, table
from ctxwrap.cli.text import json_text, one_line
from ctxwrap.conformance import CHECKS, Broken, Conformance, Kind, conform
from ctxwrap.errors import InvalidInput

_LISTED = (Column("id"), Column("level"), Column("document"), Column("sentence", folds=True))


class Unusable(click.ClickException):
    exit_code = 2


def run_conform(path: str, *, kind: Kind | None, strict: bool, as_json: bool) -> None:
    stdin = sys.stdin.buffer if path == "-" else None
    try:
        found = conform(path, kind, stdin=stdin)
    except InvalidInput as error:
        raise Unusable(one_line(f"{path}: {error}")) from None
    if as_json:
        click.echo(json_text({**found.as_json(), "conforms": found.holds(strict=strict)}))
    else:
        for line in _lines(found):
            click.echo(line)
    sys.exit(0 if found.holds(strict=strict) else 1)


def list_checks(*, as_json: bool) -> None:
    rows = [(check.id, check.level, check.document, check.sentence) for check in CHECKS]
    if as_json:
        click.echo(json_text([dict(zip(("id", "level", "document", "sentence"), row, strict=True)) for row in rows]))
    else:
        show(table(_LISTED, rows))


def _lines(found: Conformance) -> Iterator[str]:
    for broken in found.broken:
        yield from _broken(broken)
    told = []
    for document, counts in found.counts().items():
        numbers = [f"{counts[level]} {level}" for level in ("MUST", "SHOULD") if counts[level]]
        told.append(f"{document}: {counts['checked']} checks, {' and '.join(numbers) or 'none'} broken")
    yield one_line(f"{found.name} ({found.kind}): {'; '.join(told)}")


def _broken(broken: Broken) -> Iterator[str]:
    check = broken.check
    yield one_line(f"{check.id} {check.level}, {check.document}: “{check.sentence}”")
    for finding in broken.findings:
        yield f"  {one_line(': '.join(filter(None, (finding.where, finding.found))))}"
    if (more := broken.count - len(broken.findings)) > 0:
        yield f"  and {more} more"
