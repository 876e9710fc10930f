"""What an encrypted file holds: frames, each of which continues the one before it, so that a file can grow.

A frame is the length of what follows, in four bytes, and a sealed piece. It is bound to the file's name and to the tag
that the frame before it ends with: frames of other files, of an earlier state or in another order do not open. Those at
the end may be missing.
"""

from typing import NamedTuple

from ctxwrap.stores.encrypted.cipher import NONCE, TAG, Cipher

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
