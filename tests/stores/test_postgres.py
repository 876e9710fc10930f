"""The store in PostgreSQL keeps the contract, on a real server."""

from collections.abc import Callable, Iterator

import pytest

from ctxwrap.storage import Store
from ctxwrap.stores.postgres import PostgresStore
from ctxwrap.testing import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, database: str) -> Iterator[Store]:
        store = PostgresStore(database)
        yield store
        store.close()

    @pytest.fixture
    def reopened(self, database: str) -> Callable[[], Store]:
        return lambda: PostgresStore(database)
