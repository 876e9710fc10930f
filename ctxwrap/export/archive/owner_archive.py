"""Archives of users and teams: one zip with the archive of the owner's log and those of all its sessions."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile

from ctxwrap.errors import InvalidArchive, NotFound, SettingsError
from ctxwrap.export.archive.format import ArchiveLimits
from ctxwrap.export.archive.importer import Imported, check_archive, import_session
from ctxwrap.export.archive.reader import open_zip
from ctxwrap.export.archive.writer import Exported, export_session, replace_atomically, report_write_errors
from ctxwrap.session.lookup import StoreLike, holds_anything, key_for, owner_key
from ctxwrap.session.owner import members_of
from ctxwrap.session.verify.checker import Progress
from ctxwrap.stores import resolve_store
from ctxwrap.stores.names import OWNERS, owner_kind
from ctxwrap.types import SessionKey

FORMAT, VERSION = "ctxwrap-owner", 1
LIST = "owner.json"

_COUNTS = ("messages", "events", "contents")


def export_owner(
    key: SessionKey,
    file: str | os.PathLike[str],
    *,
    store: StoreLike = None,
    overwrite: bool = False,
    incomplete: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write everything of a user or a team to one file: its own log, and all sessions that belong to it."""
    target = os.path.abspath(os.fspath(file))
    if os.path.lexists(target) and not overwrite:
        raise SettingsError(f"{target} already exists: choose another file, or overwrite it (overwrite=True, --force)")
    place, options = resolve_store(store), {"incomplete": incomplete, "progress": progress}
    keys, parts = (key, *members_of(place, key)), list[tuple[str, SessionKey, Exported]]()
    with tempfile.TemporaryDirectory(prefix="ctxwrap-") as directory:
        for number, each in enumerate(keys):
            name = f"{number}.zip"
            try:
                tenant, agent, session = each
                part = export_session(
                    session,
                    Path(directory, name),
                    store=place,
                    tenant=tenant,
                    agent=agent,
                    **options,  # type: ignore[arg-type]
                )
            except NotFound:  # a session whose first turn never began
                continue
            parts.append((name, each, part))
        with report_write_errors(target), replace_atomically(target, overwrite=overwrite) as handle:
            with ZipFile(handle, "w", ZIP_STORED) as archive:
                archive.writestr(LIST, json.dumps(_listed(key, parts), indent=1))
                for name, _, _ in parts:
                    archive.write(Path(directory, name), name)
            size = handle.seek(0, os.SEEK_END)
    made = [part for _, _, part in parts]
    damage = tuple(damage for part in made for damage in part.damage)
    left_out = tuple(name for part in made for name in part.left_out)
    messages, events, contents = (sum(getattr(part, name) for part in made) for name in _COUNTS)
    return Exported(target, messages, events, contents, size, damage, left_out)


def _listed(key: SessionKey, parts: list[tuple[str, SessionKey, Exported]]) -> dict[str, Any]:
    sessions = [{"file": name, "agent": each.agent, "session": each.session} for name, each, _ in parts[1:]]
    head = {"format": FORMAT, "version": VERSION, "kind": owner_kind(key.agent), "name": key.session}
    return {**head, "file": parts[0][0], "sessions": sessions}


class _Part(NamedTuple):
    file: str
    key: SessionKey


def is_owner_archive(file: str | os.PathLike[str], limits: ArchiveLimits) -> bool:
    with open_zip(file, limits) as archive:
        return LIST in archive.namelist()


def import_owner(
    file: str | os.PathLike[str],
    *,
    store: StoreLike = None,
    tenant: str = "default",
    trusted: bool = False,
    limits: ArchiveLimits | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a user or a team with all its sessions, under their own names; all archives are checked before any write.

    The caller chooses the tenant. An existing user, team or session is never changed.
    """
    limits, place = limits or ArchiveLimits(), resolve_store(store)
    with _unpacked(file, tenant, limits) as (directory, parts):
        for part in parts:
            check_archive(Path(directory, part.file), limits)
        for part in parts:
            if holds_anything(place.open(part.key)):
                kind = owner_kind(part.key.agent) or "session"
                raise SettingsError(f"there is already a {kind} {part.key.session!r} of tenant {tenant!r}")
        made = [
            import_session(
                Path(directory, part.file),
                session=part.key.session,
                store=place,
                tenant=tenant,
                agent=part.key.agent,
                trusted=trusted,
                limits=limits,
                progress=progress,
            )
            for part in reversed(parts)  # an interrupted import has no owner yet, whose log names the sessions
        ]
    messages, events, contents = (sum(getattr(each, name) for each in made) for name in _COUNTS)
    damage = tuple(damage for each in made for damage in each.damage)
    left_out = tuple(name for each in made for name in each.left_out)
    return Imported(parts[0].key, made[-1].origin, messages, events, contents, damage, left_out)


@contextmanager
def _unpacked(file: str | os.PathLike[str], tenant: str, limits: ArchiveLimits) -> Iterator[tuple[str, list[_Part]]]:
    with tempfile.TemporaryDirectory(prefix="ctxwrap-") as directory:
        with open_zip(file, limits) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            if sum(info.file_size for info in infos.values()) > limits.bytes:
                raise InvalidArchive("it is larger than the limit")
            if any(info.compress_type != ZIP_STORED for info in infos.values()):
                raise InvalidArchive("its members must not be compressed")
            parts = _parts(archive.read(LIST), tenant, infos.__contains__)
            for number, part in enumerate(parts):
                Path(directory, f"{number}.zip").write_bytes(archive.read(part.file))
        yield directory, [part._replace(file=f"{number}.zip") for number, part in enumerate(parts)]


def _parts(data: bytes, tenant: str, has: Callable[[str], bool]) -> list[_Part]:
    try:
        listed = json.loads(data)
        if (listed["format"], listed["version"]) != (FORMAT, VERSION) or listed["kind"] not in OWNERS:
            raise InvalidArchive("it is not an archive of a user or a team that this version reads")
        parts = [_Part(listed["file"], owner_key(listed["kind"], listed["name"], tenant))]
        parts += [_Part(each["file"], key_for(each["session"], tenant, each["agent"])) for each in listed["sessions"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise InvalidArchive(f"{LIST} is damaged: {error}") from error
    if not all(isinstance(part.file, str) and has(part.file) for part in parts):
        raise InvalidArchive(f"{LIST} names an archive that is missing")
    return parts
