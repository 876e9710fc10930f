"""Derived files of a session: updated as the log grows, rebuilt at any time.

They depend only on the records and their order within each stream, never on when they were read, so a rebuild writes
the same bytes.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from ctxwrap.memory.items import MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.session.blobs import DedupIndex, blobs_in
from ctxwrap.session.children import Children
from ctxwrap.session.compression import Compression, CompressionInput
from ctxwrap.session.documents import DOCUMENT, Documents, EntryLedger, Summaries
from ctxwrap.session.extract import ConversationDigest, DigestRow, is_address, paths_in
from ctxwrap.session.inputs import INPUTS
from ctxwrap.session.open_turns import Compliance
from ctxwrap.session.swap import SwapIndex, shortened
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import MALFORMED
from ctxwrap.tokens.measure import estimate_message_tokens
from ctxwrap.types import Message, Record

logger = logging.getLogger("ctxwrap")

_REFS = 50
"""The maximum number of tool outputs among the refs, and of files that users named."""

_READ = 2000
"""The characters of a user's message searched for file names."""

_SHOWN = 300
"""The characters shown of the last messages."""

_UNREAD = 8
"""The maximum number of full chunks of messages whose texts were not looked at."""

_WAITING = 128
"""The maximum number of records that are not folded yet."""

COUNTING = ("done", "entry")
"""Events that record the number of messages."""

_OF_EVERY_TURN = frozenset({"start", "snapshot", "done"})

Crossings = Sequence[tuple[MemoryItem | None, MemoryItem]]
"""Items that came to swap or left it."""


class Newest:
    """The newest refs, each id once."""

    def __init__(self, most: int, refs: Iterable[Record] = ()) -> None:
        self._most = most
        self._refs = {str(ref["id"]): ref for ref in refs}

    def put(self, ref: Record) -> None:
        self._refs.pop(ref["id"], None)
        self._refs[ref["id"]] = ref
        if len(self._refs) > self._most:
            self._refs.pop(next(iter(self._refs)))

    def __iter__(self) -> Iterator[Record]:
        return iter(self._refs.values())


class Derived:
    """What the derived files show.

    Messages, and the events of every turn, wait until somebody looks at the files or many have come: to fold many takes
    little more time than to fold one. What turns read themselves, which is `summaries`, `documents`, `children`,
    `compliance` and `ended_at`, is folded at once.
    """

    def __init__(self) -> None:
        self.swap = SwapIndex()
        self.dedup = DedupIndex()
        self.children = Children()
        self.summaries = Summaries()
        self.documents = Documents()
        self.collected = EntryLedger()
        self.compliance = Compliance()
        self._digest = ConversationDigest()
        self._outputs = Newest(_REFS)
        self._files = Newest(_REFS)
        self._said: dict[str, str] = {}
        self._messages = 0
        self._round = 0
        self.created_at = ""
        self.updated_at = ""
        self.ended_at = ""
        """The time the session ended; empty if it was resumed since."""
        self._latest: str | None = None
        """The newest answer since this object was created."""
        self._compression = Compression()
        self._saved: dict[str, bytes] = {}
        """The contents last written, so that unchanged files are not written again."""
        self._waiting: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """How to fold what was taken and not folded yet, oldest first."""

    def take_message(self, number: int, message: Message, said: str, record: Record) -> None:
        self._wait(Derived._fold_message, number, message, said, record)

    def take_window(self, messages: Iterable[int]) -> None:
        """Take which messages a pack sends, 0 for those without a number."""
        self._wait(Derived._fold_window, messages)

    def take_event(self, event: Record, memory: Memory, number: int) -> None:
        kind, control, crossings = event.get("type"), event.get("ctx"), memory.take_crossings()
        if kind == "start":
            self.ended_at = ""
        elif kind == "snapshot":
            self.compliance.take(event)
        self._wait(Derived._fold_event, kind, control, event.get("runtime"))
        if kind not in _OF_EVERY_TURN:
            self.fold_waiting()
            self._take_other(event, number)
        if crossings:
            self._wait(Derived._fold_crossings, crossings)

    def _wait(self, fold: Callable[..., None], *taken: Any) -> None:
        self._waiting.append((fold, taken))
        if len(self._waiting) > _WAITING:
            self.fold_waiting()

    def fold_waiting(self) -> None:
        """Fold everything that was taken."""
        waiting, self._waiting = self._waiting, []
        for fold, taken in waiting:
            try:
                fold(self, *taken)
            except MALFORMED:
                logger.exception("derived files leave out a malformed record")

    def _fold_message(self, number: int, message: Message, said: str, record: Record) -> None:
        control, text, tokens = record.get("ctx") or {}, message.text, estimate_message_tokens(message)
        blobs = tuple(blobs_in(record)) if "blob" in control or "blobs" in control else ()
        self.swap.take_message(number, message, said, tokens, str(control.get("id") or ""), blobs)
        if len(self.swap.filled) > _UNREAD:
            self._digest_filled()
        if blobs:
            self.dedup.take(f"messages:{number}", blobs, tokens)
        self.collected.take_message(number, message.role, text, control)
        self._note_time(control)
        if message.role == "tool":
            for blob in blobs:
                self._outputs.put(_output(blob, message))
        elif message.role == "user":
            for path in paths_in(text[:_READ]):
                self._files.put(_file(path, message, number))
            if text:
                self._said["user"] = text[: 4 * _SHOWN]
        elif message.role == "assistant":
            self._latest = text
            if text:
                self._said["assistant"] = text[: 4 * _SHOWN]

    def _fold_window(self, messages: Iterable[int]) -> None:
        first = min(filter(None, messages), default=0)
        if first:
            self.swap.begin_window(first)

    def _fold_event(self, kind: Any, control: Any, runtime: Any) -> None:
        if isinstance(control, dict):
            self._note_time(control)
            if kind in COUNTING:
                self._messages = int(control.get("messages") or self._messages)
                self.swap.end_turn(self._messages)
        if kind == "start":
            self.created_at = self.created_at or str(runtime["startup_at"])
            self._round = max(self._round, int(runtime["round"]))

    def _fold_crossings(self, crossings: Crossings) -> None:
        for was, item in crossings:
            if was is not None:
                self.swap.return_item(was)
            if item.tier == "swap":
                self.swap.take_item(item)

    def _take_other(self, event: Record, number: int) -> None:
        """Fold an event that few turns have."""
        kind, control = event.get("type"), event.get("ctx")
        if isinstance(control, dict):
            if kind == "tool_result":
                self.swap.take_result(int(event["message"]), str(control.get("id") or ""))
            elif kind in ("memory", "entry"):
                self.created_at = self.created_at or str(control.get("time") or "")
            elif kind == "session_end":
                self.ended_at = str(control.get("time") or "")
        if kind == "entry":
            self.ended_at = ""
        self.summaries.take(event)
        self.documents.take(event, number)
        self.collected.take_event(event)
        self.children.take(event)

    def forget_saved(self) -> None:
        """Write all files the next time: another process may have written them."""
        self._saved = {}

    def save(self, files: Files, memory: Memory, state: str) -> bool:
        """Bring the files up to date; return False if an append-only one cannot be continued and needs a rebuild.

        While a turn is open only the session's state is written; the rest follows at its end.
        """
        for name, data in self._contents(memory, state).items():
            before = self._saved.get(name)
            if before != data:
                self._save(files, name, before or b"", data)
                self._saved[name] = data
        self.children.save(files)
        return all([self.swap.save(files), self.dedup.save(files)])

    @staticmethod
    def _save(files: Files, name: str, before: bytes, data: bytes) -> None:
        """Extend a file that became longer; to replace it takes more time."""
        is_longer = before and data.startswith(before)
        if not is_longer or not files.extend(name, data[len(before) :], len(before)):
            files.save(name, data)

    def _contents(self, memory: Memory, state: str) -> dict[str, bytes]:
        control = {"state": state, "created_at": self.created_at, "updated_at": self.updated_at}
        files = {name: f"{value}\n".encode() for name, value in control.items() if value}
        if state == "active":
            return files
        if self._latest is not None:
            files["latest.md"] = self._latest.encode("utf-8", "backslashreplace") + b"\n"
        if self.documents.text:
            files[DOCUMENT] = self.documents.text.encode("utf-8", "backslashreplace")
        return files | self._compression.files(memory, self._told)

    @property
    def _told(self) -> CompressionInput:
        return CompressionInput(
            messages=self._messages,
            round=self._round,
            user=shortened(self._said.get("user", ""), _SHOWN),
            assistant=shortened(self._said.get("assistant", ""), _SHOWN),
            summary=self.summaries.newest,
            rows=self._rows,
            refs=(*self._files, *self._outputs, *self.children.refs, *self.swap.refs),
            asked=self.compliance.total.asked,
            missing=self.compliance.total.missing,
            ended_at=self.ended_at,
        )

    @property
    def _rows(self) -> tuple[DigestRow, ...]:
        self._digest_filled()
        rows = (*self._digest.rows, *([self.swap.open.row] if self.swap.open else []))
        return tuple(row for row in rows if row.first > self.summaries.forgotten)

    def _digest_filled(self) -> None:
        for chunk in self.swap.filled:
            self._digest.add(chunk.row)
        self.swap.filled.clear()

    def _note_time(self, control: Record) -> None:
        time = control.get("time")
        if isinstance(time, str) and time > self.updated_at:
            self.updated_at = time

    def as_json(self) -> Record:
        self._digest_filled()
        return {
            "swap": self.swap.as_json(),
            "digest": self._digest.as_json(),
            "dedup": self.dedup.as_json(),
            "children": self.children.as_json(),
            "outputs": list(self._outputs),
            "files": list(self._files),
            "said": self._said,
            "messages": self._messages,
            "round": self._round,
            "summaries": self.summaries.as_json(),
            "documents": self.documents.as_json(),
            "collected": self.collected.as_json(),
            "compliance": self.compliance.as_json(),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "ended_at": self.ended_at,
        }

    @classmethod
    def from_json(cls, value: Record) -> "Derived":
        derived = cls()
        derived.swap = SwapIndex.from_json(value["swap"])
        derived.dedup = DedupIndex.from_json(value["dedup"])
        derived.children = Children.from_json(value["children"])
        derived._digest = ConversationDigest.from_json(value["digest"])
        derived._outputs, derived._files = Newest(_REFS, value["outputs"]), Newest(_REFS, value["files"])
        derived._said, derived._messages, derived._round = value["said"], value["messages"], value["round"]
        derived.summaries = Summaries(**value["summaries"])
        derived.documents = Documents(**value["documents"])
        derived.collected = EntryLedger.from_json(value["collected"])
        derived.compliance = Compliance(**value["compliance"])
        derived.created_at, derived.updated_at = value["created_at"], value["updated_at"]
        derived.ended_at = value["ended_at"]
        return derived


DERIVED = ("context", "latest.md")
"""Directories of derived files; inputs may lie beside them."""


def is_derived(name: str) -> bool:
    """Whether a file of that name is derived."""
    return name.partition("/")[0] in DERIVED and not name.startswith(INPUTS)


def _output(blob: dict[str, Any], message: Message) -> Record:
    return {
        "id": blob["id"],
        "path": f"context/dedup/blob/{blob['id']}",
        "kind": "tool_output",
        "summary": shortened(message.text) or "no text",
    }


def _file(path: str, message: Message, number: int) -> Record:
    at = message.text.find(path)
    return {
        "id": f"path-{sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}",
        "path": path,
        "kind": "artifact" if is_address(path) else "file",
        "summary": shortened(message.text[max(0, message.text.rfind("\n", 0, at)) :]),
        "source": f"messages:{number}-{number}",
    }
