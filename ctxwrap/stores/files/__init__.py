"""The store in a directory: JSON lines, shared by all processes of one machine."""

from ctxwrap.stores.files.store import FileStore

__all__ = ["FileStore"]
