"""Regular expressions compiled on first use: most calls need few of the hundreds that exist."""

import re
from collections.abc import Iterable
from typing import Any, AnyStr, cast


class _Lazy:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for each in ("match", "search", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, each, getattr(compiled, each))  # later uses skip this method
        return getattr(compiled, name)


class Runs:
    """Finds the runs of characters of a class, such as `[a-z]`, which has no whitespace."""

    def __init__(self, characters: str) -> None:
        self._class, self._run = characters, lazy_pattern(f"{characters}+")
        self._spaced = b""
        """The characters of the class, and a space for each other one."""

    def findall(self, text: str) -> list[str]:
        if not text.isascii():
            return self._run.findall(text)
        # most texts are ASCII, where this takes a quarter of the time
        self._spaced = self._spaced or bytes(at if re.match(self._class, chr(at)) else 32 for at in range(256))
        return str(text.encode().translate(self._spaced), "ascii").split()


_SHAPES = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz123456789_,;", b"A" * 26 + b"a" * 26 + b"0" * 12
)


def shape_of(text: str) -> str:
    """An ASCII text with `A` for a capital, `a` for another letter, and `0` for what else a word may end with.

    A look for a few shapes takes a fraction of a search for a pattern.
    """
    return str(text.encode().translate(_SHAPES), "ascii")


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but deferred. Compare a match by `re.pattern`: its `re` is not this object."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))


def folded(text: str) -> str:
    """The text in a case in which `in` finds at least what `re.IGNORECASE` does."""
    return text.casefold().replace("\u0131", "i").replace("i\u0307", "i")


def has_any(text: str, hints: Iterable[str]) -> bool:
    """Whether a text has one of these hints: a look that takes a fraction of a search for a pattern."""
    return any(map(text.__contains__, hints))


def shortest_hints(hints: Iterable[str]) -> tuple[str, ...]:
    """The hints that contain no other one, which are as good as all."""
    every = set(hints)
    return tuple(hint for hint in sorted(every) if not has_any(hint, every - {hint}))
