"""The commands `verify`, `rebuild`, `upgrade`, `key`, `rekey` and `put`."""

import base64
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import click

from ctxwrap.cli.output import (
    AGENT,
    ALL,
    AS_JSON,
    STORE,
    TENANT,
    command,
    one_line,
    progress_bar,
    quietly,
    session_command,
)
from ctxwrap.errors import KeyMismatch, SettingsError, StoreError
from ctxwrap.export.evidence.envelope import verify_evidence
from ctxwrap.session.lookup import key_for
from ctxwrap.session.owner import owner_keys
from ctxwrap.session.verify import SEVERITIES, Rebuilding, Verification, VerifyFinding
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import owner_kind
from ctxwrap.types import SessionKey

if TYPE_CHECKING:
    from ctxwrap.service.handle import SessionHandle


@session_command("verify", owners=True)
@AS_JSON
def verify_command(handle: "SessionHandle", as_json: bool) -> None:
    """Check SESSION for damage; change nothing.

    Checks every line and its checksum, references between records, large contents, imported evidence, and whether
    derived files match the log. If it finds damage, the exit code is 1 and the first bad record is listed first.
    """
    with quietly(), progress_bar("verifying") as progress:
        verification = verify_evidence(handle.verify(progress), handle.store)
    if as_json:
        click.echo(json.dumps(verification.as_json(), indent=2))
    else:
        for line in _report(verification):
            click.echo(one_line(line))
    if verification.is_damaged:
        sys.exit(1)


@session_command("rebuild", owners=True)
@AS_JSON
def rebuild_command(handle: "SessionHandle", as_json: bool) -> None:
    """Rebuild the derived files of SESSION from its log.

    These are summary, facts, swap, dedup and others. The log, large contents, pinned texts, budget and policy stay.
    """
    with quietly():
        rebuilding = handle.rebuild()
    if as_json:
        click.echo(json.dumps(rebuilding._asdict(), indent=2))
        return
    for line in _rebuilt(rebuilding):
        click.echo(one_line(line))


def _report(verification: Verification) -> Iterator[str]:
    for finding in verification.findings:
        yield _line(finding)
    if more := sum(verification.found.values()) - len(verification.findings):
        yield f"and {more} more"
    counts = ("messages", "events", "contents", "unchecked", "torn")
    yield f"{owner_kind(verification.key.agent) or 'session'} {verification.key.session!r}: " + ", ".join(
        f"{getattr(verification, name)} {_WORDS.get(name, name)}" for name in counts if getattr(verification, name)
    )
    found = [f"{number} {severity}" for severity in SEVERITIES if (number := verification.found.get(severity))]
    yield ": ".join(filter(None, ("damaged" if verification.is_damaged else "intact", ", ".join(found))))


_WORDS = {"unchecked": "lines without a checksum", "torn": "incomplete last lines set aside"}


def _line(finding: VerifyFinding) -> str:
    return f"{finding.severity}: {finding.where}: {finding.what}{f' [{finding.remedy}]' if finding.remedy else ''}"


def _rebuilt(rebuilding: Rebuilding) -> Iterator[str]:
    for verb, names in (
        ("removed, not a file of the session:", rebuilding.mended),
        ("wrote", rebuilding.written),
        ("changed", rebuilding.changed),
        ("removed", rebuilding.removed),
    ):
        yield from (f"{verb} {name}" for name in names)
    yield f"{rebuilding.unchanged} files unchanged"


@command("key")
def key_command() -> None:
    """Print a new encryption key for CTXWRAP_KEY."""
    click.echo(base64.urlsafe_b64encode(os.urandom(32)).decode())


@command("rekey")
@click.argument("session", required=False)
@ALL
@STORE
@TENANT
@AGENT
def rekey_command(session: str | None, everybody: bool, store: str | None, tenant: str, agent: str) -> None:
    """Encrypt the key of SESSION with the first key in CTXWRAP_KEY.

    CTXWRAP_KEY must also name the old key. Nothing else of the session is written.
    """
    place = open_store(store)
    keys = _chosen(place, session, everybody, tenant, agent)
    rekey = getattr(place, "rekey", None)
    if rekey is None:
        raise SettingsError("no key is set: set CTXWRAP_KEY to the new and the old key, separated by a comma")
    if session is not None:
        changed = rekey(keys[0])
        click.echo(one_line(f"session {session!r} {'has the new key' if changed else 'already had the new key'}"))
        return
    done = Counter[str]()
    for key in keys:
        try:
            done["new" if rekey(key) else "same"] += 1
        except KeyMismatch as error:
            click.echo(one_line(str(error)), err=True)
            done["failed"] += 1
    click.echo(f"{done['new']} sessions have the new key, {done['same']} already had it, {done['failed']} failed")
    if done["failed"]:
        raise click.exceptions.Exit(1)


@command("upgrade")
@click.argument("session", required=False)
@ALL
@STORE
@TENANT
@AGENT
def upgrade_command(session: str | None, everybody: bool, store: str | None, tenant: str, agent: str) -> None:
    """Convert SESSION from the format of an older version."""
    place = open_store(store)
    outcomes = [_upgraded(place, key) for key in _chosen(place, session, everybody, tenant, agent)]
    click.echo(f"{outcomes.count('upgraded')} of {len(outcomes)} sessions were upgraded")
    if "failed" in outcomes:
        raise click.exceptions.Exit(1)


def _upgraded(place: Store, key: SessionKey) -> str:
    """Upgrade one session; stores without files have one format only."""
    try:
        upgrade = getattr(place.open(key), "upgrade", None)
        return "upgraded" if upgrade is not None and upgrade() else "same"
    except StoreError as error:
        click.echo(one_line(str(error)), err=True)
        return "failed"


def _chosen(place: Store, session: str | None, everybody: bool, tenant: str, agent: str) -> list[SessionKey]:
    if (session is None) != everybody:
        raise click.UsageError("name either a session or --all")
    return [*place.keys(), *owner_keys(place)] if session is None else [key_for(session, tenant, agent)]


@session_command("put")
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--remove", "removes", is_flag=True, help="Remove NAME instead.")
def put_command(handle: "SessionHandle", name: str, file: IO[bytes], removes: bool) -> None:
    """Put FILE or stdin into the context/ of SESSION as NAME.

    NAME is pinned/rules.md or any other name in pinned/, budget, or gc.policy. For an encrypted session this is the
    only way: a plaintext file in its context/ is ignored.
    """
    handle.put(name, None if removes else file.read())
