"""What many tests need: scripted answers with a trailer where one is asked for, and a look into the log."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import settings

from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, compare
from ctxwrap.pack.receipt import STAGES
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, parse_block
from ctxwrap.protocol.snapshot import empty_state
from ctxwrap.session.blobs import inline
from ctxwrap.settings import MemoryRules
from ctxwrap.stores.base import Log
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import Answer, Ask
from ctxwrap.types import SessionKey

CANARY = "canary-in-the-trailer"
"""Stands in every scripted trailer; no view of a reply may show it."""

REMEMBERED = f"{CANARY} of w-1"
"""What a scripted trailer remembers, unless a test says otherwise."""

FORBIDDEN = (CANARY, SEPARATOR, "ctxwrap-context", "ctxwrap-protocol", '"startup_at"')
"""None of these may ever reach a caller of a wrapped client."""

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
"""How long property tests search: `ci`, or `thorough`, which tries more examples."""


def examples(thorough: int) -> settings:
    """How many examples a property test tries in the thorough profile; a third of them in the other."""
    return settings(max_examples=thorough if PROFILE == "thorough" else max(thorough // 3, 15))


def item(id: str, content: str = "", *, tier: str = "working", round: int = 1) -> dict[str, Any]:
    """A memory item as a model writes it."""
    content = content or f"{CANARY} of {id}"
    return {"id": id, "type": "fact", "decay": 0.4, "round": round, "tags": ["test"], "content": content}


def trailer(
    ask: Ask,
    working: Sequence[dict[str, Any]] = (),
    core: Sequence[dict[str, Any]] = (),
    dropped: Sequence[str] = (),
) -> str:
    """The trailer of a model that does what it is told: the runtime it was given, these items, and what goes."""
    state = {**state_shown(ask), "dropped": list(dropped)}
    state["memory"] = {"core": list(core), "working": list(working) or [item("w-1")], "ephemeral": []}
    return f"\n\n{SEPARATOR}\n{json.dumps(state, ensure_ascii=False)}"


def state_shown(ask: Ask) -> dict[str, Any]:
    """The state in the request's context block."""
    texts = [text for _, text in ask.messages] + [ask.system, json.dumps(ask.body, ensure_ascii=False)]
    states = [state for text in texts if (state := parse_block(text))]
    assert states, "the request carries no context block"
    return states[0]


class Told:
    """Answers `text`, with a trailer behind it when the request asks for one: bare and wrapped must look alike."""

    def __init__(self, text: str = "Hello, world.", **answer: Any) -> None:
        self.text = text
        self.answer = answer

    def __call__(self, ask: Ask) -> Answer:
        tail = trailer(ask) if asks_for_trailer(ask.system) and not self.answer.get("tool_calls") else ""
        return Answer(self.text + tail, **self.answer)


def assert_clean(*views: Any) -> None:
    """No byte of a trailer and no injected text in any of these."""
    for view in views:
        text = view if isinstance(view, str) else view.decode() if isinstance(view, bytes) else repr(view)
        for word in FORBIDDEN:
            assert word not in text, f"{word!r} leaked into {text[:2000]}"


def messages(home: Path, session: str, *, tenant: str = "default") -> list[dict[str, Any]]:
    """A session's messages as they stand on disk, with the contents that are kept apart."""
    files = FileStore(home).open(SessionKey(tenant, "default", session)).files
    return [inline(line, files) for line in lines(home, session, "messages", tenant=tenant)]


def events(home: Path, session: str, *, tenant: str = "default") -> list[dict[str, Any]]:
    """What happened in a session, without what the stages of its calls tell and the document that grows behind them."""
    return apart_from_stages(lines(home, session, "events", tenant=tenant))


def apart_from_stages(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] not in STAGES and event["type"] != "document"]


def documents(home: Path, session: str, *, tenant: str = "default") -> list[dict[str, Any]]:
    """The versions of a session's context document."""
    return [event for event in lines(home, session, "events", tenant=tenant) if event["type"] == "document"]


def lines(home: Path, session: str, stream: str, *, tenant: str = "default") -> list[dict[str, Any]]:
    """A stream as it stands on disk."""
    path = _directory(home, session, tenant) / f"{stream}.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def _directory(home: Path, session: str, tenant: str) -> Path:
    return home / "home" / tenant / "agent" / "default" / "session" / session


def said(home: Path, session: str, *, tenant: str = "default") -> list[tuple[str, Any]]:
    """Who said what, in order."""
    return [(message["role"], message["content"]) for message in messages(home, session, tenant=tenant)]


def holding(state: Mapping[str, Any], round: int = 1) -> Memory:
    """A memory that a model wrote in one go."""
    memory = Memory(MemoryRules())
    memory.apply(compare(empty_state(), state, memory, Circumstances(round)), round)
    return memory


class PassingLog:
    """A log that passes everything on to another; a test's own kind of log overrides what it is about."""

    def __init__(self, inner: Log) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
