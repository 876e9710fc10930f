"""Search swap, and bring content back from it."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.memory.decay import rehydrate
from ctxwrap.memory.items import MemoryItem, Origin
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.similarity import content_words
from ctxwrap.session.abi import record_issues
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.branch import digest
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.redaction import placeholder
from ctxwrap.session.session import Session
from ctxwrap.session.swap import INDEX, next_digest
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.log_format import message_in, message_range, next_number, numbered
from ctxwrap.types import Message, Operation, Record, Role

_ORIGINS: dict[Role, Origin] = {"system": "operator", "user": "user", "assistant": "assistant", "tool": "tool"}


class SwapEntry(NamedTuple):
    """One line of the swap index."""

    id: str
    kind: Literal["messages", "tool_output", "memory"]
    source: str
    """Its messages, such as `messages:1-40`."""
    summary: str
    tokens: int
    item: str = ""
    """The id, if it is a memory item."""
    origin: str = ""
    """The origin, if it is a memory item."""
    terms: tuple[str, ...] = ()
    digest: str = ""

    @property
    def words(self) -> set[str]:
        return content_words(self.summary) | set(self.terms)

    @property
    def range(self) -> tuple[int, int]:
        """The first and last number of its messages; an empty range if it has none."""
        return message_range(self.source)


class SwapHit(NamedTuple):
    entry: SwapEntry
    share: float
    """The share of the query's words that it contains, above 0 and up to 1."""


class ReturnedContent(NamedTuple):
    """A message or a memory item from swap."""

    source: str
    origin: Origin
    message: Message | None = None
    item: MemoryItem | None = None


def search(session: Session, query: str | None = None, limit: int = 10) -> tuple[SwapHit, ...]:
    """Return the entries that contain most of the query's words, newest first among equals; without a query the newest.

    The index has only the most informative words of a chunk. If no entry matches the whole query, the messages
    themselves are searched.
    """
    found = entries(session)[::-1]
    if query is None:
        return tuple(SwapHit(entry, 1.0) for entry in found[:limit])
    words = content_words(query)
    hits = _hits(found, words, lambda entry: entry.words)
    if words and all(hit.share < 1 for hit in hits):
        said = _words_in_messages(session, found)
        hits = _hits(found, words, lambda entry: entry.words | said.get(entry.id, set()))
    return tuple(hits[:limit])


def entries(session: Session) -> list[SwapEntry]:
    """Return the entries of swap, oldest first; one that was swapped repeatedly counts from the last time."""
    known: dict[str, SwapEntry] = {}
    for entry in _all_entries(session):
        known.pop(entry.id, None)
        if not entry.item or _is_swapped(entry.item, session.memory):
            known[entry.id] = entry
    return list(known.values())


def entry_of(session: Session, id: str) -> SwapEntry:
    """Return the newest entry of that id, or of the memory item of that id."""
    found = _all_entries(session)[::-1]
    named = [entry for entry in found if entry.id == id] or [entry for entry in found if entry.item == id != ""]
    entry = next(iter(named), None)
    if entry is None or entry.item in session.memory.forgotten:
        raise NotFound(
            f"nothing in swap of session {session.key.session!r} has the id {id!r}: `ctxwrap swap` lists the ids"
        )
    return entry


def messages_of(session: Session, entry: SwapEntry) -> tuple[ReturnedContent, ...]:
    """Return the messages of an entry; rebuild the index first if it does not match the log."""
    records = session.messages(*entry.range)
    if not _matches(entry, records):
        _rebuild(session)
        entry = entry_of(session, entry.id)
        records = session.messages(*entry.range)
    if not _matches(entry, records):
        raise NotFound(f"the log of session {session.key.session!r} no longer has {entry.source} as {entry.id}")
    return tuple(_all_returned(records, entry.range[0]))


def returned_item(item: MemoryItem) -> ReturnedContent:
    return ReturnedContent(item.source or f"rounds:{item.first}-{item.last}", item.origin, item=item)


def _is_swapped(id: str, memory: Memory) -> bool:
    return id not in memory.items and id not in memory.forgotten


def _hits(found: Sequence[SwapEntry], words: set[str], words_of: Callable[[SwapEntry], set[str]]) -> list[SwapHit]:
    hits = (SwapHit(entry, len(words & words_of(entry)) / len(words)) for entry in found if words)
    return sorted((hit for hit in hits if hit.share), key=lambda hit: -hit.share)


def _words_in_messages(session: Session, found: Sequence[SwapEntry]) -> dict[str, set[str]]:
    """Return the words of the messages of each entry."""
    words = {
        number: content_words(_message_in(record).text) for number, record in numbered(session.records("messages"))
    }
    ranges = {entry.id: entry.range for entry in found if entry.kind != "memory"}
    return {
        id: set[str]().union(*(words.get(number, ()) for number in range(first, min(last, max(words)) + 1)))
        for id, (first, last) in ranges.items()
    }


def _all_entries(session: Session) -> list[SwapEntry]:
    """Return all lines of the index; rebuild it first if it does not match the log."""
    read = _read(session)
    if read is None:
        _rebuild(session)
        read = _read(session)
    return read or []


def _rebuild(session: Session) -> None:
    with session.log.locked():
        session.refresh()
        session.rebuild()


def _read(session: Session) -> list[SwapEntry] | None:
    """Return the entries of the index, or None if it does not match the log."""
    data = session.log.files.load(INDEX) or b""
    text = data.decode("utf-8", "replace")
    if len(data) != session.state.derived.swap.index.size or record_issues("swap_index", text):
        return None
    try:
        return [_entry(json.loads(line)) for line in text.split("\n") if line.strip()]
    except (AttributeError, LookupError, TypeError, ValueError):
        return None


def _entry(line: Record) -> SwapEntry:
    item = str(line.get("item") or "")
    range = str(line.get("range") or "")
    return SwapEntry(
        id=line["id"],
        kind="memory" if item else "tool_output" if line["kind"] == "tool_output" else "messages",
        source=f"messages:{range}" if range else "",
        summary=line["summary"],
        tokens=line["tokens"],
        item=item,
        origin=str(line.get("origin") or ""),
        terms=tuple(map(str, line.get("terms") or ())),
        digest=str(line.get("digest") or ""),
    )


def _all_returned(records: Sequence[Record], first: int) -> Iterator[ReturnedContent]:
    number = first - 1
    for record in records:
        number, message = next_number(record, number), _message_in(record)
        yield ReturnedContent(f"messages:{number}-{number}", _ORIGINS.get(message.role, "tool"), message=message)


def _matches(entry: SwapEntry, records: Sequence[Record]) -> bool:
    if entry.kind == "tool_output":
        return any(blob.get("digest") == entry.digest for record in records for blob in blobs_in(record))
    return _digest_of(records, entry.range[0]) == entry.digest


def _message_in(record: Record) -> Message:
    try:
        message = message_in(record)
    except ValueError:
        return Message("tool")
    return placeholder(message) if "purged" in (record.get("ctx") or {}) else message


def _digest_of(records: Sequence[Record], first: int) -> str:
    """Compute the digest as swap does; `first` is the number of the chunk's first message."""
    whole = str(first)
    for record in records:
        control: Any = record.get("ctx") or {}
        with suppress(ValueError):  # not a message: the session skips it, too
            whole = next_digest(whole, str(control.get("digest") or digest(message_in(record))))
    return f"sha256:{whole}"


def search_swap(
    session: str,
    query: str | None = None,
    *,
    limit: int = 10,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
) -> tuple[SwapHit, ...]:
    """Return the entries that contain most of the query's words, best first; without a query the newest."""
    if query is not None and not content_words(query):
        raise SettingsError("the query contains no word to search for")
    return search(open_existing(key_for(session, tenant, agent), store), query, limit)


def bring_back(
    session: str, id: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default"
) -> tuple[ReturnedContent, ...]:
    """Return the messages of a swap entry, or a memory item, by the id of either.

    A memory item is moved out of swap and keeps its origin. Messages are only read.
    """
    key = key_for(session, tenant, agent)
    known = open_existing(key, store)
    if id in known.memory.items:
        return (returned_item(known.memory.items[id]),)
    entry = entry_of(known, id)
    if not entry.item:
        return messages_of(known, entry)
    with defer_finalizers(), known.locked():
        swapped = known.memory.named(entry.item) or open_existing(key, store, keeps_all=True).memory.named(entry.item)
        if swapped is None:
            raise NotFound(f"session {session!r} no longer has the memory item {entry.item!r}")
        if swapped.tier == "swap":
            _recall(known, swapped)
        return (returned_item(known.memory.named(entry.item) or swapped),)


def _recall(known: Session, item: MemoryItem) -> None:
    back = _rehydrated(item, known.memory)
    operation = Operation("update", item.id, back.tier, back.as_json(), "brought back on request")
    recall = {"type": "recall", "round": known.memory.round, "operations": [operation.as_json()], "ctx": {}}
    known.append(new_turn_id(), [], [recall], utc_now())


def _rehydrated(item: MemoryItem, memory: Memory) -> MemoryItem:
    """Return the item out of swap; without decay its weight stays."""
    if not memory.evolves:
        return item._replace(tier=item.faded_from or "ephemeral", faded_from="")
    return rehydrate(item, memory.round, memory.rules)
