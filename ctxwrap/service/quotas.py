"""How much a tenant and a memory may hold: asked before anything is written."""

from typing import NamedTuple

from ctxwrap.errors import QuotaExceeded
from ctxwrap.session.collected import Collected


class Quotas(NamedTuple):
    """0 is no limit."""

    memories: int = 10_000
    """Of a tenant, in all vaults."""
    entries: int = 1_000_000
    """Of a memory."""
    characters: int = 1_000_000_000
    """Of all entries of a memory."""
    entry_characters: int = 200_000
    """Of one entry."""

    def check_memory(self, there: int) -> None:
        if self.memories and there >= self.memories:
            raise QuotaExceeded(f"there are {there} memories, and there may be {self.memories}")

    def check_entry(self, known: Collected, length: int) -> None:
        if self.entry_characters and length > self.entry_characters:
            raise QuotaExceeded(f"an entry may have {self.entry_characters} characters, and this one has {length}")
        if self.entries and known.entries >= self.entries:
            raise QuotaExceeded(f"the memory holds {known.entries} entries, and may hold {self.entries}")
        if self.characters and known.characters + length > self.characters:
            raise QuotaExceeded(
                f"the memory holds {known.characters} characters, and may hold {self.characters}: {length} are too many"
            )
