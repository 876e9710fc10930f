"""A pack that was sent, told again from the log: references are looked up, nothing is guessed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ctxwrap.memory.epoch import Tiers, unchanged
from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.protocol.text import escaped, frame, framed, neutral
from ctxwrap.records import numbers_in
from ctxwrap.retrieval.passages import passages
from ctxwrap.session.blobs import texts_in
from ctxwrap.session.packs.view import Block, PackView
from ctxwrap.stages.assembly import Words, memory_text
from ctxwrap.stages.copies import reference_to
from ctxwrap.stages.receipt import budget_in, items_in
from ctxwrap.stages.surface import Passage, told
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import Kept, Record, Runtime, SessionKey

_GONE = "[no longer kept]"
_UNKNOWN = "[a message that the log does not have]"


@dataclass(frozen=True, slots=True)
class Lookups:
    """Where what a pack refers to is found."""

    message: Callable[[int], Kept | None]
    """A message by its number."""
    text: Callable[[str], str | None]
    """A text by the name of its content."""


def recorded(key: SessionKey, event: Record, epoch: Tiers | None, lookups: Lookups) -> PackView:
    """The pack that an event tells of, `epoch` being the memory that stood in the requests of its time.

    A LookupError, TypeError or ValueError if it tells of none that makes sense.
    """
    telling = _Telling(event, epoch, lookups, Measure(str(event.get("model") or "")))
    return PackView(
        turn=str(event["run"]),
        session=key.session,
        agent=key.agent,
        round=telling.runtime.round,
        at=str(event["ctx"]["time"]),
        model=str(event.get("model") or ""),
        mode=str(event.get("mode") or ""),
        items=items_in(event),
        budget=budget_in(event),
        blocks=tuple(telling.blocks()) if "sent" in event else (),
        sha256=str(event.get("sha256") or ""),
        report=dict(event.get("assembly_report") or {}),
        notes=tuple(dict.fromkeys(telling.notes)),
    )


class _Telling:
    def __init__(self, event: Record, epoch: Tiers | None, lookups: Lookups, measure: Measure) -> None:
        self._sent: Record = event.get("sent") or {}
        self._texts = texts_in(event)
        self._prefix: Record = event.get("prefix") or {}
        self._copies: dict[int, int] = dict(self._sent.get("copies") or ())
        self._epoch, self._lookups, self._measure = epoch, lookups, measure
        self.runtime = Runtime(**event["runtime"])
        self.notes: list[str] = []

    def blocks(self) -> Iterator[Block]:
        """What the model read, in its order."""
        words = self._words()
        yield self._block("protocol", "system", "protocol", words.protocol)
        yield from self._text("boot", "system", "working set")
        yield from (self._message(number, "system") for number in numbers_in(str(self._sent["system"])))
        yield from self._text("pinned", "system", "context/pinned")
        if self._sent["epoch"] and self._epoch:
            was_brief = self._sent["epoch"] == "brief"
            text = memory_text(self._epoch) if was_brief else framed("memory", escaped(self._epoch))
            yield self._block("memory", "system", "events.jsonl", text)
        yield from self._text("background", "user", "working set, summary and children")
        yield from (self._message(number, "message") for number in numbers_in(str(self._prefix["messages"])))
        if self._sent["found"]:
            yield self._block("found", "user", "messages.jsonl", framed("found", self._found()))
        yield from self._text("offered", "user", "the caller", "background")
        state = frame(with_runtime(self._state(), self.runtime))
        yield self._block("state", "user", "events.jsonl", state)
        if words.reminder:
            yield self._block("reminder", "user", "protocol", words.reminder)

    def _state(self) -> Record:
        """The state as it was sent; what is unchanged since the epoch follows from what is not."""
        state: Record = self._sent["state"]
        if state.get("unchanged") is not True:
            return state
        return {**state, "unchanged": unchanged(self._epoch or {}, state["memory"], state.get("dropped", ()))}

    def _words(self) -> Words:
        """What the model was told then, whatever it is told now."""
        id = self._texts.get("protocol")
        text = None if id is None else self._lookups.text(str(id))
        if text is None:
            self.notes.append("the text of protocol is no longer kept")
        return Words(_GONE) if text is None else Words.from_text(text)

    def _text(self, name: str, role: str, source: str, frame_name: str = "") -> Iterator[Block]:
        id = self._texts.get(name)
        if id is None:
            return
        text = self._lookups.text(str(id))
        if text is None:
            self.notes.append(f"the text of {name} is no longer kept")
        yield self._block(name, role, source, _GONE if text is None else framed(frame_name or name, text))  # type: ignore[arg-type]

    def _message(self, number: int, name: str) -> Block:
        kept = self._lookups.message(number)
        if kept is None:
            return self._block(name, "unknown", "messages.jsonl", _UNKNOWN)
        message = kept.message
        first = self._copies.get(number, 0)
        known = self._lookups.message(first) if first else None
        if known is not None:
            message = message._replace(content=reference_to(known.message, first))
            kept = Kept(number, message)
        text = message.content if isinstance(message.content, str) else escaped(message.content)
        shown = text if message.role == "system" else neutral(text)
        calls = [escaped(call) for call in message.tool_calls]
        whole = "\n".join(filter(None, [shown, *calls]))
        return Block(name, message.role, f"messages:{number}", whole, self._measure.message(kept))

    def _found(self) -> str:
        lines = []
        for number, part, heading, speaker in sorted(self._sent["found"]):
            kept = self._lookups.message(number)
            pieces = passages(kept.message.text) if kept else []
            text = pieces[part] if part < len(pieces) else _GONE
            lines.append(told(Passage(number, part, text, heading, speaker)))
        return "\n".join(lines)

    def _block(self, name: str, role: str, source: str, text: str) -> Block:
        return Block(name, role, source, text, self._measure.text(text))
