"""Verification of a session from end to end, and rebuilding of what is derived from its log."""

from hashlib import sha256
from typing import NamedTuple

from ctxwrap.errors import NotFound
from ctxwrap.session.derived import is_derived
from ctxwrap.session.lookup import StoreLike, finish_background_work, key_for, open_existing
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.session.verify.checker import Progress, verified
from ctxwrap.session.verify.report import SEVERITIES, FindingSeverity, Verification, VerifyFinding
from ctxwrap.stores import given_store
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
    """Look at everything a session holds and tell what is not as it should be; nothing is changed.

    Found is what differs from what was written, what is missing in between, and what a later record says was there. A
    last turn of which nothing is left cannot be missed.
    """
    key = key_for(session, tenant, agent)
    finish_background_work(key)
    verification = verified(key, given_store(store).open(key), progress)
    if verification is None:
        raise NotFound(f"there is no session {session!r} of tenant {tenant!r} and agent {agent!r}")
    return verification


class Rebuilding(NamedTuple):
    """Which files a rebuild made, changed or removed, by name."""

    written: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    mended: tuple[str, ...] = ()
    """Links, devices and directories that stood where a file or directory of the session belongs; they are gone."""


def rebuild(session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default") -> Rebuilding:
    """Make everything that follows from the log anew; the log, contents and what you put into `context/` stay."""
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
