"""The context document of a session: its newest version, who wrote it, what it covers, and where earlier ones stand.

An event `document` is a version, text and all, since none is longer than 5000 characters. One without a text says
that messages were looked at and told nothing new. Each names the event of the version before it, so that any version
can be found from the newest one.
"""

from dataclasses import asdict, dataclass, field

from ctxwrap.memory.items import ORIGINS, Origin
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.types import Record

DOCUMENT = "context/document.md"

EXTRACT = "extract"
"""Who wrote a version that was made of messages by rules."""

NEWEST = 50
"""So many of the newest versions are known by their places."""


@dataclass(slots=True)
class Documents:
    version: int = 0
    """The number of the newest version, whatever became of its text."""
    text: str = ""
    """The newest one that was not forgotten, or nothing."""
    number: int = 0
    """Which version that is."""
    by: str = ""
    time: str = ""
    covers: int = 0
    """The last message that is in it, or must not get into it."""
    origin: Origin = ORIGINS[0]
    """The least trusted of what went into it."""
    authored: bool = False
    """Whether somebody wrote it, or what it grew from."""
    places: list[list[int]] = field(default_factory=list)
    """The newest versions and the numbers of their events, in order."""

    def take(self, event: Record, at: int) -> None:
        """Take in the event of number `at`."""
        kind = event.get("type")
        if kind == "forget":
            # the messages that say what was forgotten stay: a document must not grow from them again
            self.covers = max(self.covers, int((event.get("ctx") or {}).get("messages") or 0))
        elif kind == "document":
            self._take_version(event, at)

    def _take_version(self, event: Record, at: int) -> None:
        content, covers = event.get("content"), int(event.get("covers") or 0)
        if isinstance(content, str):
            self.version = max(self.version, int(event["version"]))
            self.places = [*self.places, [int(event["version"]), at]][-NEWEST:]
        if content == FORGOTTEN:
            return
        self.covers = max(self.covers, covers)
        if isinstance(content, str):
            origin = event.get("origin")
            self.text, self.number, self.by = content, int(event["version"]), str(event.get("by"))
            self.time = str((event.get("ctx") or {}).get("time") or "")
            self.origin = origin if origin in ORIGINS else ORIGINS[-1]
            self.authored = bool(event.get("authored"))

    def next(self, text: str, by: str, covers: int, origin: Origin) -> Record:
        """The event of the version behind the newest one."""
        return {
            "type": "document",
            "version": self.version + 1,
            "content": text,
            "by": by,
            "covers": covers,
            "origin": origin,
            "authored": by != EXTRACT or self.authored,
            "before": self.places[-1][1] if self.places else 0,
            "ctx": {},
        }

    def unchanged(self, covers: int) -> Record:
        """The event that says that messages up to `covers` told nothing new."""
        return {"type": "document", "version": self.version, "by": EXTRACT, "covers": covers, "ctx": {}}

    def as_json(self) -> Record:
        return asdict(self)
