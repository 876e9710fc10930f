"""The operations of the memory service on the memories of one tenant."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

from ctxwrap.documents.document import LONGEST, trimmed
from ctxwrap.documents.sections import MAX_NODES, node_counts
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.documents.trimming import describe_removed
from ctxwrap.errors import Conflict, ContextConflict, InvalidInput, NotFound
from ctxwrap.memory.items import Origin, least_trusted
from ctxwrap.service import arguments
from ctxwrap.service.entries import (
    NewEntry,
    cursor_for,
    is_entry,
    metadata_event,
    ordered_time,
    page_after,
    page_before,
    reject_summaries,
    search_entries,
)
from ctxwrap.service.models import (
    Consistent,
    ContextDocument,
    Entries,
    Entry,
    Findings,
    MemoryInfo,
    Prompts,
    Stored,
    User,
    Vault,
    entries_of,
    info_of,
    newest_version,
    version_of,
)
from ctxwrap.service.prompts import TextWriter, prompts_for
from ctxwrap.service.sessions import VAULT_RECORD, MemorySessions, WriteFailures, run_with_timeout
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.document_versions import news_of, next_version
from ctxwrap.session.session import Session
from ctxwrap.settings import Quotas, Settings, SummaryWriter, settings_from
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.types import Record, SessionKey

T = TypeVar("T")

_LONGEST_CONTENT = 65_536
"""Longest context accepted, in characters; it is trimmed to fit."""

_LONGEST_QUERY = 20_000
_PROFILE_FIELDS = ("name", "email")

_ORIGINS: dict[str, Origin] = {"operator": "operator", "agent": "tool", "model": "tool"}
"""Who may write a context, and the origin that decides how far it is trusted."""


class Memories:
    """The memories of one tenant. Methods block while they read or write, and may be called from any thread.

    `vault` is the default vault. A memory is looked up in the vault that a call names, else in the default one, else in
    the only one that has it. With `for_user`, new memories belong to that user of the tenant, and memories of other
    users do not exist; memories that belong to nobody are everybody's.
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        *,
        tenant: str = "default",
        vault: str = "default",
        settings: Settings | None = None,
        user: Mapping[str, Any] | None = None,
        quotas: Quotas | None = None,
        writer: SummaryWriter | None = None,
        clock: Callable[[], datetime] = utc_now,
        for_user: str | None = None,
    ) -> None:
        self._settings = settings_from(settings)
        self._sessions = MemorySessions(resolve_store(store), tenant, vault, self._settings, for_user)
        self._user = dict(user or {})
        self._quotas = quotas or self._settings.quotas or Quotas()
        self._clock = clock
        self._failures = WriteFailures()
        self._writer = TextWriter(writer, self._settings.prompts_dir, self._settings.redaction)

    def create_memory(
        self,
        title: str,
        memory_type: str = "chat",
        description: str = "",
        vault: str | None = None,
        memory_id: str | None = None,
    ) -> MemoryInfo:
        """Create a memory, or give a title to an existing session without one."""
        event = metadata_event(
            arguments.title(title),
            self.prompts(memory_type).memoryType,  # a memory needs the prompts of its type
            arguments.description(description),
            TurnRedactor(self._settings.redaction),
        )
        key = self._sessions.key(secrets.token_hex(16) if memory_id is None else check_id("memory", memory_id), vault)
        if key.session == VAULT_RECORD or self._has_title(key):
            raise Conflict(f"there is already a memory {key.session!r}")
        if not self._sessions.exists(key):
            self._quotas.check_memory(self._sessions.count())
        event["ctx"] = self._sessions.claim(key)
        with self._failures.record(key, "create_memory"), self._sessions.open(key) as session:
            if session.state.derived.collected.title:
                raise Conflict(f"there is already a memory {key.session!r}")
            self._append(session, [], [event])
            return info_of(session)

    def _has_title(self, key: SessionKey) -> bool:
        if not self._sessions.exists(key):
            return False
        with self._sessions.open(key) as session:
            return bool(session.state.derived.collected.title)

    def get_memory(self, memory_id: str, vault: str | None = None) -> MemoryInfo:
        with self._sessions.open_memory(memory_id, vault) as session:
            return info_of(session)

    def list_memories(self, vault: str | None = None) -> tuple[MemoryInfo, ...]:
        """List the memories of a vault, ordered by id."""
        agent = self._sessions.vault if vault is None else check_id("vault", vault)
        found = []
        for memory_id in self._sessions.memories(agent):
            with suppress(NotFound):  # it belongs to another user
                found.append(self.get_memory(memory_id, agent))
        return tuple(found)

    def list_vaults(self) -> tuple[Vault, ...]:
        """List the default vault first, then all others that are not empty."""
        return tuple(map(self._vault, self._sessions.vaults()))

    def create_vault(self, title: str, description: str = "") -> Vault:
        """Create a vault; its title is also its id. A vault also exists as soon as it has a memory."""
        key = self._sessions.key(VAULT_RECORD, arguments.vault_title(title))
        event = metadata_event(
            key.agent, "vault", arguments.description(description), TurnRedactor(self._settings.redaction)
        )
        if self._has_title(key):
            raise Conflict(f"there is already a vault {key.agent!r}")
        with self._failures.record(key, "create_vault"), self._sessions.open(key) as session:
            self._append(session, [], [event])
        return self._vault(key.agent)

    def _vault(self, name: str) -> Vault:
        key, description = self._sessions.key(VAULT_RECORD, name), ""
        if self._sessions.exists(key):
            with self._sessions.open(key) as session:
                description = session.state.derived.collected.description
        return Vault(vaultId=name, title=name, description=description, memories=len(self._sessions.memories(name)))

    def add_entry(
        self,
        memory_id: str,
        raw_entry: str,
        summary: str | None = None,
        tags: Mapping[str, Any] | None = None,
        role: str = "user",
        request_id: str | None = None,
        *,
        vault: str | None = None,
    ) -> Stored:
        """Store one message, word for word, with its summary: the given one, shortened to fit, else one by rules.

        The role is `role`, else the tag `role`. The same `request_id` stores an entry once, and raises Conflict if the
        content differs; the newest 512 ids of a memory are remembered.
        """
        entry = NewEntry.from_arguments(raw_entry, summary, tags, role, request_id)
        written = self._write_summary(entry, memory_id, vault)
        with self._writing(memory_id, vault, "add_entry") as session:
            number = entry.find_stored(session) if entry.request else None
            if number is None:
                known = session.state.derived.collected
                self._quotas.check_entries(known.entries, known.characters, [len(entry.raw)])
                now, number = ordered_time(session, self._clock()), session.next_message
                self._append(session, *entry.records(session, now, written), now)
            return Stored(id=str(number))

    def _write_summary(self, entry: NewEntry, memory_id: str, vault: str | None) -> str:
        """Return a summary written by a model, without holding a lock; empty if there is no writer or no need."""
        if entry.summary or not self._writer.is_available:
            return ""
        with self._sessions.open_memory(memory_id, vault) as session:
            past = session.state
            if entry.request and entry.find_stored(session) is not None:
                return ""
            kind, raw = _kind(session), RawMessage(session.next_message, entry.role, entry.raw)
            document = past.documents.text
        return self._writer.summary(kind, raw, document)

    def list_entries(
        self,
        memory_id: str,
        limit: int | str = 25,
        before: str | None = None,
        after: str | None = None,
        *,
        vault: str | None = None,
    ) -> Entries:
        """Return a page of entries, newest first: the newest, those before a cursor, or the first after one."""
        most = arguments.count("limit", limit, 50)
        if before and after:
            raise InvalidInput("pass before or after, not both")
        with self._sessions.open_memory(memory_id, vault) as session:
            page = page_after(session, after, most) if after else page_before(session, before or None, most)
            entries = entries_of(session, page.records)
        return Entries(
            entries=tuple(entries),
            count=len(entries),
            applied_limit=most,
            next_before=cursor_for(page.records[-1][0]) if page.has_older and page.records else "",
            next_after=cursor_for(page.next_after),
        )

    def get_entry(self, memory_id: str, entry_id: str, *, vault: str | None = None) -> Entry:
        """Return one entry, which may be on an abandoned branch but not purged."""
        number = int(entry_id) if isinstance(entry_id, str) and entry_id.isdecimal() and len(entry_id) < 16 else 0
        with self._sessions.open_memory(memory_id, vault) as session:
            record = session.log.pick("messages", [number]).get(number) if number else None
            if record is None or not is_entry(record):
                raise NotFound(f"there is no entry {str(entry_id)[:60]!r} in memory {memory_id!r}")
            return entries_of(session, [(number, session.whole(record))])[0]

    def get_context(self, memory_id: str, version: int | None = None, *, vault: str | None = None) -> ContextDocument:
        """Return the newest version of the context document or the placeholder, or the version with that number."""
        with self._sessions.open_memory(memory_id, vault) as session:
            return (
                newest_version(session.state.documents)
                if version is None
                else version_of(session, arguments.version(version))
            )

    def put_context(
        self,
        memory_id: str,
        content: str,
        expected_version: int | None = None,
        *,
        by: str = "agent",
        vault: str | None = None,
    ) -> Stored:
        """Write the next version of the context document.

        Earlier entries are made durable first, as by `await_consistency`, which still reports failed writes. With
        `expected_version`, raises ContextConflict if another version was written meanwhile. A text that is too long is
        trimmed, and the result's note says what was removed. Raises InvalidInput for a Mermaid diagram of more than ten
        nodes, and for a text that repeats the summary of an entry.
        """
        if by not in _ORIGINS:
            raise InvalidInput(f"by must be one of {', '.join(_ORIGINS)}, not {by!r}")
        given = TurnRedactor(self._settings.redaction).text(arguments.text("content", content, _LONGEST_CONTENT))
        _check_diagrams(given)
        text = trimmed(given) if len(given) > LONGEST else given
        expected = None if expected_version is None else arguments.version(expected_version)
        covers = self._read_durable(memory_id, vault, "put_context", lambda session: session.state.sequence["messages"])
        with self._writing(memory_id, vault, "put_context") as session:
            documents = session.state.documents
            _check_version(documents.number, expected)
            reject_summaries(session, text, documents.text)
            event = documents.next(text, by, covers, _ORIGINS[by])
            self._append(session, [], [event])
        return Stored(id=memory_id, version=event["version"], note=_trimming_note(given, text))

    def grow_context(self, memory_id: str, *, vault: str | None = None) -> Stored:
        """Add the entries since the newest version to the context document: by the writer, else by rules.

        Only raw entries are used, and these are made durable first. Raises ContextConflict if another version was
        written meanwhile.
        """
        kind, edition, news = self._read_durable(
            memory_id, vault, "grow_context", lambda session: (_kind(session), session.log.edition(), news_of(session))
        )
        given = self._writer.context(kind, news.document, news.raws, news.items) if news.raws else ""
        given = given if max(node_counts(given), default=0) <= MAX_NODES else ""
        written = trimmed(given)
        with self._writing(memory_id, vault, "grow_context") as session:
            documents = session.state.documents
            _check_version(documents.number, news.version)
            if written and edition == session.log.edition():  # else something was forgotten that it may repeat
                reject_summaries(session, written, documents.text)
                event = documents.next(written, "model", news.covers, least_trusted(news.origin, _ORIGINS["model"]))
            else:
                event = next_version(session)
                if event["covers"] > news.covers:
                    session.log.settled()()
            self._append(session, [], [event])
            return Stored(id=memory_id, version=session.state.documents.number, note=_trimming_note(given, written))

    def await_consistency(self, memory_id: str, timeout: float = 10.0, *, vault: str | None = None) -> Consistent:
        """Wait until every write to a memory so far is durable, whichever process made it.

        Raises WritesLost, once, if a write of this process failed since the last call, and StoreUnavailable if the wait
        exceeds `timeout`.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 600:
            raise InvalidInput(f"timeout must be a number of seconds above 0 and up to 600, not {timeout!r}")
        key = self._sessions.key_of(memory_id, vault)
        consistent = run_with_timeout(
            float(timeout), lambda: self._wait_until_durable(key), f"making memory {memory_id!r} durable"
        )
        self._failures.raise_new(key)
        return consistent

    def _wait_until_durable(self, key: SessionKey) -> Consistent:
        with self._sessions.open_memory(key.session, key.agent) as session:
            wait, past = session.log.settled(), session.state
            consistent = Consistent(entries=past.derived.collected.entries, contextVersion=past.documents.number)
        wait()
        return consistent

    def search_memories(
        self, memory_id: str, query: str, top_k: int | str = 10, *, vault: str | None = None
    ) -> Findings:
        """Return the entries that match a query best, and the best and the latest context."""
        most, text = arguments.count("top_k", top_k, 100), arguments.text("query", query, _LONGEST_QUERY)
        with self._sessions.open_memory(memory_id, vault) as session:
            return search_entries(session, text, most)

    def get_user(self) -> User:
        """Return the user's name, e-mail address and quotas."""
        known = {name: str(self._user[name]) for name in _PROFILE_FIELDS if self._user.get(name)}
        return User(
            userId=str(self._user.get("id") or self._sessions.tenant),
            memories=self._sessions.count(),
            quotas=self._quotas._asdict(),
            **known,
        )

    def prompts(self, memory_type: str = "chat") -> Prompts:
        """Return the prompts for agents that use a memory of this type."""
        return prompts_for(memory_type, self._settings.prompts_dir)

    def _read_durable(self, memory_id: str, vault: str | None, what: str, read: Callable[[Session], T]) -> T:
        """Return what `read` finds in a memory, once every earlier write is durable."""
        key = self._sessions.key_of(memory_id, vault)
        with self._failures.record(key, what):
            with self._sessions.open_memory(memory_id, key.agent) as session:
                wait, result = session.log.settled(), read(session)
            wait()
        return result

    @contextmanager
    def _writing(self, memory_id: str, vault: str | None, what: str) -> Iterator[Session]:
        key = self._sessions.key_of(memory_id, vault)
        with self._failures.record(key, what), self._sessions.open_memory(memory_id, key.agent) as session:
            yield session

    def _append(
        self, session: Session, messages: list[Record], events: list[Record], now: datetime | None = None
    ) -> None:
        session.append(new_turn_id(), messages, events, now or ordered_time(session, self._clock()))


def _kind(session: Session) -> str:
    return session.state.derived.collected.kind or "chat"


def _check_diagrams(content: str) -> None:
    for count in node_counts(content):
        if count > MAX_NODES:
            raise InvalidInput(f"content has a Mermaid diagram of {count} nodes; the limit is {MAX_NODES}")


def _trimming_note(before: str, after: str) -> str:
    if before == after:
        return ""
    gone = describe_removed(before, after)
    return f"trimmed from {len(before)} to {len(after)} characters{f'; removed lines: {gone}' if gone else ''}"


def _check_version(version: int, expected: int | None) -> None:
    if expected not in (None, version):
        raise ContextConflict(
            f"the context is now at version {version}, not {expected}: read it, merge, and write again", version
        )
