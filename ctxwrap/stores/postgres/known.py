"""What a log knows from its last section, which is worth something as long as nobody else wrote to the session."""

from typing import Any, NamedTuple

from ctxwrap.storage import FileEntry

_SMALL = 16 * 1024
_REMEMBERED = 64
"""So many files up to that size are remembered."""


class Seen(NamedTuple):
    """The last record of a stream that is known of."""

    position: int
    token: bytes
    """Of the section that wrote it."""


class KnownFiles:
    def __init__(self) -> None:
        self.contents: dict[str, bytes | None] = {}
        self.sizes: dict[str, int | None] = {}
        self.entries: dict[str, list[FileEntry]] = {}
        """By directory."""

    def take(self, name: str, data: bytes | None) -> None:
        """That it was written, or removed."""
        self.forget(name)
        self.take_read(name, data)
        self.sizes[name] = None if data is None else len(data)

    def take_read(self, name: str, data: bytes | None) -> None:
        if data is None or len(data) <= _SMALL:
            self.contents[name] = data
            if len(self.contents) > _REMEMBERED:
                self.contents.pop(next(iter(self.contents)))

    def forget(self, name: str) -> None:
        """That it is another now."""
        self.contents.pop(name, None)
        self.sizes.pop(name, None)
        for under in [under for under in self.entries if not under or name.startswith(f"{under}/")]:
            del self.entries[under]


class Known:
    """Used by the section that is open, and by nobody else."""

    def __init__(self) -> None:
        self.version: tuple[int, bytes] | None = None
        """The session as the last section left it."""
        self.edition = 0
        self.seen: dict[str, Seen] = {}
        self.fresh: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}
        """What each stream has from a position on, as of the section's beginning."""
        self.files = KnownFiles()

    def begin_edition(self, edition: int) -> None:
        self.edition, self.seen, self.fresh = edition, {}, {}

    def is_other(self, stream: str, rows: list[tuple[Any, ...]]) -> bool:
        """Whether the last record that was seen is not there any more, or another one in its place."""
        seen = self.seen[stream]
        return bool(seen.position) and (not rows or rows[0][:2] != seen)
