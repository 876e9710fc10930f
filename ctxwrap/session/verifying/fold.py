"""What a session's log amounts to and what a rebuild would write, without touching the session."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ctxwrap.session import blobs
from ctxwrap.session.past import Past
from ctxwrap.settings import Settings
from ctxwrap.storage import Files
from ctxwrap.stores.memory import MemoryFiles
from ctxwrap.types import Record


class Computed(MemoryFiles):
    """Files that only exist to be compared; contents that would have another name are not loaded for that."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, str] = {}

    def link(self, name: str, other: str) -> None:
        self.links.setdefault(other, name)


@dataclass(slots=True)
class Fold:
    """A session's past, record by record: all messages, then all events."""

    files: Files
    """Where large contents are."""
    past: Past = field(default_factory=lambda: Past(Settings()))

    def take(self, stream: str, record: Record) -> bool:
        """Whether it made sense."""
        return self.past.take(stream, record, self._whole)

    def computed(self) -> Computed:
        files = Computed()
        self.past.derived.save(files, self.past.memory, self.past.turns.state)
        return files

    def _whole(self, record: Record) -> Record:
        try:
            return blobs.put_back(record, self.files)
        except LookupError:
            return record


def folded(files: Files, messages: Iterable[Record], events: Iterable[Record], step: Callable[[], None]) -> Fold:
    fold = Fold(files)
    for stream, records in (("messages", messages), ("events", events)):
        for record in records:
            fold.take(stream, record)
            step()
    return fold
