"""Finds imitations of the separator in foreign text, in every spelling that is accepted in a reply."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import (
    AFTER,
    BEHIND_NAME,
    CLOSERS,
    GAP,
    KEY_SIGNS,
    LESSER,
    MORE,
    OPENERS,
    OWN_KEY,
    PROSE,
    SIGN,
    SNAPSHOT,
    char,
    chars,
    maybe,
    pattern,
    times,
)

_BROKEN, _WHOLE = len("con"), len("context")
"""Where a name is broken up, and its length."""
_OWN_FRAME = b"ctxwrap-context>\n"
_BLANKS = " \t\u200b\u200c\u200d\u2060\ufeff\u00ad`"
_ENTITIES = ("lt;", "#60;", "#x3c;")
_ANGLES = (
    *(before + entity for entity in _ENTITIES for before in ("&amp;", "&")),
    *("\\<", "\\u003c", "\\x3c"),
    *LESSER,
)
_ANGLE_BACKWARDS = lazy_pattern("|".join(re.escape(each[::-1]) for each in _ANGLES))
"""The longest angle bracket at the end of a text, which is turned around and in small letters."""
_OPENERS = frozenset(OPENERS)
_COLOUR = lazy_pattern(r"\x1b\[[\d;]{0,12}m")
_LINE = 120
"""Maximum characters between the start of a line and the name."""
_NEAR, _FAR = 80, 4096
"""How far after its opening a snapshot key must follow: within a line, which may be code, and at a line's start."""

_IN_ANGLES = tuple(lazy_pattern(BEHIND_NAME + times(MORE, least, 7)) for least in (2, 1, 0))
"""By the number of angle brackets before the name."""
_IN_PAIRS = lazy_pattern(BEHIND_NAME + times(MORE, 2, 7))
_IN_BRACKETS = lazy_pattern(BEHIND_NAME + GAP + chars(f"[{re.escape(CLOSERS)}]", 1, 7))
_ALONE = lazy_pattern("CONTEXT" + chars(rf"(?:[: \t]|{SIGN})", 0, 16) + char(r"\n"))
_OPENING = pattern(AFTER, maybe(PROSE), SNAPSHOT, last="[{｛:]")


class Mark(NamedTuple):
    """An imitation: where to break up its name, and whether a snapshot follows."""

    at: int
    opens: bool


def marks_in(text: str) -> Iterator[Mark]:
    """Yield every separator: with two angle brackets anywhere, otherwise only before a snapshot."""
    return _marks_at(_names_before(len(text), text), text)


def _marks_at(names: Iterable[int], text: str) -> Iterator[Mark]:
    keys: list[int] | None = None
    for at in names:
        angles, before = _angles_before(text[max(0, at - _LINE) : at])
        end = _end_of(text, at, angles, before)
        opening = _OPENING.match(text, end) if end >= 0 else None
        opens = False
        if opening is not None and opening["last"]:
            keys = [key.start() for key in OWN_KEY.finditer(text)] if keys is None else keys
            first = bisect_left(keys, end)
            reach = _FAR if angles > 1 or _begins_line(before, is_all=at <= _LINE) else _NEAR
            opens = first < len(keys) and keys[first] < opening.end() + reach
        if opens or (angles > 1 and _IN_PAIRS.match(text, at + _WHOLE)):
            yield Mark(at + _BROKEN, opens)


def _names_before(stop: int, text: str) -> list[int]:
    """Return the positions of the separator's name, except in our own frames, which are no separators."""
    small, names = small_ascii(text), list[int]()
    at = small.find(b"context", 0, stop)
    while at >= 0:
        if small[at - len("ctxwrap-") : at + len("context>\n")] != _OWN_FRAME:
            names.append(at)
        at = small.find(b"context", at + _WHOLE, stop)
    return names


def small_ascii(text: str) -> bytes:
    """Return `text` in small letters, with a question mark for each character that is not ASCII."""
    return text.encode("ascii", "replace").lower()


def has_imitation(text: str) -> bool:
    """Whether `text` contains a separator with a snapshot, as it is or unescaped."""
    small, last = small_ascii(text), max(map(text.rfind, KEY_SIGNS))
    if small.count(b"context", 0, last) == small.count(_OWN_FRAME, 0, last):
        return False  # it has no name of a separator, and unescaping adds none
    for each in unescaped_forms(text):
        last = max(map(each.rfind, KEY_SIGNS))  # behind it there are no keys of a snapshot
        names = _names_before(last, each)
        if names and any(mark.opens for mark in _marks_at(names, each)):
            return True
    return False


def unescaped_forms(text: str) -> Iterator[str]:
    """Yield `text`, and its unescaped form if it may be JSON with text inside."""
    yield text
    if "\\" in text and ("\\n" in text or '\\"' in text):
        yield text.replace("\\n", "\n").replace('\\"', '"')


def _angles_before(line: str) -> tuple[int, str]:
    """Count the angle brackets at the end of `line`, up to two; return the count and the rest."""
    count = 0
    while count < 2:
        bare = line.rstrip(_BLANKS)
        sign = _ANGLE_BACKWARDS.match(bare[:-13:-1].lower())
        if sign is None:
            break
        line = bare[: -len(sign[0])]
        count += 1
    return count, line


def _begins_line(before: str, *, is_all: bool) -> bool:
    """Whether the line holds only decoration before the name; `is_all` if `before` starts the text."""
    _, newline, line = before.rpartition("\n")
    if not newline and not is_all:
        return False
    return not any(map(str.isalnum, _COLOUR.sub("", line) if "\x1b" in line else line))


def _end_of(text: str, at: int, angles: int, before: str) -> int:
    """Return where the separator with the name at `at` ends; -1 if it is none."""
    spelled = _IN_ANGLES[angles].match(text, at + _WHOLE)
    if spelled is None and not angles and before.rstrip(_BLANKS)[-1:] in _OPENERS:
        spelled = _IN_BRACKETS.match(text, at + _WHOLE)
    if spelled is None and text.startswith("CONTEXT", at) and _begins_line(before, is_all=at <= _LINE):
        spelled = _ALONE.match(text, at)
    return spelled.end() if spelled else -1
