"""Summaries that a model wrote: the newest one, and where the next goes on."""

from dataclasses import asdict, dataclass

from ctxwrap.memory.items import ORIGINS, Origin
from ctxwrap.memory.trust import least_trusted
from ctxwrap.records import message_range
from ctxwrap.session.redaction import FORGOTTEN
from ctxwrap.types import Record


@dataclass(slots=True)
class Summaries:
    text: str = ""
    """The newest one that was not forgotten, or nothing."""
    source: str = ""
    origin: Origin = ORIGINS[0]
    """The least trusted of all that ever went into one: what was dropped may live on in what came after it."""
    asked: int = 0
    """The last message up to which one was asked for, whatever came of it."""
    told: int = 0
    """The last message that the next one need not or must not read."""
    forgotten: int = 0
    """The last message before something was forgotten, which these messages may say."""

    @property
    def newest(self) -> Record | None:
        return {"source": self.source, "text": self.text} if self.text else None

    def take(self, event: Record) -> None:
        kind = event.get("type")
        if kind == "forget" or (kind == "purge" and "child" in event):
            # the messages that say what was forgotten stay: a summary of them would bring it back
            self.forgotten = max(self.forgotten, int((event.get("ctx") or {}).get("messages") or 0))
            self.told = max(self.told, self.forgotten)
        elif kind in ("summarise", "summary"):
            last = message_range(str(event["source"]))[1]
            self.asked = max(self.asked, last)
            if kind == "summary":
                self._take_text(event, last)

    def _take_text(self, event: Record, last: int) -> None:
        origin, text = event.get("origin"), str(event["text"])
        self.origin = least_trusted(self.origin, origin if origin in ORIGINS else ORIGINS[-1])
        if text.strip() and text != FORGOTTEN:
            self.text, self.source, self.told = text, str(event["source"]), max(self.told, last)

    def as_json(self) -> Record:
        return asdict(self)
