"""Memories of one tenant: what an agent may do with them, each a session of the log or a collection of its own."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from ctxwrap.documents.document import LONGEST, trimmed
from ctxwrap.documents.sections import MOST_NODES, node_counts
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.documents.trimming import removed
from ctxwrap.errors import Conflict, ContextConflict, InvalidInput, NotFound
from ctxwrap.memory.items import Origin, least_trusted
from ctxwrap.service import arguments
from ctxwrap.service.entries import (
    NewEntry,
    found,
    is_entry,
    metadata,
    no_earlier,
    page_after,
    page_before,
    refuse_summaries,
    token,
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
    newest,
    version_of,
)
from ctxwrap.service.prompts import Asking, prompts_for
from ctxwrap.service.sessions import VAULT_RECORD, Losses, Shelves, within
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.document_versions import news_of, next_version
from ctxwrap.session.session import Session
from ctxwrap.settings import Quotas, Settings, SummaryWriter, settings_from
from ctxwrap.stores import given_store
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import Record, SessionKey

T = TypeVar("T")

_CONTENT = 65_536
"""A context may be so long, in characters, to be trimmed."""

_QUERY = 20_000
_PROFILE = ("name", "email")

_ORIGINS: dict[str, Origin] = {"operator": "operator", "agent": "tool", "model": "tool"}
"""Who may write a context, and how far what they write is trusted."""


class Memories:
    """Everything blocks for the moment that reading or a short write takes, and may be called from any thread.

    `vault` names the vault of whatever names none. A memory is found in the vault that is named, else in the default
    one, else in the only one that has it.
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
    ) -> None:
        self._settings = settings_from(settings)
        self._shelves = Shelves(given_store(store), tenant, vault, self._settings)
        self._user = dict(user or {})
        self._quotas = quotas or self._settings.quotas or Quotas()
        self._clock = clock
        self._losses = Losses()
        self._asking = Asking(writer, self._settings.prompts_dir, self._settings.redaction)

    def create_memory(
        self,
        title: str,
        memory_type: str = "chat",
        description: str = "",
        vault: str | None = None,
        memory_id: str | None = None,
    ) -> MemoryInfo:
        """A new memory; or a session that has no title yet, which gets one."""
        told = metadata(
            arguments.title(title),
            self.prompts(memory_type).memoryType,  # of a type without prompts nobody could keep a memory
            arguments.description(description),
            TurnRedactor(self._settings.redaction),
        )
        key = self._shelves.key(secrets.token_hex(16) if memory_id is None else check_id("memory", memory_id), vault)
        if key.session == VAULT_RECORD or self._has_title(key):
            raise Conflict(f"there is a memory {key.session!r} already")
        if not self._shelves.exists(key):
            self._quotas.check_memory(self._shelves.count())
        with self._losses.noted(key, "create_memory"), self._shelves.at(key) as session:
            if session.state.derived.collected.title:
                raise Conflict(f"there is a memory {key.session!r} already")
            self._append(session, [], [told])
            return info_of(session)

    def _has_title(self, key: SessionKey) -> bool:
        if not self._shelves.exists(key):
            return False
        with self._shelves.at(key) as session:
            return bool(session.state.derived.collected.title)

    def get_memory(self, memory_id: str, vault: str | None = None) -> MemoryInfo:
        with self._shelves.opened(memory_id, vault) as session:
            return info_of(session)

    def list_memories(self, vault: str | None = None) -> tuple[MemoryInfo, ...]:
        """The memories of a vault, in the order of their ids."""
        agent = self._shelves.vault if vault is None else check_id("vault", vault)
        return tuple(self.get_memory(memory_id, agent) for memory_id in self._shelves.memories(agent))

    def list_vaults(self) -> tuple[Vault, ...]:
        """The default vault first, then every other one that holds anything."""
        return tuple(map(self._vault, self._shelves.vaults()))

    def create_vault(self, title: str, description: str = "") -> Vault:
        """A vault by its title, which is also its id; one is there as soon as a memory is in it, too."""
        key = self._shelves.key(VAULT_RECORD, arguments.vault_title(title))
        told = metadata(key.agent, "vault", arguments.description(description), TurnRedactor(self._settings.redaction))
        if self._has_title(key):
            raise Conflict(f"there is a vault {key.agent!r} already")
        with self._losses.noted(key, "create_vault"), self._shelves.at(key) as session:
            self._append(session, [], [told])
        return self._vault(key.agent)

    def _vault(self, name: str) -> Vault:
        key, description = self._shelves.key(VAULT_RECORD, name), ""
        if self._shelves.exists(key):
            with self._shelves.at(key) as session:
                description = session.state.derived.collected.description
        return Vault(vaultId=name, title=name, description=description, memories=len(self._shelves.memories(name)))

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
        """Store one message, word for word, with its summary: the one that is given, made to fit, else one by rules.

        The role is `role`, else what a tag `role` says. The same `request_id` stores the same entry once; with other
        content it is a Conflict. The newest 512 of a memory are known again.
        """
        entry = NewEntry.checked(raw_entry, summary, tags, role, request_id)
        asked = self._asked_summary(entry, memory_id, vault)
        with self._writing(memory_id, vault, "add_entry") as session:
            number = entry.stored(session) if entry.request else None
            if number is None:
                known = session.state.derived.collected
                self._quotas.check_entries(known.entries, known.characters, [len(entry.raw)])
                now, number = no_earlier(session, self._clock()), session.next_message
                self._append(session, *entry.records(session, now, asked), now)
            return Stored(id=str(number))

    def _asked_summary(self, entry: NewEntry, memory_id: str, vault: str | None) -> str:
        """The summary that a model writes, outside of every lock; nothing if none is to, or it is not needed."""
        if entry.summary or not self._asking.is_there:
            return ""
        with self._shelves.opened(memory_id, vault) as session:
            past = session.state
            if entry.request and entry.stored(session) is not None:
                return ""
            kind, raw = _kind(session), RawMessage(session.next_message, entry.role, entry.raw)
            document = past.documents.text
        return self._asking.summary(kind, raw, document)

    def list_entries(
        self,
        memory_id: str,
        limit: int | str = 25,
        before: str | None = None,
        after: str | None = None,
        *,
        vault: str | None = None,
    ) -> Entries:
        """A page of entries, the newest first: the newest ones, those before a cursor, or the first after one."""
        most = arguments.count("limit", limit, 50)
        if before and after:
            raise InvalidInput("give before or after, not both: a page goes one way")
        with self._shelves.opened(memory_id, vault) as session:
            page = page_after(session, after, most) if after else page_before(session, before or None, most)
            shown = entries_of(session, page.records)
        return Entries(
            entries=tuple(shown),
            count=len(shown),
            applied_limit=most,
            next_before=token(page.records[-1][0]) if page.has_older and page.records else "",
            next_after=token(page.next_after),
        )

    def get_entry(self, memory_id: str, entry_id: str, *, vault: str | None = None) -> Entry:
        """One entry; also one that the conversation left, but none that was purged."""
        number = int(entry_id) if isinstance(entry_id, str) and entry_id.isdecimal() and len(entry_id) < 16 else 0
        with self._shelves.opened(memory_id, vault) as session:
            record = session.log.pick("messages", [number]).get(number) if number else None
            if record is None or not is_entry(record):
                raise NotFound(f"there is no entry {str(entry_id)[:60]!r} in memory {memory_id!r}")
            return entries_of(session, [(number, session.whole(record))])[0]

    def get_context(self, memory_id: str, version: int | None = None, *, vault: str | None = None) -> ContextDocument:
        """The newest version of the context document, or the placeholder; or the version of that number."""
        with self._shelves.opened(memory_id, vault) as session:
            return (
                newest(session.state.documents) if version is None else version_of(session, arguments.version(version))
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

        The entries before it are made durable first, as by `await_consistency`, which still tells of failed writes.
        With `expected_version` it is a ContextConflict if somebody else wrote one meanwhile. What is too long is
        trimmed, and the answer says what went. Refused are a Mermaid diagram of more than ten nodes, and what repeats
        the summary of an entry: name facts by raw entries.
        """
        if by not in _ORIGINS:
            raise InvalidInput(f"by must be one of {', '.join(_ORIGINS)}, not {by!r}")
        given = TurnRedactor(self._settings.redaction).text(arguments.text("content", content, _CONTENT))
        _check_diagrams(given)
        text = trimmed(given) if len(given) > LONGEST else given
        expected = None if expected_version is None else arguments.version(expected_version)
        covers = self._synced(memory_id, vault, "put_context", lambda session: session.state.sequence["messages"])
        with self._writing(memory_id, vault, "put_context") as session:
            documents = session.state.documents
            _check_version(documents.number, expected)
            refuse_summaries(session, text, documents.text)
            event = documents.next(text, by, covers, _ORIGINS[by])
            self._append(session, [], [event])
        return Stored(id=memory_id, version=event["version"], note=_trimming_note(given, text))

    def grow_context(self, memory_id: str, *, vault: str | None = None) -> Stored:
        """Let the context document take in the entries since its newest version: by the writer, else by rules.

        Nothing but raw entries goes into it, and these are made durable first. A ContextConflict if somebody else wrote
        a version meanwhile.
        """
        kind, edition, news = self._synced(
            memory_id, vault, "grow_context", lambda session: (_kind(session), session.log.edition(), news_of(session))
        )
        given = self._asking.context(kind, news.document, news.raws, news.items) if news.raws else ""
        given = given if max(node_counts(given), default=0) <= MOST_NODES else ""
        written = trimmed(given)
        with self._writing(memory_id, vault, "grow_context") as session:
            documents = session.state.documents
            _check_version(documents.number, news.version)
            if written and edition == session.log.edition():  # else something was forgotten that it may tell
                refuse_summaries(session, written, documents.text)
                event = documents.next(written, "model", news.covers, least_trusted(news.origin, _ORIGINS["model"]))
            else:
                event = next_version(session)
                if event["covers"] > news.covers:
                    session.log.settled()()
            self._append(session, [], [event])
            return Stored(id=memory_id, version=session.state.documents.number, note=_trimming_note(given, written))

    def await_consistency(self, memory_id: str, timeout: float = 10.0, *, vault: str | None = None) -> Consistent:
        """Wait until the medium has every write to a memory so far, whoever made it.

        A WritesLost if a write to it failed here since somebody last asked, which is told once; a StoreUnavailable if
        it takes too long.
        """
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 600:
            raise InvalidInput(f"timeout must be a number of seconds above 0 and up to 600, not {timeout!r}")
        key = self._shelves.key_of(memory_id, vault)
        consistent = within(float(timeout), lambda: self._settled(key), f"writing memory {memory_id!r} to the medium")
        self._losses.tell(key)
        return consistent

    def _settled(self, key: SessionKey) -> Consistent:
        with self._shelves.opened(key.session, key.agent) as session:
            wait, past = session.log.settled(), session.state
            told = Consistent(entries=past.derived.collected.entries, contextVersion=past.documents.number)
        wait()
        return told

    def search_memories(
        self, memory_id: str, query: str, top_k: int | str = 10, *, vault: str | None = None
    ) -> Findings:
        """The entries that say the most about a query, and the best and the latest context."""
        most, asked = arguments.count("top_k", top_k, 100), arguments.text("query", query, _QUERY)
        with self._shelves.opened(memory_id, vault) as session:
            return found(session, asked, most)

    def get_user(self) -> User:
        """Whose memories these are: name, address and quotas, and nothing else of the profile."""
        known = {name: str(self._user[name]) for name in _PROFILE if self._user.get(name)}
        return User(
            userId=str(self._user.get("id") or self._shelves.tenant),
            memories=self._shelves.count(),
            quotas=self._quotas._asdict(),
            **known,
        )

    def prompts(self, memory_type: str = "chat") -> Prompts:
        """The prompts for agents that keep a memory of that type."""
        return prompts_for(memory_type, self._settings.prompts_dir)

    def _synced(self, memory_id: str, vault: str | None, what: str, look: Callable[[Session], T]) -> T:
        """What `look` finds in a memory, when the medium has every write before it."""
        key = self._shelves.key_of(memory_id, vault)
        with self._losses.noted(key, what):
            with self._shelves.opened(memory_id, key.agent) as session:
                wait, found = session.log.settled(), look(session)
            wait()
        return found

    @contextmanager
    def _writing(self, memory_id: str, vault: str | None, what: str) -> Iterator[Session]:
        key = self._shelves.key_of(memory_id, vault)
        with self._losses.noted(key, what), self._shelves.opened(memory_id, key.agent) as session:
            yield session

    def _append(
        self, session: Session, messages: list[Record], events: list[Record], now: datetime | None = None
    ) -> None:
        session.append(new_turn_id(), messages, events, now or no_earlier(session, self._clock()))


def _kind(session: Session) -> str:
    return session.state.derived.collected.kind or "chat"


def _check_diagrams(content: str) -> None:
    for count in node_counts(content):
        if count > MOST_NODES:
            raise InvalidInput(f"content has a Mermaid diagram of {count} nodes: it may have {MOST_NODES} at most")


def _trimming_note(before: str, after: str) -> str:
    if before == after:
        return ""
    gone = removed(before, after)
    return f"trimmed from {len(before)} to {len(after)} characters{f'; lines that went: {gone}' if gone else ''}"


def _check_version(version: int, expected: int | None) -> None:
    if expected not in (None, version):
        raise ContextConflict(
            f"the context is of version {version} by now, not {expected}: read it, merge, write again", version
        )
