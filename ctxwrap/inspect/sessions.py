"""Lists of sessions, and the details of one."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ctxwrap.errors import KeyMismatch
from ctxwrap.inspect.memory import counts_of
from ctxwrap.inspect.streams import StreamContents, check_known, control_in, loaded, round_in, text_in, whole_stream
from ctxwrap.inspect.turns import TurnInfo, turns_in
from ctxwrap.session.background import background
from ctxwrap.session.blobs import BLOBS, INDEX
from ctxwrap.session.children import CHILD
from ctxwrap.session.compression import SessionCountsLine, counts_in
from ctxwrap.session.lookup import finish_background_work
from ctxwrap.session.open_turns import Compliance
from ctxwrap.session.session import Session
from ctxwrap.session.verify.report import folded
from ctxwrap.stores.base import FileEntry, Files, Store
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import SessionKey

_SUMMARY = "context/summary.md"
_LONGEST = 100
"""Limit in bytes of a value in a control file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session in one line."""

    key: SessionKey
    state: str
    """active, idle, done, error, cancelled or ended; empty, like the times, if it was never written.

    It is `unreadable`, without other fields, if the store cannot open it: for example, encrypted and no key given.
    """
    rounds: int | None
    messages: int | None
    """None if only the log has it, as during a turn."""
    created_at: str
    updated_at: str
    size: int | None
    """In bytes, with derived files; None if the store does not keep its streams as files."""
    missing_snapshots: int = 0
    """Replies that lack a requested snapshot, up to the last ended turn."""
    missing_share: float = 0.0
    """Their share of all replies that should have one."""

    def as_json(self) -> dict[str, Any]:
        return {**self.key._asdict(), **{name: value for name, value in asdict(self).items() if name != "key"}}


class SessionTotals(NamedTuple):
    """A session's user, if it has one, and tokens, up to its last checkpoint; None if the session is unreadable."""

    user: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


class Listing(NamedTuple):
    sessions: tuple[SessionInfo, ...]
    """Newest first."""
    total: int
    """The number of all sessions."""


class Branching(NamedTuple):
    """A message that does not continue the one before it."""

    message: int
    id: str
    parent: str
    """The id of the message it continues, or `root`."""


class Contents(NamedTuple):
    """Large contents, which are stored outside their messages."""

    kept: int
    bytes: int
    saved_bytes: int
    """Bytes saved by storing each content once."""


class ChildInfo(NamedTuple):
    name: str
    agent: str
    session: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDetails:
    """The details of a session, with its whole log read."""

    info: SessionInfo
    branches: tuple[Branching, ...]
    memory: Mapping[str, int]
    """The number of items in each tier, and of those in swap that are loaded."""
    contents: Contents
    children: tuple[ChildInfo, ...]
    summary: str
    damaged: int
    """Damaged lines of the log."""
    snapshots: Mapping[str, Any]
    """Replies with a requested, missing and unusable snapshot, in total and per model."""
    turns: tuple[TurnInfo, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            **self.info.as_json(),
            "branches": [branching._asdict() for branching in self.branches],
            "memory": dict(self.memory),
            "contents": self.contents._asdict(),
            "children": [child._asdict() for child in self.children],
            "summary": self.summary,
            "damaged": self.damaged,
            "snapshots": dict(self.snapshots),
            "turns": [turn.as_json() for turn in self.turns],
        }


def sessions_of(store: Store, tenant: str, agent: str, limit: int | None = None) -> Listing:
    """List the sessions of one tenant and agent, or the newest of them; reads no log."""
    background.finish()
    return _newest(store, (SessionKey(tenant, agent, session) for session in store.sessions(tenant, agent)), limit)


def all_sessions(store: Store, limit: int | None = None) -> Listing:
    """List the sessions of all tenants and agents; for operators only."""
    background.finish()
    return _newest(store, store.keys(), limit)


def totals_of(store: Store, key: SessionKey) -> SessionTotals:
    """Return a session's totals; the log is read only if it is too short for a checkpoint."""
    try:
        log = store.open(key)
        checkpoint = log.load_checkpoint()
        known = checkpoint.known if checkpoint else {}
        if "tokens" not in known:  # another version may have written the checkpoint
            session = Session(key, log)
            session.refresh()
            known = session.state.as_json()
    except KeyMismatch:
        return SessionTotals()
    return SessionTotals(known["owners"].get("user"), *known["tokens"])


def session_details(store: Store, key: SessionKey) -> SessionDetails:
    """Return the details of a session."""
    log = store.open(key)
    finish_background_work(log)
    messages, events = whole_stream(log, "messages"), whole_stream(log, "events")
    check_known(store, key, messages, events)
    said, happened = ([record for _, record in stream.records] for stream in (messages, events))
    derived = folded(log.files, said, happened, lambda: None).computed()  # the files may be behind the log
    counts = counts_in(loaded(derived, _SUMMARY))
    return SessionDetails(
        info=replace(
            _info(store, key),
            state=_state(derived, counts),
            rounds=_rounds(messages, events),
            messages=messages.newest,
            created_at=_value(derived, "created_at"),
            updated_at=_value(derived, "updated_at"),
        ),
        branches=tuple(_branches(messages)),
        memory=counts_of(store, key),
        contents=_contents(log.files, derived),
        children=tuple(_children(derived)),
        summary=loaded(derived, _SUMMARY).decode("utf-8", "replace"),
        damaged=messages.damaged + events.damaged,
        snapshots=_snapshots(events),
        turns=turns_in(messages, events),
    )


def _newest(store: Store, keys: Iterable[SessionKey], limit: int | None) -> Listing:
    """List sessions by their derived files; the log is read only of sessions too new to have any."""
    dated = sorted(((_updated_at(store, key), key) for key in keys), reverse=True)
    return Listing(tuple(_info_or_unreadable(store, key) for _, key in dated[:limit]), len(dated))


def _updated_at(store: Store, key: SessionKey) -> str:
    try:
        return _value(store.open(key).files, "updated_at") or _new_info(store, key).updated_at
    except KeyMismatch:
        return ""


def _new_info(store: Store, key: SessionKey) -> SessionInfo:
    """Return what the log says about a session whose derived files come later."""
    session, info = Session(key, store.open(key)), _info(store, key)
    session.refresh()
    state, total = session.state, session.state.compliance.total
    if not state.derived.updated_at:
        return info
    return replace(
        info,
        state="ended" if state.ended_at and state.turns.state != "active" else state.turns.state,
        rounds=state.round,
        messages=state.sequence["messages"],
        created_at=state.derived.created_at,
        updated_at=state.derived.updated_at,
        missing_snapshots=total.missing,
        missing_share=round(total.missing / total.asked, 3) if total.asked else 0.0,
    )


def _info_or_unreadable(store: Store, key: SessionKey) -> SessionInfo:
    try:
        info = _info(store, key)
        return info if info.updated_at else _new_info(store, key)
    except KeyMismatch:
        return SessionInfo(
            key=key, state="unreadable", rounds=None, messages=None, created_at="", updated_at="", size=None
        )


def _info(store: Store, key: SessionKey) -> SessionInfo:
    files = store.open(key).files
    counts = counts_in(loaded(files, _SUMMARY))
    state = _state(files, counts)
    return SessionInfo(
        key=key,
        state=state,
        rounds=counts.rounds if counts else None,
        messages=counts.messages if counts and state != "active" else None,
        created_at=_value(files, "created_at"),
        updated_at=_value(files, "updated_at"),
        size=_size(files),
        missing_snapshots=counts.missing if counts else 0,
        missing_share=round(counts.missing / counts.asked, 3) if counts and counts.asked else 0.0,
    )


def _state(files: Files, counts: SessionCountsLine | None) -> str:
    state = _value(files, "state")
    return "ended" if counts and counts.has_ended and state != "active" else state


def _value(files: Files, name: str) -> str:
    """Return the value of a file that has only one."""
    return loaded(files, name)[:_LONGEST].decode("utf-8", "replace").strip()


def _size(files: Files) -> int | None:
    entries = _entries(files, "")
    if not any(entry.name in ("messages.jsonl", "events.jsonl") for entry in entries):
        return None
    return sum(entry.size for entry in entries if not _is_second_name(entry.name))


def _is_second_name(name: str) -> bool:
    """Whether a file is a second name of a content in `raw/`."""
    return name.startswith(f"{BLOBS}/") or (name.startswith(f"{CHILD}/") and "/artifact/" in name)


def _entries(files: Files, under: str) -> list[FileEntry]:
    try:
        return files.entries(under)
    except OSError:
        return []


def _rounds(messages: StreamContents, events: StreamContents) -> int:
    spoken = (count_in(control_in(record), "round") or 0 for _, record in messages.records)
    begun = (round_in(event) for _, event in events.records if event.get("type") == "start")
    return max((*spoken, *begun), default=0)


def _snapshots(events: StreamContents) -> dict[str, Any]:
    compliance = Compliance()
    for _, event in events.records:
        compliance.take(event)
    return compliance.as_counts()


def _branches(messages: StreamContents) -> Iterator[Branching]:
    for number, record in messages.records:
        control = control_in(record)
        if parent := text_in(control, "parent"):
            yield Branching(number, text_in(control, "id"), parent)


def _contents(files: Files, derived: Files) -> Contents:
    kept = _entries(files, "raw")
    saved: dict[str, int] = {}
    for line in loaded(derived, INDEX).splitlines():
        try:
            use = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if (bytes_saved := count_in(use, "saved_bytes")) is not None:
            saved[str(use.get("hash"))] = bytes_saved  # the last line of a content has its count
    return Contents(len(kept), sum(entry.size for entry in kept), sum(saved.values()))


def _children(files: Files) -> Iterator[ChildInfo]:
    for entry in _entries(files, CHILD):
        directory, _, file = entry.name.rpartition("/")
        name = directory.removeprefix(f"{CHILD}/")
        if file == "status" and "/" not in name:
            agent, session, status = (_value(files, f"{directory}/{each}") for each in ("agent", "session", "status"))
            yield ChildInfo(name, agent, session, status)
