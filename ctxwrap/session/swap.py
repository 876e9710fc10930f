"""Swap: an index of content outside the prompt, with its position in the log.

Messages are grouped in chunks. A chunk is listed when the newest pack begins after its last message, and removed from
the list when a later pack begins before that. A large tool output is listed once, when no message with it is in the
window; a memory item as long as it is faded. A file under `context/swap/chunk/` refers to the log where the log has the
content in one place.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import sha256

from ctxwrap.language.words import words_in
from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.similarity import content_words
from ctxwrap.session.abi import blob_name
from ctxwrap.session.append_only_file import AppendOnlyFile
from ctxwrap.session.branch import Digest
from ctxwrap.session.extract import DigestRow, Extract
from ctxwrap.stores.base import Files
from ctxwrap.tokens.measure import estimate_tokens
from ctxwrap.types import Message, Record

INDEX = "context/swap/index.jsonl"
CHUNKS = "context/swap/chunk"

CHUNK = 40
"""Messages per chunk."""

_CHUNK_TOKENS = 4000
"""Fewer messages with this many tokens are a chunk, too."""

_TERMS = 48
"""Search words in a chunk's line."""

_SHOWN = 160

_READ = 4000
"""The characters of a message searched for words."""

_AT_HAND = 64
"""The maximum number of listed chunks that can return to the window."""

_OUTPUTS = 512
"""The maximum number of tool outputs with a known last position."""


def shortened(text: str, limit: int = _SHOWN) -> str:
    """The text on one printable line, shortened."""
    text = text[: 4 * limit]
    if not text.isprintable():
        text = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def next_digest(before: str, said: Digest) -> str:
    """The digest of a chunk with one more message, starting from its first message's number.

    The number makes chunks with equal text different.
    """
    return sha256(f"{before}{said}".encode()).hexdigest()


@dataclass(slots=True, eq=False)
class Chunk:
    """Consecutive messages."""

    first: int
    last: int = 0
    start: str = ""
    """The id of the first message."""
    end: str = ""
    digest: str = ""
    tokens: int = 0
    words: set[str] = field(default_factory=set)
    extract: Extract = field(default_factory=Extract)
    gave: str = ""
    """The first tool output, shortened."""
    outputs: dict[str, Record] = field(default_factory=dict)
    """Tool outputs that are stored as blobs and were not repeated, by blob name."""
    _row: DigestRow | None = None
    _summary: str = ""
    """What a full chunk is listed with, once it was."""
    _unread: list[tuple[int, str, str]] = field(default_factory=list)
    """Number, role and text of messages whose words and sentences were not looked at yet."""

    def add(self, number: int, message: Message, said: Digest, tokens: int, id: str) -> None:
        self.last, self.start, self.end = number, self.start or id, id
        self.digest = next_digest(self.digest or str(self.first), said)
        self.tokens += tokens
        self._unread.append((number, message.role, message.text[:_READ]))

    def add_output(self, number: int, message: Message, blobs: Sequence[Record]) -> None:
        """Add the tool output in the last message."""
        self.gave = self.gave or shortened(message.text)
        self.outputs |= {str(blob["id"]): _output(blob, number, message, self.end) for blob in blobs}

    def read(self) -> None:
        """Look at the words and sentences of new messages."""
        if not self._unread:
            return
        pieces = set[str]().union(*(_pieces_of(text) for _, _, text in self._unread))  # most occur several times
        self.words |= content_words(" ".join(pieces))
        for number, role, text in self._unread:
            self.extract.add(number, role, text)
        self._unread.clear()

    @property
    def is_full(self) -> bool:
        return self.last - self.first + 1 >= CHUNK or self.tokens >= _CHUNK_TOKENS

    @property
    def name(self) -> str:
        return f"sha256-{self.digest[:56]}"

    @property
    def row(self) -> DigestRow:
        """Its extracted sentences; other candidates and words are dropped once it is full."""
        if self._row is None:
            self.read()
            row = DigestRow(self.first, self.last, self.extract.best())
            if not self.is_full:
                return row
            self._row, self.extract, self.words = row, Extract(), set(self.terms)
        return self._row

    @property
    def terms(self) -> list[str]:
        """Its search words, long ones first, since they are more specific."""
        self.read()
        return sorted(sorted(sorted(self.words), key=len, reverse=True)[:_TERMS])

    def as_line(self) -> Record:
        return {
            "id": self.name,
            "kind": "message_range",
            "source": "messages.jsonl",
            "range": f"{self.first}-{self.last}",
            "summary": self.summary,
            "tokens": self.tokens,
            "terms": self.terms,
            "digest": f"sha256:{self.digest}",
        }

    @property
    def summary(self) -> str:
        if not self._summary:
            self._summary = self.row.text or self.gave or "no message that says anything"
        return self._summary

    @property
    def ref(self) -> Record:
        return {"id": self.name, "path": f"{CHUNKS}/{self.name}", "kind": "swap", "summary": self.summary}

    def as_reference(self) -> Record:
        return _reference("messages.jsonl", self.start, self.end, f"sha256:{self.digest}")

    def as_json(self) -> Record:
        self.read()
        known = {name: getattr(self, name) for name in _LASTING}
        return {**known, "words": sorted(self.words), "extract": self.extract.as_json()}

    @classmethod
    def from_json(cls, value: Record) -> "Chunk":
        row = value["_row"] and DigestRow.from_json(value["_row"])
        extract = Extract.from_json(value["extract"])
        return cls(**{**value, "words": set(value["words"]), "extract": extract, "_row": row})


def _pieces_of(text: str) -> Iterable[str]:
    """Pieces of a text that together have its words; those of a message that was indexed just now are known."""
    return text.split() if "_" in text else words_in(text).distinct


_LASTING = tuple(each.name for each in fields(Chunk) if each.name not in ("_summary", "_unread"))


class SwapIndex:
    def __init__(self, size: int = 0) -> None:
        self.index = AppendOnlyFile(INDEX, size)
        self._open: Chunk | None = None
        self._closed: list[Chunk] = []
        """Full chunks that are still in the window."""
        self._left: list[Chunk] = []
        """The newest listed chunks."""
        self._outputs: dict[str, int] = {}
        """The last message with a tool output, by blob name."""
        self._events: dict[int, str] = {}
        """Events of tool outputs in messages that are not listed yet."""
        self._has_window = False
        """Whether a pack was ever sent."""
        self._files: dict[str, Record | None] = {}
        """Chunk files to write or to remove."""
        self.filled: list[Chunk] = []
        """Chunks that became full since this list was last emptied."""

    def take_message(
        self, number: int, message: Message, said: Digest, tokens: int, id: str, blobs: Sequence[Record]
    ) -> None:
        chunk = self._open
        if chunk is None:
            chunk = self._open = Chunk(number)
        is_output = message.role == "tool"
        if is_output:
            for blob in blobs:
                self._note_output(str(blob["id"]), number)
        chunk.add(number, message, said, tokens, id)
        if is_output:
            chunk.add_output(number, message, blobs)
        if chunk.is_full:
            self._closed.append(chunk)
            self.filled.append(chunk)
            self._open = None

    def _note_output(self, name: str, number: int) -> None:
        """A repeated tool output is in the window again."""
        before = self._outputs.pop(name, None)
        if before is not None:
            chunk = next((each for each in self._chunks() if each.first <= before <= each.last), None)
            if chunk is not None:
                chunk.outputs.pop(name, None)
            if chunk is None or chunk in self._left:
                self._remove(name)
        self._outputs[name] = number
        if len(self._outputs) > _OUTPUTS:
            self._outputs.pop(next(iter(self._outputs)))

    def _chunks(self) -> Iterator[Chunk]:
        """Newest first."""
        yield from [self._open] if self._open else []
        yield from reversed(self._closed)
        yield from reversed(self._left)

    @property
    def open(self) -> Chunk | None:
        return self._open

    @property
    def refs(self) -> tuple[Record, ...]:
        """The newest listed chunks, as refs."""
        return tuple(chunk.ref for chunk in self._left)

    def take_result(self, number: int, event: str) -> None:
        """The event of the tool output in a message."""
        self._events[number] = event

    def begin_window(self, first: int) -> None:
        """Record that a pack began with message `first`."""
        self._has_window = True
        self._move(first)

    def end_turn(self, messages: int) -> None:
        """Record the number of messages; before the first pack, the newest ones count as the window."""
        if not self._has_window:
            self._move(messages - CHUNK + 1)

    def _move(self, first: int) -> None:
        """List exactly what lies before the first message of the window."""
        while self._closed and self._closed[0].last < first:
            chunk = self._closed.pop(0)
            self._left.append(chunk)
            self._list(chunk)
        while self._left and self._left[-1].last >= first:
            chunk = self._left.pop()
            self._closed.insert(0, chunk)
            for name in (chunk.name, *chunk.outputs):
                self._remove(name)
        del self._left[:-_AT_HAND]

    def _list(self, chunk: Chunk) -> None:
        self._add(chunk.name, chunk.as_line, chunk.as_reference())
        events = {number: self._events.pop(number) for number in list(self._events) if number <= chunk.last}
        for name, output in chunk.outputs.items():
            output["event"] = output["event"] or events.get(output["number"], "")
            self._add(name, partial(_output_line, name, output), _output_reference(output))

    def _add(self, name: str, line: Callable[[], Record], chunk: Record) -> None:
        self.index.add(name, line)
        self._files[f"{CHUNKS}/{name}"] = chunk

    def _remove(self, name: str) -> None:
        self.index.remove(name)
        self._files[f"{CHUNKS}/{name}"] = None

    def take_item(self, item: MemoryItem) -> None:
        """List a faded memory item."""
        name, digest = _item_name(item)
        said = {"source": "messages.jsonl", "range": item.source.removeprefix("messages:")}
        line: Record = {
            "id": name,
            "kind": "memory",
            **said,
            "summary": shortened(item.content, 1000) or "no text",
            "tokens": estimate_tokens(item.content),
            "item": item.id,
            "origin": item.origin,
            "digest": digest,
        }
        content = {"item": item.id, "type": item.type, "content": item.content, "hash": digest}
        self._add(name, lambda: line, {**said, **content})

    def return_item(self, item: MemoryItem) -> None:
        """Remove an item that returned to memory or changed."""
        self._remove(_item_name(item)[0])

    def save(self, files: Files) -> bool:
        for name, record in self._files.items():
            if record is None:
                files.remove(name)
            else:
                files.save(name, _json(record))
        self._files = {}
        return self.index.save(files)

    def as_json(self) -> Record:
        return {
            "size": self.index.size,
            "open": self._open and self._open.as_json(),
            "closed": [chunk.as_json() for chunk in self._closed],
            "left": [chunk.as_json() for chunk in self._left],
            "outputs": self._outputs,
            "events": list(self._events.items()),
            "has_window": self._has_window,
        }

    @classmethod
    def from_json(cls, value: Record) -> "SwapIndex":
        swap = cls(value["size"])
        swap._open = Chunk.from_json(value["open"]) if value["open"] else None
        swap._closed = [Chunk.from_json(each) for each in value["closed"]]
        swap._left = [Chunk.from_json(each) for each in value["left"]]
        swap._outputs, swap._events = value["outputs"], dict(value["events"])
        swap._has_window = value["has_window"]
        return swap


def _output(blob: Record, number: int, message: Message, id: str) -> Record:
    return {
        "number": number,
        "message": id,
        "event": "",
        "summary": shortened(message.text) or "no text",
        "tokens": estimate_tokens(message.text),
        "digest": blob["digest"],
    }


def _output_line(name: str, output: Record) -> Record:
    event, number = output["event"], output["number"]
    return {
        "id": name,
        "kind": "tool_output",
        "source": "events.jsonl" if event else "messages.jsonl",
        **({"event": event} if event else {}),
        "range": f"{number}-{number}",
        **{field: output[field] for field in ("summary", "tokens", "digest")},
    }


def _output_reference(output: Record) -> Record:
    source, at = ("events.jsonl", output["event"]) if output["event"] else ("messages.jsonl", output["message"])
    return _reference(source, at, at, output["digest"])


def _reference(source: str, start: str, end: str, digest: str) -> Record:
    return {"source": source, "start_event": start, "end_event": end, "hash": digest}


def _item_name(item: MemoryItem) -> tuple[str, str]:
    """The chunk name and digest of an item."""
    return blob_name(f"{item.id}\n{item.content}".encode("utf-8", "surrogatepass"))


def _json(record: Record) -> bytes:
    """A record of texts, a line for each: `json` takes ten times as long to indent."""
    lines = [f"  {_encode(name)}: {_encode(value)}" for name, value in record.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


_encode = json.JSONEncoder().encode
