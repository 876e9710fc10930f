"""What the service answers, each as a form that tools can give out with its schema."""

from pydantic import BaseModel, ConfigDict, Field


class Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Counts(Form):
    """How much a memory holds."""

    entries: int = 0
    contextVersions: int = 0
    lastEntryTime: str = ""


class MemoryInfo(Form):
    """A memory: a session, or a named collection of its own."""

    memoryId: str
    vaultId: str
    title: str
    memoryType: str = "chat"
    description: str = ""
    creationTime: str = ""
    updateTime: str = ""
    stats: Counts = Counts()


class Vault(Form):
    vaultId: str
    title: str
    description: str = ""
    memories: int = 0


class Entry(Form):
    """One raw message with its summary."""

    entryId: str
    memoryId: str
    vaultId: str
    creationTime: str
    rawEntry: str
    summary: str
    role: str = "user"
    tags: dict[str, str] = Field(default_factory=dict)


class Entries(Form):
    """A page of entries, the newest first."""

    entries: tuple[Entry, ...]
    count: int
    applied_limit: int
    next_before: str = ""
    """Give it as `before` for older entries; empty if there are none."""
    next_after: str = ""
    """Give it as `after` for newer ones, now or later."""


class ContextDocument(Form):
    """A version of the context document."""

    content: str
    version: int
    """0 as long as nobody wrote one: then it is the placeholder."""
    time: str = ""
    by: str = ""
    """Who wrote it: agent, extract (made of the messages without a model) or model."""


class Stored(Form):
    """What became of a write: it is in the log."""

    status: str = "stored"
    id: str
    """Of the entry, or of the memory whose context it is."""
    version: int = 0
    """Of the context, if it is one."""
    note: str = ""
    """What else is to be known, such as that a text was trimmed."""


class Hit(Form):
    entry: Entry
    score: float
    passage: str
    """What of it answers the query."""
    reasons: tuple[str, ...] = ()


class Findings(Form):
    """Ranked entries, and the best and the latest context."""

    entries: tuple[Hit, ...]
    count: int
    bestContext: ContextDocument | None = None
    bestContextScore: float = 0.0
    latestContext: ContextDocument


class Consistent(Form):
    status: str = "consistent"
    entries: int
    """How many entries the memory holds for good."""
    contextVersion: int


class User(Form):
    userId: str
    name: str = ""
    email: str = ""
    memories: int = 0
    quotas: dict[str, int] = Field(default_factory=dict)


class Prompts(Form):
    version: str = "v1"
    memoryType: str
    context_summary_rules: str
    templates: dict[str, str]
