"""A stream as it grows, whoever writes it."""

from contextlib import nullcontext

from ctxwrap.inspection.reading import Numbered, numbered, readable
from ctxwrap.storage import Log


class Following:
    """`new` gives everything first, and after that what was appended since the last time."""

    def __init__(self, log: Log, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._edition: int | None = None
        self._position = 0
        self._number = 0
        self._given = 0
        """The number of the last record that was given."""

    def new(self) -> list[Numbered]:
        """Every record once: what was given before does not come again when the log is rewritten."""
        edition = self._log.edition()
        if edition == self._edition:
            return self._read_on()
        with self._log.locked() if edition else nullcontext():  # an edition begins a moment before its streams do
            self._edition, self._position, self._number = self._log.edition(), 0, 0
            return self._read_on()

    def _read_on(self) -> list[Numbered]:
        records, self._position = self._log.read(self._stream, self._position)
        found = list(numbered(records, self._number))
        self._number = found[-1].number if found else self._number
        new = [each for each in found if each.number > self._given]
        self._given = max(self._given, self._number)
        return [Numbered(number, readable(record, self._log.files)) for number, record in new]
