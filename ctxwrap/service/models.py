"""The service's result models, and how they are read from a session."""

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ctxwrap.documents.document import PLACEHOLDER
from ctxwrap.documents.sentences import MessageSummary, RawMessage
from ctxwrap.documents.summary import fit_summary, summarise_message
from ctxwrap.errors import NotFound
from ctxwrap.session.documents import Documents
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import message_in
from ctxwrap.types import Message, Record


class ApiModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Counts(ApiModel):
    """How much a memory holds."""

    entries: int = 0
    contextVersions: int = 0
    lastEntryTime: str = ""


class MemoryInfo(ApiModel):
    """A memory: a session, or a named collection of its own."""

    memoryId: str
    vaultId: str
    title: str
    memoryType: str = "chat"
    description: str = ""
    creationTime: str = ""
    updateTime: str = ""
    stats: Counts = Counts()


class Vault(ApiModel):
    vaultId: str
    title: str
    description: str = ""
    memories: int = 0


class Entry(ApiModel):
    """One raw message with its summary."""

    entryId: str
    memoryId: str
    vaultId: str
    creationTime: str
    rawEntry: str
    summary: str
    role: str = "user"
    tags: dict[str, str] = Field(default_factory=dict)


class Entries(ApiModel):
    """A page of entries, the newest first."""

    entries: tuple[Entry, ...]
    count: int
    applied_limit: int
    next_before: str = ""
    """Pass it as `before` for older entries; empty if there are none."""
    next_after: str = ""
    """Pass it as `after` for newer entries, now or later."""


class ContextDocument(ApiModel):
    """A version of the context document."""

    content: str
    version: int
    """0 is the placeholder of a memory without a context document."""
    time: str = ""
    by: str = ""
    """The writer: agent, extract (rules without a model) or model."""


class Stored(ApiModel):
    """What became of a write: it is in the log."""

    status: str = "stored"
    id: str
    """Id of the entry, or of the memory for a context."""
    version: int = 0
    """Version of the context, for a context."""
    note: str = ""
    """A remark, such as that a text was trimmed."""


class Hit(ApiModel):
    entry: Entry
    score: float
    passage: str
    """The passage that matches the query."""
    reasons: tuple[str, ...] = ()


class Findings(ApiModel):
    """Ranked entries, and the best and the latest context."""

    entries: tuple[Hit, ...]
    count: int
    bestContext: ContextDocument | None = None
    bestContextScore: float = 0.0
    latestContext: ContextDocument


class Consistent(ApiModel):
    status: str = "consistent"
    entries: int
    """Number of durable entries."""
    contextVersion: int


class User(ApiModel):
    userId: str
    name: str = ""
    email: str = ""
    memories: int = 0
    quotas: dict[str, int] = Field(default_factory=dict)


class Prompts(ApiModel):
    version: str = "v1"
    memoryType: str
    context_summary_rules: str
    templates: dict[str, str]


def entries_of(session: Session, records: Sequence[tuple[int, Record]]) -> list[Entry]:
    """Return messages as entries, in order."""
    events = _entry_events(session, [record for _, record in records])
    return [_entry(session, number, record, events.get(number, {})) for number, record in records]


def _raw_message(number: int, record: Record) -> RawMessage:
    control: Any = record.get("ctx") or {}
    try:
        message = message_in(record)
    except ValueError:
        message = Message("tool")
    return RawMessage(number, message.role, _message_text(message), str(control.get("time") or ""), message.name)


def _message_text(message: Message) -> str:
    """Return a message's text and tool calls as one text."""
    calls = (f"calls {call['name']}({call['arguments']})" for call in message.tool_calls)
    return "\n".join(filter(None, [message.text, *calls]))


def _entry_events(session: Session, records: Iterable[Record]) -> dict[int, Record]:
    """Return the entry events of messages, by message number."""
    places = [place for record in records if type(place := (record.get("ctx") or {}).get("entry")) is int]
    events = session.log.pick("events", places) if places else {}
    return {event["message"]: event for event in events.values() if _is_entry(event)}


def _is_entry(event: Record) -> bool:
    return event.get("type") == "entry" and type(event.get("message")) is int


def _entry(session: Session, number: int, record: Record, event: Record) -> Entry:
    raw = _raw_message(number, record)
    tags = event.get("tags")
    return Entry(
        entryId=str(number),
        memoryId=session.key.session,
        vaultId=session.key.agent,
        creationTime=raw.time,
        rawEntry=replace_surrogates(raw.text),
        summary=replace_surrogates(_summary(raw, event)),
        role=raw.role,
        tags={replace_surrogates(str(name)): replace_surrogates(str(value)) for name, value in tags.items()}
        if isinstance(tags, dict)
        else {},
    )


def _summary(raw: RawMessage, event: Record) -> MessageSummary:
    """Return the stored summary, else one computed from the message alone."""
    stored = event.get("summary")
    return fit_summary(stored) if isinstance(stored, str) and stored.strip() else summarise_message(raw)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates in a text, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def newest_version(documents: Documents) -> ContextDocument:
    """Return the newest version that was not forgotten, else the placeholder."""
    if not documents.text:
        return ContextDocument(content=PLACEHOLDER, version=0)
    return ContextDocument(
        content=replace_surrogates(documents.text), version=documents.number, time=documents.time, by=documents.by
    )


def version_of(session: Session, wanted: int) -> ContextDocument:
    """Return a version by its number; raises NotFound."""
    documents = session.state.documents
    if wanted == 0:
        return ContextDocument(content=PLACEHOLDER, version=0)
    place = next((at for version, at in documents.places if version == wanted), None)
    event = _event(session, place) if place else _older(session, wanted)
    if event is None or event.get("content") == FORGOTTEN:
        known = f"the newest one is {documents.number}" if documents.text else "there is none"
        raise NotFound(f"there is no version {wanted} of the context: {known}")
    return _document(event)


def read_versions(session: Session) -> list[ContextDocument]:
    """Return the known versions that were not forgotten, newest first."""
    places = [at for _, at in session.state.documents.places]
    events = session.log.pick("events", places) if places else {}
    found = (events[at] for at in reversed(places) if at in events)
    return [_document(event) for event in found if event.get("content") != FORGOTTEN]


def _document(event: Record) -> ContextDocument:
    control: Any = event.get("ctx") or {}
    return ContextDocument(
        content=replace_surrogates(str(event.get("content"))),
        version=int(event["version"]),
        time=str(control.get("time") or ""),
        by=str(event.get("by") or ""),
    )


def _older(session: Session, wanted: int) -> Record | None:
    """Find a version whose place is not indexed: each version refers to the one before it."""
    places = session.state.documents.places
    if not places or wanted > places[-1][0]:
        return None
    event = _event(session, places[0][1])
    while event is not None and event["version"] > wanted:
        event = _event(session, event.get("before"))
    return event if event is not None and event["version"] == wanted else None


def _event(session: Session, at: Any) -> Record | None:
    event = session.log.pick("events", [at]).get(at) if type(at) is int and at > 0 else None
    return (
        event if event is not None and event.get("type") == "document" and type(event.get("version")) is int else None
    )


def info_of(session: Session) -> MemoryInfo:
    derived = session.state.derived
    known = derived.collected
    return MemoryInfo(
        memoryId=session.key.session,
        vaultId=session.key.agent,
        title=known.title or session.key.session[:50],
        memoryType=known.kind or "chat",
        description=known.description,
        creationTime=derived.created_at,
        updateTime=derived.updated_at,
        stats=Counts(entries=known.entries, contextVersions=derived.documents.version, lastEntryTime=known.newest),
    )
