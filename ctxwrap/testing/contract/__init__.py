"""The contract of stores: tests that every store passes."""

from collections.abc import Callable

import pytest

from ctxwrap.stores.base import Store
from ctxwrap.testing.contract.concurrency import ConcurrencyContract
from ctxwrap.testing.contract.crashes import CrashContract, RewritingContract
from ctxwrap.testing.contract.files import FilesContract
from ctxwrap.testing.contract.isolation import HostileContract, IsolationContract
from ctxwrap.testing.contract.streams import StreamsContract


class StoreContract(
    StreamsContract,
    FilesContract,
    RewritingContract,
    IsolationContract,
    ConcurrencyContract,
    HostileContract,
    CrashContract,
):
    """Inherit and define the fixture `store`, an empty store. With the fixture `reopened`, the crash tests run too."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def reopened(self) -> Callable[[], Store]:
        pytest.skip("the store ends with its process: no `reopened` fixture")


def store_contract(empty: Callable[[], Store]) -> type[StoreContract]:
    """A test class for the stores that `empty` creates, one for each test."""

    class TestStore(StoreContract):
        @pytest.fixture
        def store(self) -> Store:
            return empty()

    return TestStore
