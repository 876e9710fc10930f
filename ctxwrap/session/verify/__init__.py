"""Verification of a session, and rebuilding of its derived files."""

from hashlib import sha256
from typing import NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.session.derived import is_derived
from ctxwrap.session.lookup import StoreLike, finish_background_work, key_for, open_existing
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.checker import Progress, verified
from ctxwrap.session.verify.report import SEVERITIES, FindingSeverity, Verification, VerifyFinding
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Files

__all__ = [
    "SEVERITIES",
    "FindingSeverity",
    "Progress",
    "Rebuilding",
    "Verification",
    "VerifyFinding",
    "rebuild",
    "verify",
]


def verify(
    session: str,
    *,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    progress: Progress | None = None,
) -> Verification:
    """Check every record, checksum, reference and derived file of a session; change nothing.

    It finds changed records, gaps, and missing records that later ones refer to. It cannot detect that the last turn
    was removed completely.
    """
    key = key_for(session, tenant, agent)
    log = resolve_store(store).open(key)
    finish_background_work(log)
    verification = verified(key, log, progress)
    if verification is None:
        raise NotFound(f"there is no session {session!r} of tenant {tenant!r} and agent {agent!r}")
    return verification


class Rebuilding(NamedTuple):
    """The names of the files that a rebuild wrote, changed or removed."""

    written: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    mended: tuple[str, ...] = ()
    """Links, devices and directories in the place of a file or directory of the session, which were removed."""


def rebuild(session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> Rebuilding:
    """Write all derived files again from the log; the log, large contents and your files in `context/` stay."""
    known = open_existing(key_for(session, tenant, agent), store)
    files = known.log.files
    with defer_finalizers(), known.locked():
        before = _digests(files)
        strays = known.rebuild()
        after = _digests(files)
    common = before.keys() & after.keys()
    changed = {name for name in common if before[name] != after[name]}
    return Rebuilding(
        written=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(sorted(changed)),
        removed=tuple(sorted(before.keys() - after.keys())),
        unchanged=len(common - changed),
        mended=tuple(name for name in strays if not name.endswith("/") or name.rstrip("/") in after),
    )


_CONTROL = ("state", "created_at", "updated_at")


def _digests(files: Files) -> dict[str, bytes]:
    names = [entry.name for entry in files.entries() if is_derived(entry.name) or entry.name in _CONTROL]
    return {name: sha256(files.load(name) or b"").digest() for name in names}
