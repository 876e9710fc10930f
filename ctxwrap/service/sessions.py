"""The sessions behind one tenant's memories, failed writes, and waits with a timeout."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from ctxwrap.errors import InvalidInput, NotFound, StoreError, StoreUnavailable, WritesLost
from ctxwrap.session.lookup import finish_background_work, holds_anything, owner_key
from ctxwrap.session.owner import Owner
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.settings import Settings
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.turn.binding import ClientBinding
from ctxwrap.types import Record, SessionKey

VAULT_RECORD = ".vault"
"""The session that stores a vault's title and description; it is not a memory."""


class MemorySessions:
    def __init__(self, store: Store, tenant: str, vault: str, settings: Settings, for_user: str | None = None) -> None:
        inline = replace(settings, derive="inline")
        self._user = None
        if for_user is not None:
            key = owner_key("user", for_user, tenant)
            self._user = Owner(key, store.open(key), inline)
        self._context = ClientBinding(store=store, settings=inline, tenant=tenant, agent=vault)
        self._store = store
        self.tenant, self.vault = check_id("tenant", tenant), check_id("vault", vault)
        self._opening = threading.Lock()

    @contextmanager
    def open_memory(self, memory_id: str, vault: str | None = None) -> Iterator[Session]:
        """Open and lock an existing memory; raises NotFound."""
        with self.open(self.key_of(memory_id, vault)) as session:
            if session.is_empty or not self._may_see(session):
                raise _unknown_memory(memory_id)
            yield session

    def _may_see(self, session: Session) -> bool:
        """Whether the memory belongs to nobody, or to the user that these memories are for."""
        return self._user is None or session.state.owners.get("user") in (None, self._user.name)

    def claim(self, key: SessionKey) -> Record:
        """Register a new memory with its user, if there is one; return the control data that says so."""
        if self._user is None:
            return {}
        self._user.catch_up_with(key, (), {})
        return {"owners": {"user": self._user.name}, "merged": {}}

    @contextmanager
    def open(self, key: SessionKey) -> Iterator[Session]:
        """Open and lock the session of a key, which may be empty."""
        with self._opening:
            session = self._context.session(key)
        finish_background_work(session.log)  # the memory may be a chat of this process
        with defer_finalizers(), session.locked():
            yield session

    def key_of(self, memory_id: str, vault: str | None = None) -> SessionKey:
        """Find a memory in the named vault, else in the default one, else in the only one that has it."""
        key = self.key(check_id("memory", memory_id), vault)
        if memory_id == VAULT_RECORD:
            raise _unknown_memory(memory_id)
        if self.exists(key):
            return key
        others = [self.key(memory_id, other) for other in self.vaults()[1:]] if vault is None else []
        found = [key for key in others if self.exists(key)]
        if len(found) > 1:
            raise InvalidInput(f"memory {memory_id!r} is in several vaults: name one of {_vault_names(found)}")
        if not found:
            raise _unknown_memory(memory_id)
        return found[0]

    def key(self, memory_id: str, vault: str | None = None) -> SessionKey:
        agent = self.vault if vault is None else check_id("vault", vault)
        return SessionKey(self.tenant, agent, memory_id)

    def exists(self, key: SessionKey) -> bool:
        """Whether the log of a key has any records, without reading or creating it."""
        return holds_anything(self._store.open(key))

    def vaults(self) -> list[str]:
        """Return the default vault, then all others that are not empty."""
        others = [agent for agent in self._store.agents(self.tenant) if agent != self.vault]
        return [self.vault, *others]

    def memories(self, vault: str) -> list[str]:
        return [each for each in self._store.sessions(self.tenant, vault) if each != VAULT_RECORD]

    def count(self) -> int:
        return sum(len(self.memories(vault)) for vault in self.vaults())


def _unknown_memory(memory_id: str) -> NotFound:
    return NotFound(f"there is no memory {memory_id!r}")


def _vault_names(keys: list[SessionKey]) -> str:
    return ", ".join(repr(key.agent) for key in keys)


T = TypeVar("T")

_MOST_FAILURES = 64
"""Most failures to list per memory."""


class WriteFailures:
    """Failed writes by memory, until they are reported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: dict[SessionKey, list[str]] = defaultdict(list)

    @contextmanager
    def record(self, key: SessionKey, what: str) -> Iterator[None]:
        try:
            yield
        except (StoreError, OSError) as error:
            with self._lock:
                if len(self._lost[key]) < _MOST_FAILURES:
                    self._lost[key].append(f"{what}: {error}")
            raise

    def raise_new(self, key: SessionKey) -> None:
        """Raise WritesLost if a write failed that was not reported yet."""
        with self._lock:
            lost = tuple(self._lost.pop(key, ()))
        if lost:
            raise WritesLost(f"{len(lost)} writes to memory {key.session!r} failed: {'; '.join(lost)[:2000]}", lost)


def run_with_timeout(timeout: float, work: Callable[[], T], what: str) -> T:
    """Return the result of `work`, or raise StoreUnavailable after `timeout`; the work continues in its thread."""
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
        raise StoreUnavailable(
            f"{what} takes longer than {timeout:g} s: the disk is slow or another writer holds the lock"
        )
    if errors:
        raise errors[0]
    return results[0]
