"""All promises together."""

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
    """Inherit from it, and say what `store` is: an empty one. If it outlives its process, say how it is `reopened`."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    @pytest.fixture
    def reopened(self) -> Callable[[], Store]:
        pytest.skip("this store ends with its process")


def store_contract(empty: Callable[[], Store]) -> type[StoreContract]:
    """The tests of a store that `empty` makes anew for each of them."""

    class TestStore(StoreContract):
        @pytest.fixture
        def store(self) -> Store:
            return empty()

    return TestStore
