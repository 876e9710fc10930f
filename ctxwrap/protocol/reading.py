"""Reading a reply: the text the user sees, and the state behind it; whole or as it streams in."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ctxwrap.protocol.holding import HoldBack
from ctxwrap.protocol.ladder import Climb, climb
from ctxwrap.protocol.separator import SPACE, Place, places
from ctxwrap.protocol.text import SEPARATOR
from ctxwrap.types import Reading

_MOST_PLACES = 8
_MANY = 100
_MOST_TEXT = 512 * 1024
_ROOT_KEY = re.compile(r"""\b(version|runtime|memory|capabilities|active_task)\\?["'”’]?\s{0,4}[:=：]""")
_CLOSED = re.compile(r"""[}\]｝］]["\s`~]{0,80}(?:<[^<>\n]{1,60}>{1,3}\s{0,80})?\Z""")
_SUSPICIOUS = re.compile(r"[^\w\s]\s{0,8}context|context\s{0,8}[^\w\s.,;!?]|\{\s{0,64}\W?version")
_TOO_MUCH = Climb("rejected", violations=("there is too much to read",))
_COPIED = "the trailer is a copy of text in the request"


def read_reply(
    text: str,
    runtime: Mapping[str, Any] | None = None,
    previous: Mapping[str, Any] | None = None,
    request_texts: Sequence[str] = (),
) -> Reading:
    """What `text`, a model's whole reply, says to the user and what it says to us. Never raises."""
    tails = _Tails(text, runtime, previous)
    trailers = _trailers(text, tails)
    if not trailers:
        return Reading(visible=text)
    first, last = trailers[0], trailers[-1]
    visible, trailer = text[: first.start].rstrip(SPACE), text[first.start :].lstrip(SPACE)
    if _is_copy(text[last.end :], request_texts):
        return Reading(visible, violations=(_COPIED,), status="rejected", trailer=trailer)
    read = tails.read(last)
    return Reading(visible, read.snapshot, read.repairs, read.violations, read.status, trailer)


class _Tails:
    """What follows the places in a text, read on demand: each once, and only so much of it."""

    def __init__(self, text: str, runtime: Mapping[str, Any] | None, previous: Mapping[str, Any] | None) -> None:
        self._text = text
        self._context = runtime, previous
        self._left = _MOST_TEXT
        self._known: dict[tuple[int, int], Climb] = {}

    def read(self, place: Place, end: int | None = None) -> Climb:
        """What stands between a place and `end`, or the end of the text."""
        tail = self._text[place.end : end]
        key = place.end, len(tail)
        if key not in self._known:
            self._left -= len(tail)
            too_much = self._left < 0 and self._known
            self._known[key] = _TOO_MUCH if too_much else climb(tail, *self._context)
        return self._known[key]

    def reads(self, place: Place) -> bool:
        """Whether it is a snapshot; without a separator, one with nothing behind it."""
        return self.is_all(place) if place.bare else self.read(place).status in ("clean", "repaired", "partial")

    def is_all(self, place: Place, end: int | None = None) -> bool:
        """Whether it is a snapshot up to `end`, cut off there or complete with nothing behind it."""
        status = self.read(place, end).status
        return status == "partial" or (
            status in ("clean", "repaired") and bool(_CLOSED.search(self._text[:end][-200:]))
        )


def _trailers(text: str, tails: _Tails) -> list[Place]:
    """The trailers at the end of `text`: the last one counts, those before it are drafts."""
    found = _as_asked(text, tails) or _searched(text, tails)
    trailers = found[-1:]
    for place in reversed(found[:-1]):
        if not tails.is_all(place, trailers[0].start):
            break
        is_cut = tails.read(place, trailers[0].start).status == "partial"
        if is_cut and tails.read(trailers[-1]).status != "clean":
            trailers.clear()  # they stand inside of what begins here
        trailers.insert(0, place)
    return trailers


def _as_asked(text: str, tails: _Tails) -> list[Place]:
    """The places up to the last one, if all is as it should be: behind an exact separator, nothing but a snapshot."""
    asked = _last_exact(text)
    if asked is None or text.count(SEPARATOR) > _MANY:
        return []
    found = [asked] if _is_plain(text[: asked.start]) else places(text[: asked.end + 1])
    is_it = found and found[-1].end == asked.end and tails.read(found[-1]).status == "clean"
    return found[-_MOST_PLACES:] if is_it else []


def _last_exact(text: str) -> Place | None:
    """The last separator at the start of a line that is spelled as asked for, if a brace follows."""
    start = text.rfind(f"\n{SEPARATOR}") + 1
    end = text.find("{", start)
    if end < 0 or text[start:end].rstrip(SPACE) != SEPARATOR:
        return None
    return Place(start, end, exact=True)


def _is_plain(text: str) -> bool:
    """Whether nothing in `text` can be a trailer, and nothing at its end belongs to one that follows."""
    last_line = text.rstrip()[-80:].rpartition("\n")[2].strip()
    if not {last_line[:1], last_line[-1:]}.isdisjoint("-*_=`~>"):
        return False
    words = text.lower()
    return ("context" not in words and "version" not in words) or not _SUSPICIOUS.search(words)


def _searched(text: str, tails: _Tails) -> list[Place]:
    """The places up to the last one that reads as a snapshot; if none does, up to the last that means to be one."""
    ends_with_separator = text.rstrip(SPACE).endswith(SEPARATOR)
    found = places(text + "{" if ends_with_separator else text)
    separated = [place for place in found if not place.bare][-_MOST_PLACES:]
    upto = [separated[: count + 1] for count in reversed(range(len(separated)))]
    read = (those for those in (*upto, found[-1:]) if those and tails.reads(those[-1]))
    meant = (those for those in upto if those[-1].exact or _means_snapshot(text[those[-1].end :]))
    return next(read, None) or next(meant, [])


def _means_snapshot(tail: str) -> bool:
    return len(set(_ROOT_KEY.findall(tail))) > 1


def _is_copy(tail: str, request_texts: Sequence[str]) -> bool:
    """Whether the object in `tail` stands word for word in what the model was given."""
    start, end = tail.find("{"), tail.rfind("}") + 1
    return end - start > 20 and any(tail[start:end] in text for text in request_texts)


class ReplyStream:
    """The same reading over a stream: `feed` gives what may be shown now, `close` the rest.

    What `feed` and `close` gave, put together, is `read_reply(...).visible` for every way of cutting the text.
    """

    def __init__(
        self,
        runtime: Mapping[str, Any] | None = None,
        previous: Mapping[str, Any] | None = None,
        request_texts: Sequence[str] = (),
    ) -> None:
        self._context = (runtime, previous, request_texts)
        self._chunks: list[str] = []
        self._hold_back = HoldBack()
        self._shown = 0
        self._reading: Reading | None = None

    def feed(self, chunk: str) -> str:
        self._chunks.append(chunk)
        shown = self._hold_back.feed(chunk)
        self._shown += len(shown)
        return shown

    def close(self) -> str:
        if self._reading is not None:
            return ""
        self._reading = read_reply("".join(self._chunks), *self._context)
        return self._reading.visible[self._shown :]

    @property
    def reading(self) -> Reading:
        """The reading of the whole text; closes the stream."""
        self.close()
        assert self._reading is not None
        return self._reading
