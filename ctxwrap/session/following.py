"""Following a log: what is made of its messages, one after the other, grows with every question and is saved.

Much that is new is added some at a time. A message that makes no sense is left out, and hides no other.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from math import inf

from ctxwrap.records import message_in
from ctxwrap.session import indexed
from ctxwrap.session.blobs import beginning_of
from ctxwrap.storage import Log
from ctxwrap.types import Record

logger = logging.getLogger("ctxwrap")

_INDEXED = {"user": 32_000, "assistant": 32_000, "tool": 3_600}
"""Whose messages are indexed, and how many characters of each: of what a tool gave, about eight passages."""

_AT_ONCE = 512
"""So many messages are added for one question; the rest waits for the next."""

_RECORDS_AT_A_TIME = 32
"""So many of them are read at once."""

_UNSAVED = 256
"""After so many new messages what is made of them is saved at once, should nobody have done so before."""

Add = Callable[[int, Record, str], None]
"""Adds a message by its number, and what of its text is indexed."""

Pick = Callable[[Iterable[int]], Mapping[int, Record]]
"""The messages of these numbers."""


class Following:
    """Use it inside the session's lock."""

    def __init__(
        self, log: Log, pick: Pick, kind: indexed.Kind, whole: indexed.Segmented, add: Add, most: float = inf
    ) -> None:
        """`whole` grows by what `add` adds: messages of about `most` characters for one question."""
        self._log, self._pick, self._kind, self._whole = log, pick, kind, whole
        self._add, self._most = add, most
        self.next = max(1, whole.highest + 1)
        """The first message that is still to be added."""
        self._unsaved = 0

    def go_on(self, below: int) -> None:
        """Add the messages before that number, or some of them."""
        end, left = min(below, self.next + _AT_ONCE), self._most
        while self.next < end and left > 0:
            first, self.next = self.next, min(end, self.next + _RECORDS_AT_A_TIME)
            for number, record in sorted(self._pick(range(first, self.next)).items()):
                left -= self._take(number, record)
        self.save(_UNSAVED)

    def save(self, least: int = 1) -> None:
        """Write down what is new, if it is that many messages."""
        if self._unsaved >= least:
            self._unsaved = 0
            indexed.save(self._log, self._kind, self._whole)

    def _take(self, number: int, record: Record) -> int:
        """Of how many characters it is."""
        self._unsaved += 1
        try:
            text = text_of(record, self._log)
            if text.strip():
                self._add(number, record, text)
            return len(text)
        except Exception as error:
            logger.debug("message %d is not indexed: %r", number, error)
            return 0


def text_of(record: Record, log: Log) -> str:
    """As much of what a message says as is indexed; nothing of one that was purged."""
    control, length = record.get("ctx") or {}, _INDEXED.get(record.get("role", "user"), 0)
    if not length or "purged" in control:
        return ""
    blob = control.get("blob")
    return message_in(record).text[:length] if blob is None else beginning_of(blob, log.files, length)
