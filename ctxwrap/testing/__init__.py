"""What every store promises, as tests for pytest: for our own stores, and for yours.

from ctxwrap.testing import StoreContract, store_contract

TestMyStore = store_contract(MyStore)  # or, where a store needs more to begin with, such as other fixtures:

class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return MyStore(tmp_path)

    @pytest.fixture
    def reopened(self, tmp_path):  # how another process opens the same place; without it, that is skipped
        return lambda: MyStore(tmp_path)
"""

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("apart", "crashes", "files", "hostile", "rewriting", "streams", "together"))
)

from ctxwrap.testing.contract import StoreContract, store_contract  # noqa: E402  # asserts are told about first
from ctxwrap.testing.records import KEY, contents, numbered_record, record  # noqa: E402

__all__ = ["KEY", "StoreContract", "contents", "numbered_record", "record", "store_contract"]
