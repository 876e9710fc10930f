"""A session as a memory of entries: what it is called, how much it holds, and which requests it has seen."""

from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from ctxwrap.types import Message, Record

_REQUESTS = 512
"""So many of the newest requests are known again."""


class Request(NamedTuple):
    """A request that added an entry."""

    number: int
    """Of the message."""
    said: str
    """A digest of what was asked for."""


@dataclass(slots=True)
class Collected:
    title: str = ""
    kind: str = ""
    description: str = ""
    entries: int = 0
    """How many messages it holds that are no instructions and were not purged."""
    characters: int = 0
    newest: str = ""
    """When the last of them came."""
    requests: dict[str, Request] = field(default_factory=dict)

    def take_message(self, number: int, message: Message, record: Record) -> None:
        control = record.get("ctx") or {}
        asked = control.get("request")
        if isinstance(asked, dict):
            self.requests[str(asked["id"])] = Request(number, str(asked["said"]))
            while len(self.requests) > _REQUESTS:
                self.requests.pop(next(iter(self.requests)))
        if message.role != "system" and "purged" not in control:
            self.entries += 1
            self.characters += len(message.text)
            self.newest = str(control.get("time") or self.newest)

    def take_event(self, event: Record) -> None:
        if event.get("type") == "memory":
            self.title, self.kind = str(event.get("title") or ""), str(event.get("memory_type") or "")
            self.description = str(event.get("description") or "")

    def as_json(self) -> Record:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Record) -> "Collected":
        requests = {id: Request(*known) for id, known in value["requests"].items()}
        return cls(**{**value, "requests": requests})
