"""Documents in a session's state: context document, summaries, entries of agents, results of child sessions."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ctxwrap.memory.items import ORIGINS, Origin, least_trusted
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.append_only_file import line
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.session.swap import shortened
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import message_range
from ctxwrap.types import Message, Record, SourcedText

DOCUMENT = "context/document.md"

EXTRACT = "extract"
"""The author of a version made by rules."""

NEWEST = 50
"""The maximum number of versions with a known position."""


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
        return asdict(self)


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

    def take_message(self, number: int, message: Message, record: Record) -> None:
        control = record.get("ctx") or {}
        asked = control.get("request")
        if isinstance(asked, dict):
            self.requests[str(asked["id"])] = SeenRequest(number, str(asked["said"]))
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
        return asdict(self)


CHILD = "context/child"

_SHOWN = 8
"""The most results offered to a call."""

_LARGEST = 64 * 1024
"""The most bytes of each."""

STATUSES = ("pending", "active", "done", "error", "cancelled")


class Children:
    def __init__(self, known: dict[str, Record] | None = None) -> None:
        self.known = known or {}
        """By name: agent, session, status and, once it is done, the beginning of the result."""
        self._unsaved: dict[str, bytes] = {}
        self._unlinked: list[tuple[str, str]] = []

    @property
    def refs(self) -> tuple[Record, ...]:
        """The results, as refs."""
        return tuple(
            {"id": name, "path": f"{CHILD}/{name}/result.md", "kind": "child_result", "summary": child["summary"]}
            for name, child in sorted(self.known.items())
            if child.get("summary")
        )

    def results(self, files: Files) -> Iterator[SourcedText]:
        """The results, newest first.

        The parent does not know what a child has read, so a result is trusted like a tool output.
        """
        names = [name for name, child in self.known.items() if child.get("summary")]
        for name in names[: -_SHOWN - 1 : -1]:
            place = f"{CHILD}/{name}/result.md"
            data = (files.load(place) or b"")[:_LARGEST]
            yield SourcedText(place, data.decode("utf-8", "replace"), "tool")

    def take(self, event: Record) -> None:
        name = event.get("child")
        if not isinstance(name, str) or not is_legal_name(name):
            return
        if event["type"] == "agent.child.start":
            self.known[name] = {"agent": str(event["agent"]), "session": str(event["session"]), "status": "active"}
            self._write(name, agent=self.known[name]["agent"], session=self.known[name]["session"], status="active")
            self._write(name, **{"handoff.md": str(event["handoff"])})
        elif event["type"] == "agent.child.result" and name in self.known:
            result, status = str(event["result"]), str(event["status"])
            self.known[name] |= {"status": status, "summary": shortened(result) or "no text"}
            self._write(name, status=status, **{"result.md": result})
            self._unsaved[f"{CHILD}/{name}/refs.jsonl"] = b"".join(line(each) for each in event.get("refs") or ())
            self._link(name, event.get("artifacts") or ())
        elif event["type"] == "agent.child.cancel" and name in self.known:
            self.known[name]["status"] = "cancelled"
            self._write(name, status="cancelled")

    def _write(self, name: str, **files: str) -> None:
        for file, text in files.items():
            self._unsaved[f"{CHILD}/{name}/{file}"] = text.encode("utf-8", "backslashreplace") + b"\n"

    def _link(self, name: str, artifacts: Iterable[Any]) -> None:
        for artifact in artifacts:
            if is_legal_name(artifact["name"]) and is_legal_name(artifact["blob"]["id"]):
                place = f"{CHILD}/{name}/artifact/{artifact['name']}"
                self._unlinked.append((f"raw/{artifact['blob']['id']}", place))

    def save(self, files: Files) -> None:
        for place, data in self._unsaved.items():
            files.save(place, data)
        for raw, place in self._unlinked:
            files.link(raw, place)
        self._unsaved, self._unlinked = {}, []

    def as_json(self) -> Record:
        return self.known

    @classmethod
    def from_json(cls, value: Record) -> "Children":
        return cls({name: dict(child) for name, child in value.items()})
