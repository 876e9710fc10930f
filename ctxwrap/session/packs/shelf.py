"""The shelf of a session's packs: texts that they added, each kept once, and the newest pack for whoever looks."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from ctxwrap.records import message_in, tokens_in
from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.packs.files import save_pack
from ctxwrap.session.packs.recorded import Lookups, recorded
from ctxwrap.session.packs.view import PackView
from ctxwrap.session.past import Past
from ctxwrap.stages.missing import open_in
from ctxwrap.storage import Change, Log
from ctxwrap.types import Kept, Missing, Record, SessionKey

logger = logging.getLogger("ctxwrap")


class Shelf:
    """Use it inside the session's lock."""

    def __init__(self, key: SessionKey, log: Log, keep: Callable[[bytes], Record], whole: Change) -> None:
        """`keep` stores a content and gives its reference; `whole` gives a record with its content."""
        self._key, self._log, self._keep, self._whole = key, log, keep, whole
        self._texts: dict[str, tuple[str, Record]] = {}
        """What was kept last, by name."""
        self._saved: tuple[str, tuple[Missing, ...]] = "", ()
        """What is shown: the hash of a request, and what was missing."""

    def clear(self) -> None:
        """Believe nothing any more: the log was rewritten."""
        self._texts.clear()
        self._saved = "", ()

    def keep(self, texts: Mapping[str, str]) -> dict[str, Record]:
        """Store texts once, by name; those that are the same as the last time are known to be there."""
        for name, text in texts.items():
            if name not in self._texts or self._texts[name][0] != text:
                self._texts[name] = text, self._keep(text.encode("utf-8", "surrogatepass"))
        return {name: self._texts[name][1] for name in texts}

    def newest(self, past: Past) -> PackView | None:
        """The newest pack that was sent, if there is one that makes sense."""
        if past.pack is None:
            return None
        try:
            view = recorded(self._key, past.pack, past.epoch, self.lookups(past))
        except (LookupError, TypeError, ValueError) as error:
            logger.debug("session %r: its pack makes no sense: %r", self._key.session, error)
            return None
        return replace(view, missing=open_in(past.missing))

    def show(self, past: Past) -> None:
        """Show what the newest call sent in the session's files, once."""
        view = self.newest(past)
        if view is not None and (view.sha256, view.missing) != self._saved:
            save_pack(view, self._log.files)
            self._saved = view.sha256, view.missing

    def lookups(self, past: Past) -> Lookups:
        """Where messages and texts are found that a pack refers to."""
        recent = past.branch.recent
        return Lookups(lambda number: recent.get(number) or self._message(number), self._text)

    def _message(self, number: int) -> Kept | None:
        if not number:
            return None
        records = self._log.pick("messages", [number]).values() or self._log.between("messages", number, number)
        whole = map(self._whole, records)
        return next((Kept(number, message_in(record), tokens_in(record)) for record in whole), None)

    def _text(self, name: str) -> str | None:
        """A text that was kept under that name."""
        known = next((text for text, blob in self._texts.values() if blob["id"] == name), None)
        if known is not None:
            return known
        data = self._log.files.load(f"raw/{name}") if is_legal_name(name) else None
        return None if data is None else data.decode("utf-8", "replace")
