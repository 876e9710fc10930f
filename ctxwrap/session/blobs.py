"""Large contents: stored once under their hash and referenced by messages; how often each is used."""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from ctxwrap.session.abi import blob_name, is_legal_name, named_by
from ctxwrap.session.append_only_file import AppendOnlyFile
from ctxwrap.session.branch import digest
from ctxwrap.stores.base import Files
from ctxwrap.stores.log_format import message_in
from ctxwrap.types import Content, Message, Record

LARGE_RESULT = 1024
"""Tool outputs of at least this many bytes are stored as blobs: tools repeat themselves."""

LARGE = 16 * 1024
"""Any other content of at least this many bytes is, too."""

_MOST_PER_CHARACTER = 4
"""Bytes of a character in UTF-8."""

_SHOWN = 200

BlobForm = Literal["text", "parts", "bytes"]
"""What a blob holds: a message's text, its parts as JSON, or a file."""


def externalise(record: Record, files: Files, *, lasting: bool) -> Record:
    """The record of a message, with a large content replaced by a reference."""
    content, large = record["content"], LARGE_RESULT if record["role"] == "tool" else LARGE
    if isinstance(content, str) and _MOST_PER_CHARACTER * len(content) < large:
        return record
    data = _encoded(content)
    if len(data) < large:
        return record
    blob = stored(data, files, "text" if isinstance(content, str) else "parts", lasting=lasting)
    said = record["ctx"].get("digest") or digest(message_in(record))
    control = {**record["ctx"], "digest": said, "blob": blob}
    return {**record, "content": _hint(content, len(data)), "ctx": control}


def stored(data: bytes, files: Files, form: BlobForm, *, lasting: bool) -> Record:
    """Store a content under its hash, unless it is there, and return the reference."""
    name, whole = blob_name(data)
    if not _holds(files, name):
        files.save(f"raw/{name}", data, lasting=lasting)
    return {"id": name, "digest": whole, "bytes": len(data), "form": form}


def inline(record: Record, files: Files) -> Record:
    """The record of a message with its content; raise LookupError if the blob is missing or damaged."""
    blob = (record.get("ctx") or {}).get("blob")
    return record if blob is None else {**record, "content": content_of(blob, files)}


def content_of(blob: Record, files: Files) -> Content:
    data = loaded(blob, files)
    if blob["form"] == "text":
        return data.decode("utf-8", "surrogatepass")
    parts: list[Record] = json.loads(data)
    return parts


def beginning_of(blob: Record, files: Files, length: int) -> str:
    """The beginning of a content's text, read without checking the hash."""
    name = str(blob["id"])
    data = (files.load(f"raw/{name}", 4 * length) if is_legal_name(name) else None) or b""
    text = getincrementaldecoder("utf-8")("surrogatepass").decode(data)
    return (text if blob["form"] == "text" else Message("user", list(_first_parts(text))).text)[:length]


def _first_parts(text: str) -> Iterator[Record]:
    """The complete parts of a JSON array that may be cut off."""
    at, decoder = 1, json.JSONDecoder()
    with suppress(ValueError, RecursionError):
        while at < len(text):
            part, at = decoder.raw_decode(text, at)
            yield part
            at += len(",")


def loaded(blob: Record, files: Files) -> bytes:
    name = str(blob["id"])
    data = files.load(f"raw/{name}") if is_legal_name(name) else None
    if data is None:
        raise LookupError(f"the content raw/{name} is missing")
    if blob_name(data)[1] != blob["digest"]:
        raise LookupError(f"the content raw/{name} is damaged")
    return data


def blobs_in(record: Record) -> Iterator[Record]:
    """The blobs that a record refers to."""
    control = record.get("ctx")
    if not isinstance(control, dict) or not ("blob" in control or "blobs" in control):
        return
    for blob in (control.get("blob"), *_list(control.get("blobs"))):
        whole = reference_in(blob)
        if isinstance(whole, dict) and isinstance(whole.get("id"), str):
            yield whole


def short(blob: Record) -> Any:
    """The short form in events of a reference that `stored` returned: digest and size, which tell all of it."""
    return f"{blob['digest'].removeprefix('sha256:')}:{blob['bytes']}" if blob.get("form") == "bytes" else blob


def reference_in(value: Any) -> Any:
    """The inverse of `short`; other values are returned unchanged."""
    found = _SHORT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    return {"id": named_by(found[1]), "digest": f"sha256:{found[1]}", "bytes": int(found[2]), "form": "bytes"}


_SHORT = re.compile("([0-9a-f]{64}):([0-9]{1,15})")


def texts_in(event: Record) -> dict[str, str]:
    """The blob names of an event's texts, by text name."""
    texts, ids = (event.get("sent") or event).get("texts"), [blob["id"] for blob in blobs_in(event)]
    if not isinstance(texts, dict):
        return {}
    return {name: ids[at] if isinstance(at, int) and 0 <= at < len(ids) else str(at) for name, at in texts.items()}


def with_named_texts(event: Record) -> Record:
    """The event with its texts by blob name, so that one of them can be removed."""
    if isinstance(event.get("sent"), dict) and "texts" in event["sent"]:
        return {**event, "sent": {**event["sent"], "texts": texts_in(event)}}
    return {**event, "texts": texts_in(event)} if isinstance(event.get("texts"), dict) else event


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _holds(files: Files, name: str) -> bool:
    known = files.load(f"raw/{name}")
    return known is not None and blob_name(known)[0] == name


def _encoded(content: Content) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, separators=(",", ":"), default=str)
    return text.encode("utf-8", "surrogatepass")


def _hint(content: Content, size: int) -> str:
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    return f"{text[:_SHOWN]}… [{size} bytes kept apart]"


INDEX = "context/dedup/index.jsonl"
BLOBS = "context/dedup/blob"

_AT_HAND = 512
"""The maximum number of contents whose uses are counted."""

_REFS = 8
"""The maximum number of uses listed per content: the first and the newest."""


@dataclass(slots=True)
class BlobUse:
    """How often a content is used, and where."""

    refs: list[str]
    count: int
    bytes: int
    tokens: int
    digest: str

    def again(self, ref: str) -> None:
        self.refs = [*self.refs[:1], *self.refs[1:][-(_REFS - 2) :], ref]
        self.count += 1


class DedupIndex:
    """One line per use; the last line of a content has its count."""

    def __init__(self, size: int = 0, uses: dict[str, BlobUse] | None = None) -> None:
        self.index = AppendOnlyFile(INDEX, size)
        self._uses = uses or {}
        self._unlinked: list[str] = []

    def take(self, ref: str, blobs: Iterable[Record], tokens: int) -> None:
        """Count the contents that the record `ref` refers to."""
        for blob in blobs:
            name = str(blob["id"])
            use = self._uses.pop(name, None)
            if use is None:
                use = BlobUse([ref], 1, int(blob["bytes"]), tokens, str(blob["digest"]))
            else:
                use.again(ref)
            self._unlinked.append(name)
            self._uses[name] = use
            if len(self._uses) > _AT_HAND:
                self._uses.pop(next(iter(self._uses)))
            self.index.add(name, partial(_line, name, replace(use)))

    def save(self, files: Files) -> bool:
        for name in self._unlinked:
            files.link(f"raw/{name}", f"{BLOBS}/{name}")
        self._unlinked = []
        return self.index.save(files)

    def as_json(self) -> Record:
        uses = {name: [use.refs, use.count, use.bytes, use.tokens, use.digest] for name, use in self._uses.items()}
        return {"size": self.index.size, "uses": uses}

    @classmethod
    def from_json(cls, value: Record) -> "DedupIndex":
        return cls(value["size"], {name: BlobUse(*use) for name, use in value["uses"].items()})


def _line(name: str, use: BlobUse) -> Record:
    return {
        "hash": name,
        "refs": use.refs,
        "bytes": use.bytes,
        "tokens": use.tokens,
        "count": use.count,
        "saved_bytes": use.bytes * (use.count - 1),
        "saved_tokens": use.tokens * (use.count - 1),
        "digest": use.digest,
    }
