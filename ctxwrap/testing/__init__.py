"""Helpers for tests of applications and stores: a scripted provider, imitated models, and a contract test for stores.

with ScriptedProvider(["Hello Ada.", Failure(429), Answer("Noted.", remembers="The user lives in Oslo.")]) as provider:
    client = ctxwrap.wrap(OpenAI(api_key="x", base_url=provider.openai_url), session="s", store="memory:")
    ...
    assert provider.last.messages == [("user", "Where do I live?")]

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
    *(f"{__name__}.contract.{module}" for module in ("concurrency", "crashes", "files", "isolation", "streams"))
)

from ctxwrap.testing.contract import StoreContract, store_contract  # noqa: E402
from ctxwrap.testing.contract.streams import KEY, contents, numbered_record, record  # noqa: E402
from ctxwrap.testing.practice import Failure, ToolCall  # noqa: E402
from ctxwrap.testing.scripted import Answer, Gate, Request, ScriptedProvider  # noqa: E402

__all__ = [
    "KEY",
    "Answer",
    "Failure",
    "Gate",
    "Request",
    "ScriptedProvider",
    "StoreContract",
    "ToolCall",
    "contents",
    "numbered_record",
    "record",
    "store_contract",
]
