"""All promises together."""

from collections.abc import Callable

import pytest

from ctxwrap.storage import Store
from ctxwrap.testing.apart import ApartContract
from ctxwrap.testing.crashes import CrashContract
from ctxwrap.testing.files import FilesContract
from ctxwrap.testing.hostile import HostileContract
from ctxwrap.testing.rewriting import RewritingContract
from ctxwrap.testing.streams import StreamsContract
from ctxwrap.testing.together import TogetherContract


class StoreContract(
    StreamsContract,
    FilesContract,
    RewritingContract,
    ApartContract,
    TogetherContract,
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
