"""The store in memory keeps the contract."""

import pytest

from ctxwrap.storage import Store
from ctxwrap.stores.memory import MemoryStore
from tests.stores.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()
