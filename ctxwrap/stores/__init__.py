"""Where sessions live: a directory, or this process's memory."""

import os
from pathlib import Path

from ctxwrap.errors import SettingsError
from ctxwrap.storage import Store


def open_store(url: str | os.PathLike[str] | None = None) -> Store:
    """The store at `url`: a directory or `file://` URL, or `memory:` for one that ends with the process.

    Without a `url` it is the directory in `CTXWRAP_HOME`, else the platform's directory for user data.
    """
    if url is None:
        return _files(os.environ.get("CTXWRAP_HOME") or _data_directory())
    text = os.fspath(url)
    scheme, colon, rest = text.partition(":")
    if scheme == "memory" and colon:
        from ctxwrap.stores.memory import MemoryStore

        return MemoryStore()
    if scheme == "file" and rest.startswith("//"):
        return _files(rest.removeprefix("//"))
    if "://" in text or not text:
        raise SettingsError(f"no store at {text!r}: use a directory, file:///directory or memory:")
    return _files(text)


def given_store(store: Store | str | os.PathLike[str] | None) -> Store:
    """`store` itself, or the one at that place."""
    return open_store(store) if store is None or isinstance(store, (str, os.PathLike)) else store


def _files(root: str) -> Store:
    try:
        from ctxwrap.stores.files import FileStore
    except ImportError as error:
        raise SettingsError(
            f"sessions in files need flock, which this platform lacks ({error}); use memory:"
        ) from error
    return FileStore(Path(root).expanduser().absolute())


def _data_directory() -> str:
    from platformdirs import user_data_dir

    return user_data_dir("ctxwrap", appauthor=False)
