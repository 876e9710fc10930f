"""Packs that were sent, rebuilt from the log."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ctxwrap.memory.epoch import Tiers, unchanged_ids
from ctxwrap.pack.injection import Instructions, memory_text
from ctxwrap.pack.older_messages import reference_text
from ctxwrap.pack.receipt import budget_in, items_in
from ctxwrap.pack.selection import passages_sent, speaker_lines
from ctxwrap.protocol.instructions import encode_escaped, frame_block, frame_state, sanitise
from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.retrieval.passages import passages
from ctxwrap.retrieval.selection import Passage
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.blobs import texts_in
from ctxwrap.session.missing import open_in
from ctxwrap.session.pack_view import PackBlock, PackView, save_pack
from ctxwrap.session.state import SessionState
from ctxwrap.stores.base import Log, RecordChange
from ctxwrap.stores.log_format import message_in, numbers_in, tokens_in
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import LoggedMessage, MissingContext, Record, Runtime, SessionKey

_GONE = "[no longer kept]"
_UNKNOWN = "[a message that the log does not have]"


class Lookups(NamedTuple):
    """Finds the messages and texts that a pack refers to."""

    message: Callable[[int], LoggedMessage | None]
    """By number."""
    text: Callable[[str], str | None]
    """By the name of the stored content."""


def rebuilt_pack(key: SessionKey, event: Record, epoch: Tiers | None, lookups: Lookups) -> PackView:
    """Rebuild the pack of an event; `epoch` is the memory of the epoch at that time.

    Raises LookupError, TypeError or ValueError if the event has no valid pack.
    """
    rebuild = _Rebuild(event, epoch, lookups, Measure(str(event.get("model") or "")))
    return PackView(
        turn=str(event["run"]),
        session=key.session,
        agent=key.agent,
        round=rebuild.runtime.round,
        at=str(event["ctx"]["time"]),
        model=str(event.get("model") or ""),
        mode=str(event.get("mode") or ""),
        items=items_in(event),
        budget=budget_in(event),
        blocks=tuple(rebuild.blocks()) if "sent" in event else (),
        sha256=str(event.get("sha256") or ""),
        report=dict(event.get("assembly_report") or {}),
        notes=tuple(dict.fromkeys(rebuild.notes)),
    )


class _Rebuild:
    def __init__(self, event: Record, epoch: Tiers | None, lookups: Lookups, measure: Measure) -> None:
        self._sent: Record = event.get("sent") or {}
        self._texts = texts_in(event)
        self._prefix: Record = event.get("prefix") or {}
        self._copies: dict[int, int] = dict(self._sent.get("copies") or ())
        self._epoch, self._lookups, self._measure = epoch, lookups, measure
        self.runtime = Runtime(**event["runtime"])
        self.notes: list[str] = []

    def blocks(self) -> Iterator[PackBlock]:
        """The parts of the request, in the order in which the model reads them."""
        words = self._words()
        yield self._block("protocol", "system", "protocol", words.protocol)
        yield from self._text("boot", "system", "working set")
        yield from (self._message(number, "system") for number in numbers_in(str(self._sent["system"])))
        yield from self._text("pinned", "system", "context/pinned")
        if self._sent["epoch"] and self._epoch:
            was_brief = self._sent["epoch"] == "brief"
            text = memory_text(self._epoch) if was_brief else frame_block("memory", encode_escaped(self._epoch))
            yield self._block("memory", "system", "events.jsonl", text)
        yield from self._text("background", "user", "working set, summary and children")
        yield from (self._message(number, "message") for number in numbers_in(str(self._prefix["messages"])))
        if self._sent["found"]:
            yield self._block("found", "user", "messages.jsonl", frame_block("found", self._found()))
        yield from self._text("offered", "user", "the caller", "background")
        state = frame_state(with_runtime(self._state(), self.runtime))
        yield self._block("state", "user", "events.jsonl", state)
        if words.reminder:
            yield self._block("reminder", "user", "protocol", words.reminder)

    def _state(self) -> Record:
        """The state as it was sent; the log omits the list of unchanged items, which follows from the changes."""
        state: Record = self._sent["state"]
        if state.get("unchanged") is not True:
            return state
        return {**state, "unchanged": unchanged_ids(self._epoch or {}, state["memory"], state.get("dropped", ()))}

    def _words(self) -> Instructions:
        """The instructions of that time."""
        id = self._texts.get("protocol")
        text = None if id is None else self._lookups.text(str(id))
        if text is None:
            self.notes.append("the text of protocol is no longer kept")
        return Instructions(_GONE) if text is None else Instructions.from_text(text)

    def _text(self, name: str, role: str, source: str, frame_name: str = "") -> Iterator[PackBlock]:
        id = self._texts.get(name)
        if id is None:
            return
        text = self._lookups.text(str(id))
        if text is None:
            self.notes.append(f"the text of {name} is no longer kept")
        yield self._block(name, role, source, _GONE if text is None else frame_block(frame_name or name, text))  # type: ignore[arg-type]

    def _message(self, number: int, name: str) -> PackBlock:
        kept = self._lookups.message(number)
        if kept is None:
            return self._block(name, "unknown", "messages.jsonl", _UNKNOWN)
        message = kept.message
        first = self._copies.get(number, 0)
        known = self._lookups.message(first) if first else None
        if known is not None:
            message = message._replace(content=reference_text(known.message, first))
            kept = LoggedMessage(number, message)
        text = message.content if isinstance(message.content, str) else encode_escaped(message.content)
        shown = text if message.role == "system" else sanitise(text)
        calls = [encode_escaped(call) for call in message.tool_calls]
        whole = "\n".join(filter(None, [shown, *calls]))
        return PackBlock(name, message.role, f"messages:{number}", whole, self._measure.message(kept))

    def _found(self) -> str:
        found = []
        for number, part, heading, speaker in passages_sent(self._sent):
            kept = self._lookups.message(number)
            pieces = passages(kept.message.text) if kept else []
            text = pieces[part] if part < len(pieces) else _GONE
            found.append(Passage(number, part, text, heading, speaker))
        return "\n".join(speaker_lines(found, self._sent.get("lines", 1)))

    def _block(self, name: str, role: str, source: str, text: str) -> PackBlock:
        return PackBlock(name, role, source, text, self._measure.text(text))


logger = logging.getLogger("ctxwrap")


class PackArchive:
    """Stores the texts of packs, and rebuilds packs from the log. Use it inside the session's lock."""

    def __init__(self, key: SessionKey, log: Log, keep: Callable[[bytes], Record], whole: RecordChange) -> None:
        """`keep` stores a content and returns its reference; `whole` adds the content to a record."""
        self._key, self._log, self._keep, self._whole = key, log, keep, whole
        self._texts: dict[str, tuple[str, Record]] = {}
        """The texts stored last, by name."""
        self._saved: tuple[str, tuple[MissingContext, ...]] = "", ()
        """The hash of the request and the missing context that the files show."""

    def clear(self) -> None:
        """Forget everything, after the log was rewritten."""
        self._texts.clear()
        self._saved = "", ()

    def keep(self, texts: Mapping[str, str]) -> dict[str, Record]:
        """Store texts by name; one that did not change is not stored again."""
        stored = {}
        for name, text in texts.items():
            known = self._texts.get(name)
            if known is None or known[0] != text:
                known = self._texts[name] = text, self._keep(text.encode("utf-8", "surrogatepass"))
            stored[name] = known[1]
        return stored

    def newest(self, past: SessionState) -> PackView | None:
        """The newest pack that was sent, if there is a valid one."""
        if past.pack is None:
            return None
        try:
            view = rebuilt_pack(self._key, past.pack, past.epoch, self.lookups(past))
        except (LookupError, TypeError, ValueError) as error:
            logger.debug("session %r: invalid pack: %r", self._key.session, error)
            return None
        return view._replace(missing=open_in(past.missing))

    def show(self, past: SessionState) -> None:
        """Write `pack.json` and `pack.md` of the newest call, unless they are up to date."""
        shown = str((past.pack or {}).get("sha256") or ""), open_in(past.missing)
        if shown != self._saved and (view := self.newest(past)) is not None:
            save_pack(view, self._log.files)
            self._saved = shown

    def lookups(self, past: SessionState) -> Lookups:
        recent = past.branch.message
        return Lookups(lambda number: recent(number) or self._message(number), self._text)

    def _message(self, number: int) -> LoggedMessage | None:
        if not number:
            return None
        records = self._log.pick("messages", [number]).values() or self._log.between("messages", number, number)
        whole = map(self._whole, records)
        return next((LoggedMessage(number, message_in(record), tokens_in(record)) for record in whole), None)

    def _text(self, name: str) -> str | None:
        known = next((text for text, blob in self._texts.values() if blob["id"] == name), None)
        if known is not None:
            return known
        data = self._log.files.load(f"raw/{name}") if is_legal_name(name) else None
        return None if data is None else data.decode("utf-8", "replace")
