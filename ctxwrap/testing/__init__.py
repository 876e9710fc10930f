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

from typing import TYPE_CHECKING, Any

from ctxwrap.testing.practice import Failure, ToolCall
from ctxwrap.testing.scripted import Answer, Gate, Request, ScriptedProvider

if TYPE_CHECKING:
    from ctxwrap.testing.contract import StoreContract, store_contract
    from ctxwrap.testing.contract.streams import KEY, contents, numbered_record, record

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


def __getattr__(name: str) -> Any:
    """Load the contract of stores on first use: it needs pytest, which `ctxwrap chat` must run without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ctxwrap.testing import contract

    return getattr(contract if hasattr(contract, name) else contract.streams, name)
