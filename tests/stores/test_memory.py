"""The store in memory passes the contract."""

from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing import store_contract

TestMemoryStore = store_contract(MemoryStore)
