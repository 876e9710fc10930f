"""Forgetting on request: memory items, messages and what children hold are erased, and a tombstone stays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.similarity import codes, key_of, marks, telling_words
from ctxwrap.session import blobs, index_files
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.blobs import loaded
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.document_versions import document_without
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.redaction import CHILD_EVENTS, LONG, EventRedaction, items_in, redaction, tombstone, with_contents
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.base import STREAMS, Log, RecordChange, Store
from ctxwrap.stores.log_format import message_in, message_range, number_in, timestamp, turn_in
from ctxwrap.types import Message, Operation, Record, SessionKey


def rewrite_events(
    session: Session, change: RecordChange, turn: str, new: Sequence[Record], now: datetime, banned: Sequence[str] = ()
) -> None:
    """Change the log's events, and add `new` ones that say so, in one step; inside the session's lock."""
    session.remove_derived()
    added = session.numbered("events", turn, "", new, timestamp(now))

    def rewrite() -> int:
        session.log.rewrite("events", change, added, banned)
        return session.next_message

    index_files.outlived(session.log, rewrite)
    _made_anew(session)


def rewrite_messages(session: Session, change: RecordChange, banned: Sequence[str] = ()) -> None:
    """Change the log's messages, and let the contents go that no record has any more; inside the session's lock."""
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
    _made_anew(session)


def finish_rewriting(session: Session) -> None:
    """Let go of the contents that an interrupted rewriting left behind; inside the session's lock."""
    if _unused(session.log):
        session.remove_derived()
        _made_anew(session)


def _made_anew(session: Session) -> None:
    for name in _unused(session.log):
        session.log.files.remove(name)
    session.refresh()
    session.rebuild()


def _unused(log: Log) -> list[str]:
    """The contents that no record refers to."""
    used = _used(log)
    return [entry.name for entry in log.files.entries("raw") if entry.name.removeprefix("raw/") not in used]


def _used(log: Log) -> set[str]:
    """The names of the contents that records refer to."""
    records = (record for stream in STREAMS for record in log.read(stream)[0])
    return {blob["id"] for record in records for blob in blobs.blobs_in(record) if is_legal_name(blob["id"])}


CHILD = "child/"
"""With it begins the name of a child among those of what was forgotten."""


def forget(
    session: str,
    *,
    item: str | None = None,
    query: str | None = None,
    reason: str = "on request",
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[str, ...]:
    """Forget the memory item of that id, or every one whose content holds all words of a query.

    What they said is removed from the session's events and everything made of them, what children were handed and gave
    back included; the messages in which somebody said it stay, unless they are purged. The ids of the items come back,
    and `child/<name>` for every child that lost something.
    """
    with _opened(store, tenant, agent, session) as known:
        found = _found(known, item, query)
        if found:
            _rewrite_events(known, found, [], reason, utc_now(), found.sources)
    return found.names


def matching(store: Store, key: SessionKey, *, item: str | None = None, query: str | None = None) -> tuple[str, ...]:
    """Return what `forget` would delete."""
    return _found(open_existing(key, store, keeps_all=True), item, query).names


def purge(
    session: str,
    *,
    message: int | str | None = None,
    child: str | None = None,
    reason: str = "on request",
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[str, ...]:
    """Remove what a message said, by its number or id, or all that a child was handed and gave back.

    With a message goes what memory made of it, and what children hold of it. The ids of these memory items come back,
    and `child/<name>` for every child that lost something. A purge that was interrupted can simply be asked for again.
    """
    if (message is None) == (child is None):
        raise SettingsError("name either a message or a child")
    with _opened(store, tenant, agent, session) as known:
        return _purge_child(known, child, reason) if message is None else _purge_message(known, message, reason)


def _purge_message(known: Session, message: int | str, reason: str) -> tuple[str, ...]:
    messages, now = known.records("messages"), utc_now()
    purged = _one(messages, message, known.key.session)
    if "purged" in purged["ctx"]:
        return ()
    trace = _trace(known, messages, purged)
    event = {"type": "purge", "message": purged["ctx"]["seq"], "id": purged["ctx"]["id"], "reason": reason}
    _rewrite_events(known, trace, [{**event, "ctx": {}}], reason, now, trace.sources)
    ids = {purged["ctx"]["id"], *_others_of_answer(messages, purged)}
    rewrite_messages(known, partial(_buried, ids=ids, time=timestamp(now)), trace.redaction.texts)
    return trace.names


def _purge_child(known: Session, child: str | None, reason: str) -> tuple[str, ...]:
    told = [event for event in known.records("events") if event.get("type") in CHILD_EVENTS]
    told = [event for event in told if event.get("child") == child]
    if not told:
        raise NotFound(f"session {known.key.session!r} has no child {child!r}")
    texts = (text for event in told for text in _strings_in([event.get("handoff"), event.get("result")]))
    gone = replace(redaction((), ids=(), texts=filter(_is_long, texts)), children=frozenset({str(child)}), summaries=0)
    trace = _trace_of(known, (), gone)
    if trace:
        control = {"messages": known.state.sequence["messages"]}
        event: Record = {"type": "purge", "child": child, "reason": reason, "ctx": control}
        _rewrite_events(known, trace, [event], reason, utc_now(), frozenset())
    return trace.names


@contextmanager
def _opened(store: StoreLike, tenant: str, agent: str, session: str) -> Iterator[Session]:
    known = open_existing(key_for(session, tenant, agent), store, keeps_all=True)
    with defer_finalizers(), known.locked():
        finish_rewriting(known)
        yield known


class _Trace(NamedTuple):
    """What is to be gone, and where it is found."""

    ids: tuple[str, ...]
    """Memory items."""
    children: tuple[str, ...]
    redaction: EventRedaction
    sources: frozenset[int] = frozenset()
    """The messages of which no document is made any more."""

    def __bool__(self) -> bool:
        return bool(self.ids or self.children)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.ids, *(f"{CHILD}{name}" for name in self.children))


def _found(known: Session, item: str | None, query: str | None) -> _Trace:
    """What is to be forgotten: items, and the lines that children hold of them or that hold all words of the query."""
    ids, events = _chosen(known.memory, item, query), known.records("events")
    said = [each for _, each in items_in(events) if each.get("id") in ids]
    others = (each.content for each in _items(known.memory) if each.id not in ids)
    named = _all_codes(str(each.get("content")) for each in said) - _all_codes(others)
    asked = set(key_of(query or "").split())
    tells = partial(_tells_of, [_words_in(each) for each in said], named, asked)
    gone = replace(redaction(events, ids=ids), tells=tells)
    sources = frozenset(number for each in said for number in _numbers(str(each.get("source"))))
    return _trace_of(known, ids, gone if ids else replace(gone, summaries=0), sources)


def _trace_of(
    known: Session, ids: Sequence[str], gone: EventRedaction, sources: frozenset[int] = frozenset()
) -> _Trace:
    told = [event for event in known.records("events") if event.get("type") in CHILD_EVENTS]
    whole = with_contents(gone, told, partial(loaded, files=known.log.files))
    children = dict.fromkeys(str(event.get("child")) for event in told if whole.event(event) != event)
    return _Trace(tuple(ids), tuple(children), gone, sources)


def _all_codes(texts: Iterable[str]) -> set[str]:
    return {code for text in texts for code in codes(text)}


def _chosen(memory: Memory, item: str | None, query: str | None) -> tuple[str, ...]:
    if item is not None and query is None:
        if memory.named(item) is None:
            raise NotFound(f"there is no memory item {item!r} in this session")
        return (item,)
    if query is None or item is not None:
        raise SettingsError("name either an item or a query")
    words = set(key_of(query).split())
    if not words:
        raise SettingsError("a query needs a word to look for")
    return tuple(each.id for each in _items(memory) if words <= set(key_of(each.content).split()))


def _items(memory: Memory) -> list[MemoryItem]:
    return [*memory.items.values(), *memory.swap.values()]


def _tells_of(contents: Sequence[set[str]], named: Set[str], asked: Set[str], line: str) -> bool:
    """Whether a line has most of the words, or a code, of what is to be forgotten, or all that were asked for."""
    words = telling_words(line)
    if (asked and asked <= set(key_of(line).split())) or named & codes(line):
        return True
    return any(len(words & content) > _MOSTLY * len(content) for content in contents)


_MOSTLY = 0.6


def _words_in(item: Mapping[str, Any]) -> set[str]:
    return telling_words(str(item.get("content")))


def _numbers(source: str) -> range:
    first, last = message_range(source)
    return range(first, last + 1)


def _rewrite_events(
    known: Session,
    trace: _Trace,
    events: Sequence[Record],
    reason: str,
    now: datetime,
    without: frozenset[int],
) -> None:
    """Redact the events and add those that say so: all of it in one step.

    A context document that goes is made anew from what is left, `without` these messages.
    """
    gone, ids = trace.redaction, trace.ids
    places = {item.id: item.tier for item in _items(known.memory)}
    operations = [Operation("forget", id, places[id], reason=reason).as_json() for id in ids]
    said = {"operations": operations, "round": known.memory.round, "reason": reason}
    forgetting = {"type": "forget", **said, "ctx": {"messages": known.state.sequence["messages"]}}
    asked = [*([forgetting] if ids or not events else []), *events]
    told = known.records("events")
    new = [*known.with_stages(*asked), *document_without(known, gone, told, without)]
    gone = with_contents(gone, told, partial(loaded, files=known.log.files))
    rewrite_events(known, gone.event, new_turn_id(), new, now, gone.texts)


def _one(messages: Sequence[Record], wanted: int | str, session: str) -> Record:
    found = [record for record in messages if wanted in _names(record)]
    if len(found) > 1:
        raise NotFound(f"session {session!r} has {len(found)} messages {wanted!r}: name one by its id")
    if not found:
        raise NotFound(f"there is no message {wanted!r} in session {session!r}")
    return found[0]


def _names(record: Record) -> tuple[Any, ...]:
    control = record.get("ctx") or {}
    return (control.get("seq"), control.get("id"))


def _others_of_answer(messages: Sequence[Record], purged: Record) -> Iterator[str]:
    """The ids of what else the log has of the same answer: of what took its place, and what it took the place of."""
    id, instead = purged["ctx"]["id"], purged["ctx"].get("supersedes")
    for control in (record.get("ctx") or {} for record in messages):
        if "id" in control and (control.get("supersedes") == id or control["id"] == instead):
            yield control["id"]


def _buried(record: Record, *, ids: Set[str], time: str) -> Record:
    return tombstone(record, time) if (record.get("ctx") or {}).get("id") in ids else record


def _trace(known: Session, messages: Sequence[Record], purged: Record) -> _Trace:
    events, source = known.records("events"), _Source(messages, purged)
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
    return _trace_of(known, ids, replace(gone, entries=own, tells=source.made_line), own)


class _Source:
    """A message among others, and whether something was made of it."""

    def __init__(self, messages: Sequence[Record], purged: Record) -> None:
        self._seq: int = purged["ctx"]["seq"]
        self._turn = turn_in(purged)
        self._words = {
            record["ctx"]["seq"]: (turn_in(record), telling_words("\n".join(_texts(record))))
            for record in messages
            if (record.get("ctx") or {}).get("seq")
        }
        self.texts = _texts(purged)
        self._marks = _marks_of(purged)
        for record in messages:
            if (record.get("ctx") or {}).get("seq") != self._seq:
                self._marks -= _marks_of(record)

    def made(self, source: str, content: str) -> bool:
        """Whether what memory says, and says to be from `source`, came from the message."""
        first, last = message_range(source)
        others = [words for seq, (_, words) in self._words.items() if first <= seq <= last and seq != self._seq]
        return first <= self._seq <= last and self._came_from(content, others)

    def made_task(self, task: str) -> bool:
        others = [words for seq, (turn, words) in self._words.items() if turn == self._turn and seq != self._seq]
        return self._came_from(task, others)

    def made_line(self, line: str) -> bool:
        """Whether a line, which may be of anything, has something or much of what only this message says."""
        if self._marks & marks(line):
            return True
        wanted = telling_words(line)
        own = wanted & self._words[self._seq][1]
        others = (words for seq, (_, words) in self._words.items() if seq != self._seq)
        return len(own) >= 2 and 2 * len(own) >= len(wanted) and not any(own <= words for words in others)

    def _came_from(self, content: str, others: Sequence[set[str]]) -> bool:
        """In doubt it did: unless another message says all of it that this one says, and more."""
        wanted = telling_words(content)
        own = wanted & self._words[self._seq][1]
        return not any(own < wanted & words for words in others)


def _new_tasks(events: Sequence[Record], turn: str) -> Iterator[str]:
    """The active task that a turn set, if it was another one before."""
    before = ""
    for event in events:
        task = event.get("active_task", before)
        if task and task != before and turn_in(event) == turn:
            yield task
        before = task


def _texts(record: Record) -> list[str]:
    """Everything that a message says: its text, the strings in its parts, and what it hands to tools."""
    versions = (record, record["said"]) if isinstance(record.get("said"), dict) else (record,)
    try:
        return [text for each in versions for text in _strings_of(message_in(each)) if text.strip()]
    except ValueError:
        return []


def _marks_of(record: Record) -> set[str]:
    return {mark for text in _texts(record) for mark in marks(text)}


def _is_long(text: str) -> bool:
    return len(text.strip()) >= LONG


def _strings_of(message: Message) -> Iterator[str]:
    if isinstance(message.content, str):
        yield message.content
    else:
        for part in message.content:
            yield from _strings_in({name: value for name, value in part.items() if name != "type"})
    for call in message.tool_calls:
        yield str(call["arguments"])
    yield from _strings_in(message.extra)


def _strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings_in(each)
