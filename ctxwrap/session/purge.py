"""Deletion on request: memory items, messages and texts of child sessions; a tombstone stays."""

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.similarity import fact_digests, key_of
from ctxwrap.session import blobs, index_files
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.blobs import loaded
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.document_versions import document_without
from ctxwrap.session.lookup import StoreLike, named_key, open_existing
from ctxwrap.session.provenance import PurgedMessage, repeated_in, strings_in
from ctxwrap.session.redaction import CHILD_EVENTS, LONG, EventRedaction, items_in, redaction, tombstone, with_contents
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.base import STREAMS, Log, RecordChange, Store
from ctxwrap.stores.log_format import message_range, number_in, timestamp, turn_in
from ctxwrap.stores.names import owner_kind
from ctxwrap.types import Operation, Record, SessionKey


def rewrite_events(
    session: Session, change: RecordChange, turn: str, new: Sequence[Record], now: datetime, banned: Sequence[str] = ()
) -> None:
    """Rewrite the log's events and append the `new` ones in one step; call it inside the session's lock."""
    session.remove_derived()
    added = session.numbered("events", turn, "", new, timestamp(now))

    def rewrite() -> int:
        session.log.rewrite("events", change, added, banned)
        return session.next_message

    index_files.outlived(session.log, rewrite)
    _rebuild(session)


def rewrite_messages(session: Session, change: RecordChange, banned: Sequence[str] = ()) -> None:
    """Rewrite the log's messages and remove contents without a reference; call it inside the session's lock."""
    changed = [session.next_message]

    def noted(record: Record) -> Record:
        new = change(record)
        changed.append(changed[0] if new is record else number_in(record) or 0)
        return new

    def rewrite() -> int:
        session.log.rewrite("messages", noted, banned=banned)
        return min(changed)

    session.remove_derived()
    index_files.outlived(session.log, rewrite)
    _rebuild(session)


def finish_rewriting(session: Session) -> None:
    """Remove contents that an interrupted rewrite left; call it inside the session's lock."""
    if _unused(session.log):
        session.remove_derived()
        _rebuild(session)


def _rebuild(session: Session) -> None:
    for name in _unused(session.log):
        session.log.files.remove(name)
    session.refresh()
    session.rebuild()


def _unused(log: Log) -> list[str]:
    """Return the contents that no record refers to."""
    used = _used(log)
    return [entry.name for entry in log.files.entries("raw") if entry.name.removeprefix("raw/") not in used]


def _used(log: Log) -> set[str]:
    """Return the names of the contents that records refer to."""
    records = (record for stream in STREAMS for record in log.read(stream)[0])
    return {blob["id"] for record in records for blob in blobs.blobs_in(record) if is_legal_name(blob["id"])}


CHILD = "child/"
"""Prefix of a child session in the names that `forget` and `purge` return."""


IN_SESSION = "session/"
"""Prefix of a session of a user or a team in the same names."""


def forget(
    session: str | None = None,
    *,
    item: str | None = None,
    query: str | None = None,
    reason: str = "on request",
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    user: str | None = None,
    team: str | None = None,
) -> tuple[str, ...]:
    """Delete a memory item by its id, or every item whose content contains all words of a query.

    Their text is removed from the events and everything derived from them, including handoffs and results of child
    sessions. Messages stay, unless they are purged. Returns the ids of the items, and `child/<name>` for every child
    session whose texts changed.

    With `user` or `team` instead of a session, the items are those of that owner, and all sessions of the owner lose
    what they have of them, including the messages that tell it; `session/<name>` is returned for each.
    """
    key = named_key(session, tenant, agent, user=user, team=team)
    if owner_kind(key.agent):
        from ctxwrap.session.owner_erasure import forget_everywhere

        return forget_everywhere(key, store, item=item, query=query, reason=reason)
    with locked_session(key, store) as known:
        found = found_in(known, item, query)
        if found:
            rewrite_erased(known, found, [], reason, utc_now(), found.sources)
    return found.names


def matching(store: Store, key: SessionKey, *, item: str | None = None, query: str | None = None) -> tuple[str, ...]:
    """Return what `forget` would delete."""
    return found_in(open_existing(key, store, keeps_all=True), item, query).names


def purge(
    session: str | None = None,
    *,
    message: int | str | None = None,
    child: str | None = None,
    reason: str = "on request",
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    user: str | None = None,
    team: str | None = None,
) -> tuple[str, ...]:
    """Delete a message by its number or id, or the handoff and result of a child session.

    With a message go the memory items and the texts of child sessions derived from it. Returns the ids of these items,
    and `child/<name>` for every child session whose texts changed. Repeat an interrupted purge to complete it.

    With `user` or `team` instead of a session, every text of that owner is deleted, in its log and in all its sessions;
    `session/<name>` is returned for each.
    """
    key = named_key(session, tenant, agent, user=user, team=team)
    if owner_kind(key.agent):
        from ctxwrap.session.owner_erasure import erase_owner

        if message is not None or child is not None:
            raise SettingsError("a message and a child are parts of a session: name the session")
        return tuple(f"{IN_SESSION}{each.session}" for each in erase_owner(key, store))
    if (message is None) == (child is None):
        raise SettingsError("name either a message or a child")
    with locked_session(key, store) as known:
        return _purge_child(known, child, reason) if message is None else _purge_message(known, message, reason)


def _purge_message(known: Session, message: int | str, reason: str) -> tuple[str, ...]:
    messages, now = known.records("messages"), utc_now()
    purged = _one(messages, message, known.key.session)
    if "purged" in purged["ctx"]:
        return ()
    trace = _trace(known, messages, purged)
    event = {"type": "purge", "message": purged["ctx"]["seq"], "id": purged["ctx"]["id"], "reason": reason}
    rewrite_erased(known, trace, [{**event, "ctx": {}}], reason, now, trace.sources)
    ids = {purged["ctx"]["id"], *_others_of_answer(messages, purged)}
    rewrite_messages(known, partial(_buried, ids=ids, time=timestamp(now)), trace.redaction.texts)
    return trace.names


def _purge_child(known: Session, child: str | None, reason: str) -> tuple[str, ...]:
    events = [event for event in _child_events(known) if event.get("child") == child]
    if not events:
        raise NotFound(f"session {known.key.session!r} has no child {child!r}")
    texts = (text for event in events for text in strings_in([event.get("handoff"), event.get("result")]))
    gone = redaction((), ids=(), texts=filter(_is_long, texts))._replace(children=frozenset({str(child)}), summaries=0)
    trace = _trace_of(known, (), gone)
    if trace:
        control = {"messages": known.state.sequence["messages"]}
        event: Record = {"type": "purge", "child": child, "reason": reason, "ctx": control}
        rewrite_erased(known, trace, [event], reason, utc_now(), frozenset())
    return trace.names


def _child_events(known: Session) -> list[Record]:
    return [event for event in known.records("events") if event.get("type") in CHILD_EVENTS]


@contextmanager
def locked_session(key: SessionKey, store: StoreLike) -> Iterator[Session]:
    known = open_existing(key, store, keeps_all=True)
    with defer_finalizers(), known.locked():
        finish_rewriting(known)
        yield known


class Erasure(NamedTuple):
    """What is to be deleted, and where it occurs."""

    ids: tuple[str, ...]
    """Memory items."""
    children: tuple[str, ...]
    redaction: EventRedaction
    sources: frozenset[int] = frozenset()
    """Messages that the context document is no longer derived from."""
    contents: tuple[str, ...] = ()
    """All texts that forgotten items ever had."""
    learned: tuple[str, ...] = ()
    """The sources of forgotten items."""

    def __bool__(self) -> bool:
        return bool(self.ids or self.children)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.ids, *(f"{CHILD}{name}" for name in self.children))


def found_in(known: Session, item: str | None, query: str | None) -> Erasure:
    """Find items to forget, and lines in texts of child sessions that repeat them or contain all words of the query."""
    ids, events = _chosen(known.memory, item, query), known.records("events")
    versions = [each for _, each in items_in(events) if each.get("id") in ids]
    contents = [str(each.get("content")) for each in versions]
    gone = redaction(events, ids=ids)._replace(tells=repeated_in(contents, known.memory, query, ids))
    sources = frozenset(number for each in versions for number in _numbers(str(each.get("source"))))
    trace = _trace_of(known, ids, gone if ids else gone._replace(summaries=0), sources)
    return trace._replace(contents=tuple(contents), learned=tuple(str(each.get("source")) for each in versions))


def _trace_of(
    known: Session, ids: Sequence[str], gone: EventRedaction, sources: frozenset[int] = frozenset()
) -> Erasure:
    events = _child_events(known)
    whole = with_contents(gone, events, partial(loaded, files=known.log.files))
    children = dict.fromkeys(str(event.get("child")) for event in events if whole.event(event) != event)
    return Erasure(tuple(ids), tuple(children), gone, sources)


def _chosen(memory: Memory, item: str | None, query: str | None) -> tuple[str, ...]:
    if item is not None and query is None:
        if memory.named(item) is None:
            raise NotFound(f"the session has no memory item {item!r}")
        return (item,)
    if query is None or item is not None:
        raise SettingsError("name either an item or a query")
    words = set(key_of(query).split())
    if not words:
        raise SettingsError("the query contains no word to search for")
    return tuple(each.id for each in _items(memory) if words <= set(key_of(each.content).split()))


def _items(memory: Memory) -> list[MemoryItem]:
    return [*memory.items.values(), *memory.swap.values()]


def _numbers(source: str) -> range:
    first, last = message_range(source)
    return range(first, last + 1)


def rewrite_erased(
    known: Session,
    trace: Erasure,
    events: Sequence[Record],
    reason: str,
    now: datetime,
    without: frozenset[int],
) -> None:
    """Redact the events and append the ones that record it, in one step.

    A redacted context document is written again from the rest, `without` these messages.
    """
    gone, ids = trace.redaction, trace.ids
    places = {item.id: item.tier for item in _items(known.memory)}
    operations = [Operation("forget", id, places.get(id, "core"), reason=reason).as_json() for id in ids]
    control: Record = {"messages": known.state.sequence["messages"]}
    if trace.learned and (known.state.owners or owner_kind(known.key.agent)):  # what a user told may be told elsewhere
        control["facts"] = sorted({digest for content in trace.contents for digest in fact_digests(content)})
    forgotten = {
        "type": "forget",
        "operations": operations,
        "round": known.memory.round,
        "reason": reason,
        "ctx": control,
    }
    added = [*([forgotten] if ids or not events else []), *events]
    old = known.records("events")
    new = [*known.with_stages(*added), *document_without(known, gone, old, without)]
    gone = with_contents(gone, old, partial(loaded, files=known.log.files))
    rewrite_events(known, gone.event, new_turn_id(), new, now, gone.texts)


def _one(messages: Sequence[Record], wanted: int | str, session: str) -> Record:
    found = [record for record in messages if wanted in _names(record)]
    if len(found) > 1:
        raise NotFound(f"session {session!r} has {len(found)} messages {wanted!r}: use the id of one")
    if not found:
        raise NotFound(f"there is no message {wanted!r} in session {session!r}")
    return found[0]


def _names(record: Record) -> tuple[Any, ...]:
    control = record.get("ctx") or {}
    return (control.get("seq"), control.get("id"))


def _others_of_answer(messages: Sequence[Record], purged: Record) -> Iterator[str]:
    """Yield the ids of other versions of the same answer: the one that replaced it, and the one it replaced."""
    id, instead = purged["ctx"]["id"], purged["ctx"].get("supersedes")
    for control in (record.get("ctx") or {} for record in messages):
        if "id" in control and (control.get("supersedes") == id or control["id"] == instead):
            yield control["id"]


def _buried(record: Record, *, ids: Set[str], time: str) -> Record:
    return tombstone(record, time) if (record.get("ctx") or {}).get("id") in ids else record


def _trace(known: Session, messages: Sequence[Record], purged: Record) -> Erasure:
    events, source = known.records("events"), PurgedMessage(messages, purged)
    ids = tuple(item.id for item in _items(known.memory) if source.made(item.source, item.content))
    versions = {
        (str(item.get("id")), str(item.get("content")))
        for _, item in items_in(events)
        if source.made(str(item.get("source")), str(item.get("content")))
    }
    turn = turn_in(purged)
    tasks = [task for task in _new_tasks(events, turn) if source.made_task(task)]
    gone = redaction(
        events,
        ids=ids,
        versions=versions,
        texts=source.texts,
        tasks=tasks,
        turn=turn,
        message=purged["ctx"]["seq"],
    )
    own = frozenset({purged["ctx"]["seq"]})
    return _trace_of(known, ids, gone._replace(entries=own, tells=source.made_line), own)


def _new_tasks(events: Sequence[Record], turn: str) -> Iterator[str]:
    """Yield the active task that a turn set, if it changed it."""
    before = ""
    for event in events:
        task = event.get("active_task", before)
        if task and task != before and turn_in(event) == turn:
            yield task
        before = task


def _is_long(text: str) -> bool:
    return len(text.strip()) >= LONG
