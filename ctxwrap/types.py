"""Values that several packages share, as frozen types."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from ctxwrap.kinds import Severity as Severity
from ctxwrap.settings import Mode

Body = dict[str, Any]
"""A request, a reply or a stream event as JSON."""

Record = dict[str, Any]
"""One line of a log."""

Send = Callable[[Body], Body]
"""Sends a request of ctxwrap's own the way the caller's was sent, and returns the whole reply."""

SendAsync = Callable[[Body], Awaitable[Body]]

Content = str | list[Body]
"""A message's text, or its parts if it holds more than text."""

Role = Literal["system", "user", "assistant", "tool"]


class SessionKey(NamedTuple):
    """Identifies a session. The tenant comes first, in every key and every path."""

    tenant: str
    agent: str
    session: str


class Message(NamedTuple):
    """One message in the form that the log keeps, whatever API it came from."""

    role: Role
    content: Content = ""
    name: str = ""
    tool_calls: tuple[Body, ...] = ()
    """Calls as `{"id", "name", "arguments"}`; arguments is the JSON text that the model wrote."""
    tool_call_id: str = ""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Keys of the caller's message that ctxwrap has no field for."""

    @property
    def text(self) -> str:
        """The text of the content, without parts that are no text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")


class Request(NamedTuple):
    """What an adapter reads from a request body."""

    messages: tuple[Message, ...]
    model: str = ""
    stream: bool = False
    no_trailer: str = ""
    """Why the reply cannot carry a trailer; empty if it can."""
    no_context: str = ""
    """Why nothing can be added to the request; empty if something can."""
    server_history: bool = False
    """Whether the provider keeps the conversation, so that no history is added from the log."""
    unseen: bool = False
    """Whether the model sees a part of the conversation that only the provider has."""
    fetched: bool = False
    """Whether it holds tool results that are in no message, such as items of a provider's own search."""
    places: tuple[int, ...] = ()
    """For each message its index in the body's list of messages, or -1 if it is not in that list.

    Several messages may come from one item of the list; an item without a message belongs to the one before it.
    """


class Injection(NamedTuple):
    """What a turn adds to a request and leaves out of it.

    Providers cache by prefix, so stable content comes first and content that changes with every call last: protocol,
    the caller's system prompt, standing; then history and the caller's older messages, with background before the
    first user message; then the newest message, with block after its own text. Without a user message, background and
    block go to the end of the system prompt. If the provider holds a system prompt that is not sent again, standing and
    background go before block.
    """

    protocol: str
    """The beginning of the system prompt; byte-identical in every call."""
    block: str
    """The content that changes with every call."""
    history: tuple[Message, ...] = ()
    """Messages from the log, sent before those of the caller."""
    reserve: int = 0
    """The tokens by which an output limit of the caller is raised."""
    standing: str = ""
    """Instructions that seldom change."""
    background: str = ""
    """Data that seldom changes."""
    left_out: frozenset[int] = frozenset()
    """The indexes of the body's messages that are not sent; the operator's messages always are."""
    references: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    """Texts that replace tool results, by index of the body's message and id of the call."""
    breakpoints: bool = False
    """Whether to mark where the provider may cache, if its API has such marks."""


class LoggedMessage(NamedTuple):
    """A message of the log with its number."""

    number: int
    message: Message
    tokens: Mapping[str, int] = MappingProxyType({})
    """Its number of tokens, by the name of the counter."""


class HistoryMessage(NamedTuple):
    """A message before the newest turn."""

    number: int
    """Its number in the log; 0 if unknown."""
    message: Message
    tokens: int
    place: int = -1
    """Its index in the caller's list; -1 if it comes from the log."""


class Runtime(NamedTuple):
    """The fields of a snapshot that only the system sets."""

    round: int
    datetime: str
    startup_at: str

    def as_json(self) -> dict[str, Any]:
        return {"round": self.round, "datetime": self.datetime, "startup_at": self.startup_at}


class ForeignOrigins(NamedTuple):
    """The origins of what contains, or was derived from, text that no participant of the conversation wrote."""

    messages: Mapping[int, str] = MappingProxyType({})
    """By number. Number 0 has the least trusted origin in the log, for assistant messages that the log lacks."""
    items: Mapping[str, str] = MappingProxyType({})
    """Memory items by id, those of the epoch included."""
    state: str = ""
    """The rest of the state that the model is shown; empty if it is not foreign."""


class TurnInputs(NamedTuple):
    """What a turn starts from, fixed under the session's lock."""

    runtime: Runtime
    state: dict[str, Any]
    """The memory the model is shown."""
    new: tuple[tuple[Message, int], ...]
    """The caller's messages that the log does not have yet, each with its round."""
    history: Sequence[LoggedMessage]
    """The messages of the log that are older than the caller's first one."""
    parent: str
    """The message this turn continues, if that is not the newest one."""
    first_message: int = 1
    """The number that the first of the new messages gets in the log."""
    moves: tuple[Mapping[str, Any], ...] = ()
    """What the rounds since the last turn did to memory."""
    recalled: tuple["Operation", ...] = ()
    """What came back from swap because the user speaks of it."""
    rules: Record | None = None
    """The rules that memory goes by from now on, if the log does not say so yet."""
    writer: str = ""
    """The process that drives the turn."""
    numbers: tuple[int, ...] = ()
    """What each of the caller's messages has for a number in the log, 0 if it has none that is known."""
    began: int = 0
    """The number of the message that the caller's list begins with, 0 if that is not known."""
    system: tuple[int, ...] = ()
    """The numbers of the system messages."""
    epoch: dict[str, list[dict[str, Any]]] | None = None
    """The memory that stands in the part of a request that seldom changes."""
    before: "Prefix | None" = None
    """How the last request of the session began."""
    limit: int | None = None
    """What `context/budget` says: a number of tokens, 0 for no limit."""
    texts: Mapping[str, tuple["SourcedText", ...]] = MappingProxyType({})
    """The texts of the session, by kind of pack item."""
    outputs: tuple[str, ...] = ()
    """The tool outputs that were files of the working set in the last request."""
    missing: tuple["MissingContext", ...] = ()
    """What is missing, as far as the log tells, and what somebody declined to give."""
    misses: int = 0
    """How many of the last replies had no snapshot, in a row."""
    foreign: ForeignOrigins = ForeignOrigins()
    owners: tuple["OwnerView", ...] = ()
    """The user and the team that the call names; `state` has their items among its core items."""


class OwnerView(NamedTuple):
    """What a turn knows of a user or a team whose memory it is shown."""

    key: SessionKey
    """The key of the owner's log."""
    kind: str
    """`user` or `team`."""
    items: Mapping[str, int]
    """The owner's items that may be shown, each with the round of the owner's log in which it was last touched."""
    writes: bool
    """Whether the turn may change the owner's memory."""
    merged: int = 0
    """The number of the last event of the session whose contribution the owner's log has."""


class SourcedText(NamedTuple):
    """A text of the session, and its source."""

    source: str
    text: str
    origin: str = "operator"


class Offer:
    """A text that the caller adds to the next call of a session."""

    __slots__ = ("holder", "key", "kind", "priority", "source", "text", "visibility", "warned")

    def __init__(
        self, key: SessionKey, kind: str, source: str, text: str, priority: float, visibility: tuple[str, ...]
    ) -> None:
        self.key, self.kind, self.source, self.text = key, kind, source, text
        self.priority, self.visibility = priority, visibility
        self.holder: object | None = None
        """The claim of the call that uses it; None if no call does."""
        self.warned = False
        """Whether a warning was logged that a call of another tenant or agent did not use it."""


class Prefix(NamedTuple):
    """How a request begins: the digests of what comes before the conversation, and the messages that follow."""

    head: tuple[str, ...]
    messages: tuple[int, ...]
    """The numbers of the messages; 0 for an unknown one."""


MissingStatus = Literal["open", "requested", "waiting", "resolved", "declined", "blocked", "expired"]


class MissingContext(NamedTuple):
    """Something that the model should know or see, but does not."""

    id: str
    """Identical for the same question, or the same source."""
    question: str
    severity: Severity = "medium"
    status: MissingStatus = "open"
    source: str = "model"
    """Where it should come from; `model` for a question that the model asks."""
    needed_for: str = ""
    requested_from: str = ""
    """Who was asked for it, or can help."""
    blocked_actions: tuple[str, ...] = ()
    reason: str = ""
    """Why it is missing, if known."""
    remedy: str = ""
    """What would help, if known."""
    turn: str = ""
    """The turn in which it was detected."""
    round: int = 0
    resolution: str = ""
    """How it was resolved, if it was."""


Status = Literal["clean", "repaired", "partial", "ambiguous", "missing", "rejected"]

USABLE = ("clean", "repaired", "partial")
"""The statuses of a reading whose snapshot may be applied."""


class ParsedReply(NamedTuple):
    """The text of a reply, parsed."""

    visible: str
    """What the user sees."""
    snapshot: dict[str, Any] | None = None
    """The snapshot in canonical form, if there is one."""
    repairs: tuple[str, ...] = ()
    """What was repaired, in order; empty for a clean reply."""
    violations: tuple[str, ...] = ()
    """The rules that the model broke, such as changed runtime fields or dropped items."""
    status: Status = "missing"
    trailer: str = ""
    """The trailer as the model wrote it; all of them if there are several."""
    actions: tuple[str, ...] = ()
    """The requests to the working set that the model wrote into its reply; the user does not see them."""


class Reply(NamedTuple):
    """What an adapter read from a provider's reply so far."""

    messages: tuple[Message, ...] = ()
    """One per choice; the first is the one that counts."""
    reading: ParsedReply | None = None
    """The reading of the first choice's last text."""
    finish: str = ""
    """The provider's reason for the end of the reply."""
    natural: bool = False
    """Whether the model came to its own end."""
    usage: Mapping[str, Any] = MappingProxyType({})
    response_id: str = ""
    model: str = ""


class Operation(NamedTuple):
    """One change of memory and why."""

    kind: Literal["add", "update", "reinforce", "drop", "forget"]
    id: str
    tier: str
    """Where the item is after it: core, working, ephemeral or swap; for a drop, where it was."""
    item: Mapping[str, Any] | None = None
    """The item after it; None if it only moved."""
    reason: str = ""
    successor: str = ""
    """For a drop, the id of the item that replaces it, if one does."""

    def as_json(self) -> Record:
        """The operation as the log keeps it."""
        kind, id, tier, item, reason, successor = self
        fields = {"kind": kind, "id": id, "tier": tier, "item": item, "reason": reason}
        return {**fields, "successor": successor} if successor else fields


class Candidate(NamedTuple):
    """A pack item before the pack is chosen."""

    kind: str
    source: str
    tokens: int = 0
    """Its size, with its frame."""
    text: str = ""
    priority: float = 0.5
    """From 0 to 1; within a kind, higher ones are taken first."""
    freshness: int = 0
    """The number of the newest message it is made from; 0 if it is not from the conversation."""
    origin: str = "operator"
    """The least trusted origin of its text."""
    visibility: tuple[str, ...] = ("model",)
    """Who may see it."""
    refs: tuple[str, ...] = ()
    """The ids, paths or numbers of what it contains."""
    reason: str = ""
    """Why it is a candidate."""


class PackItem(NamedTuple):
    """A candidate, whether it was included, and why."""

    kind: str
    source: str
    tokens: int
    included: bool
    reason: str
    priority: float = 0.5
    freshness: int = 0
    origin: str = "operator"
    visibility: tuple[str, ...] = ("model",)
    refs: tuple[str, ...] = ()

    def as_json(self) -> Record:
        """The item as the log keeps it, without fields that have their default value."""
        kind, source, tokens, included, reason, priority, freshness, origin, visibility, refs = self
        fields: Record = {"kind": kind, "source": source, "tokens": tokens, "included": included, "reason": reason}
        if priority != 0.5:
            fields["priority"] = priority
        if freshness != 0:
            fields["freshness"] = freshness
        if origin != "operator":
            fields["origin"] = origin
        if visibility != ("model",):
            fields["visibility"] = list(visibility)
        if refs != ():
            fields["refs"] = list(refs)
        return fields


class Resource(NamedTuple):
    """A text of a turn's context that others than the model may see."""

    kind: str
    source: str
    text: str
    visibility: tuple[str, ...]


class PackedFiles(NamedTuple):
    """The files of a call."""

    instructions: str = ""
    """For the system prompt."""
    context: str = ""
    offered: str = ""
    """Texts that the caller offers for this call."""
    tokens: int = 0
    items: tuple[PackItem, ...] = ()
    report: Mapping[str, Any] = {}
    """The assembly report."""


class Report(NamedTuple):
    """How a turn went."""

    status: Literal["open", "complete", "aborted"] = "open"
    reason: str = ""
    """Why it was aborted, or why its mode differs from the one asked for."""
    mode_asked: Mode = "enabled"
    not_saved: tuple[str, ...] = ()
    """What could not be written to the store: request, reply."""
    error: str = ""
    """ctxwrap's own failure, if it had one."""
    sha256: str = ""
    """The hash of the JSON body that ctxwrap passed to the SDK."""
    reading: str = "missing"
    """The status of the trailer."""
    reasks: int = 0
    """How often the model was asked again for a snapshot."""
    reask_usage: Mapping[str, int] = {}
    """The usage of these questions, summed up under the provider's names."""
    reask_error: str = ""
    """The error of a question that got no answer."""
    assembly: Mapping[str, Any] = {}
    """The `assembly_report` of the working set, if there is one."""
    budget: Mapping[str, Any] = {}
    """The token budget: its limit, what set the limit, and what was spent on each kind."""
    stable: float = 0.0
    """The part of the request's tokens, from 0 to 1, that equals the beginning of the session's last request."""
    repacked: bool = False
    """Whether the provider rejected the request as too long, and a smaller one was sent."""
    missing: tuple[MissingContext, ...] = ()
    """The missing context so far; after the turn, at its end."""
    misses: int = 0
    """How many replies in a row, up to this one, had no snapshot; 0 after a usable one."""


class TurnRecord(NamedTuple):
    """What `turn_of` returns about one call."""

    id: str
    mode: Mode
    """The mode that the turn ran in."""
    session: str
    tenant: str
    agent: str
    round: int
    snapshot: Mapping[str, Any] | None
    operations: tuple[Operation, ...]
    violations: tuple[str, ...]
    repairs: tuple[str, ...]
    pack: tuple[PackItem, ...]
    report: Report


class TextStream(Protocol):
    """Takes text as it arrives, and returns the visible part."""

    def feed(self, chunk: str) -> str: ...
    def passes(self, chunk: str) -> bool:
        """Whether `feed(chunk)` is certain to return `chunk`; if so, the chunk has been fed."""

    def hides(self, chunk: str) -> bool:
        """Whether `feed(chunk)` is certain to return nothing; if so, the chunk has been fed."""

    def close(self) -> str: ...
    def whole(self, text: str) -> str:
        """Feed a complete text and close."""
        ...

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """The ranges of the fed text that have been returned so far."""
        ...

    @property
    def reading(self) -> ParsedReply: ...
