"""Forgetting on request: memory items and messages go for good, and a tombstone says that they were there."""

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from ctxwrap.calls import new_turn_id, utc_now
from ctxwrap.documenting import document_without
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.items import Item
from ctxwrap.memory.likeness import key_of, telling_words
from ctxwrap.memory.memory import Memory
from ctxwrap.records import message_in, message_range, timestamp, turn_in
from ctxwrap.session import Session
from ctxwrap.session.blobs import loaded
from ctxwrap.session.finding import Place, existing, key_for
from ctxwrap.session.redaction import Redaction, items_in, redaction, tombstone, with_contents
from ctxwrap.session.rewriting import rewrite_events, rewrite_messages
from ctxwrap.threads import undisturbed
from ctxwrap.types import Message, Operation, Record


def forget(
    session: str,
    *,
    item: str | None = None,
    query: str | None = None,
    reason: str = "on request",
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[str, ...]:
    """Forget the memory item of that id, or every one whose content holds all words of a query; their ids.

    What they said is removed from the session's events and everything made of them; the messages in which somebody
    said it stay, unless they are purged.
    """
    with _opened(store, tenant, agent, session) as known:
        ids = _chosen(known.memory, item, query)
        if ids:
            events = known.records("events")
            said = [each for _, each in items_in(events) if each.get("id") in ids]
            gone = replace(redaction(events, ids=ids), tells=partial(_tells_of, [_words_in(each) for each in said]))
            sources = frozenset(number for each in said for number in _numbers(str(each.get("source"))))
            _rewrite_events(known, gone, ids, [], reason, utc_now(), sources)
    return ids


def matching(
    session: str,
    *,
    item: str | None = None,
    query: str | None = None,
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[str, ...]:
    """The ids of what `forget` would forget."""
    return _chosen(existing(key_for(session, tenant, agent), store, keeps_all=True).memory, item, query)


def purge(
    session: str,
    *,
    message: int | str,
    reason: str = "on request",
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[str, ...]:
    """Remove what a message said, by its number or id, and what memory made of it; the ids that were forgotten.

    What the message said is looked for until nothing else is left to do, so that a purge that was interrupted can
    simply be asked for again.
    """
    with _opened(store, tenant, agent, session) as known:
        messages, now = known.records("messages"), utc_now()
        purged = _one(messages, message, session)
        if "purged" in purged["ctx"]:
            return ()
        trace = _trace(known, messages, purged)
        event = {"type": "purge", "message": purged["ctx"]["seq"], "id": purged["ctx"]["id"], "reason": reason}
        without = frozenset({purged["ctx"]["seq"]})
        _rewrite_events(known, trace.redaction, trace.ids, [{**event, "ctx": {}}], reason, now, without)
        ids = {purged["ctx"]["id"], *_others_of_answer(messages, purged)}
        rewrite_messages(known, partial(_buried, ids=ids, time=timestamp(now)), trace.redaction.texts)
    return trace.ids


@contextmanager
def _opened(store: Place, tenant: str, agent: str, session: str) -> Iterator[Session]:
    known = existing(key_for(session, tenant, agent), store, keeps_all=True)
    with undisturbed(), known.locked():
        yield known


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


def _items(memory: Memory) -> list[Item]:
    return [*memory.items.values(), *memory.swap.values()]


def _tells_of(contents: Sequence[set[str]], line: str) -> bool:
    """Whether a line has most of the words of one of the things that are to be forgotten."""
    words = telling_words(line)
    return any(len(words & content) > _MOSTLY * len(content) for content in contents)


_MOSTLY = 0.6


def _words_in(item: Mapping[str, Any]) -> set[str]:
    return telling_words(str(item.get("content")))


def _numbers(source: str) -> range:
    first, last = message_range(source)
    return range(first, last + 1)


def _rewrite_events(
    known: Session,
    gone: Redaction,
    ids: Sequence[str],
    events: Sequence[Record],
    reason: str,
    now: datetime,
    without: frozenset[int],
) -> None:
    """Redact the events and add those that say so: all of it in one step.

    A context document that goes is made anew from what is left, `without` these messages.
    """
    places = {item.id: item.tier for item in _items(known.memory)}
    operations = [Operation("forget", id, places[id], reason=reason).as_json() for id in ids]
    said = {"operations": operations, "round": known.memory.round, "reason": reason}
    forgetting = {"type": "forget", **said, "ctx": {"messages": known.past.sequence["messages"]}}
    asked = [*([forgetting] if ids else []), *events]
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


class _Trace(NamedTuple):
    """What a message left behind."""

    ids: tuple[str, ...]
    """The memory items that say something of it."""
    redaction: Redaction


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
    return _Trace(ids, replace(gone, entries=frozenset({purged["ctx"]["seq"]}), tells=source.made_line))


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

    def made(self, source: str, content: str) -> bool:
        """Whether what memory says, and says to be from `source`, came from the message."""
        first, last = message_range(source)
        others = [words for seq, (_, words) in self._words.items() if first <= seq <= last and seq != self._seq]
        return first <= self._seq <= last and self._came_from(content, others)

    def made_task(self, task: str) -> bool:
        others = [words for seq, (turn, words) in self._words.items() if turn == self._turn and seq != self._seq]
        return self._came_from(task, others)

    def made_line(self, line: str) -> bool:
        """Whether a line, which may be of anything, has much of what only this message says."""
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
