"""The user and the team of one call: their memory is read before the turn opens and written after it ends."""

import logging
from collections.abc import Callable
from typing import TypeVar

from ctxwrap.errors import Conflict
from ctxwrap.session.owner import with_owners
from ctxwrap.session.session import Session
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.types import Offer, Record, SessionKey, TurnInputs

logger = logging.getLogger("ctxwrap")

T = TypeVar("T")


class _Behind(Exception):
    """An owner's log lacks the session, or something that the session contributed."""


class CallOwners:
    """Owners' logs are read and written outside the session's lock, so that no thread waits for two of them."""

    def __init__(self, binding: ClientBinding, scope: CallScope, key: SessionKey) -> None:
        self._owners, self._key, self._binding = binding.owners(scope), key, binding
        self._searches = scope.mode != "disabled" and binding.settings.retrieval and binding.settings.search == "user"
        self._is_settled = False
        self.found: list[Offer] = []
        """Passages of the user's other sessions."""

    def open(self, session: Session, work: Callable[[], T], question: Callable[[], str]) -> T:
        """Run `work`, which opens a turn, with the owners' memory at hand."""
        self._read()
        self.search(question)
        try:
            return work()
        except _Behind:
            self.settle(self.waiting_in(session))
            self._is_settled = True
            return work()

    def check(self, session: Session) -> None:
        """Inside the session's transaction: refuse a session of another user, and leave if an owner's log is behind."""
        self._check_user(session)
        if not self._is_settled and any(owner.is_behind(session) for owner in self._owners):
            raise _Behind

    def prepare(self, question: Callable[[], str]) -> None:
        """Read what a preview shows of the owners."""
        if self._owners:
            self._read()
            self.search(question)

    def search(self, question: Callable[[], str]) -> None:
        if self._searches and self._owners[0].kind == "user":
            from ctxwrap.turn.user_search import find_elsewhere

            self.found = find_elsewhere(self._binding, self._owners[0], self._key, question())

    def view(self, inputs: TurnInputs, said: str) -> TurnInputs:
        """The inputs with the owners' items."""
        if not self._owners:
            return inputs
        views = [owner.view(self._key, said) for owner in self._owners]
        return with_owners(inputs, views, [owner.knows for owner in self._owners])

    def waiting_in(self, session: Session) -> dict[str, list[tuple[int, Record]]]:
        """The contributions in the session's log that no start of a turn says were merged."""
        return {kind: list(waiting) for kind, waiting in session.state.contributions.items()}

    def settle(self, waiting: dict[str, list[tuple[int, Record]]], said: dict[str, str] | None = None) -> None:
        """Register the session with its owners, and merge what it contributed."""
        for owner in self._owners:
            owner.catch_up_with(self._key, waiting.get(owner.kind, ()), said or {})

    def settle_quietly(self, waiting: dict[str, list[tuple[int, Record]]], said: dict[str, str]) -> None:
        """The same at the end of a turn; what fails is done by the session's next turn."""
        try:
            self.settle(waiting, said)
        except Exception as error:
            logger.warning("ctxwrap: the user's memory is updated by the session's next turn: %s", error)

    def _read(self) -> None:
        for owner in self._owners:
            owner.read()

    def _check_user(self, session: Session) -> None:
        """A session with texts of one user is not shown to another."""
        known = session.state.owners.get("user")
        for owner in self._owners:
            if owner.kind == "user" and known not in (None, owner.name):
                raise Conflict(
                    f"session {session.key.session!r} belongs to another user: use a session of its own for each user"
                )
