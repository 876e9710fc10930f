"""Files of an encrypted session: encrypted content under encrypted names."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from ctxwrap.stores.base import CACHE, KEY_FILE, STREAMS, FileEntry, Files
from ctxwrap.stores.encrypted.keys import NONCE, TAG, Cipher
from ctxwrap.stores.names import file_parts

_HEAD = 4
_FRAME_CONTENT = 1 << 20
"""The most bytes in a frame: the beginning of a file can be decrypted alone."""

LONGEST = _HEAD + NONCE + _FRAME_CONTENT + TAG
"""The length of the longest frame."""


class Extent(NamedTuple):
    """How far a sequence of frames reaches."""

    end: int
    """Where the last frame ends, according to its head."""
    length: int
    """How many bytes of content they have."""


def extent_of(data: bytes) -> Extent:
    """The extent of the frames whose heads are present; their content is not read."""
    end = length = 0
    while end + _HEAD <= len(data):
        size = int.from_bytes(data[end : end + _HEAD], "big")
        end, length = end + _HEAD + size, length + max(0, size - NONCE - TAG)
    return Extent(end, length)


def seal_frames(cipher: Cipher, name: str, data: bytes, before: bytes = b"") -> bytes:
    """`data` as frames that follow a frame with the tag `before`; empty data is one frame."""
    frames = []
    for at in range(0, len(data) or 1, _FRAME_CONTENT):
        sealed = cipher.seal(data[at : at + _FRAME_CONTENT], "file", name, before.hex())
        frames.append(len(sealed).to_bytes(_HEAD, "big") + sealed)
        before = sealed[-TAG:]
    return b"".join(frames)


def open_frames(cipher: Cipher, name: str, data: bytes, size: int | None = None) -> bytes | None:
    """The content of frames, or its first `size` bytes; None if a frame fails to decrypt or is incomplete."""
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
"""Directories that any session may have; the names of others are user data."""

_SECOND_NAMES = "context/dedup/blob/"
"""The directory of the second names of contents in `raw/`."""

_CHUNK = 4096


class _End(NamedTuple):
    """The last known end of a file that grows."""

    end: int = 0
    length: int = 0
    """The length of its content."""
    tag: bytes = b""


class EncryptedFiles:
    def __init__(self, files: Files, cipher: Callable[[], Cipher | None], session: str) -> None:
        self._files = files
        self._cipher = cipher
        """Returns None until the session has a key."""
        self._session = session
        self._ends: dict[str, _End] = {}
        self._reported: set[str] = set()

    def entries(self, under: str = "") -> list[FileEntry]:
        cipher = self._cipher()
        if cipher is None:
            return [entry for entry in self._files.entries(under) if _is_plaintext(entry.name)]
        found = (self._decrypt_name(entry, cipher) for entry in self._files.entries(_directory(under, cipher)))
        return sorted(entry for entry in found if entry is not None)

    def leftovers(self) -> list[FileEntry]:
        cipher = self._cipher()
        found = [(entry, _decrypt_name(entry.name, cipher)) for entry in self._files.leftovers()] if cipher else []
        return sorted(entry._replace(name=name) for entry, name in found if name is not None)

    def remove_strays(self, name: str, may: Callable[[str], bool]) -> list[str]:
        return self._files.remove_strays(name, may)

    def load(self, name: str, size: int | None = None, start: int = 0) -> bytes | None:
        if _is_plaintext(name):
            return self._files.load(name, size, start)
        cipher = self._cipher()
        if cipher is None:
            return None
        data = self._load(name, cipher, None if size is None else start + size)
        return None if data is None else data[start:]

    def save(self, name: str, data: bytes, *, lasting: bool = False) -> None:
        cipher = self._cipher_in_lock()
        self._files.save(_encrypt_name(name, cipher), seal_frames(cipher, _bound_name(name), data), lasting=lasting)

    def extend(self, name: str, data: bytes, after: int) -> bool:
        cipher = self._cipher_in_lock()
        encrypted = _encrypt_name(name, cipher)
        known = self._end_of(name, encrypted)
        if known is None or not 0 <= known.length - after <= len(data):
            return False
        rest = data[known.length - after :]
        frames = seal_frames(cipher, _bound_name(name), rest, known.tag) if rest else b""
        if not self._files.extend(encrypted, frames, known.end):
            return False
        self._ends[name] = _End(known.end + len(frames), known.length + len(rest), frames[-TAG:] or known.tag)
        return True

    def link(self, name: str, other: str) -> None:
        cipher = self._cipher()
        if cipher is None:
            return
        if _bound_name(name) == _bound_name(other):
            self._files.link(_encrypt_name(name, cipher), _encrypt_name(other, cipher))
        elif self.load(other, 0) is None and (data := self.load(name)) is not None:
            self.save(other, data)

    def remove(self, name: str) -> None:
        cipher = self._cipher()
        if cipher is not None:
            self._files.remove(_encrypt_name(name, cipher))

    def _cipher_in_lock(self) -> Cipher:
        cipher = self._cipher()
        assert cipher is not None, "files are written inside `locked`"
        return cipher

    def _load(self, name: str, cipher: Cipher, size: int | None) -> bytes | None:
        encrypted = _encrypt_name(name, cipher)
        data = self._files.load(encrypted, None if size is None else LONGEST)
        found = None if data is None else open_frames(cipher, _bound_name(name), data, size)
        if size is not None and data is not None and len(data) == LONGEST and len(found or b"") < size:
            data = self._files.load(encrypted) or b""
            found = open_frames(cipher, _bound_name(name), data, size)
        if found is None and data is not None:
            self._report(name, "it does not decrypt: it was changed, or belongs to another place")
        return found

    def _end_of(self, name: str, encrypted: str) -> _End | None:
        """The present end, after reading what is new; None if that is incomplete."""
        known = self._ends.get(name, _End())
        behind = self._files.load(encrypted, None, known.end - len(known.tag)) or b""
        if not behind.startswith(known.tag) or not behind:  # the file was replaced
            known, behind = _End(), self._files.load(encrypted) or b""
        new = behind[len(known.tag) :]
        extent = extent_of(new)
        if extent.end != len(new):
            return None
        return _End(known.end + extent.end, known.length + extent.length, behind[-TAG:])

    def _decrypt_name(self, entry: FileEntry, cipher: Cipher) -> FileEntry | None:
        """An entry with its decrypted name and the length of its content."""
        if _is_plaintext(entry.name):
            return entry
        name = _decrypt_name(entry.name, cipher)
        if name is None:
            if entry.name != KEY_FILE:
                self._report(entry.name, "it is not encrypted: add it with `ctxwrap put`")
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


def _is_plaintext(name: str) -> bool:
    """Whether the store below writes it: `meta.json`, and the streams, whose records are encrypted."""
    return name == "meta.json" or name.startswith(tuple(f"{stream}.jsonl" for stream in STREAMS))


def _bound_name(name: str) -> str:
    """The name that a file is bound to: its own, or the first name of a content that has two."""
    return f"raw/{name.removeprefix(_SECOND_NAMES)}" if name.startswith(_SECOND_NAMES) else name


def _encrypt_name(name: str, cipher: Cipher) -> str:
    file_parts(name)
    directory, _, last = name.rpartition("/")
    start, middle, end = _split_hidden(last)
    encrypted = f"{start}{cipher.encrypt_name(middle)}{end}"
    return f"{_directory(directory, cipher)}/{encrypted}" if directory else encrypted


def _directory(name: str, cipher: Cipher) -> str:
    return "/".join(
        part if part in _PLAIN else _part(part, cipher.encrypt_name) or "" for part in name.split("/") if part
    )


def _decrypt_name(encrypted: str, cipher: Cipher) -> str | None:
    *directories, last = encrypted.split("/")
    parts = [part if part in _PLAIN else _part(part, cipher.decrypt_name) for part in directories]
    found = [*parts, _part(last, cipher.decrypt_name)]
    return None if None in found else "/".join(part for part in found if part)


def _part(part: str, changed: Callable[[str], str | None]) -> str | None:
    start, middle, end = _split_hidden(part)
    name = changed(middle)
    return None if name is None else f"{start}{name}{end}"


def _split_hidden(part: str) -> tuple[str, str, str]:
    """The dot of a hidden file, its name, and the suffix of a temporary file."""
    if not part.startswith(".") or len(part) == 1:
        return "", part, ""
    return ".", part[1:].removesuffix(".new"), ".new" if part.endswith(".new") else ""
