"""Sessions that an older version wrote, brought to the present format."""

import click

from ctxwrap.cli.text import one_line
from ctxwrap.errors import StoreError
from ctxwrap.session.finding import key_for
from ctxwrap.storage import Store
from ctxwrap.stores import open_store
from ctxwrap.types import SessionKey


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
