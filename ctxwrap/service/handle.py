"""`open_session` and `SessionHandle`: everything you can do with one stored session."""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ctxwrap.errors import SettingsError
from ctxwrap.export.archive import export_session
from ctxwrap.export.archive.format import is_input_name
from ctxwrap.export.archive.owner_archive import export_owner
from ctxwrap.export.archive.writer import Exported
from ctxwrap.inspect import (
    Cost,
    Curve,
    Numbered,
    SessionDetails,
    StreamFollower,
    TurnDetails,
    TurnInfo,
    cost_of,
    curves_of,
    details_of,
    pack_of,
    session_details,
    turn_details,
    turns_of,
)
from ctxwrap.inspect.streams import check_known
from ctxwrap.session import child_sessions, operator, swap_search
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.child_sessions import PARENT_DEAD, Child, ChildStatus
from ctxwrap.session.gc import GarbageReport, collect_garbage
from ctxwrap.session.lookup import StoreLike, holds_anything, named_key, open_existing
from ctxwrap.session.owner import members_of
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.purge import forget, matching, purge
from ctxwrap.session.swap_search import ReturnedContent, SwapHit
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify import Progress, Rebuilding, Verification, rebuild, verify
from ctxwrap.settings import Settings
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import owner_kind
from ctxwrap.turn.ending import end_session
from ctxwrap.types import MissingContext, SessionKey

if TYPE_CHECKING:  # pydantic takes as long to load as everything else here
    from ctxwrap.export.evidence import Diff, Evidence


def open_session(
    session: str | None = None,
    *,
    tenant: str = "default",
    agent: str = "default",
    store: StoreLike = None,
    user: str | None = None,
    team: str | None = None,
) -> "SessionHandle":
    """Return a handle to a stored session. Reads nothing: the session need not exist yet.

    With `user` or `team` instead of a session, the handle is to the log of that owner.
    """
    return SessionHandle(named_key(session, tenant, agent, user=user, team=team), resolve_store(store))


class _Place(TypedDict):
    store: Store
    tenant: str
    agent: str


class SessionHandle:
    """One stored session, made by `open_session`.

    Every method reads the store and raises `NotFound` if the session does not exist. Methods block: in async code
    call them with `asyncio.to_thread`. A handle holds no state and may be used by several threads.
    """

    __slots__ = ("key", "store")

    def __init__(self, key: SessionKey, store: Store) -> None:
        self.key = key
        self.store = store

    def __repr__(self) -> str:
        tenant, agent, session = self.key
        if kind := owner_kind(agent):
            return f"SessionHandle({kind}={session!r}, tenant={tenant!r})"
        return f"SessionHandle({session!r}, tenant={tenant!r}, agent={agent!r})"

    @property
    def _place(self) -> _Place:
        return {"store": self.store, "tenant": self.key.tenant, "agent": self.key.agent}

    # --- read -----------------------------------------------------------------------------------------------

    def details(self) -> SessionDetails:
        """Return the session's state, counts, branches, children, summary and turns."""
        return session_details(self.store, self.key)

    def messages(self) -> tuple[Numbered, ...]:
        """Return all messages of the log with their numbers and contents, of every branch."""
        return tuple(self.follow("messages").new())

    def events(self) -> tuple[Numbered, ...]:
        """Return all events of the log with their numbers."""
        return tuple(self.follow("events").new())

    def follow(self, stream: Literal["messages", "events"]) -> StreamFollower:
        """Return a follower, each of whose `new()` returns the records appended since the one before."""
        log = self.store.open(self.key)
        if not holds_anything(log):
            check_known(self.store, self.key)
        return StreamFollower(log, stream)

    def turns(self) -> tuple[TurnInfo, ...]:
        """Return one line per turn, oldest first."""
        return turns_of(self.store, self.key)

    def turn(self, turn: int | str) -> TurnDetails:
        """Return the messages and events of one turn, by its number or id."""
        return turn_details(self.store, self.key, turn)

    def pack(self, turn: int | str | None = None) -> PackView:
        """Return the pack of one turn, by its number or id; by default the newest pack."""
        return pack_of(self.store, self.key, turn)

    def diff(self, before: int | str, after: int | str) -> "Diff":
        """Compare the packs of two turns, and memory between them."""
        from ctxwrap.export.evidence import diff_of

        return diff_of(self.key.session, before, after, **self._place)

    def cost(self) -> Cost:
        """Return the tokens and dollars the session took, compared with other ways to send the conversation."""
        return cost_of(self.store, self.key)

    # --- memory ---------------------------------------------------------------------------------------------

    def sessions(self) -> tuple[SessionKey, ...]:
        """Return the sessions of a user or a team, in the order in which they joined; none for a session."""
        return members_of(self.store, self.key)

    def memory(self, round: int | None = None, *, at: datetime | None = None) -> dict[str, Any]:
        """Return memory with all details, now, at the end of a round, or at a moment.

        The keys are `memory` (items by tier), `swap`, `active_task`, `capabilities` and `round`.
        """
        return details_of(self.store, self.key, round, at=at)

    def memory_curves(self) -> tuple[Curve, ...]:
        """Return the decay of every memory item, round by round."""
        return curves_of(self.store, self.key)

    def pin(self, item: str) -> None:
        """Keep a memory item: it does not decay and does not leave memory."""
        operator.pin(self.key.session, item, **self._place)

    def unpin(self, item: str) -> None:
        """Let a pinned memory item decay again."""
        operator.unpin(self.key.session, item, **self._place)

    def swap(self, query: str | None = None, *, limit: int = 10) -> tuple[SwapHit, ...]:
        """Return the entries of swap that match a query, best first; without a query the newest entries."""
        return swap_search.search_swap(self.key.session, query, limit=limit, **self._place)

    def bring_back(self, id: str) -> tuple[ReturnedContent, ...]:
        """Return the messages of a swap entry, or move a memory item out of swap and return it."""
        return swap_search.bring_back(self.key.session, id, **self._place)

    def missing(self, *, everything: bool = False) -> tuple[MissingContext, ...]:
        """Return open missing context, oldest first; with `everything` also closed entries."""
        return operator.missing_in(self.store, self.key, everything=everything)

    def resolve_missing(self, id: str, *, status: Literal["resolved", "declined"] = "resolved", note: str = "") -> None:
        """Close an entry of missing context."""
        operator.resolve_missing(self.key.session, id, status=status, note=note, **self._place)

    # --- delete ---------------------------------------------------------------------------------------------

    def forget(
        self, *, item: str | None = None, query: str | None = None, reason: str = "on request"
    ) -> tuple[str, ...]:
        """Delete a memory item by its id, or every item that contains all words of a query; return what was deleted."""
        return forget(self.key.session, item=item, query=query, reason=reason, **self._place)

    def would_forget(self, *, item: str | None = None, query: str | None = None) -> tuple[str, ...]:
        """Return what `forget` would delete."""
        return matching(self.store, self.key, item=item, query=query)

    def purge(
        self, *, message: int | str | None = None, child: str | None = None, reason: str = "on request"
    ) -> tuple[str, ...]:
        """Delete a message by its number or id with everything derived from it, or all texts of a child session."""
        return purge(self.key.session, message=message, child=child, reason=reason, **self._place)

    # --- child sessions -------------------------------------------------------------------------------------

    def children(self) -> tuple[Child, ...]:
        """Return the child sessions, by name."""
        return child_sessions.children_of(self.key.session, **self._place)

    def start_child(
        self,
        name: str,
        *,
        handoff: str,
        child_agent: str | None = None,
        child_session: str | None = None,
        settings: Settings | None = None,
    ) -> Child:
        """Record that a child session starts, and the text it is handed."""
        options: dict[str, Any] = {"child_agent": child_agent, "child_session": child_session, "settings": settings}
        return child_sessions.start_child(self.key.session, name, handoff=handoff, **options, **self._place)

    def attach_result(
        self,
        name: str,
        *,
        result: str,
        status: ChildStatus = "done",
        refs: Iterable[Mapping[str, Any]] = (),
        artifacts: Mapping[str, bytes] | None = None,
        settings: Settings | None = None,
    ) -> Child:
        """Record the result of a child session, with references and files."""
        options: dict[str, Any] = {"refs": refs, "artifacts": artifacts, "settings": settings}
        return child_sessions.attach_result(
            self.key.session, name, result=result, status=status, **options, **self._place
        )

    def cancel_child(self, name: str, *, reason: str = PARENT_DEAD, settings: Settings | None = None) -> Child:
        """Record that a child session is cancelled."""
        return child_sessions.cancel_child(self.key.session, name, reason=reason, settings=settings, **self._place)

    # --- maintain -------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End the session: write its last context document and make everything durable."""
        end_session(self.key.session, **self._place)

    def verify(self, progress: Progress | None = None) -> Verification:
        """Check every record, checksum, reference and derived file; change nothing."""
        return verify(self.key.session, progress=progress, **self._place)

    def rebuild(self) -> Rebuilding:
        """Write all derived files again from the log."""
        return rebuild(self.key.session, **self._place)

    def gc(self, *, dry_run: bool = True, now: datetime | None = None) -> GarbageReport:
        """Report derived files that are no longer needed; remove them with `dry_run=False`."""
        return collect_garbage(self.key.session, dry_run=dry_run, now=now, **self._place)

    def put(self, name: str, data: bytes | None) -> None:
        """Save an input file in `context/`: `pinned/NAME`, `budget` or `gc.policy`; `None` removes it."""
        place = f"context/{name}"
        if not is_input_name(place) or not is_legal_name(name.removeprefix("pinned/")):
            raise SettingsError(f"{name!r} is not an input file: use pinned/NAME, budget or gc.policy")
        known = open_existing(self.key, self.store)
        with defer_finalizers(), known.locked():
            if data is None:
                known.log.files.remove(place)
            else:
                known.log.files.save(place, data, lasting=True)

    # --- export ---------------------------------------------------------------------------------------------

    def export(
        self,
        file: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        incomplete: bool = False,
        progress: Progress | None = None,
    ) -> Exported:
        """Write the session, or the user or team with all its sessions, to an archive that `import_session` reads."""
        options: dict[str, Any] = {"overwrite": overwrite, "incomplete": incomplete, "progress": progress}
        if owner_kind(self.key.agent):
            return export_owner(self.key, file, store=self.store, **options)
        return export_session(self.key.session, file, **options, **self._place)

    def envelope(
        self, turn: int | str | None = None, *, target: str = "evidence_export", now: datetime | None = None
    ) -> "Evidence":
        """Return the evidence of one turn or of the whole session, limited to what `target` may see."""
        from ctxwrap.export.evidence import envelope_of

        return envelope_of(self.key.session, turn=turn, target=target, now=now, **self._place)

    def note_export(self, evidence: "Evidence") -> None:
        """Record in the log that evidence was exported, and for which target."""
        from ctxwrap.export.evidence.envelope import record_export

        record_export(evidence, self.key.session, **self._place)
