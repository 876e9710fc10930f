"""Garbage collection of derived files. The log, the contents it refers to and inputs are never removed."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ctxwrap.errors import SettingsError, StoreError, unknown_name
from ctxwrap.session.abi import CONTEXT_FILES, is_legal_name
from ctxwrap.session.blobs import BLOBS, blobs_in
from ctxwrap.session.blobs import INDEX as DEDUP_INDEX
from ctxwrap.session.children import CHILD
from ctxwrap.session.clock import utc_now
from ctxwrap.session.index_files import is_file_of_ours
from ctxwrap.session.lookup import StoreLike, key_for, open_existing
from ctxwrap.session.swap import CHUNKS
from ctxwrap.session.swap import INDEX as SWAP_INDEX
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores.base import CACHE, STREAMS, FileEntry, Files, Log

POLICY = "context/gc.policy"

_LARGEST_POLICY = 4096
"""Limit in bytes."""

_HOUR = 3600.0
"""Seconds for which an unreferenced file may belong to a write in progress."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")
_COUNT = re.compile(r"[0-9]{1,9}")
_CONTENT = re.compile(rb"sha256-[0-9a-f]{56}")
_PLACE = re.compile(rb"context/(?:dedup/blob|swap/chunk)/[A-Za-z0-9._+-]{1,64}")
_LARGEST_REFERENCE = 4096
_WRITTEN = {f"context/{name}" for name in CONTEXT_FILES - {"budget", "plan.json"}} | {SWAP_INDEX, DEDUP_INDEX}
_REFERENCE = {"source", "start_event", "end_event", "hash"}
_MEMORY = {"source", "range", "item", "type", "content", "hash"}
"""Fields of a swap chunk: a reference into the log, or a memory item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings in `context/gc.policy`; defaults are those of the ABI document."""

    pack_ttl: float = 86400.0
    """Seconds after which a pack is removed; 0: never."""
    swap_ttl: float = 30 * 86400.0
    """Seconds after which chunks of swap are removed, but not its index; 0: never."""
    dedup_min_refs: int = 1
    """Uses below which a content has no file in dedup; it stays in `raw/`."""
    keep_messages: bool = True
    """Always true: garbage collection never removes messages."""
    keep_events: bool = True
    """Always true."""


class Garbage(NamedTuple):
    """A file that can be removed."""

    name: str
    size: int
    reason: str


class Collectable(NamedTuple):
    """A file that is no longer needed."""

    name: str
    size: int
    """In bytes. Removing a second name of a content that stays frees none of them."""
    reason: str
    removed: bool
    problem: str = ""
    """Why it could not be removed, if so."""


@dataclass(frozen=True, slots=True)
class GarbageReport:
    dry_run: bool
    policy: Policy
    files: tuple[Collectable, ...]

    @property
    def size(self) -> int:
        """The size of all these files, in bytes."""
        return sum(file.size for file in self.files)


def collect_garbage(
    session: str,
    *,
    dry_run: bool = True,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    now: datetime | None = None,
) -> GarbageReport:
    """Report derived files that are no longer needed by `context/gc.policy`; remove them with `dry_run=False`.

    Messages, events, the contents they refer to, child sessions and your own files in `context/` are never removed.
    `rebuild` restores what was removed, except packs, which every call writes again.
    """
    log, moment = open_existing(key_for(session, tenant, agent), store).log, now or utc_now()
    with defer_finalizers():
        policy = policy_of(log.files)
        if dry_run:
            files = tuple(Collectable(*garbage, removed=False) for garbage in plan(log, moment))
        else:
            files = collect(log, moment)
    return GarbageReport(dry_run, policy, files)


def policy_in(text: str) -> Policy:
    """Parse a policy; an error names the line and the allowed values."""
    found: dict[str, float | int | bool] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        try:
            found[key] = _value(key, equals, value, found)
        except SettingsError as error:
            raise SettingsError(f"{POLICY}, line {number}: {error}. Nothing was removed.") from None
    return Policy(**found)  # type: ignore[arg-type]  # each by its key's own reader


def _value(key: str, equals: str, value: str, found: Mapping[str, object]) -> float | int | bool:
    if not equals:
        raise SettingsError(f"{key[:40]!r} has no value: write key=value, such as pack_ttl=1d")
    if key not in _READERS:
        raise unknown_name("key", key[:40], _READERS)
    if key in found:
        raise SettingsError(f"{key} is set twice: remove one of them")
    return _READERS[key](key, value)


def _duration(key: str, value: str) -> float:
    match = _DURATION.fullmatch("0s" if value == "0" else value)
    if match is None:
        raise SettingsError(f"{key}={value[:40]!r} is not a duration: write 45s, 90m, 12h, 1d or 2w, or 0 for never")
    return float(int(match[1]) * _SECONDS[match[2]])


def _count(key: str, value: str) -> int:
    if not _COUNT.fullmatch(value):
        raise SettingsError(f"{key}={value[:40]!r} is not a number: write 0 or more, such as 1")
    return int(value)


def _kept(key: str, value: str) -> bool:
    if value == "0":
        raise SettingsError(
            f"{key}=0 would remove history, which a policy cannot do: write {key}=1, and use purge for single messages"
        )
    if value != "1":
        raise SettingsError(f"{key}={value[:40]!r} is neither 1 nor 0: write {key}=1")
    return True


_READERS = {
    "pack_ttl": _duration,
    "swap_ttl": _duration,
    "dedup_min_refs": _count,
    "keep_messages": _kept,
    "keep_events": _kept,
}


def policy_of(files: Files) -> Policy:
    """Return the session's policy; a link or other non-file is ignored."""
    entry = next((entry for entry in files.entries("context") if entry.name == POLICY), None)
    if entry is None:
        return Policy()
    if entry.size > _LARGEST_POLICY:
        raise SettingsError(
            f"{POLICY} has {entry.size} bytes, the limit is {_LARGEST_POLICY}: write one key=value per line, such as "
            "pack_ttl=1d. Nothing was removed."
        )
    try:
        return policy_in((files.load(POLICY) or b"").decode())
    except UnicodeDecodeError:
        raise SettingsError(f"{POLICY} is not UTF-8 text. Nothing was removed.") from None


def plan(log: Log, now: datetime) -> tuple[Garbage, ...]:
    """Return what can be removed now, by name; change nothing."""
    files, policy = log.files, policy_of(log.files)
    uses, named = _uses(log), _named(log.files)
    garbage = [
        *_packs(files, policy, now),
        *_references(files, policy, now),
        *_links(files, policy, uses),
    ]
    unnamed = [each for each in garbage if each.name not in named]
    return tuple(sorted([*unnamed, *_contents(files, uses, now), *_leftovers(files, now)]))


def collect(log: Log, now: datetime) -> tuple[Collectable, ...]:
    """Remove what can be removed, inside the log's lock; the log itself is not written."""
    with log.locked():
        return tuple(_removed(garbage, log.files) for garbage in plan(log, now))


def _removed(garbage: Garbage, files: Files) -> Collectable:
    try:
        files.remove(garbage.name)
    except (OSError, StoreError) as error:
        return Collectable(*garbage, removed=False, problem=getattr(error, "strerror", None) or str(error))
    return Collectable(*garbage, removed=True)


def _packs(files: Files, policy: Policy, now: datetime) -> Iterator[Garbage]:
    for entry in files.entries("context"):
        if entry.name in ("context/pack.json", "context/pack.md") and _is_older(entry, policy.pack_ttl, now):
            yield Garbage(entry.name, entry.size, f"{_age(entry, now)} old; every call writes a new one")


def _references(files: Files, policy: Policy, now: datetime) -> Iterator[Garbage]:
    for entry in _directly_in(CHUNKS, files):
        if _is_older(entry, policy.swap_ttl, now) and _is_reference(entry, files):
            yield Garbage(entry.name, entry.size, f"{_age(entry, now)} old; rebuild restores it from the log")


def _links(files: Files, policy: Policy, uses: "_Uses") -> Iterator[Garbage]:
    raw = {entry.name.removeprefix("raw/") for entry in files.entries("raw")}
    for entry in _directly_in(BLOBS, files):
        content = entry.name.removeprefix(f"{BLOBS}/")
        count = uses.counts[content]
        if count and count < policy.dedup_min_refs and content in raw:
            times = "once" if count == 1 else f"{count} times"
            yield Garbage(entry.name, entry.size, f"used only {times}; the same content stays in raw/")
        elif content not in uses.mentioned and (uses.all_known or content in raw):
            yield Garbage(entry.name, entry.size, "no record refers to it")


def _contents(files: Files, uses: "_Uses", now: datetime) -> Iterator[Garbage]:
    for entry in _directly_in("raw", files) if uses.all_known else ():
        name = entry.name.removeprefix("raw/").encode()
        if _CONTENT.fullmatch(name) and name.decode() not in uses.mentioned and _is_older(entry, _HOUR, now):
            yield Garbage(entry.name, entry.size, "no record refers to it; left by a crash")


def _leftovers(files: Files, now: datetime) -> Iterator[Garbage]:
    for entry in files.leftovers():
        if _is_older(entry, _HOUR, now) and _is_ours(entry.name):
            yield Garbage(entry.name, entry.size, "a write interrupted by a crash")


def _is_ours(leftover: str) -> bool:
    """Whether it is an unfinished file of ctxwrap, not of a child session or of another program."""
    directory, _, name = leftover.rpartition("/")
    name = name.removeprefix(".").removesuffix(".new")
    if directory == CACHE:
        return is_file_of_ours(name)
    return f"{directory}/{name}" in _WRITTEN or (directory in ("raw", CHUNKS, BLOBS) and is_legal_name(name))


class _Uses(NamedTuple):
    """The contents that records use."""

    counts: Counter[str]
    mentioned: set[str]
    """Also contents only named in a text, a path or an incomplete line."""
    all_known: bool
    """Whether every line was readable; a damaged line may refer to anything."""


def _uses(log: Log) -> _Uses:
    counts, mentioned, all_known = Counter[str](), set[bytes](), True
    for line in (line for stream in STREAMS for line in log.lines(stream)):
        if line.record is None:
            all_known = False
        else:
            counts.update(blob["id"] for blob in blobs_in(line.record))
            mentioned.update(_CONTENT.findall(json.dumps(line.record, default=str).encode()))
    for entry in log.files.entries():
        if "/" not in entry.name and ".torn-" in entry.name:
            mentioned.update(_CONTENT.findall(log.files.load(entry.name) or b""))
    return _Uses(counts, {name.decode() for name in mentioned} | set(counts), all_known)


def _named(files: Files) -> set[str]:
    """Return the chunks and blobs named in a pack, a ref or the swap index, except refs of kind swap."""
    children = [entry.name for entry in files.entries(CHILD) if entry.name.endswith("/refs.jsonl")]
    texts = [files.load(place) or b"" for place in ("context/pack.json", SWAP_INDEX, *children)]
    refs = (files.load("context/refs.jsonl") or b"").split(b"\n")
    texts += [line for line in refs if b',"kind":"swap",' not in line]
    return {name.decode() for text in texts for name in _PLACE.findall(text)}


def _directly_in(directory: str, files: Files) -> Iterator[FileEntry]:
    for entry in files.entries(directory):
        if is_legal_name(entry.name.removeprefix(f"{directory}/")):
            yield entry


def _is_reference(entry: FileEntry, files: Files) -> bool:
    """Whether a chunk can be rebuilt from the log."""
    try:
        known = json.loads(files.load(entry.name) or b"") if entry.size <= _LARGEST_REFERENCE else None
    except (ValueError, RecursionError):
        return False
    if not isinstance(known, dict) or not (known.keys() <= _REFERENCE or known.keys() == _MEMORY):
        return False
    if known.get("source") not in ("messages.jsonl", "events.jsonl"):
        return False
    digits = str(known.get("hash")).removeprefix("sha256:")
    return entry.name == f"{CHUNKS}/sha256-{digits[:56]}"


def _is_older(entry: FileEntry, seconds: float, now: datetime) -> bool:
    return seconds > 0 and now.timestamp() - entry.modified > seconds


def _age(entry: FileEntry, now: datetime) -> str:
    seconds = int(now.timestamp() - entry.modified)
    unit = next((unit for unit in ("d", "h", "m") if seconds >= _SECONDS[unit]), "s")
    return f"{seconds // _SECONDS[unit]}{unit}"
