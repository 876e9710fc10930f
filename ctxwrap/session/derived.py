"""What is made of a session's log and lies beside it: kept up to date as the log grows, made anew at any time.

Everything here follows from the records alone and from their order within each stream, never from when they were
read: whoever reads the log from its start gets the same bytes.
"""

from collections import deque
from typing import Any

from ctxwrap.memory.memory import Memory
from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.children import Children
from ctxwrap.session.collected import Collected
from ctxwrap.session.compliance import Compliance
from ctxwrap.session.compression import Compression, Told
from ctxwrap.session.dedup import DedupIndex
from ctxwrap.session.documents import DOCUMENT, Documents
from ctxwrap.session.inputs import INPUTS
from ctxwrap.session.summaries import Summaries
from ctxwrap.session.swap import SwapIndex, shortened
from ctxwrap.stages.tokens import estimate_message
from ctxwrap.storage import Files
from ctxwrap.types import Message, Record

_OUTPUTS = 50
"""So many of the newest tool outputs are listed among the refs."""

_SHOWN = 300
"""So many characters of what was said last are shown."""

COUNTING = ("done", "entry")
"""The events that say how many messages there are."""


class Derived:
    def __init__(self) -> None:
        self.swap = SwapIndex()
        self.dedup = DedupIndex()
        self.children = Children()
        self.summaries = Summaries()
        self.documents = Documents()
        self.collected = Collected()
        self.compliance = Compliance()
        self._outputs: deque[Record] = deque(maxlen=_OUTPUTS)
        self._said: dict[str, str] = {}
        self._messages = 0
        self._round = 0
        self.created_at = ""
        self.updated_at = ""
        self.ended_at = ""
        """When the session ended, unless it was resumed since."""
        self._latest: str | None = None
        """The newest answer, if one came since this was made."""
        self._compression = Compression()
        self._saved: dict[str, bytes] = {}
        """What was written to files, so that the same is not written twice."""

    def take_message(self, number: int, message: Message, said: str, record: Record) -> None:
        self.swap.take_message(number, message, said, record)
        self.dedup.take(f"messages:{number}", record, estimate_message(message))
        self.collected.take_message(number, message, record)
        self._note_time(record)
        if message.role == "tool":
            self._outputs += [_output(blob, message) for blob in blobs_in(record)]
        if message.role in ("user", "assistant") and message.text:
            self._said[message.role] = message.text[: 4 * _SHOWN]
        if message.role == "assistant":
            self._latest = message.text

    def take_event(self, event: Record, memory: Memory, number: int) -> None:
        kind, control = event.get("type"), event.get("ctx")
        self._note_time(event)
        if kind == "start":
            self.created_at = self.created_at or str(event["runtime"]["startup_at"])
            self._round = max(self._round, int(event["runtime"]["round"]))
        elif kind in COUNTING and isinstance(control, dict):
            self._messages = int(control.get("messages") or self._messages)
            self.swap.let_go(self._messages)
        if kind in ("memory", "entry") and isinstance(control, dict):
            self.created_at = self.created_at or str(control.get("time") or "")
        if kind == "session_end" and isinstance(control, dict):
            self.ended_at = str(control.get("time") or "")
        elif kind in ("start", "entry"):
            self.ended_at = ""
        self.summaries.take(event)
        self.documents.take(event, number)
        self.collected.take_event(event)
        self.children.take(event)
        self.compliance.take(event)
        for item in memory.departed:
            self.swap.take_item(item)
        memory.departed.clear()

    def save(self, files: Files, memory: Memory, state: str) -> bool:
        """Bring the files up to date; whether those that only grow can be right.

        While a turn is under way only its state is told: what it amounts to is known at its end.
        """
        for name, data in self._contents(memory, state).items():
            if self._saved.get(name) != data:
                files.save(name, data)
                self._saved[name] = data
        self.children.save(files)
        return all([self.swap.save(files), self.dedup.save(files)])

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
    def _told(self) -> Told:
        return Told(
            messages=self._messages,
            round=self._round,
            user=shortened(self._said.get("user", ""), _SHOWN),
            assistant=shortened(self._said.get("assistant", ""), _SHOWN),
            summary=self.summaries.newest,
            refs=(*self._outputs, *self.children.refs),
            asked=self.compliance.total.asked,
            missing=self.compliance.total.missing,
            ended_at=self.ended_at,
        )

    def _note_time(self, record: Record) -> None:
        control = record.get("ctx")
        if isinstance(control, dict) and isinstance(control.get("time"), str):
            self.updated_at = max(self.updated_at, control["time"])

    def as_json(self) -> Record:
        return {
            "swap": self.swap.as_json(),
            "dedup": self.dedup.as_json(),
            "children": self.children.as_json(),
            "outputs": list(self._outputs),
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
        derived._outputs.extend(value["outputs"])
        derived._said, derived._messages, derived._round = value["said"], value["messages"], value["round"]
        derived.summaries = Summaries(**value["summaries"])
        derived.documents = Documents(**value["documents"])
        derived.collected = Collected.from_json(value["collected"])
        derived.compliance = Compliance(**value["compliance"])
        derived.created_at, derived.updated_at = value["created_at"], value["updated_at"]
        derived.ended_at = value["ended_at"]
        return derived


DERIVED = ("context", "latest.md")
"""Where what can be made of the log again lies, beside what somebody put there."""


def is_derived(name: str) -> bool:
    """Whether a file of that name can be made of the log again."""
    return name.partition("/")[0] in DERIVED and not name.startswith(INPUTS)


def _output(blob: dict[str, Any], message: Message) -> Record:
    return {
        "id": blob["id"],
        "path": f"context/dedup/blob/{blob['id']}",
        "kind": "tool_output",
        "summary": shortened(message.text) or "no text",
    }
