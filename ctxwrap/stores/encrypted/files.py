"""Files of an encrypted session: encrypted content under encrypted names."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.stores.base import CACHE, KEY_FILE, STREAMS, FileEntry, Files
from ctxwrap.stores.encrypted.keys import NONCE, TAG, Cipher
from ctxwrap.stores.names import file_parts

_HEAD = 4
_PIECE = 1 << 20
"""So many bytes at most are sealed at once, so that the beginning of a file opens alone."""

LONGEST = _HEAD + NONCE + _PIECE + TAG
"""How long a frame can be."""


class Extent(NamedTuple):
    """How far frames reach."""

    end: int
    """Where the last one ends, by what its head says."""
    length: int
    """How many bytes they hold."""


def extent_of(data: bytes) -> Extent:
    """Of the frames whose heads are there; what they hold is not looked at."""
    end = length = 0
    while end + _HEAD <= len(data):
        size = int.from_bytes(data[end : end + _HEAD], "big")
        end, length = end + _HEAD + size, length + max(0, size - NONCE - TAG)
    return Extent(end, length)


def framed(cipher: Cipher, name: str, data: bytes, before: bytes = b"") -> bytes:
    """`data` in frames behind one with the tag `before`; nothing is a frame, too."""
    frames = []
    for at in range(0, len(data) or 1, _PIECE):
        sealed = cipher.seal(data[at : at + _PIECE], "file", name, before.hex())
        frames.append(len(sealed).to_bytes(_HEAD, "big") + sealed)
        before = sealed[-TAG:]
    return b"".join(frames)


def opened(cipher: Cipher, name: str, data: bytes, size: int | None = None) -> bytes | None:
    """What frames hold, or its first `size` bytes; None if any of them does not open, or is cut short."""
    pieces: list[bytes] = []
    at, length, before = 0, 0, b""
    while at < len(data) and (size is None or length < size):
        start = at + _HEAD
        at = start + int.from_bytes(data[at:start], "big")
        sealed = data[start:at]
        piece = cipher.open(sealed, "file", name, before.hex()) if start < at <= len(data) else None
        if piece is None:
            return None
        pieces.append(piece)
        length, before = length + len(piece), sealed[-TAG:]
    return b"".join(pieces)[:size]


logger = logging.getLogger("ctxwrap")

_PLAIN = frozenset({"context", "raw", CACHE, "pinned", "swap", "chunk", "dedup", "blob", "child", "artifact"})
"""The directories that every session may have; others have a name from somebody."""

_SECOND = "context/dedup/blob/"
"""Where contents in `raw/` have a second name."""

_CHUNK = 4096


class _End(NamedTuple):
    """The end of a file that grows, as it was last seen."""

    end: int = 0
    length: int = 0
    """Of what it holds."""
    tag: bytes = b""


class EncryptedFiles:
    def __init__(self, files: Files, cipher: Callable[[], Cipher | None], session: str) -> None:
        self._files = files
        self._cipher = cipher
        """Gives none as long as the session has not begun."""
        self._session = session
        self._ends: dict[str, _End] = {}
        self._reported: set[str] = set()

    def entries(self, under: str = "") -> list[FileEntry]:
        cipher = self._cipher()
        if cipher is None:
            return [entry for entry in self._files.entries(under) if _is_the_stores(entry.name)]
        found = (self._shown(entry, cipher) for entry in self._files.entries(_directory(under, cipher)))
        return sorted(entry for entry in found if entry is not None)

    def leftovers(self) -> list[FileEntry]:
        cipher = self._cipher()
        found = [(entry, _shown(entry.name, cipher)) for entry in self._files.leftovers()] if cipher else []
        return sorted(entry._replace(name=name) for entry, name in found if name is not None)

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        return self._files.remove_strays(name, may)

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        if _is_the_stores(name):
            return self._files.load(name, size, start)
        cipher = self._cipher()
        if cipher is None:
            return None
        data = self._opened(name, cipher, None if size is None else start + size)
        return None if data is None else data[start:]

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        cipher = self._begun()
        self._files.save(_hidden(name, cipher), framed(cipher, _bound(name), data), lasting=lasting)

    def extend(self, name: str, data: bytes, after: int) -> bool:
        cipher = self._begun()
        hidden = _hidden(name, cipher)
        known = self._end_of(name, hidden)
        if known is None or not 0 <= known.length - after <= len(data):
            return False
        rest = data[known.length - after :]
        frames = framed(cipher, _bound(name), rest, known.tag) if rest else b""
        if not self._files.extend(hidden, frames, known.end):
            return False
        self._ends[name] = _End(known.end + len(frames), known.length + len(rest), frames[-TAG:] or known.tag)
        return True

    def link(self, name: str, other: str) -> None:
        cipher = self._cipher()
        if cipher is None:
            return
        if _bound(name) == _bound(other):
            self._files.link(_hidden(name, cipher), _hidden(other, cipher))
        elif self.load(other, 0) is None and (data := self.load(name)) is not None:
            self.save(other, data)

    def remove(self, name: str) -> None:
        cipher = self._cipher()
        if cipher is not None:
            self._files.remove(_hidden(name, cipher))

    def _begun(self) -> Cipher:
        cipher = self._cipher()
        assert cipher is not None, "files are written inside `locked`"
        return cipher

    def _opened(self, name: str, cipher: Cipher, size: int | None) -> bytes | None:
        hidden = _hidden(name, cipher)
        data = self._files.load(hidden, None if size is None else LONGEST)
        found = None if data is None else opened(cipher, _bound(name), data, size)
        if size is not None and data is not None and len(data) == LONGEST and len(found or b"") < size:
            data = self._files.load(hidden) or b""
            found = opened(cipher, _bound(name), data, size)
        if found is None and data is not None:
            self._report(name, "it does not open: it was changed, or is of another place")
        return found

    def _end_of(self, name: str, hidden: str) -> _End | None:
        """The end as it is now, after a look at what is new; None if that was cut short."""
        known = self._ends.get(name, _End())
        behind = self._files.load(hidden, None, known.end - len(known.tag)) or b""
        if not behind.startswith(known.tag) or not behind:  # it was made anew
            known, behind = _End(), self._files.load(hidden) or b""
        new = behind[len(known.tag) :]
        extent = extent_of(new)
        if extent.end != len(new):
            return None
        return _End(known.end + extent.end, known.length + extent.length, behind[-TAG:])

    def _shown(self, entry: FileEntry, cipher: Cipher) -> FileEntry | None:
        """An entry as it is said to be: by its own name, and as long as what it holds."""
        if _is_the_stores(entry.name):
            return entry
        name = _shown(entry.name, cipher)
        if name is None:
            if entry.name != KEY_FILE:
                self._report(entry.name, "it is not encrypted: bring it here with `ctxwrap put`")
            return None
        at = length = 0
        while at < entry.size:
            extent = extent_of(self._files.load(entry.name, _CHUNK, at) or b"")
            at, length = at + (extent.end or entry.size), length + extent.length
        return entry._replace(name=name, size=length)

    def _report(self, name: str, fault: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            logger.error("session %r: the file %s is not read: %s", self._session, name, fault)


def _is_the_stores(name: str) -> bool:
    """Whether the store itself writes it: which session it is, and the streams, whose records are sealed."""
    return name == "meta.json" or name.startswith(tuple(f"{stream}.jsonl" for stream in STREAMS))


def _bound(name: str) -> str:
    """What a file is bound to: its name. A second name of a content counts as its first, and nothing else does."""
    return f"raw/{name.removeprefix(_SECOND)}" if name.startswith(_SECOND) else name


def _hidden(name: str, cipher: Cipher) -> str:
    file_parts(name)
    directory, _, last = name.rpartition("/")
    start, middle, end = _around(last)
    hidden = f"{start}{cipher.hide(middle)}{end}"
    return f"{_directory(directory, cipher)}/{hidden}" if directory else hidden


def _directory(name: str, cipher: Cipher) -> str:
    return "/".join(part if part in _PLAIN else _part(part, cipher.hide) or "" for part in name.split("/") if part)


def _shown(hidden: str, cipher: Cipher) -> str | None:
    *directories, last = hidden.split("/")
    parts = [part if part in _PLAIN else _part(part, cipher.shown) for part in directories]
    found = [*parts, _part(last, cipher.shown)]
    return None if None in found else "/".join(part for part in found if part)


def _part(part: str, changed: Callable[[str], str | None]) -> str | None:
    start, middle, end = _around(part)
    name = changed(middle)
    return None if name is None else f"{start}{name}{end}"


def _around(part: str) -> tuple[str, str, str]:
    """What a hidden file begins with, its name, and how one ends that is being written."""
    if not part.startswith(".") or len(part) == 1:
        return "", part, ""
    return ".", part[1:].removesuffix(".new"), ".new" if part.endswith(".new") else ""
