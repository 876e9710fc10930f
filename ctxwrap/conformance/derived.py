"""Checks of a session's derived files against the Context Runtime ABI: pack, compression, swap and dedup."""

import hashlib
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from ctxwrap.conformance.checks import Check, Finding, at, describe, is_count
from ctxwrap.conformance.session import DERIVED, EVENTS, HISTORY_CHECKS, MESSAGES, SessionFolder, range_in
from ctxwrap.session.abi import RECORDS, RecordKind
from ctxwrap.session.abi.names import parsed

_PACK, _BUDGET = "context/pack.json", "context/budget"
_CHUNKS, _BLOBS = "context/swap/chunk/", "context/dedup/blob/"
_KINDS = (
    ("context/pinned/", "system"),
    ("context/summary.md", "summary"),
    ("context/facts.jsonl", "facts"),
    ("context/decisions.jsonl", "decisions"),
    ("context/todo.md", "todo"),
    ("context/refs.jsonl", "refs"),
)
_RESULT = re.compile(r"context/child/[^/]+/result\.md")
_TAIL = re.compile(r"tail:([0-9]{1,12})")
_ADDRESS = re.compile(r"([a-z0-9_]+)-([0-9a-f]+)")
_REF_KINDS = ("file", "artifact", "tool_output", "swap", "child_result")
_MOST_WINDOWS = 16
"""Most message windows of a pack to compare with the swap index."""
_REFERENCE = ("source", "start_event", "end_event", "hash")


def _bad_pack(session: SessionFolder) -> Iterator[Finding]:
    pack = session.pack
    if isinstance(pack, ValueError):
        yield Finding(str(pack), file=_PACK)
    elif pack is not None and not isinstance(pack, dict):
        yield Finding("not a JSON object", file=_PACK)
    elif pack is not None:
        items = pack.get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            yield Finding(f"expected a list of objects, got {describe(items)}", file=_PACK, path="items")


def _missing_pack_fields(session: SessionFolder) -> Iterator[Finding]:
    if not isinstance(session.pack, dict):
        return
    for name in ("session", "agent"):
        if not isinstance(session.pack.get(name), str):
            yield Finding(describe(session.pack.get(name)), file=_PACK, path=name)
    if not is_count(session.pack.get("budget_tokens")):
        yield Finding(describe(session.pack.get("budget_tokens")), file=_PACK, path="budget_tokens")
    for path, item in session.pack_items():
        if not isinstance(item.get("kind"), str):
            yield Finding(describe(item.get("kind")), file=_PACK, path=at(path, "kind"))
        if not is_count(item.get("tokens")):
            yield Finding(describe(item.get("tokens")), file=_PACK, path=at(path, "tokens"))


def _missing_sources(session: SessionFolder) -> Iterator[Finding]:
    for path, item in session.pack_items():
        if not isinstance(item.get("source"), str) or not item["source"]:
            yield Finding(describe(item.get("source")), file=_PACK, path=at(path, "source"))


def _unexpected_kinds(session: SessionFolder) -> Iterator[Finding]:
    for path, item in session.pack_items():
        kind, usual = item.get("kind"), _expected_kind(item.get("source"))
        if usual and isinstance(kind, str) and kind != usual:
            yield Finding(f"{describe(kind)} for {describe(item['source'])}", file=_PACK, path=at(path, "kind"))


def _expected_kind(source: Any) -> str | None:
    if not isinstance(source, str):
        return None
    if _RESULT.fullmatch(source):
        return "child_result"
    return next((kind for start, kind in _KINDS if source.startswith(start)), None)


def _missing_ranges(session: SessionFolder) -> Iterator[Finding]:
    for path, item in session.pack_items():
        if item.get("kind") == "recent_messages" and _window(item.get("range"), session) is None:
            yield Finding(describe(item.get("range")), file=_PACK, path=at(path, "range"))


def _window(text: Any, session: SessionFolder) -> tuple[int, int] | None:
    """Return the messages in a pack's range."""
    tail = _TAIL.fullmatch(text) if isinstance(text, str) else None
    count = session.messages.lines
    return (count - int(tail[1]) + 1, count) if tail else range_in(text)


def _over_budget(session: SessionFolder) -> Iterator[Finding]:
    text = session.folder.text(_BUDGET).strip()
    if text and not re.fullmatch(r"[0-9]{1,18}", text):
        yield Finding(f"expected a number of tokens, got {describe(text)}", file=_BUDGET)
    elif text and int(text):
        tokens = [item["tokens"] for _, item in session.pack_items() if is_count(item.get("tokens"))]
        if sum(tokens) > int(text):
            yield Finding(f"{sum(tokens)} tokens of {text}", file=_PACK, path="items")


def _missing_pack_text(session: SessionFolder) -> Iterator[Finding]:
    if any(session.pack_items()) and not session.folder.text("context/pack.md").strip():
        yield Finding("it has no text of the request", file="context/pack.md")


def _bad_lines(session: SessionFolder) -> Iterator[Finding]:
    for kind, lines in session.derived.items():
        yield from (Finding(why, file=DERIVED[kind], line=number) for number, why in lines.faults)


def _missing_fields(kind: RecordKind, session: SessionFolder) -> Iterator[Finding]:
    for number, record in session.derived[kind].objects:
        for name in RECORDS[kind]:
            if not _matches_example(name, record.get(name)):
                yield Finding(describe(record.get(name)), file=DERIVED[kind], line=number, path=name)


def _matches_example(name: str, value: Any) -> bool:
    if name in ("tokens", "bytes"):
        return is_count(value)
    if name == "refs":
        return isinstance(value, list) and bool(value) and all(isinstance(ref, str) for ref in value)
    return isinstance(value, str) and value != ""


def _repeated_ids(session: SessionFolder) -> Iterator[Finding]:
    for kind in ("facts", "decisions", "refs", "swap_index"):
        seen = dict[str, int]()
        for number, record in session.derived[kind].objects:
            id = record.get("id")
            if isinstance(id, str) and (first := seen.setdefault(id, number)) != number:
                yield Finding(f"{describe(id)} is the id of line {first}", file=DERIVED[kind], line=number)


def _unknown_ref_kinds(session: SessionFolder) -> Iterator[Finding]:
    for number, record in session.derived["refs"].objects:
        if isinstance(kind := record.get("kind"), str) and kind not in _REF_KINDS:
            yield Finding(describe(kind), file=DERIVED["refs"], line=number, path="kind")


def _missing_places(session: SessionFolder) -> Iterator[Finding]:
    """Find swapped content whose part of the source is unknown."""
    for number, record in session.derived["swap_index"].objects:
        needed = "range" if record.get("source") == MESSAGES else "event" if record.get("source") == EVENTS else ""
        if needed and not isinstance(record.get(needed), str):
            yield Finding(describe(record.get(needed)), file=DERIVED["swap_index"], line=number, path=needed)


def _lost_content(session: SessionFolder) -> Iterator[Finding]:
    for number, record in session.derived["swap_index"].objects:
        if fault := _lost_source(record, session):
            yield Finding(fault, file=DERIVED["swap_index"], line=number)
    for name, reference in _references(session):
        ids = (session.events if reference.get("source") == EVENTS else session.messages).ids
        for end in ("start_event", "end_event"):
            if isinstance(id := reference.get(end), str) and ids and id not in ids:
                yield Finding(f"{describe(id)} does not exist", file=name, path=end)


def _lost_source(record: dict[str, Any], session: SessionFolder) -> str:
    source, messages = record.get("source"), range_in(record.get("range"))
    if source == MESSAGES:
        is_lost = messages is not None and messages[1] > session.messages.lines
        return f"range {describe(record['range'])} of {session.messages.lines} messages" if is_lost else ""
    if not isinstance(source, str) or source == EVENTS:
        return ""
    chunk = f"{_CHUNKS}{record.get('id')}"
    return "" if session.folder.has(chunk) or session.folder.has(source) else f"{describe(source)} does not exist"


def _swapped_and_sent(session: SessionFolder) -> Iterator[Finding]:
    recent = (item.get("range") for _, item in session.pack_items() if item.get("kind") == "recent_messages")
    windows = [_window(range, session) for range in islice(recent, _MOST_WINDOWS)]
    for number, record in session.derived["swap_index"].objects:
        swapped = range_in(record.get("range")) if _is_of_messages(record) else None
        for window in windows:
            if swapped and window and swapped[0] <= window[1] and window[0] <= swapped[1]:
                found = f"messages {swapped[0]}-{swapped[1]} are in the pack's {window[0]}-{window[1]}"
                yield Finding(found, file=DERIVED["swap_index"], line=number)


def _is_of_messages(record: dict[str, Any]) -> bool:
    """Whether a record swaps messages themselves, not something derived from them."""
    return record.get("source") == MESSAGES and record.get("kind", "message_range") == "message_range"


def _copied_chunks(session: SessionFolder) -> Iterator[Finding]:
    """Find chunks that copy messages instead of referring to them."""
    known = dict(_references(session))
    for _, record in session.derived["swap_index"].objects:
        name = f"{_CHUNKS}{record.get('id')}"
        if not _is_of_messages(record) or not session.folder.has(name):
            continue
        missing = [part for part in _REFERENCE if not isinstance(known.get(name, {}).get(part), str)]
        if missing:
            yield Finding(f"not a reference: it lacks {', '.join(missing)}", file=name)


def _references(session: SessionFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in session.folder.names(_CHUNKS):
        try:
            value = parsed(session.folder.text(name))
        except ValueError:
            continue
        if isinstance(value, dict):
            yield name, value


def _wrong_addresses(session: SessionFolder) -> Iterator[Finding]:
    for name in session.folder.names(_BLOBS):
        address = _ADDRESS.fullmatch(name.removeprefix(_BLOBS))
        if address is None:
            yield Finding("its name is not a digest", file=name)
        elif address[1] in ("md5", "sha1", "sha256", "sha512"):
            digest = hashlib.new(address[1], session.folder.read(name), usedforsecurity=False).hexdigest()
            if not digest.startswith(address[2]):
                yield Finding(f"its content is {address[1]}-{digest[: len(address[2])]}", file=name)


def _fields(id: str, kind: RecordKind, example: str) -> Check[SessionFolder]:
    return Check(id, "SHOULD", f"Example {DERIVED[kind].rpartition('/')[2]}: {example}", partial(_missing_fields, kind))


SESSION_CHECKS: tuple[Check[SessionFolder], ...] = (
    *HISTORY_CHECKS,
    Check("RA-pack", "MUST", "Before a model call, an agent builds a context pack.", _bad_pack),
    Check(
        "RA-pack-fields",
        "SHOULD",
        'Example pack.json: { "session": "default", "agent": "coder", "budget_tokens": 32000, "items": [ { "kind": …, '
        '"source": …, "tokens": … } ] }',
        _missing_pack_fields,
    ),
    Check("RA-pack-source", "SHOULD", "pack items SHOULD identify their source.", _missing_sources),
    Check(
        "RA-pack-kinds",
        "SHOULD",
        'Example pack.json: "kind": "system", "source": "context/pinned/system.md" …',
        _unexpected_kinds,
    ),
    Check(
        "RA-pack-range",
        "SHOULD",
        'Example pack.json: "kind": "recent_messages", "source": "messages.jsonl", "range": "tail:40"',
        _missing_ranges,
    ),
    Check("RA-pack-budget", "SHOULD", "pack generation SHOULD respect context/budget when present.", _over_budget),
    Check(
        "RA-pack-inspectable",
        "SHOULD",
        "The runtime or agent should make it possible to inspect what was sent to the model by reading the generated "
        "pack.",
        _missing_pack_text,
    ),
    Check(
        "RA-compression", "MUST", "Compression creates typed derived files instead of replacing history.", _bad_lines
    ),
    _fields("RA-facts", "facts", '{"id":"f1","text":…,"source":"messages:12-18"}'),
    _fields("RA-decisions", "decisions", '{"id":"d1","decision":…,"source":"messages:200-230"}'),
    _fields("RA-refs", "refs", '{"id":"r1","path":"/work/DESIGN.md","kind":"file","summary":…}'),
    Check("RA-refs-kinds", "SHOULD", "refs files, artifacts, tool outputs, and swap references", _unknown_ref_kinds),
    Check("RA-ids", "SHOULD", 'Example refs.jsonl: {"id":"r1",…} {"id":"r2",…}', _repeated_ids),
    _fields(
        "RA-swap", "swap_index", '{"id":"sha256-abc","kind":"message_range","source":"messages.jsonl",…,"tokens":18000}'
    ),
    Check(
        "RA-swap-place",
        "SHOULD",
        'Example index.jsonl: "source":"messages.jsonl","range":"1-120" … "source":"events.jsonl","event":"ev-991"',
        _missing_places,
    ),
    Check("RA-swap-kept", "MUST", "Swap removes content from the prompt window, not from storage.", _lost_content),
    Check("RA-swap-window", "MUST", "Swap means content is out of the current prompt window", _swapped_and_sent),
    Check(
        "RA-swap-reference",
        "SHOULD",
        "Swap chunks SHOULD prefer references to raw history when a stable reference is enough",
        _copied_chunks,
    ),
    _fields("RA-dedup", "dedup_index", '{"hash":"sha256-abc","refs":[…],"bytes":12000,"tokens":3000}'),
    Check("RA-dedup-address", "MUST", "Dedup uses content-addressed chunks or refs.", _wrong_addresses),
)
