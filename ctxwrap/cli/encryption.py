"""Keys of encrypted sessions, and the files that nobody can put there by hand."""

import base64
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import IO

import click

from ctxwrap.archive.form import is_input
from ctxwrap.cli.text import one_line
from ctxwrap.errors import KeyMismatch, SettingsError
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.finding import existing, key_for
from ctxwrap.storage import Store
from ctxwrap.stores import encrypts, open_store
from ctxwrap.threads import undisturbed
from ctxwrap.types import SessionKey


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
    known = existing(key_for(session, tenant, agent), store)
    data = None if file is None else file.read()
    with undisturbed(), known.locked():
        if data is None:
            known.log.files.remove(place)
        else:
            known.log.files.save(place, data, lasting=True)
