"""Swap: what left the prompt window, listed in an index with where it lies in the log; nothing is copied.

Messages leave in chunks of a fixed number, when as many newer ones are there; memory items when they fade. A chunk's
name is a digest of what its messages say, so that a line of the index can be checked against the log.
"""

import json
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any

from ctxwrap.memory.items import Item
from ctxwrap.memory.likeness import telling_words
from ctxwrap.session.abi import blob_name
from ctxwrap.session.alignment import Digest
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.growing import Growing
from ctxwrap.stages.tokens import estimate, estimate_message
from ctxwrap.storage import Files
from ctxwrap.types import Message, Record

INDEX = "context/swap/index.jsonl"
CHUNKS = "context/swap/chunk"

CHUNK = 40
"""So many messages make a chunk."""

_TERMS = 48
"""So many words of a chunk stand in its line, so that it is found by them."""

_SHOWN = 160

_READ = 4000
"""So many characters of a message are looked at for words."""


def shortened(text: str, limit: int = _SHOWN) -> str:
    """The text on one line, printable, and no longer than that."""
    text = text[: 4 * limit]
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


@dataclass(slots=True)
class Chunk:
    """Messages in a row."""

    first: int
    last: int = 0
    start: str = ""
    """The id of the first message."""
    end: str = ""
    digest: str = ""
    tokens: int = 0
    asked: str = ""
    """What the user said first."""
    words: set[str] = field(default_factory=set)
    outputs: list[Record] = field(default_factory=list)
    """What tools gave that is kept apart."""

    def add(self, number: int, message: Message, said: Digest, record: Record) -> None:
        id = str((record.get("ctx") or {}).get("id") or "")
        self.last, self.start, self.end = number, self.start or id, id
        self.digest = sha256(f"{self.digest}{said}".encode()).hexdigest()
        self.tokens += estimate_message(message)
        if message.role == "user" and not self.asked:
            self.asked = shortened(message.text)
        self.words |= telling_words(message.text[:_READ])
        if message.role == "tool":
            self.outputs += [_output(blob, number, message) for blob in blobs_in(record)]

    def as_line(self) -> Record:
        return {
            "id": f"sha256-{self.digest[:56]}",
            "kind": "message_range",
            "source": "messages.jsonl",
            "range": f"{self.first}-{self.last}",
            "summary": self.asked or "no message of a user",
            "tokens": self.tokens,
            "terms": self.terms,
            "digest": f"sha256:{self.digest}",
        }

    @property
    def terms(self) -> list[str]:
        """The words by which it is found: long ones first, since they tell more."""
        return sorted(sorted(self.words, key=lambda word: (-len(word), word))[:_TERMS])

    def as_reference(self) -> Record:
        return {
            "source": "messages.jsonl",
            "start_event": self.start,
            "end_event": self.end,
            "hash": f"sha256:{self.digest}",
        }

    def as_json(self) -> Record:
        return {**{each.name: getattr(self, each.name) for each in fields(self)}, "words": sorted(self.words)}

    @classmethod
    def from_json(cls, value: Record) -> "Chunk":
        return cls(**{**value, "words": set(value["words"])})


def _output(blob: Record, number: int, message: Message) -> Record:
    return {
        "id": blob["id"],
        "kind": "tool_output",
        "source": f"context/dedup/blob/{blob['id']}",
        "range": f"{number}-{number}",
        "summary": shortened(message.text) or "no text",
        "tokens": estimate(message.text),
        "digest": blob["digest"],
    }


class SwapIndex:
    def __init__(self, size: int = 0, open: Chunk | None = None, closed: list[Chunk] | None = None) -> None:
        self.index = Growing(INDEX, size)
        self._open = open
        self._closed = closed or []
        """Whole, but not old enough to leave."""
        self.references: dict[str, Record] = {}
        """What is to lie in files of its own: where each new chunk begins and ends."""

    def take_message(self, number: int, message: Message, said: Digest, record: Record) -> None:
        if self._open is None:
            self._open = Chunk(number)
        self._open.add(number, message, said, record)
        if self._open.last - self._open.first + 1 >= CHUNK:
            self._closed.append(self._open)
            self._open = None

    def let_go(self, messages: int) -> None:
        """Let the chunks leave that are old enough when there are so many messages."""
        while self._closed and self._closed[0].last + CHUNK <= messages:
            chunk = self._closed.pop(0)
            line = chunk.as_line()
            self.index.add(line)
            self.references[f"{CHUNKS}/{line['id']}"] = chunk.as_reference()
            for output in chunk.outputs:
                self.index.add(output)

    def take_item(self, item: Item) -> None:
        """An item of memory that nobody mentioned for too long."""
        name, whole = blob_name(f"{item.id}\n{item.content}".encode("utf-8", "surrogatepass"))
        line: dict[str, Any] = {
            "id": name,
            "kind": "message_range",
            "source": "messages.jsonl",
            "range": item.source.removeprefix("messages:"),
            "summary": shortened(item.content, 1000) or "no text",
            "tokens": estimate(item.content),
            "item": item.id,
            "origin": item.origin,
            "digest": whole,
        }
        self.index.add(line)

    def save(self, files: Files) -> bool:
        for name, reference in self.references.items():
            files.save(name, _json(reference))
        self.references = {}
        return self.index.save(files)

    def as_json(self) -> Record:
        return {
            "size": self.index.size,
            "open": self._open and self._open.as_json(),
            "closed": [chunk.as_json() for chunk in self._closed],
        }

    @classmethod
    def from_json(cls, value: Record) -> "SwapIndex":
        chunks = [Chunk.from_json(each) for each in value["closed"]]
        return cls(value["size"], Chunk.from_json(value["open"]) if value["open"] else None, chunks)


def _json(record: Record) -> bytes:
    return json.dumps(record, indent=2).encode() + b"\n"
