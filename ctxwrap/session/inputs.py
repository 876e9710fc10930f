"""What others put into a session's `context/`, read before each turn: pinned texts, and a budget."""

import logging

from ctxwrap.session.abi import budget_in, is_legal_name
from ctxwrap.stores.base import FileEntry, Files
from ctxwrap.types import SourcedText

logger = logging.getLogger("ctxwrap")

PINNED = "context/pinned"
BUDGET = "context/budget"

INPUTS = (f"{PINNED}/", BUDGET, "context/gc.policy")
"""What lies in `context/` and does not follow from the log."""

_LARGEST = 256 * 1024
"""So many bytes at most are read of a pinned file."""

_MOST = 64


class Inputs:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[FileEntry, SourcedText] = {}

    @property
    def limit(self) -> int | None:
        """What `context/budget` says, where nothing is no limit, too; None if there is none that makes sense."""
        data = self._files.load(BUDGET)
        if data is None:
            return None
        try:
            return budget_in(data.decode()) or 0
        except ValueError as error:
            logger.warning("ctxwrap: %s is passed over: %s", BUDGET, error)
            return None

    @property
    def pinned(self) -> tuple[SourcedText, ...]:
        """The pinned texts, in the order of their names."""
        names = {entry: entry.name.removeprefix(f"{PINNED}/") for entry in self._files.entries(PINNED)}
        entries = [entry for entry, name in names.items() if is_legal_name(name)]
        self._known = {entry: self._known.get(entry) or self._read(entry) for entry in entries[:_MOST]}
        return tuple(text for text in self._known.values() if text.text.strip())

    def _read(self, entry: FileEntry) -> SourcedText:
        data = (self._files.load(entry.name) or b"")[:_LARGEST]
        return SourcedText(entry.name, data.decode("utf-8", "replace"))
