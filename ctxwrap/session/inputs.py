"""Inputs in a session's `context/` that operators write: pinned texts and a budget, read before each turn."""

import logging

from ctxwrap.session.abi import budget_in, is_legal_name
from ctxwrap.stores.base import FileEntry, Files
from ctxwrap.types import SourcedText

logger = logging.getLogger("ctxwrap")

PINNED = "context/pinned"
BUDGET = "context/budget"

INPUTS = (f"{PINNED}/", BUDGET, "context/gc.policy")
"""Files in `context/` that are not derived."""

_LARGEST = 256 * 1024
"""The most bytes read of a pinned file."""

_MOST = 64


class Inputs:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[FileEntry, SourcedText] = {}

    @property
    def limit(self) -> int | None:
        """The budget in `context/budget`, where an empty file means no limit; None if there is no valid one."""
        data = self._files.load(BUDGET)
        if data is None:
            return None
        try:
            return budget_in(data.decode()) or 0
        except ValueError as error:
            logger.warning("ctxwrap: ignored %s: %s", BUDGET, error)
            return None

    @property
    def pinned(self) -> tuple[SourcedText, ...]:
        """The pinned texts, sorted by name."""
        found = self._files.entries(PINNED)
        if not found:
            self._known = {}
            return ()
        entries = [entry for entry in found if is_legal_name(entry.name.removeprefix(f"{PINNED}/"))]
        self._known = {entry: self._known.get(entry) or self._read(entry) for entry in entries[:_MOST]}
        return tuple(text for text in self._known.values() if text.text.strip())

    def _read(self, entry: FileEntry) -> SourcedText:
        data = (self._files.load(entry.name) or b"")[:_LARGEST]
        return SourcedText(entry.name, data.decode("utf-8", "replace"))
