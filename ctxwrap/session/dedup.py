"""Dedup: which large contents are said more than once, and what it saves to keep them once."""

from dataclasses import dataclass, replace
from functools import partial

from ctxwrap.session.blobs import blobs_in
from ctxwrap.session.growing import Growing
from ctxwrap.storage import Files
from ctxwrap.types import Record

INDEX = "context/dedup/index.jsonl"
BLOBS = "context/dedup/blob"

_AT_HAND = 512
"""So many contents are known by their uses; an older one that comes again is counted from one."""

_REFS = 8
"""So many uses of a content stand in its line: the first and the newest."""


@dataclass(slots=True)
class Use:
    """How often a content is said, and where."""

    refs: list[str]
    count: int
    bytes: int
    tokens: int
    digest: str

    def again(self, ref: str) -> None:
        self.refs = [*self.refs[:1], *self.refs[1:][-(_REFS - 2) :], ref]
        self.count += 1


class DedupIndex:
    """A line for every use; the last one of a content has its count."""

    def __init__(self, size: int = 0, uses: dict[str, Use] | None = None) -> None:
        self.index = Growing(INDEX, size)
        self._uses = uses or {}
        self._unlinked: list[str] = []

    def take(self, ref: str, record: Record, tokens: int) -> None:
        """Count what a record refers to, which is named `ref`."""
        for blob in blobs_in(record):
            name = str(blob["id"])
            use = self._uses.pop(name, None)
            if use is None:
                use = Use([ref], 1, int(blob["bytes"]), tokens, str(blob["digest"]))
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
        return cls(value["size"], {name: Use(*use) for name, use in value["uses"].items()})


def _line(name: str, use: Use) -> Record:
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
