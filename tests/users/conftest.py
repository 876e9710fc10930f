"""A PostgreSQL for tests of users that need one."""

from collections.abc import Iterator

import pytest

import ctxwrap
from tests.stores.conftest import close_stores, postgres
from tests.stores.conftest import database as empty_database

__all__ = ["close_stores", "empty_database", "postgres"]


@pytest.fixture
def database(empty_database: str) -> Iterator[str]:
    """An empty database that nothing is written to behind the test."""
    yield empty_database
    ctxwrap.flush()
