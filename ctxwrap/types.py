"""Values that several packages share, as frozen types."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from ctxwrap.kinds import Severity as Severity
from ctxwrap.settings import Mode

Body = dict[str, Any]
"""A request, a reply or a stream event, as JSON."""

Record = dict[str, Any]
"""One line of a log."""

Send = Callable[[Body], Body]
"""Sends a request of our own the way the caller's was sent, and gives the whole reply."""

SendAsync = Callable[[Body], Awaitable[Body]]
"""The same over async I/O."""

Content = str | list[Body]
"""A message's text, or its parts when it holds more than text."""

Role = Literal["system", "user", "assistant", "tool"]


class SessionKey(NamedTuple):
    """Whose session: the tenant comes first, in every key and every path."""

    tenant: str
    agent: str
    session: str


class Message(NamedTuple):
    """One message in the form the log keeps, whatever API it came from."""

    role: Role
    content: Content = ""
    name: str = ""
    tool_calls: tuple[Body, ...] = ()
    """Calls as `{"id", "name", "arguments"}`; arguments is the JSON text the model wrote."""
    tool_call_id: str = ""
    extra: Mapping[str, Any] = MappingProxyType({})
    """Keys of the caller's message that ctxwrap has no word for."""

    @property
    def text(self) -> str:
        """The text of the content; parts that are no text are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Request:
    """What an adapter reads out of a request body."""

    messages: tuple[Message, ...]
    model: str = ""
    stream: bool = False
    no_trailer: str = ""
    """Why the reply cannot carry a trailer, or empty."""
    no_context: str = ""
    """Why nothing can be injected, or empty."""
    server_history: bool = False
    """The provider keeps the conversation itself, so none is added from the log."""
    unseen: bool = False
    """It shows the model something of the conversation that only the provider has."""
    fetched: bool = False
    """It holds what a tool gave and no message says, such as the items of a provider's own search."""
    places: tuple[int, ...] = ()
    """For each message its place in the body's list of messages, or -1 if it stands beside that list.

    Several messages may come from one item of the list; an item that none begins with goes with the one before it.
    """


@dataclass(frozen=True, slots=True)
class Injection:
    """What a turn adds to a request and leaves out of it.

    What seldom changes is sent first and what changes with every call last, since providers cache by prefix: protocol,
    the caller's system prompt, standing; history, the caller's older messages, with background before the first that
    the user spoke; the newest of these, and block behind its own text. What has no message of the user's to go to ends
    the system prompt, and where the provider holds a system prompt that is not sent again, standing and background go
    before the block.
    """

    protocol: str
    """The head of the system prompt, the same bytes in every call."""
    block: str
    """What changes with every call."""
    history: tuple[Message, ...] = ()
    """Messages from the log, before those of the caller."""
    reserve: int = 0
    """How many tokens an output limit of the caller's is raised by."""
    standing: str = ""
    """What the system says and seldom changes."""
    background: str = ""
    """Data that seldom changes."""
    left_out: frozenset[int] = frozenset()
    """Which of the body's messages are not sent, by their places; what the operator says always is."""
    references: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Texts in the place of what tools gave, by places of the body's messages and ids of calls."""
    breakpoints: bool = False
    """Whether places are marked up to which the provider may cache, where its API has marks."""


class LoggedMessage(NamedTuple):
    """A message of the log, as far as it is known without reading it."""

    number: int
    message: Message
    tokens: Mapping[str, int] = MappingProxyType({})
    """How many it has, by the name of what counted them."""


class HistoryMessage(NamedTuple):
    """A message before the newest turn."""

    number: int
    """In the log; 0 if that is not known."""
    message: Message
    tokens: int
    place: int = -1
    """In the caller's list; -1 if it comes from the log."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The fields only the system may set."""

    round: int
    datetime: str
    startup_at: str

    def as_json(self) -> dict[str, Any]:
        return {"round": self.round, "datetime": self.datetime, "startup_at": self.startup_at}


@dataclass(frozen=True, slots=True)
class TurnInputs:
    """What a turn starts from, fixed under the session's lock."""

    runtime: Runtime
    state: dict[str, Any]
    """The memory the model is shown."""
    new: tuple[tuple[Message, int], ...]
    """The caller's messages that the log does not have yet, each with its round."""
    history: tuple[LoggedMessage, ...]
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
    texts: Mapping[str, tuple["SourcedText", ...]] = field(default_factory=dict)
    """The texts of the session, by kind of pack item."""
    outputs: tuple[str, ...] = ()
    """The tool outputs that were files of the working set in the last request."""
    missing: tuple["MissingContext", ...] = ()
    """What is missing, as far as the log tells, and what somebody declined to give."""
    misses: int = 0
    """How many of the last replies had no snapshot, in a row."""
    foreign: "ForeignOrigins" = field(default_factory=lambda: ForeignOrigins())


@dataclass(frozen=True, slots=True)
class ForeignOrigins:
    """The origins of what contains, or was derived from, text that no participant of the conversation wrote."""

    messages: Mapping[int, str] = field(default_factory=dict)
    """By number. Number 0 has the least trusted origin in the log, for assistant messages that the log lacks."""
    items: Mapping[str, str] = field(default_factory=dict)
    """Memory items by id, those of the epoch included."""
    state: str = ""
    """The rest of the state that the model is shown; empty if it is not foreign."""


class SourcedText(NamedTuple):
    """A text of the session's, and where it lies."""

    source: str
    text: str
    origin: str = "operator"


@dataclass(slots=True, eq=False)
class Offer:
    """A text of the caller's for the next call of a session."""

    key: SessionKey
    kind: str
    source: str
    text: str
    priority: float
    visibility: tuple[str, ...]
    holder: object | None = None
    """The call that has it; a call that comes to nothing gives it back."""
    warned: bool = False
    """Whether somebody was told that a call of another tenant or agent passed it by."""


class Prefix(NamedTuple):
    """How a request begins: what stands before the conversation, by digests, and which of its messages follow."""

    head: tuple[str, ...]
    messages: tuple[int, ...]
    """The numbers of the messages, 0 for one that is not known."""


MissingStatus = Literal["open", "requested", "waiting", "resolved", "declined", "blocked", "expired"]


class MissingContext(NamedTuple):
    """Something that the model should know, or be shown, and is not."""

    id: str
    """The same for the same question, or the same source."""
    question: str
    severity: Severity = "medium"
    status: MissingStatus = "open"
    source: str = "model"
    """Where it should come from, or `model` for a question that the model flagged."""
    needed_for: str = ""
    requested_from: str = ""
    """Who was asked for it, or can help."""
    blocked_actions: tuple[str, ...] = ()
    reason: str = ""
    """Why it is not there, if that is known."""
    remedy: str = ""
    """What would help, if that is known."""
    turn: str = ""
    """The turn in which it was detected."""
    round: int = 0
    resolution: str = ""
    """How it was settled, if it was."""


Status = Literal["clean", "repaired", "partial", "ambiguous", "missing", "rejected"]

USABLE = ("clean", "repaired", "partial")
"""The statuses of a reading whose snapshot may be applied."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What one reply's text turned out to be."""

    visible: str
    """What the user sees."""
    snapshot: dict[str, Any] | None = None
    """The state in canonical form, or None."""
    repairs: tuple[str, ...] = ()
    """What was mended, in order; empty for a clean reply."""
    violations: tuple[str, ...] = ()
    """Rules the model broke: changed runtime, items dropped and why."""
    status: Status = "missing"
    trailer: str = ""
    """The trailer as the model wrote it; if there are several, all of them."""
    actions: tuple[str, ...] = ()
    """What the model wrote into its answer to change the working set; it is not shown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an adapter made of a provider's answer, as far as it came."""

    messages: tuple[Message, ...] = ()
    """One per choice; the first is the one that counts."""
    reading: ParsedReply | None = None
    """The reading of the first choice's last text."""
    finish: str = ""
    """The provider's own word for why it stopped."""
    natural: bool = False
    """The model came to its own end."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    response_id: str = ""
    model: str = ""
    fetched: bool = False
    """The provider fetched something for it, or ran something: it is not made of its request alone."""


class Operation(NamedTuple):
    """One change of memory and why."""

    kind: Literal["add", "update", "reinforce", "drop", "forget"]
    id: str
    tier: str
    """Where the item is afterwards: core, working, ephemeral or swap; for a drop, where it was."""
    item: Mapping[str, Any] | None = None
    """The item as it is afterwards; None if it only moved."""
    reason: str = ""
    successor: str = ""
    """For a drop, the id of the item that takes its place, if one does."""

    def as_json(self) -> Record:
        """The operation as the log keeps it."""
        told = self._asdict()
        return told if self.successor else {name: value for name, value in told.items() if name != "successor"}


class Candidate(NamedTuple):
    """One thing that could be sent."""

    kind: str
    source: str
    tokens: int = 0
    """With all that frames it."""
    text: str = ""
    priority: float = 0.5
    """From 0 to 1, the more the sooner it is taken among its kind."""
    freshness: int = 0
    """The newest message it is made from; 0 if it is not from the conversation."""
    origin: str = "operator"
    """The least trusted of whom it comes from."""
    visibility: tuple[str, ...] = ("model",)
    """Who may see it."""
    refs: tuple[str, ...] = ()
    """The single things in it, by id, path or number."""
    reason: str = ""
    """What speaks for it."""


class PackItem(NamedTuple):
    """One thing that could be sent, whether it was, and why."""

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
        """The item as the log keeps it: what has its usual value is left out."""
        told = {name: value for name, value in self._asdict().items() if value != _USUAL.get(name)}
        return told | {name: list(told[name]) for name in ("visibility", "refs") if name in told}


_USUAL = dict(PackItem._field_defaults)


class Resource(NamedTuple):
    """Something of a turn that is for others than the model."""

    kind: str
    source: str
    text: str
    visibility: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """How a turn went, beyond its content."""

    status: Literal["open", "complete", "aborted"] = "open"
    reason: str = ""
    """Why it was aborted, or why its mode differs from the one asked for."""
    mode_asked: Mode = "enabled"
    not_saved: tuple[str, ...] = ()
    """What the store refused to take."""
    error: str = ""
    """ctxwrap's own failure, if it had one."""
    sha256: str = ""
    """Hash of the JSON body that ctxwrap handed to the SDK."""
    reading: str = "missing"
    """The status of the trailer."""
    reasks: int = 0
    """How often the model was asked again for its snapshot."""
    reask_usage: Mapping[str, int] = field(default_factory=dict)
    """What these questions cost, in the provider's own words and summed up."""
    reask_error: str = ""
    """Why a question got no answer, if so."""
    assembly: Mapping[str, Any] = field(default_factory=dict)
    """The `assembly_report` of the working set, if there is one."""
    budget: Mapping[str, Any] = field(default_factory=dict)
    """What there was to spend, what set the limit, and what was spent on what."""
    stable: float = 0.0
    """The share of the request, by tokens, that begins like the last one of the session: what caches save."""
    repacked: bool = False
    """Whether the provider called the request too long, and a smaller one was sent in its place."""
    missing: tuple[MissingContext, ...] = ()
    """What is missing at the end of the turn, or as far as it has come."""
    misses: int = 0
    """How many replies in a row had no snapshot, this one included; 0 once one could be used."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """Everything about one call that the caller may ask for."""

    id: str
    mode: Mode
    """The mode the turn really had."""
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
    """Text in as it arrives, visible text out."""

    def feed(self, chunk: str) -> str: ...
    def passes(self, chunk: str) -> bool:
        """Whether `feed(chunk)` is surely `chunk`; if so, it was fed."""

    def close(self) -> str: ...
    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """From where to where what was fed has been shown so far."""
        ...

    @property
    def reading(self) -> ParsedReply: ...
