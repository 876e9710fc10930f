"""The contract of stores: tests that every store passes."""

from collections.abc import Callable

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("concurrency", "crashes", "files", "isolation", "streams"))
)

from ctxwrap.stores.base import Store  # noqa: E402
from ctxwrap.testing.contract.concurrency import ConcurrencyContract  # noqa: E402
from ctxwrap.testing.contract.crashes import CrashContract, RewritingContract  # noqa: E402
from ctxwrap.testing.contract.files import FilesContract  # noqa: E402
from ctxwrap.testing.contract.isolation import HostileContract, IsolationContract  # noqa: E402
from ctxwrap.testing.contract.streams import StreamsContract  # noqa: E402


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
