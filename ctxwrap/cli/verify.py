"""Whether a session is whole, and making anew what follows from its log."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from ctxwrap.cli.options import quietly
from ctxwrap.cli.progress import progress_bar
from ctxwrap.cli.text import one_line
from ctxwrap.verifying import SEVERITIES, Finding, Rebuilding, Verification, rebuild, verify


def run_verify(session: str, place: dict[str, Any], *, as_json: bool) -> None:
    with quietly(), progress_bar("looking at the session") as progress:
        verification = verify(session, progress=progress, **place)
    if as_json:
        click.echo(json.dumps(verification.as_json(), indent=2))
    else:
        for line in _told(verification):
            click.echo(one_line(line))
    if verification.is_damaged:
        sys.exit(1)


def run_rebuild(session: str, place: dict[str, Any], *, as_json: bool) -> None:
    with quietly():
        rebuilding = rebuild(session, **place)
    if as_json:
        click.echo(json.dumps(rebuilding._asdict(), indent=2))
        return
    for line in _rebuilt(rebuilding):
        click.echo(one_line(line))


def _told(verification: Verification) -> Iterator[str]:
    for finding in verification.findings:
        yield _line(finding)
    listed = len(verification.findings)
    left = sum(verification.found.values()) - listed
    if left:
        yield f"and {left} more"
    counts = ("messages", "events", "contents", "unchecked", "torn")
    yield f"session {verification.key.session!r}: " + ", ".join(
        f"{getattr(verification, name)} {_WORDS.get(name, name)}" for name in counts if getattr(verification, name)
    )
    found = [f"{number} {severity}" for severity in SEVERITIES if (number := verification.found.get(severity))]
    yield ": ".join(filter(None, ("damaged" if verification.is_damaged else "whole", ", ".join(found))))


_WORDS = {"unchecked": "lines without a checksum", "torn": "torn ends set aside"}


def _line(finding: Finding) -> str:
    return f"{finding.severity}: {finding.where}: {finding.what}{f' [{finding.remedy}]' if finding.remedy else ''}"


def _rebuilt(rebuilding: Rebuilding) -> Iterator[str]:
    for verb, names in (
        ("removed what is no file of the session's:", rebuilding.mended),
        ("wrote", rebuilding.written),
        ("changed", rebuilding.changed),
        ("removed", rebuilding.removed),
    ):
        yield from (f"{verb} {name}" for name in names)
    yield f"{rebuilding.unchanged} files were as they should be"
