"""Logs to make evidence of: conversations that really took place, and starts of turns as a test wants them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import openai

import ctxwrap
from ctxwrap.pack.receipt import EventIds
from ctxwrap.protocol.instructions import boundary_of, frame_text, sanitise_framed
from ctxwrap.session.blobs import stored
from ctxwrap.session.missing import pack_events
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Provider
from ctxwrap.types import SessionKey
from tests.support import Told

KEY = SessionKey("default", "default", "s")
TIME = "2026-02-20T18:45:12.000001Z"
BOUNDARY = boundary_of(KEY)
TIERS = ("core", "working", "ephemeral")


class Chat:
    """A wrapped client that says things in a session."""

    def __init__(self, provider: Provider, store: Store, **settings: Any) -> None:
        plain = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        self.provider = provider
        self.client: Any = ctxwrap.wrap(plain, store=store, **{"session": "s", **settings})

    def say(self, *messages: str | dict[str, Any], answer: Any = None, **how: Any) -> Any:
        self.provider.answer = answer or Told()
        sent = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
        return self.client.chat.completions.create(model="practice", messages=sent, **how)


def working_set(directory: Path, files: Mapping[str, str], missing: Mapping[str, float] | None = None) -> str:
    """A manifest of these files and of some that are not there, with their priorities."""
    directory.mkdir(exist_ok=True)
    lines = ["version: 1", "files:"]
    for name, text in files.items():
        (directory / name).write_text(text)
        lines += [f"  - path: {name}", "    priority: 0.9"]
    for name, priority in (missing or {}).items():
        lines += [f"  - path: {name}", f"    priority: {priority}"]
    (directory / "working-set.yml").write_text("\n".join(lines) + "\n")
    return str(directory / "working-set.yml")


def append(store: Store, stream: str, *records: Mapping[str, Any], turn: str = "t1") -> None:
    log = store.open(KEY)
    first = len(log.read(stream)[0]) + 1
    control = {"v": 1, "turn": turn, "time": TIME}
    with log.locked():
        numbered = [
            {**record, "ctx": {**control, "seq": at, "id": f"{stream}-{at}", **record.get("ctx", {})}}
            for at, record in enumerate(records, first)
        ]
        log.append({stream: numbered})


def say(store: Store, *messages: tuple[str, str]) -> None:
    append(store, "messages", *({"role": role, "content": text} for role, text in messages))


def frame(path: str, text: str) -> str:
    """A text of the session's or a file, as a pack frames it."""
    return frame_text(sanitise_framed(text, BOUNDARY), path, "context", BOUNDARY)


def entry(kind: str, source: str, included: bool = True, **more: Any) -> dict[str, Any]:
    """One candidate of a pack."""
    reason = more.pop("reason", "chosen" if included else "over budget: 7 tokens, 3 left")
    return {"kind": kind, "source": source, "tokens": 7, "included": included, "reason": reason, **more}


FIXED = (entry("system", "protocol"), entry("memory", "events.jsonl"), entry("request", "caller", origin="user"))
"""What every pack begins with."""


def begin(
    store: Store,
    *pack: Mapping[str, Any],
    run: str = "t1",
    kind: str = "start",
    mode: str = "enabled",
    system: str = "",
    conversation: str = "",
    memory: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    epoch: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    found: Sequence[Sequence[Any]] = (),
    texts: Mapping[str, str] | None = None,
    report: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
) -> None:
    """Let a turn begin that sends this pack."""
    kept = {
        name: stored(text.encode("utf-8", "surrogatepass"), store.open(KEY).files, "bytes", lasting=False)
        for name, text in (texts or {}).items()
    }
    event: dict[str, Any] = {
        "type": kind,
        "run": run,
        "model": "practice",
        "mode": mode,
        "wire": "openai_chat",
        "runtime": {"round": 1, "datetime": TIME, "startup_at": TIME},
        "pack": list(pack),
        "budget": {
            "limit": 100,
            "set_by": "settings",
            "reply": 20,
            "fixed": 30,
            "effective": 70,
            "used": 14,
            "spent": {"pinned": 14},
            "counter": "estimate",
            "exact": False,
        },
        "prefix": {"head": [], "messages": conversation},
        "sent": {
            "protocol": "full",
            "system": system,
            "epoch": epoch is not None,
            "state": {"memory": tiers(memory), "capabilities": [], "active_task": "", **(state or {})},
            "found": [list(each) for each in found],
            "texts": {name: blob["id"] for name, blob in kept.items()},
        },
        "stable": 0.0,
        "sha256": "0" * 64,
        "ctx": {"blobs": list(kept.values())},
    }
    event |= {"epoch": tiers(epoch)} if epoch is not None else {}
    event |= {"assembly_report": dict(report)} if report else {}
    append(store, "events", event, *pack_events((), (), report or {}, EventIds("s", run, 1)), turn=run)


def tiers(memory: Mapping[str, Sequence[Mapping[str, Any]]] | None) -> dict[str, list[Any]]:
    return {tier: list((memory or {}).get(tier, ())) for tier in TIERS}


def done(store: Store, run: str = "t1", **more: Any) -> None:
    event = {"type": "done", "run": run, "status": "ok", "reason": "stop", "response_id": "r-1", "model": "practice"}
    append(store, "events", {**event, "usage": {"prompt_tokens": 44}, **more}, turn=run)
