"""The tables, step by step: each step is applied once, by whoever comes first, while the others wait."""

from collections.abc import Callable
from math import inf

from ctxwrap.errors import StoreUnavailable
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.line import Line


def first_tables(connection: Line) -> None:
    connection.execute(sql.FIRST_TABLES)


MIGRATIONS: list[Callable[[Line], None]] = [first_tables]
"""In order. Those that a release had are never changed, only followed."""


def migrate(connection: Line) -> None:
    """Bring the tables up to date, in one transaction; a database that newer code made is left alone."""
    if not _missing(connection):
        return
    with connection.waiting(inf), connection.transaction():  # large tables take their time, for whoever waits as well
        connection.execute(sql.LOCK_MIGRATIONS)
        connection.execute(sql.CREATE_MIGRATIONS)
        for step in _missing(connection):
            step(connection)
            connection.execute(sql.NOTE_MIGRATION, {"name": step.__name__})


def _missing(connection: Line) -> list[Callable[[Line], None]]:
    there = connection.execute(sql.HAS_MIGRATIONS).fetchone()
    applied = {name for (name,) in connection.execute(sql.APPLIED)} if there and there[0] else set()
    unknown = applied - {step.__name__ for step in MIGRATIONS}
    if unknown:
        raise StoreUnavailable(
            f"the database has tables of a newer ctxwrap ({', '.join(sorted(unknown))}): upgrade ctxwrap here as well"
        )
    return [step for step in MIGRATIONS if step.__name__ not in applied]
