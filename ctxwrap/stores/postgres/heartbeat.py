"""Signs of life: a row that says that this process runs, and one for each turn that is this process's to take.

All of them run out by the database's clock unless they are renewed, which a thread does as long as the process runs.
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
from ctxwrap.stores.postgres.transaction import Bound, SessionTransaction

logger = logging.getLogger("ctxwrap")


class Lease(NamedTuple):
    bound: Bound
    holder: str
    """A name of its own: what is said of an earlier lease changes nothing."""

    def taken(self, over: int, seconds: float) -> SqlStatement:
        return self.bound(sql.TAKE_LEASE, holder=self.holder, over=over, seconds=seconds)

    def renewed(self, seconds: float) -> SqlStatement:
        return self.bound(sql.RENEW_LEASE, holder=self.holder, seconds=seconds)

    def ended(self) -> SqlStatement:
        return self.bound(sql.END_LEASE, holder=self.holder)


class Heartbeat:
    """Of one store in one process, and of each that is forked off in its own right."""

    def __init__(self, server: Database, seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        """How long a sign is good for if nobody renews it."""
        self._now = _Process()

    def name(self, ask: Callable[[SqlStatement], object]) -> str:
        """This process's name; whoever is told it finds the process alive. `ask` is for the first sign."""
        now = self._here()
        if not now.is_shown:
            ask(self._shown(now))
            now.is_shown = True
            self._begin_renewing(now)
        return now.name

    def lease(self, bound: Bound, section: SessionTransaction) -> Lease | None:
        """A session's lease from the end of the section on, or None while another has it."""
        ((over, is_over),) = section.lease or [(0, True)]
        if not is_over:
            return None
        if section.lease == []:
            section.write_last(bound(sql.CREATE_LEASE))
        now, lease = self._here(), Lease(bound, secrets.token_hex(8))
        section.write_last(lease.taken(over, self._seconds))
        now.leases.add(lease)
        self._begin_renewing(now)
        return lease

    def give_back(self, lease: Lease, section: SessionTransaction | None) -> None:
        """Let others have it: at the end of the section, or now. What the database is not told it finds out in time."""
        now = self._here()
        if lease not in now.leases:
            return  # it was given back before, or is that of the process that forked this one
        if section is not None:
            section.write_last(lease.ended())
            section.then(lambda: now.leases.discard(lease))
            return
        now.leases.discard(lease)
        try:
            self._server.tell(lease.ended())
        except StoreError as error:
            logger.warning("ctxwrap: a turn's lease is given back only when it runs out: %s", error)

    def close(self) -> None:
        """Say that the process, as far as this store knows it, is at its end."""
        now = self._here()
        self._now = _Process()
        now.is_over.set()
        if not (now.is_shown or now.leases):
            return
        leases, now.leases = now.leases, set()
        try:
            self._server.tell(*(lease.ended() for lease in leases), SqlStatement(sql.END_LIFE, {"name": now.name}))
        except StoreError as error:
            logger.debug("the end of process %s could not be told: %s", now.name, error)

    def _here(self) -> "_Process":
        if self._now.process != os.getpid():
            self._now = _Process()
        return self._now

    def _shown(self, now: "_Process") -> SqlStatement:
        return SqlStatement(sql.SHOW_LIFE, {"name": now.name, "seconds": self._seconds})

    def _begin_renewing(self, now: "_Process") -> None:
        with now.starting:
            if now.thread is None:
                now.thread = threading.Thread(target=self._renew, args=(now,), name="ctxwrap-leases", daemon=True)
                now.thread.start()

    def _renew(self, now: "_Process") -> None:
        while not now.is_over.wait(self._seconds / 4):
            signs = [self._shown(now), SqlStatement(sql.BURY)] if now.is_shown else []
            signs += [lease.renewed(self._seconds) for lease in list(now.leases)]
            try:
                if signs:
                    self._server.ask(*signs)
            except StoreError as error:
                logger.warning("ctxwrap: no sign of life from this process could be left: %s", error)


class _Process:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.name = secrets.token_hex(8)
        self.is_shown = False
        self.leases: set[Lease] = set()
        self.is_over = threading.Event()
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None
