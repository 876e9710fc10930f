"""Deletion of what a user or a team told: in the owner's log, in every session of the owner, and for good."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ctxwrap.errors import NotFound
from ctxwrap.memory.similarity import content_words, fact_digests
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, open_existing
from ctxwrap.session.owner import members_of
from ctxwrap.session.provenance import repeated_in, texts_of
from ctxwrap.session.purge import (
    IN_SESSION,
    Erasure,
    found_in,
    locked_session,
    rewrite_erased,
    rewrite_events,
    rewrite_messages,
)
from ctxwrap.session.redaction import redaction, tombstone
from ctxwrap.session.session import Session
from ctxwrap.session.state import EVERYTHING
from ctxwrap.stores import resolve_store
from ctxwrap.stores.log_format import message_range, number_in, timestamp, turn_in
from ctxwrap.types import Record, SessionKey

_SOURCE = "session:"
_MESSAGES = "/messages:"


def forget_everywhere(
    key: SessionKey, store: StoreLike, *, item: str | None, query: str | None, reason: str
) -> tuple[str, ...]:
    """Forget items of an owner's memory, and all that its sessions have of them: items, texts and messages.

    The owner's log keeps digests of the facts, so that no model brings them back; the user can state them anew. Returns
    the ids of the items, and `session/<name>` for every session that changed. An interrupted deletion can be repeated.
    """
    place = resolve_store(store)
    with locked_session(key, place) as owner:
        found = found_in(owner, item, query)
        members = list(owner.state.members)
        if found:
            rewrite_erased(owner, found, [], reason, utc_now(), frozenset())
        facts = owner.state.forgotten_facts
    changed = []
    for agent, session in members:
        member = SessionKey(key.tenant, agent, session)
        if _forget_in(member, place, found, facts, query, reason):
            changed.append(f"{IN_SESSION}{session}")
    return (*found.ids, *changed)


def _forget_in(
    key: SessionKey, store: StoreLike, found: Erasure, facts: set[str], query: str | None, reason: str
) -> bool:
    """Forget in one session what was found in the owner's log; return whether it had anything of it."""
    try:
        with locked_session(key, store) as session:
            erasure, numbers = _trace_in(session, key, found, facts, query)
            if not erasure:
                return False
            now = utc_now()
            purged = [{"type": "purge", "message": number, "reason": reason, "ctx": {}} for number in sorted(numbers)]
            rewrite_erased(session, erasure, purged, reason, now, frozenset(numbers))
            if numbers:
                bury = partial(_buried, numbers=numbers, time=timestamp(now))
                rewrite_messages(session, bury, erasure.redaction.texts)
            return True
    except NotFound:
        return False


def _buried(record: Record, *, numbers: set[int], time: str) -> Record:
    is_meant = number_in(record) in numbers and "purged" not in (record.get("ctx") or {})
    return tombstone(record, time) if is_meant else record


def _trace_in(
    session: Session, key: SessionKey, found: Erasure, facts: set[str], query: str | None
) -> tuple[Erasure, set[int]]:
    """What one session has of the found items: its own items, and the numbers of its messages."""
    events, messages = session.records("events"), session.records("messages")
    repeats = repeated_in(found.contents, session.memory, query)
    known = [*session.memory.items.values(), *session.memory.swap.values()]
    own = [each.id for each in known if not facts.isdisjoint(fact_digests(each.content)) or repeats(each.content)]
    ids = (*own, *(id for id in found.ids if id not in own))
    numbers = set(_telling(messages, found, key, repeats))
    turns = {turn_in(record) for record in messages if number_in(record) in numbers}
    texts = (text for record in messages if number_in(record) in numbers for text in texts_of(record))
    gone = redaction(events, ids=ids, texts=(*found.contents, *texts))
    gone = gone._replace(
        tells=repeats,
        trailers=gone.trailers | turns,
        choices=gone.choices | turns,
        entries=frozenset(numbers),
        summaries=1,
    )
    if not own and not numbers and not any(_tells(event, found) for event in events):
        return found._replace(ids=(), children=()), set()
    return found._replace(ids=ids, children=(), redaction=gone), numbers


def _tells(event: Record, found: Erasure) -> bool:
    """Whether an event has an item that is to be forgotten, or its text."""
    text = json.dumps(event, ensure_ascii=False, default=str)
    return any(each in text for each in (*found.ids, *found.contents))


def _telling(
    messages: Sequence[Record], found: Erasure, key: SessionKey, repeats: Callable[[str], bool]
) -> Iterator[int]:
    """The numbers of the messages that tell the fact, or from which it was learned."""
    spans = list(_spans(found, key))
    words = {word for content in found.contents for word in content_words(content)}
    near = [record for record in messages if any(first <= (number_in(record) or 0) <= last for first, last in spans)]
    sources = [record for record in near if any(words & content_words(text) for text in texts_of(record))] or near
    meant = {number_in(record) for record in sources}
    for record in messages:
        lines = (line for text in texts_of(record) for line in text.split("\n"))
        if record.get("role") != "system" and (number_in(record) in meant or any(map(repeats, lines))):
            yield number_in(record) or 0


def _spans(found: Erasure, key: SessionKey) -> Iterator[tuple[int, int]]:
    """The ranges of this session's messages that items were learned from."""
    for source in found.learned:
        session, mark, span = source.removeprefix(_SOURCE).rpartition(_MESSAGES)
        if mark and session == key.session:
            yield message_range(span)


def erase_owner(key: SessionKey, store: StoreLike = None) -> tuple[SessionKey, ...]:
    """Delete every text of an owner: all sessions that belong to it, then its own log. Names and numbers remain.

    Returns the keys of the sessions. An interrupted deletion can be repeated.
    """
    place = resolve_store(store)
    sessions = members_of(place, key)
    for session in sessions:
        _erase(session, place)
    _erase(key, place)
    return sessions


def _erase(key: SessionKey, store: StoreLike) -> None:
    try:
        opened = open_existing(key, store, keeps_all=True)
    except NotFound:
        return
    with opened.locked():
        now = timestamp(utc_now())
        for name in _inputs(opened):
            opened.log.files.remove(name)
        rewrite_events(opened, partial(_emptied, time=now), new_turn_id(), [], utc_now(), _ANY)
        rewrite_messages(opened, partial(_blank, time=now), _ANY)


_ANY = ("",)
"""Every line contains it: lines that are no records go as well."""


def _inputs(session: Session) -> Iterable[str]:
    return [entry.name for entry in session.log.files.entries("context")]


def _emptied(event: Record, *, time: str) -> Record:
    """An event of which only its number remains."""
    control = event.get("ctx") or {}
    kept = {name: control[name] for name in ("v", "seq", "id") if name in control}
    return {"type": "purge", "reason": EVERYTHING, "ctx": {**kept, "time": time, "purged": time}}


def _blank(record: Record, *, time: str) -> Record:
    control = record.get("ctx") or {}
    kept = {name: control[name] for name in ("v", "seq", "id") if name in control}
    role = record.get("role") if record.get("role") in ("system", "user", "assistant") else "user"
    return {"role": role, "content": "", "ctx": {**kept, "purged": time}}
