"""Text deltas recognised by their bytes: most events of a stream differ from the one before in their text alone.

Such an event need not be parsed, and if its text is shown as it is, its bytes go on as they came.
"""

import json
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from ctxwrap.types import Body, TextDelta
from ctxwrap.wires.edit import put
from ctxwrap.wires.sse import Frame

_VARYING = ("sequence_number", "obfuscation")
"""Top-level fields that differ from event to event and mean nothing for the text."""
_LONGEST = 16 * 1024
"""A longer event is parsed: that may be done in a thread."""
_MOST_UNUSED = 4
"""After so many templates that matched no event, a stream gets no more of them."""

_decode = json.JSONDecoder().raw_decode


class Deltas:
    """Passes the text deltas of a stream on, once it has seen what they look like."""

    def __init__(self) -> None:
        self._template: _Template | None = None
        self._passes: Callable[[str], bool]
        self._unused = 0

    def passes(self, raw: bytes) -> bool:
        """Whether `raw` is one text delta that goes on as it is; if so, its text was taken."""
        if self._template is None or (text := self._template.text_in(raw)) is None or not self._passes(text):
            return False
        self._unused = 0
        return True

    def learn(self, raw: bytes, event: Body, delta: TextDelta | None) -> None:
        """Recognise events like `raw` from now on, if they can be."""
        if delta is None or self._unused == _MOST_UNUSED or len(raw) > _LONGEST:
            return
        if self._template is None or self._template.text_in(raw) is None:
            self._unused += 1
            self._template, self._passes = _template(raw.decode(), event, delta.path), delta.passes


class _Slot(NamedTuple):
    """The bytes before a value that varies, and the value's type."""

    before: str
    name: str
    kind: type


class _Template:
    """An event with slots for what varies in it."""

    def __init__(self, slots: list[_Slot], rest: str, text: str, event: Body) -> None:
        self._slots, self._rest, self._text = slots, rest, text
        self._event = event
        before, behind = (f'{slots[0].before}"'.encode(), f'"{rest}'.encode()) if len(slots) == 1 else (b"", b"")
        self._before, self._behind = before, behind
        """What stands around the text, if nothing else varies."""

    def text_in(self, raw: bytes) -> str | None:
        """The text of an event that is the same but for its slots; None of any other."""
        if len(raw) > _LONGEST:
            return None
        varied: Body = {}
        try:
            if self._before and raw.startswith(self._before) and raw.endswith(self._behind):
                plain = raw[len(self._before) : -len(self._behind)].decode()
                if plain.isprintable() and '"' not in plain and "\\" not in plain:
                    return plain
            whole, at = raw.decode(), 0
            for before, name, kind in self._slots:
                if not whole.startswith(before, at):
                    return None
                value, at = _decode(whole, at + len(before))
                if type(value) is not kind:
                    return None
                varied[name] = value
        except (ValueError, RecursionError):
            return None
        if whole[at:] != self._rest:
            return None
        text: str = varied.pop(self._text)
        self._event.update(varied)  # who holds on to the event has the newest one
        return text


def _template(raw: str, event: Body, path: tuple[str | int, ...]) -> _Template | None:
    """A template of `raw`, if filling its slots anew changes the event where it should and nowhere else."""
    text = str(path[-1])
    slots, at, filled, expected = list[_Slot](), 0, "", event
    for name, start, end, value in sorted(_values(raw, (text, *_VARYING)), key=itemgetter(1)):
        other = value + 1 if isinstance(value, int) else f"{value}."
        slots.append(_Slot(raw[at:start], name, type(value)))
        filled += raw[at:start] + json.dumps(other)
        expected, at = put(expected, path if name == text else (name,), other), end
    is_sound = Frame((filled + raw[at:]).encode()).json() == expected != event
    return _Template(slots, raw[at:], text, event) if is_sound else None


def _values(raw: str, names: tuple[str, ...]) -> Iterator[tuple[str, int, int, Any]]:
    """Where the values of the last fields of these names stand, if they are texts or numbers."""
    for name in names:
        at = raw.rfind(f'"{name}":')
        if at >= 0:
            start = at + len(f'"{name}":')
            start += raw[start : start + 1] == " "
            value, end = _decode(raw, start)
            if type(value) in (str, int):
                yield name, start, end, value
