"""Tokens of images: size from the first bytes of the data, tokens by the rule of the model family."""

import binascii
from collections.abc import Callable, Iterator
from math import ceil
from typing import NamedTuple

from ctxwrap.tokens.models import known_prefix

UNKNOWN_MODEL_IMAGE = 1600
"""Tokens of an image for a model without a known rule."""

_SHORTEST_SIDE = 768
_TILE = 512
_MOST_TILES = 8

_SEGMENTS = 200
"""The number of JPEG segments that are searched for the size."""


class Size(NamedTuple):
    width: int
    height: int


class Tiles(NamedTuple):
    """A base price plus a price for each 512-pixel tile of the scaled-down image."""

    base: int
    each: int

    def tokens(self, size: Size | None, detail: str) -> int:
        if detail == "low":
            return self.base
        return self.base + self.each * (_tiles(size) if size else _MOST_TILES)


class Patches(NamedTuple):
    """A price for each 32-pixel patch, up to a maximum number of patches."""

    each: float
    most: int = 1536

    def tokens(self, size: Size | None, detail: str) -> int:
        most = min(self.most, 2500) if detail == "high" or size is None else self.most
        count = most if size is None else min(most, _squares(size, 32))
        return ceil((min(count, 256) if detail == "low" else count) * self.each)


class Pixels(NamedTuple):
    """A price for the area of the image, scaled down to a longest side."""

    longest: int
    most: int

    def tokens(self, size: Size | None, detail: str) -> int:
        if size is None:
            return self.most
        scale = min(1.0, self.longest / max(size))
        scaled = Size(ceil(size.width * scale), ceil(size.height * scale))
        return min(self.most, max(ceil(scaled.width * scaled.height / 750), _squares(scaled, 28)))


_CLAUDE = Pixels(1568, 1600)
_RULES: dict[str, Tiles | Patches | Pixels] = {
    "gpt-4": Tiles(85, 170),
    "gpt-4o": Tiles(85, 170),
    "gpt-4o-mini": Tiles(2833, 5667),
    "gpt-4.1": Tiles(85, 170),
    "gpt-4.5": Tiles(85, 170),
    "gpt-4.1-mini": Patches(1.62),
    "gpt-4.1-nano": Patches(2.46),
    "gpt-5": Tiles(70, 140),
    "gpt-5-mini": Patches(1.62),
    "gpt-5-nano": Patches(2.46),
    "gpt-5.": Patches(1.2, 10_000),
    "o1": Tiles(75, 150),
    "o3": Tiles(75, 150),
    "o4-mini": Patches(1.72),
    "claude": Pixels(2576, 4784),
    "claude-3": _CLAUDE,
    "claude-opus-4": _CLAUDE,
    "claude-sonnet-4": _CLAUDE,
    "claude-haiku-4": _CLAUDE,
    "claude-opus-4-7": Pixels(2576, 4784),
    "claude-opus-4.7": Pixels(2576, 4784),
    "claude-opus-4-8": Pixels(2576, 4784),
    "claude-opus-4.8": Pixels(2576, 4784),
}
_LONGEST_FIRST = sorted(_RULES, key=len, reverse=True)


def image_tokens(model: str, size: Size | None, detail: str = "auto") -> int:
    """The tokens of an image; one of unknown size counts as large."""
    prefix = known_prefix(model, _LONGEST_FIRST)
    return _RULES[prefix].tokens(size, detail) if prefix else UNKNOWN_MODEL_IMAGE


def _tiles(size: Size) -> int:
    scale = min(1.0, 2048 / max(size))
    scale *= min(1.0, _SHORTEST_SIDE / (min(size) * scale))
    return ceil(round(size.width * scale, 3) / _TILE) * ceil(round(size.height * scale, 3) / _TILE)


def _squares(size: Size, side: int) -> int:
    return ceil(size.width / side) * ceil(size.height / side)


def size_of_url(url: str) -> Size | None:
    """The size of the image in a data URL; other URLs are not fetched."""
    head, comma, data = url.partition(",") if url.startswith("data:") else ("", "", "")
    return size_of_base64(data) if comma and head.endswith(";base64") else None


def size_of_base64(data: str) -> Size | None:
    """The size of a PNG, GIF, WebP or JPEG image, read from its header; None if it has no readable size."""
    start = _bytes_of(data, 0, 30)
    for mark, read in _READERS:
        if start.startswith(mark):
            size = read(start, data)
            return size if size and min(size) > 0 else None
    return None


def _bytes_of(data: str, start: int, length: int) -> bytes:
    """Some bytes of base64 data, without decoding the rest; empty if the data is invalid there."""
    skipped = start % 3
    first = (start - skipped) // 3 * 4
    text = data[first : first + ceil((skipped + length) / 3) * 4]
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4))[skipped : skipped + length]
    except (binascii.Error, ValueError):
        return b""


def _number(data: bytes, start: int, length: int = 2) -> int:
    return int.from_bytes(data[start : start + length], "big")


def _png(start: bytes, data: str) -> Size:
    return Size(_number(start, 16, 4), _number(start, 20, 4))


def _gif(start: bytes, data: str) -> Size:
    return Size(int.from_bytes(start[6:8], "little"), int.from_bytes(start[8:10], "little"))


def _webp(start: bytes, data: str) -> Size | None:
    kind = start[12:16]
    if kind == b"VP8X":
        return Size(*(1 + int.from_bytes(start[at : at + 3], "little") for at in (24, 27)))
    if kind == b"VP8L":
        bits = int.from_bytes(start[21:25], "little")
        return Size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 ":
        return Size(*(int.from_bytes(start[at : at + 2], "little") & 0x3FFF for at in (26, 28)))
    return None


def _jpeg(start: bytes, data: str) -> Size | None:
    return next((Size(_number(frame, 7), _number(frame, 5)) for frame in _frames(data) if len(frame) == 9), None)


def _frames(data: str) -> Iterator[bytes]:
    """The headers of the JPEG segments that hold the size."""
    at = 2
    for _ in range(_SEGMENTS):
        head = _bytes_of(data, at, 9)
        if len(head) < 4 or head[0] != 0xFF:
            return
        if 0xC0 <= head[1] <= 0xCF and head[1] not in (0xC4, 0xC8, 0xCC):
            yield head
        at += 2 + _number(head, 2)


_READERS: tuple[tuple[bytes, Callable[[bytes, str], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
    (b"\xff\xd8", _jpeg),
)
