"""Heartbeats: a row that shows that this process runs, and a row for each lease it holds.

They expire by the database's clock unless a thread of this process renews them.
"""

import logging
import os
import secrets
import threading
from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.errors import StoreError
from ctxwrap.stores.postgres import statements as sql
from ctxwrap.stores.postgres.connection import Database, SqlStatement
from ctxwrap.stores.postgres.transaction import Bind, SessionTransaction

logger = logging.getLogger("ctxwrap")


class Lease(NamedTuple):
    bind: Bind
    holder: str
    """A random name: statements about an earlier lease have no effect on this one."""

    def take(self, over: int, seconds: float) -> SqlStatement:
        return self.bind(sql.TAKE_LEASE, holder=self.holder, over=over, seconds=seconds)

    def renew(self, seconds: float) -> SqlStatement:
        return self.bind(sql.RENEW_LEASE, holder=self.holder, seconds=seconds)

    def end(self) -> SqlStatement:
        return self.bind(sql.END_LEASE, holder=self.holder)


class Heartbeat:
    """The heartbeat of one store in one process; a forked process has its own."""

    def __init__(self, server: Database, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        """How long a row is valid unless it is renewed."""
        self._process = _ProcessState()

    def name(self, ask: Callable[[SqlStatement], object]) -> str:
        """This process's name, registered as alive through `ask` on first use."""
        now = self._current()
        if not now.is_registered:
            ask(self._registered(now))
            now.is_registered = True
            self._start_renewing(now)
        return now.name

    def lease(self, bind: Bind, transaction: SessionTransaction) -> Lease | None:
        """Take a session's lease when the transaction commits; None while another process has it."""
        ((over, is_over),) = transaction.lease or [(0, True)]
        if not is_over:
            return None
        if transaction.lease == []:
            transaction.write_last(bind(sql.CREATE_LEASE))
        now, lease = self._current(), Lease(bind, secrets.token_hex(8))
        transaction.write_last(lease.take(over, self._seconds))
        now.leases.add(lease)
        self._start_renewing(now)
        return lease

    def give_back(self, lease: Lease, transaction: SessionTransaction | None) -> None:
        """Release a lease: when the transaction commits, or now. If that fails, it expires."""
        now = self._current()
        if lease not in now.leases:
            return  # already released, or a lease of the parent process
        if transaction is not None:
            transaction.write_last(lease.end())
            transaction.after_commit(lambda: now.leases.discard(lease))
            return
        now.leases.discard(lease)
        try:
            self._server.send_now(lease.end())
        except StoreError as error:
            logger.warning("ctxwrap: a turn's lease could not be released and stays until it expires: %s", error)

    def close(self) -> None:
        """Release all leases and end this process's registration."""
        now = self._current()
        self._process = _ProcessState()
        now.is_over.set()
        if not (now.is_registered or now.leases):
            return
        leases, now.leases = now.leases, set()
        try:
            self._server.send_now(*(lease.end() for lease in leases), SqlStatement(sql.END_PROCESS, {"name": now.name}))
        except StoreError as error:
            logger.debug("process %s could not end its registration: %s", now.name, error)

    def _current(self) -> "_ProcessState":
        if self._process.process != os.getpid():
            self._process = _ProcessState()
        return self._process

    def _registered(self, now: "_ProcessState") -> SqlStatement:
        return SqlStatement(sql.RENEW_PROCESS, {"name": now.name, "seconds": self._seconds})

    def _start_renewing(self, now: "_ProcessState") -> None:
        with now.starting:
            if now.thread is None:
                now.thread = threading.Thread(target=self._renew, args=(now,), name="ctxwrap-leases", daemon=True)
                now.thread.start()

    def _renew(self, now: "_ProcessState") -> None:
        while not now.is_over.wait(self._seconds / 4):
            signs = [self._registered(now), SqlStatement(sql.DELETE_DEAD_PROCESSES)] if now.is_registered else []
            signs += [lease.renew(self._seconds) for lease in list(now.leases)]
            try:
                if signs:
                    self._server.ask(*signs)
            except StoreError as error:
                logger.warning("ctxwrap: this process could not renew its heartbeat: %s", error)


class _ProcessState:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.name = secrets.token_hex(8)
        self.is_registered = False
        self.leases: set[Lease] = set()
        self.is_over = threading.Event()
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None
