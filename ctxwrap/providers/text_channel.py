"""Reply text on its way to the caller: the trailer is removed, log probabilities stay aligned with the text."""

import json
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pydantic_core import from_json

from ctxwrap.protocol.reply import TEXT_FOLLOWS
from ctxwrap.providers.base import TextDelta
from ctxwrap.providers.messages import set_path
from ctxwrap.providers.sse import Frame
from ctxwrap.types import Body, ParsedReply, TextStream


class Channel:
    """One text of a reply: text in, visible text out. A token's log probability leaves with the token's text."""

    def __init__(self, stream: TextStream) -> None:
        self._stream = stream
        self._tokens: deque[Body] = deque()
        self._tokens_end = 0
        self._fed: list[str] = []
        """The text that the offsets have not passed yet."""
        self._offsets: _ByteOffsets | None = None
        self._pieces: list[str] = []
        self.closed = False

    def feed(self, text: str) -> str:
        self._fed.append(text)
        return self._show(self._stream.feed(text))

    def passes(self, text: str) -> bool:
        """Whether `text` is visible unchanged; if so, it has been fed."""
        if self.closed or not self._stream.passes(text):
            return False
        self._fed.append(text)
        self._pieces.append(text)
        return True

    def hides(self, text: str) -> bool:
        """Whether `text` is part of a snapshot; if so, it has been fed."""
        if self.closed or not self._stream.hides(text):
            return False
        self._fed.append(text)
        return True

    def close(self) -> str:
        self.closed = True
        return self._show(self._stream.close())

    def whole(self, text: str) -> str:
        """Feed and close: the visible part of a complete text."""
        self._fed.append(text)
        self.closed = True
        visible = self._stream.whole(text)
        self._pieces.append(visible)
        return visible

    def tokens(self, arrived: list[Body]) -> list[Body]:
        """The tokens that can leave now: those whose text is visible, cut to the visible part."""
        self._tokens.extend(arrived)
        released: list[Body] = []
        shown = self._shown_bytes()
        decided = shown[-1][1] if shown else 0
        while self._tokens and (self.closed or self._tokens_end + _size(self._tokens[0]) <= decided):
            token = self._tokens.popleft()
            released += _visible_part(token, self._tokens_end, shown)
            self._tokens_end += _size(token)
        return released

    def tokens_of_all(self, tokens: list[Body]) -> list[Body]:
        """The visible part of `tokens`, which cover the whole text."""
        shown, released, at = self._shown_bytes(), list[Body](), 0
        for token in tokens:
            released += _visible_part(token, at, shown)
            at += _size(token)
        return released

    @property
    def text(self) -> str:
        """The visible text so far."""
        return "".join(self._pieces)

    @property
    def reading(self) -> ParsedReply:
        return self._stream.reading

    def _show(self, text: str) -> str:
        if text:
            self._pieces.append(text)
        return text

    def _shown_bytes(self) -> list[tuple[int, int]]:
        """Where the visible text is, in bytes; only log probabilities ask for it."""
        self._offsets = self._offsets or _ByteOffsets(self._fed)
        return self._offsets.bytes_of(self._stream.spans)


class _ByteOffsets:
    """Converts character offsets of a growing text into byte offsets."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces
        """The text after the last measured offset; it grows at its end."""
        self._at = self._bytes = 0
        self._spans: list[tuple[int, int]] = []

    def bytes_of(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans in bytes. Of the spans in the previous call, only the last may have grown."""
        for at in range(max(len(self._spans) - 1, 0), len(spans)):
            start, end = spans[at]
            if at == len(self._spans):
                self._advance(start)
                self._spans.append((self._bytes, self._bytes))
            if end > self._at:
                self._advance(end)
                self._spans[at] = self._spans[at][0], self._bytes
        return self._spans

    def _advance(self, at: int) -> None:
        text, count = "".join(self._pieces), at - self._at
        self._bytes += _bytes_in(text[:count])
        self._pieces[:], self._at = [text[count:]], at


def _bytes_in(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _visible_part(token: Body, at: int, shown: list[tuple[int, int]]) -> list[Body]:
    """The visible part of the token at byte offset `at`: all of it, some, or nothing."""
    size = _size(token)
    first = max(bisect_right(shown, (at, at)) - 1, 0)
    parts = [(max(start, at) - at, min(end, at + size) - at) for start, end in shown[first : first + 3]]
    parts = [part for part in parts if part[0] < part[1]]
    if parts == [(0, size)] or not size:
        return [token] if parts or any(start <= at <= end for start, end in shown[first : first + 2]) else []
    return [_clipped(token, parts)] if parts else []


def _bytes(token: Body) -> bytes:
    """A token's bytes, which may be part of a character."""
    if isinstance(token.get("bytes"), list):
        return bytes(token["bytes"])
    return str(token.get("token", "")).encode("utf-8", "surrogatepass")


def _size(token: Body) -> int:
    return len(_bytes(token))


def _clipped(token: Body, parts: list[tuple[int, int]]) -> Body:
    """Some bytes of a token that text and trailer share, without the alternatives: they would reveal the rest."""
    kept = b"".join(_bytes(token)[start:end] for start, end in parts)
    clipped = {**token, "token": kept.decode("utf-8", "ignore")}
    if "bytes" in token:
        clipped["bytes"] = list(kept)
    if "top_logprobs" in token:
        clipped["top_logprobs"] = []
    return clipped


def reading_of(channels: Sequence[Channel]) -> ParsedReply | None:
    """The reading of a reply with several texts: that of the last one with a snapshot. None while a text is open."""
    if not channels or not channels[-1].closed:
        return None
    if len(channels) == 1:
        return channels[0].reading
    readings = [channel.reading for channel in channels if channel.closed]
    found = next((each for each in reversed(readings) if each.status != "missing"), readings[-1])
    follows = any(each.visible.strip() for each in readings[readings.index(found) + 1 :])
    if actions := tuple(action for each in readings for action in each.actions):
        found = found._replace(actions=actions)
    if not follows:
        return found
    return found._replace(violations=(*found.violations, TEXT_FOLLOWS))


class PlainStream:
    """A text stream that passes everything, for replies that are only observed."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def feed(self, chunk: str) -> str:
        self._pieces.append(chunk)
        self._size += len(chunk)
        return chunk

    def passes(self, chunk: str) -> bool:
        self.feed(chunk)
        return True

    def hides(self, chunk: str) -> bool:
        return False

    def close(self) -> str:
        return ""

    def whole(self, text: str) -> str:
        return self.feed(text)

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        return [(0, self._size)]

    @property
    def reading(self) -> ParsedReply:
        return ParsedReply(visible="".join(self._pieces))


_VARYING = ("sequence_number", "obfuscation")
"""Top-level fields that differ from event to event and do not concern the text."""
_LONGEST = 16 * 1024
"""A longer event is parsed, which may happen in a thread."""
_MOST_UNUSED = 4
"""After this many templates that matched no event, a stream gets no more."""

_decode = json.JSONDecoder().raw_decode


class DeltaPassthrough:
    """Passes the text deltas of a stream through without parsing them, once it has a template of one."""

    def __init__(self, *, is_text: bool = True) -> None:
        self._template: _Template | None = None
        self._delta: TextDelta
        self._is_hiding = False
        """Whether the last event was hidden; then the next one probably is too."""
        self._unused = 0 if is_text else _MOST_UNUSED

    def take(self, raw: bytes) -> bytes | None:
        """What the caller gets for `raw`: `raw` itself or nothing, if it is one text delta that was fed; else None."""
        if self._template is None or (text := self._template.text_in(raw)) is None:
            return None
        if not self._is_hiding and self._delta.passes(text):
            self._unused = 0
            return raw
        self._is_hiding = self._delta.hides(text)
        if not self._is_hiding:
            return None
        self._unused = 0
        return b""

    def learn(self, raw: bytes, event: Body, delta: TextDelta | None) -> None:
        """Use `raw` as the template for the events that follow, if that is possible."""
        if delta is None or self._unused == _MOST_UNUSED or len(raw) > _LONGEST:
            return
        if self._template is None or self._template.text_in(raw) is None:
            self._unused += 1
            self._template, self._delta = _template(raw.decode(), event, delta.path), delta
        else:
            self._template.event = event


class EventPassthrough:
    """Does the same for events that are parsed already: those that differ from an earlier one in nothing but text."""

    def __init__(self) -> None:
        self._known: Body | None = None
        self._text = ""
        self._delta: TextDelta
        self._unused = 0

    def take(self, event: Body) -> bool | None:
        """Whether the caller gets `event`, if it is one text delta that was fed; else None."""
        if self._known is None:
            return None
        path = self._delta.path
        try:
            text = _value_at(event, path)
            if type(text) is not str or not 0 < len(text) <= _LONGEST:
                return None
            if set_path(event, path, self._text) != self._known:
                return None
        except (LookupError, TypeError, AttributeError):  # an event without such a text
            return None
        is_shown = self._delta.passes(text)
        if not is_shown and not self._delta.hides(text):
            return None
        self._unused = 0
        return is_shown

    def learn(self, event: Body, delta: TextDelta | None) -> None:
        """Compare the events that follow with `event`, which nobody changes any more."""
        if delta is None or self._unused == _MOST_UNUSED:
            return
        self._unused += 1
        self._known, self._delta, self._text = event, delta, _value_at(event, delta.path)


def _value_at(value: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        value = value[step]
    return value


class _Slot(NamedTuple):
    """A value that varies: the characters before it, its field and its type."""

    before: str
    name: str
    kind: type


class _Template:
    """An event with slots for the values that vary."""

    def __init__(self, slots: list[_Slot], rest: str, text: str, event: Body) -> None:
        self._slots, self._rest, self._text = slots, rest, text
        self.event = event
        """The newest event that was parsed; whoever keeps it sees the newest values of the fields that vary."""
        before, behind = (slots[0].before.encode(), rest.encode()) if len(slots) == 1 else (b"", b"")
        self._before, self._behind = before, behind
        """The bytes around the text, if nothing else varies."""

    def text_in(self, raw: bytes) -> str | None:
        """The text of an event that differs only in its slots; None for any other event."""
        if len(raw) > _LONGEST:
            return None
        if self._before and raw.startswith(self._before) and raw.endswith(self._behind):
            try:
                value = from_json(raw[len(self._before) : len(raw) - len(self._behind)])
                return value if isinstance(value, str) else None
            except ValueError:
                pass  # the slower decoder also takes lone surrogates
        varied: Body = {}
        try:
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
        self.event.update(varied)
        return text


def _template(raw: str, event: Body, path: tuple[str | int, ...]) -> _Template | None:
    """A template of `raw`, if filling its slots with other values changes only those fields of the event."""
    text = str(path[-1])
    slots, at, filled, expected = list[_Slot](), 0, "", event
    for name, start, end, value in sorted(_values(raw, (text, *_VARYING)), key=itemgetter(1)):
        other = value + 1 if isinstance(value, int) else f"{value}."
        slots.append(_Slot(raw[at:start], name, type(value)))
        filled += raw[at:start] + json.dumps(other)
        expected, at = set_path(expected, path if name == text else (name,), other), end
    is_sound = Frame((filled + raw[at:]).encode()).json() == expected != event
    return _Template(slots, raw[at:], text, event) if is_sound else None


def _values(raw: str, names: tuple[str, ...]) -> Iterator[tuple[str, int, int, Any]]:
    """The positions of the last fields with these names whose values are texts or integers."""
    for name in names:
        at = raw.rfind(f'"{name}":')
        if at >= 0:
            start = at + len(f'"{name}":')
            start += raw[start : start + 1] == " "
            value, end = _decode(raw, start)
            if type(value) in (str, int):
                yield name, start, end, value
