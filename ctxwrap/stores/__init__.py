"""Stores: sessions in a directory, in PostgreSQL or in this process's memory, in plaintext or encrypted."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ctxwrap.errors import SettingsError
from ctxwrap.stores.base import PlaintextGuard, Store

_SCHEMES = ("file", "postgresql", "postgres")


def open_store(url: str | os.PathLike[str] | None = None, *, key: str | Sequence[str] | None = None) -> Store:
    """Open the store at `url`: a directory or `file://` URL, a `postgresql://` URL, or `memory:`.

    Without a `url` it is the directory in `CTXWRAP_HOME`, or the platform's directory for user data. With a `key`, or
    with `CTXWRAP_KEY` set, everything in it is encrypted; the first of several keys is used for new sessions.
    """
    store = _store_at(url)
    given = os.environ.get("CTXWRAP_KEY") if key is None else key
    return PlaintextGuard(store) if given is None else _encrypted(store, given)


def encrypts(store: Store) -> bool:
    """Whether the store encrypts what it writes."""
    encrypted = sys.modules.get("ctxwrap.stores.encrypted")
    return encrypted is not None and isinstance(store, encrypted.EncryptedStore)


def _encrypted(store: Store, key: str | Sequence[str]) -> Store:
    try:
        from ctxwrap.stores.encrypted import EncryptedStore
    except ImportError as error:
        raise SettingsError(
            f"a key is given, but encryption is not installed: pip install 'ctxwrap[encryption]' ({error})"
        ) from error
    return EncryptedStore(store, key)


def _store_at(url: str | os.PathLike[str] | None) -> Store:
    if url is None:
        return _files(os.environ.get("CTXWRAP_HOME") or _data_directory())
    text = os.fspath(url)
    scheme, colon, rest = text.partition(":")
    if scheme == "memory" and colon:
        from ctxwrap.stores.memory import MemoryStore

        return MemoryStore()
    if scheme == "file" and rest.startswith("//"):
        return _files(rest.removeprefix("//"))
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        return _postgres(text)
    if "://" in text or not scheme or (colon and scheme in _SCHEMES):
        rest = "//…" if "://" in text else "…"  # it may contain a password
        named = f"{scheme}:{rest}" if scheme else repr(text)
        raise SettingsError(
            f"no store at {named}: use a directory, file:///directory, postgresql://host/database or memory:"
        )
    return _files(text)


def resolve_store(store: Store | str | os.PathLike[str] | None) -> Store:
    """The given store, or the one at that URL."""
    if store is None or isinstance(store, (str, os.PathLike)):
        return open_store(store)
    if isinstance(store, type) or not callable(getattr(store, "open", None)):
        kind = store.__name__ if isinstance(store, type) else f"an object of type {type(store).__name__}"
        raise SettingsError(f"store must be a directory, a URL or what open_store(...) returns, not {kind}")
    return store


def _files(root: str) -> Store:
    try:
        from ctxwrap.stores.files.store import FileStore
    except ImportError as error:
        raise SettingsError(
            f"sessions in a directory need Linux or macOS ({error}): use store='postgresql://host/database', or "
            "store='memory:' for sessions that end with the process"
        ) from error
    directory = Path(root).expanduser().absolute()
    if os.path.isfile(directory):  # False for one that may not be looked at
        raise SettingsError(f"no store at {directory}: it is a file; use a directory, which need not exist yet")
    return FileStore(directory)


def _postgres(url: str) -> Store:
    try:
        from ctxwrap.stores.postgres import PostgresStore
    except ImportError as error:
        raise SettingsError(
            f"the store for PostgreSQL is not installed: pip install 'ctxwrap[postgres]' ({error})"
        ) from error
    return PostgresStore(url)


def _data_directory() -> str:
    from platformdirs import user_data_dir

    return user_data_dir("ctxwrap", appauthor=False)
