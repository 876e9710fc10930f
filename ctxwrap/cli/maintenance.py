"""The commands `verify`, `rebuild`, `upgrade`, `key`, `rekey` and `put`."""

import base64
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any

import click

from ctxwrap.cli.output import one_line, progress_bar, quietly
from ctxwrap.errors import KeyMismatch, SettingsError, StoreError
from ctxwrap.export.archive.format import is_input
from ctxwrap.export.evidence.envelope import verify_evidence
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify import SEVERITIES, Rebuilding, Verification, VerifyFinding, rebuild, verify
from ctxwrap.stores import encrypts, open_store
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey


def run_verify(session: str, place: dict[str, Any], *, as_json: bool) -> None:
    with quietly(), progress_bar("looking at the session") as progress:
        verification = verify_evidence(verify(session, progress=progress, **place), place.get("store"))
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


def _line(finding: VerifyFinding) -> str:
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


def run_upgrade(session: str | None, *, store: str | None, tenant: str, agent: str) -> None:
    """Upgrade one session, or all that the store has; exit code 1 if one of them could not be."""
    place = open_store(store)
    keys = place.keys() if session is None else [key_for(session, tenant, agent)]
    outcomes = [_report(place, key) for key in keys]
    click.echo(f"{outcomes.count('upgraded')} of {len(outcomes)} sessions were upgraded")
    if "refused" in outcomes:
        raise click.exceptions.Exit(1)


def _report(place: Store, key: SessionKey) -> str:
    """What became of a session; stores without files of their own have one format only."""
    try:
        upgrade = getattr(place.open(key), "upgrade", None)
        return "upgraded" if upgrade is not None and upgrade() else "same"
    except StoreError as error:
        click.echo(one_line(str(error)), err=True)
        return "refused"


def show_new_key() -> None:
    click.echo(base64.urlsafe_b64encode(os.urandom(32)).decode())


def tell_if_encrypted(store: str | None) -> None:
    """Say of what was exported from there that it is not what the session is."""
    if encrypts(open_store(store)):
        click.echo("the session is encrypted, what was exported is not: keep it safe", err=True)


def run_rekey(session: str | None, *, store: str | None, tenant: str, agent: str) -> None:
    place = open_store(store)
    rekey = getattr(place, "rekey", None)
    if rekey is None:
        raise SettingsError("there is no key: name the new one and the old one in CTXWRAP_KEY, with a comma between")
    if session is not None:
        changed = rekey(key_for(session, tenant, agent))
        click.echo(one_line(f"session {session!r} {'has the new key' if changed else 'had it already'}"))
        return
    _rekey_all(place, rekey)


def _rekey_all(place: Store, rekey: Callable[[SessionKey], bool]) -> None:
    done = Counter(map(partial(_rekeyed, rekey), place.keys()))
    click.echo(f"{done['new']} sessions have the new key, {done['same']} had it, {done['refused']} were refused")
    if done["refused"]:
        raise click.exceptions.Exit(1)


def _rekeyed(rekey: Callable[[SessionKey], bool], key: SessionKey) -> str:
    try:
        return "new" if rekey(key) else "same"
    except KeyMismatch as error:
        click.echo(one_line(str(error)), err=True)
        return "refused"


def run_put(session: str, name: str, file: IO[bytes] | None, *, store: str | None, tenant: str, agent: str) -> None:
    """Save the file among what a session is given, or remove it if there is none."""
    place = f"context/{name}"
    if not is_input(place) or not is_legal_name(name.removeprefix("pinned/")):
        raise SettingsError(f"{name!r} is nothing that a session is given: name pinned/NAME, budget or gc.policy")
    known = open_existing(key_for(session, tenant, agent), store)
    data = None if file is None else file.read()
    with defer_finalizers(), known.locked():
        if data is None:
            known.log.files.remove(place)
        else:
            known.log.files.save(place, data, lasting=True)
