"""Documents in a session's state: versions of the context document, summaries, and entries of agents."""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ctxwrap.memory.items import ORIGINS, Origin, least_trusted
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.stores.log_format import message_range
from ctxwrap.types import Record

DOCUMENT = "context/document.md"

EXTRACT = "extract"
"""The author of a version made by rules."""

NEWEST = 50
"""The maximum number of versions with a known position."""


def fields_of(row: Any) -> Record:
    """The fields of a dataclass, as they are: a checkpoint is written at once, so nothing need be copied."""
    return {each.name: getattr(row, each.name) for each in fields(row)}


@dataclass(slots=True)
class Documents:
    version: int = 0
    """The number of the newest version, even if its text was forgotten."""
    text: str = ""
    """The newest text that was not forgotten, or empty."""
    number: int = 0
    """The version of that text."""
    by: str = ""
    time: str = ""
    covers: int = 0
    """The last message that is in it, or must not enter it."""
    origin: Origin = ORIGINS[0]
    """The least trusted origin of its sources."""
    authored: bool = False
    """The author of the text."""
    places: list[list[int]] = field(default_factory=list)
    """The newest versions with their event numbers, in order."""

    def take(self, event: Record, at: int) -> None:
        """Fold the event of number `at`."""
        kind = event.get("type")
        if kind == "forget":
            # the messages with the forgotten text stay in the log: the document must not use them again
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
        """The event of the next version."""
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
        """The event that messages up to `covers` changed nothing."""
        return {"type": "document", "version": self.version, "by": EXTRACT, "covers": covers, "ctx": {}}

    def as_json(self) -> Record:
        return fields_of(self)


_REQUESTS = 512
"""The maximum number of remembered requests."""


class SeenRequest(NamedTuple):
    """A request that added an entry."""

    number: int
    """The number of the message."""
    said: str
    """A digest of the request."""


@dataclass(slots=True)
class EntryLedger:
    title: str = ""
    kind: str = ""
    description: str = ""
    entries: int = 0
    """The number of messages, without system and purged ones."""
    characters: int = 0
    newest: str = ""
    """The time of the last one."""
    requests: dict[str, SeenRequest] = field(default_factory=dict)

    def take_message(self, number: int, role: str, text: str, control: Record) -> None:
        if "request" in control and isinstance(asked := control["request"], dict):
            self.requests[str(asked["id"])] = SeenRequest(number, str(asked["said"]))
            while len(self.requests) > _REQUESTS:
                self.requests.pop(next(iter(self.requests)))
        if role != "system" and "purged" not in control:
            self.entries += 1
            self.characters += len(text)
            self.newest = str(control.get("time") or self.newest)

    def take_event(self, event: Record) -> None:
        if event.get("type") == "memory":
            self.title, self.kind = str(event.get("title") or ""), str(event.get("memory_type") or "")
            self.description = str(event.get("description") or "")

    def as_json(self) -> Record:
        return fields_of(self)

    @classmethod
    def from_json(cls, value: Record) -> "EntryLedger":
        requests = {id: SeenRequest(*known) for id, known in value["requests"].items()}
        return cls(**{**value, "requests": requests})


@dataclass(slots=True)
class Summaries:
    text: str = ""
    """The newest text that was not forgotten, or empty."""
    source: str = ""
    origin: Origin = ORIGINS[0]
    """The least trusted origin of all summaries so far: each builds on the one before."""
    asked: int = 0
    """The last message of the last request for a summary, successful or not."""
    covered: int = 0
    """The last message that the next summary must not read."""
    forgotten: int = 0
    """The last message at the time of a forget; messages up to it may hold forgotten text."""

    @property
    def newest(self) -> Record | None:
        return {"source": self.source, "text": self.text} if self.text else None

    def take(self, event: Record) -> None:
        kind = event.get("type")
        if kind == "forget" or (kind == "purge" and "child" in event):
            # the messages with the forgotten text stay in the log: a summary of them would bring it back
            self.forgotten = max(self.forgotten, int((event.get("ctx") or {}).get("messages") or 0))
            self.covered = max(self.covered, self.forgotten)
        elif kind in ("summarise", "summary"):
            last = message_range(str(event["source"]))[1]
            self.asked = max(self.asked, last)
            if kind == "summary":
                self._take_text(event, last)

    def _take_text(self, event: Record, last: int) -> None:
        origin, text = event.get("origin"), str(event["text"])
        self.origin = least_trusted(self.origin, origin if origin in ORIGINS else ORIGINS[-1])
        if text.strip() and text != FORGOTTEN:
            self.text, self.source, self.covered = text, str(event["source"]), max(self.covered, last)

    def as_json(self) -> Record:
        return fields_of(self)
