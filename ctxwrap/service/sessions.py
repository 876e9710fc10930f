"""The sessions behind one tenant's memories, and waiting until writes are durable."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from ctxwrap.errors import InvalidInput, NotFound, StoreError, StoreUnavailable, WritesLost
from ctxwrap.session.lookup import finish_background_work, holds_anything
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.types import SessionKey

VAULT_RECORD = ".vault"
"""The session of a vault that says what the vault is called; no memory."""


class Shelves:
    def __init__(self, store: Store, tenant: str, vault: str, settings: Settings) -> None:
        inline = replace(settings, derive="inline")
        self._context = ClientBinding(store=store, settings=inline, tenant=tenant, agent=vault)
        self._store = store
        self.tenant, self.vault = check_id("tenant", tenant), check_id("vault", vault)
        self._opening = threading.Lock()

    @contextmanager
    def opened(self, memory_id: str, vault: str | None = None) -> Iterator[Session]:
        """A memory that there is, with everybody else kept out; a NotFound if there is none."""
        with self.at(self.key_of(memory_id, vault)) as session:
            if session.is_empty:
                raise unknown(memory_id)
            yield session

    @contextmanager
    def at(self, key: SessionKey) -> Iterator[Session]:
        """The session of a key, whether there is one or not."""
        finish_background_work(key)  # the memory may be a chat of this process
        with self._opening:
            session = self._context.session(key)
        with defer_finalizers(), session.locked():
            yield session

    def key_of(self, memory_id: str, vault: str | None = None) -> SessionKey:
        """Where a memory is: in the vault that is named, else in the default one, else in the only one that has it."""
        key = self.key(check_id("memory", memory_id), vault)
        if memory_id == VAULT_RECORD:
            raise unknown(memory_id)
        if self.exists(key):
            return key
        others = [self.key(memory_id, other) for other in self.vaults()[1:]] if vault is None else []
        found = [key for key in others if self.exists(key)]
        if len(found) > 1:
            raise InvalidInput(f"memory {memory_id!r} is in several vaults: name one of {_named(found)}")
        if not found:
            raise unknown(memory_id)
        return found[0]

    def key(self, memory_id: str, vault: str | None = None) -> SessionKey:
        agent = self.vault if vault is None else check_id("vault", vault)
        return SessionKey(self.tenant, agent, memory_id)

    def exists(self, key: SessionKey) -> bool:
        """Whether the log of a key holds anything, without reading it or making one."""
        return holds_anything(self._store.open(key))

    def vaults(self) -> list[str]:
        """The default vault first, then the others that hold anything."""
        others = [agent for agent in self._store.agents(self.tenant) if agent != self.vault]
        return [self.vault, *others]

    def memories(self, vault: str) -> list[str]:
        return [each for each in self._store.sessions(self.tenant, vault) if each != VAULT_RECORD]

    def count(self) -> int:
        return sum(len(self.memories(vault)) for vault in self.vaults())


def unknown(memory_id: str) -> NotFound:
    return NotFound(f"there is no memory {memory_id!r}")


def _named(keys: list[SessionKey]) -> str:
    return ", ".join(repr(key.agent) for key in keys)


T = TypeVar("T")

_MOST = 64
"""So many failures of a memory are told one by one."""


class Losses:
    """The writes that failed, by memory, since somebody last asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: dict[SessionKey, list[str]] = defaultdict(list)

    @contextmanager
    def noted(self, key: SessionKey, what: str) -> Iterator[None]:
        try:
            yield
        except (StoreError, OSError) as error:
            with self._lock:
                if len(self._lost[key]) < _MOST:
                    self._lost[key].append(f"{what}: {error}")
            raise

    def tell(self, key: SessionKey) -> None:
        """A WritesLost if a write failed that was not told yet."""
        with self._lock:
            lost = tuple(self._lost.pop(key, ()))
        if lost:
            raise WritesLost(f"{len(lost)} writes to memory {key.session!r} failed: {'; '.join(lost)[:2000]}", lost)


def within(timeout: float, work: Callable[[], T], what: str) -> T:
    """What `work` gives, or a StoreUnavailable if it takes longer; it goes on then, with nobody waiting for it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="ctxwrap-barrier", daemon=True)
    thread.start()
    thread.join(timeout)
    if thread.is_alive():
        raise StoreUnavailable(f"{what} takes longer than {timeout:g} s: the medium is slow or another writer has it")
    if errors:
        raise errors[0]
    return results[0]
