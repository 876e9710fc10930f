"""Sessions as directories of append-only JSON lines, for every process of one machine."""

from ctxwrap.stores.files.store import FileStore

__all__ = ["FileStore"]
