"""A session with a past, written the way turns write it."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ctxwrap.memory.items import MemoryItem
from ctxwrap.session.session import Session
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record
from ctxwrap.types import Message, Record, Request, SessionKey

KEY = SessionKey("default", "default", "s")
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)


def item(id: str, content: str, **more: Any) -> MemoryItem:
    known = {"type": "fact", "tags": (), "tier": "ephemeral", "decay": 0.5, "anchor": 1, "first": 1, "last": 1}
    return MemoryItem.from_json({"id": id, "content": content, **known, **more})


class Teller:
    def __init__(self, store: Store, key: SessionKey = KEY) -> None:
        self.store, self.key = store, key
        self.session = Session(key, store.open(key))
        self.turns = 0

    @property
    def place(self) -> dict[str, Any]:
        return {"store": self.store, "tenant": self.key.tenant, "agent": self.key.agent}

    def says(self, text: str, *more: Message, answer: str = "I see.", keeps: Sequence[MemoryItem] = ()) -> None:
        """One turn: what a user says, what tools gave, the answer, and what it remembers."""
        self.turns += 1
        turn, session = f"t{self.turns}", self.session
        with session.locked():
            opening = session.open_turn(Request((Message("user", text), *more)), NOW)
            said = [as_record(message, round=number) for message, number in opening.new]
            start = {"type": "start", "run": turn, "runtime": opening.runtime.as_json(), "ctx": {}}
            recalled = [operation._asdict() for operation in opening.recalled]
            recall = {"type": "recall", "run": turn, "round": opening.runtime.round, "operations": recalled, "ctx": {}}
            session.append(turn, said, [start, *([recall] if recalled else [])], NOW, part="o")
        with session.locked():
            added = [{"kind": "add", "id": each.id, "tier": each.tier, "item": each.as_json()} for each in keeps]
            snapshot = {"type": "snapshot", "run": turn, "round": opening.runtime.round, "operations": added, "ctx": {}}
            done: Record = {"type": "done", "run": turn, "status": "ok", "ctx": {}}
            reply = as_record(Message("assistant", answer), round=opening.runtime.round)
            session.append(turn, [reply], [*([snapshot] if added else []), done], NOW, part="c")

    def chats(self, rounds: int, about: str = "the weather") -> None:
        for number in range(rounds):
            self.says(f"Let us talk about {about}, time {number}.")


def directory_of(store: Store, key: SessionKey = KEY) -> Path:
    assert isinstance(store, FileStore)
    return store.open(key).directory


def hashes(directory: Path, *patterns: str) -> dict[str, str]:
    """What the files hold that fit a pattern."""
    found = [path for pattern in patterns for path in sorted(directory.glob(pattern)) if path.is_file()]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


TRUTH = ("messages.jsonl", "events.jsonl", "raw/*", "*.torn-*")
