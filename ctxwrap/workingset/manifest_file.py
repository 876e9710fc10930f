"""The manifest file: read as untrusted input, written atomically with minimal changes to its text."""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxwrap.errors import InvalidManifest, StoreUnavailable
from ctxwrap.workingset import safe_yaml
from ctxwrap.workingset.manifest import FOCUS, PROTOCOL, Manifest, Metadata, WorkingFile, read_entry, read_manifest
from ctxwrap.workingset.reader import FileBytes, Unread, read_bytes
from ctxwrap.workingset.safe_yaml import MAX_BYTES, mapping_in

_FIELDS = ("path", "priority", "role", "truncate_strategy", "max_lines", "why", "added_by", "pin", "turn")
_USUAL = WorkingFile("", -1)


def manifest_text(manifest: Manifest, text: str = "") -> str:
    """The manifest as YAML. It keeps comments and notation of `text`, its source, where possible."""
    target = _values(manifest)
    for attempt in (_Splice(text).to(target) if text.strip() else None, _dumped(target)):
        if attempt is not None and _says(attempt, target):
            return attempt
    raise InvalidManifest(f"the working set is too large for a file of {MAX_BYTES} bytes; remove some files from it")


def _says(text: str, target: Mapping[str, Any]) -> bool:
    try:
        found = mapping_in(text)
    except InvalidManifest:
        return False
    return {**found, "files": found.get("files") or []} == target


def _values(manifest: Manifest) -> dict[str, Any]:
    values = dict(manifest.source) or {"protocol": PROTOCOL}
    files = {file.path: file for file in manifest.files}
    unused = {None, *(fault.path for fault in manifest.faults)}
    values["files"] = [*_kept(manifest.source.get("files"), None, files, unused)]
    if values.get("focus"):
        values["focus"] = [*_kept(values["focus"], FOCUS, files, unused)]
    values["files"] += [_entry(file) for file in files.values()]
    known = values.get("metadata")
    old: dict[str, Any] = known if isinstance(known, dict) else {}
    new = {key: getattr(manifest.metadata, key) for key in Metadata.__dataclass_fields__}
    changed = {key: value for key, value in new.items() if value != safe_yaml.text(old.get(key))}
    return {**values, "metadata": {**old, **changed}} if changed else values


def _kept(entries: Any, usual: float | None, files: dict[str, WorkingFile], unused: set[str | None]) -> Iterator[Any]:
    """The entries in their order with their present values; unusable ones stay as they are.

    Removes from `files` those that have an entry.
    """
    for entry in entries or ():
        before = _as_read(entry, usual)
        if before is None:
            if _named(entry) in unused:
                yield entry
        elif usual is None and before.path in files:
            yield _entry(files.pop(before.path))
        elif files.get(before.path) == before:
            yield entry
            del files[before.path]


def _named(entry: Any) -> str | None:
    path = entry.get("path") if isinstance(entry, dict) else entry
    return path if isinstance(path, str) else None


def _as_read(entry: Any, usual: float | None = None) -> WorkingFile | None:
    try:
        return read_entry(entry, usual)
    except safe_yaml.Wrong:
        return None


def _entry(file: WorkingFile) -> dict[str, Any]:
    entry = dict(file.source)
    before = _as_read(entry)
    for name in _FIELDS:
        value = getattr(file, name)
        if before is not None and getattr(before, name) == value:
            continue
        if value == getattr(_USUAL, name):
            entry.pop(name, None)
        else:
            entry[name] = value
    return entry


def _dumped(value: Any, *, flow: bool = False) -> str:
    import yaml  # type: ignore[import-untyped]

    return str(
        yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=flow or False)
    )


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Splice:
    """Edits single values of a YAML text in place; the caller checks the result."""

    def __init__(self, text: str) -> None:
        self._text = text if text.endswith("\n") else f"{text}\n"
        self._lines = self._text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def to(self, target: Mapping[str, Any]) -> str | None:
        """The text edited into `target`, or None if that takes more than edits."""
        import yaml

        try:
            root = yaml.compose(self._text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            edits = sorted(self._edits(root, target), reverse=True)
        except (yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError):
            return None
        text = self._text
        for edit in edits:
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text

    def _edits(self, root: Any, target: Mapping[str, Any]) -> Iterator[_Edit]:
        parts = {key.value: part for key, part in root.value}
        if "metadata" in parts:
            yield from self._changed(parts["metadata"], target["metadata"])
        if "files" not in parts:
            yield _Edit(len(self._text), len(self._text), "files:\n" + _indented(target["files"], 2))
            return
        new = {entry["path"]: entry for entry in target["files"] if "path" in entry}
        nodes = parts["files"].value or []
        for node in nodes:
            entry = new.pop(_path_in(node), None)
            yield from [self._removed(node)] if entry is None else self._changed(node, entry)
        if new:
            yield self._added(parts["files"], list(new.values()))

    def _changed(self, node: Any, entry: Mapping[str, Any]) -> Iterator[_Edit]:
        """Edits of scalars; new keys are added at the end."""
        import yaml

        known = {key.value: part for key, part in node.value}
        for key, value in entry.items():
            if key not in known:
                at = self._starts[self._last_line(node) + 1]
                yield _Edit(at, at, f"{' ' * node.start_mark.column}{key}: {_scalar(value)}\n")
            elif isinstance(known[key], yaml.ScalarNode) and _as_plain(known[key]) != value:
                yield _Edit(self._at(known[key].start_mark), self._at(known[key].end_mark), _scalar(value))

    def _removed(self, node: Any) -> _Edit:
        return _Edit(self._starts[node.start_mark.line], self._starts[self._last_line(node) + 1], "")

    def _added(self, node: Any, entries: list[Any]) -> _Edit:
        if not node.value:
            start = len(self._text[: self._at(node.start_mark)].rstrip(" "))
            return _Edit(start, self._at(node.end_mark), "\n" + _indented(entries, 2).rstrip("\n"))
        last = node.value[-1]
        line = self._lines[last.start_mark.line]
        at = self._starts[self._last_line(last) + 1]
        return _Edit(at, at, _indented(entries, len(line) - len(line.lstrip())))

    def _last_line(self, node: Any) -> int:
        """The last line of a node's content; its end mark may include comments after it."""
        while isinstance(node.value, list) and node.value and not node.flow_style:
            last = node.value[-1]
            node = last[1] if isinstance(last, tuple) else last
        line = int(node.end_mark.line) - int(node.end_mark.column == 0)
        while line > node.start_mark.line and not self._lines[line].strip():
            line -= 1
        return line

    def _at(self, mark: Any) -> int:
        return self._starts[int(mark.line)] + int(mark.column)


def _path_in(node: Any) -> str:
    return str(next((part.value for key, part in node.value if key.value == "path"), ""))


def _as_plain(node: Any) -> Any:
    """The value of a scalar node."""
    return mapping_in(f"it: {node.value}")["it"] if node.style is None else node.value


def _scalar(value: Any) -> str:
    return _dumped([value], flow=True).strip()[1:-1]


def _indented(entries: list[Any], width: int) -> str:
    return "".join(f"{' ' * width}{line}\n" for line in _dumped(entries).splitlines())


_READ = safe_yaml.MAX_BYTES
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_PATIENCE = 5.0
"""Seconds to wait for other writers."""


@dataclass(frozen=True, slots=True)
class LoadedManifest:
    manifest: Manifest
    text: str = ""
    """The text of the file; empty if there is no usable one."""
    problem: str = ""
    """Why the file could not be used."""
    missing: bool = False
    """Whether there is no file."""


def load_manifest(path: str | os.PathLike[str]) -> LoadedManifest:
    """Load a manifest; without a file it is empty."""
    directory, name = os.path.split(os.fspath(path))
    found = read_bytes(directory or ".", name, _READ)
    if isinstance(found, FileBytes):
        try:
            return LoadedManifest(read_manifest(found.data), found.data.decode("utf-8-sig"))
        except InvalidManifest as refused:
            return LoadedManifest(Manifest(), problem=f"{name!r} cannot be used: {refused}")
    if not isinstance(found, Unread) or found.trouble == "missing":
        return LoadedManifest(Manifest(), missing=True)
    return LoadedManifest(Manifest(), problem=f"{name!r} cannot be used: {found.reason}")


def save_manifest(path: str | os.PathLike[str], manifest: Manifest, kept: LoadedManifest) -> str:
    """Replace the manifest that was loaded as `kept`, atomically; returns the new text.

    Raises StoreUnavailable if somebody else changed it in the meantime, or if writing fails.
    """
    path = os.fspath(path)
    with _alone(path):
        return _saved(path, manifest, kept)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Hold a lock on the directory, which needs no lock file."""
    import fcntl  # not on Windows, where this module can be imported all the same

    try:
        handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreUnavailable(f"{path!r} was not written: {error.strerror or error}") from error
    try:
        _lock(handle, path)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a forked child may still hold the handle
        os.close(handle)


def _lock(handle: int, path: str) -> None:
    """Lock a directory; a file system without locks is accepted."""
    import fcntl

    from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

    waiting = Retrying(
        retry=retry_if_exception_type(BlockingIOError),
        stop=stop_after_delay(_PATIENCE),
        wait=wait_random(0.001, 0.01),
        reraise=True,
    )
    try:
        waiting(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreUnavailable(f"{path!r} was not written: somebody else has it; try again") from None
    except OSError:
        return


def _saved(path: str, manifest: Manifest, kept: LoadedManifest) -> str:
    now = load_manifest(path)
    if now.problem or now.text != kept.text:
        why = now.problem or "it was changed meanwhile"
        raise StoreUnavailable(f"{path!r} was not written: {why}; look at it and try again")
    text = manifest_text(manifest, kept.text)
    try:
        _replace(path, text.encode())
    except OSError as error:
        raise StoreUnavailable(f"{path!r} was not written: {error.strerror or error}") from error
    return text


def _replace(path: str, data: bytes) -> None:
    from ctxwrap.stores.files.disk import opened, sync_directory, write_all

    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.new")
    try:
        with opened(temporary, _NEW) as handle:
            write_all(handle, data)
            os.fchmod(handle, _mode(path))
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.realpath(directory))


def _mode(path: str) -> int:
    """The permissions of a file, or those of its owner alone if it is new."""
    try:
        return os.stat(path, follow_symlinks=False).st_mode & 0o777
    except FileNotFoundError:
        return 0o600
