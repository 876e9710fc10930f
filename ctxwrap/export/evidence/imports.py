"""Evidence that came from elsewhere: checked to its last record, then kept with a session of its own."""

import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from ctxwrap.errors import InvalidArchive, NotFound, SettingsError, StoreCorrupt, StoreUnavailable
from ctxwrap.export.evidence.document import FORMAT, Evidence, checked, evidence_in
from ctxwrap.pack.receipt import EventIds, context_event
from ctxwrap.session.blobs import blobs_in, loaded
from ctxwrap.session.clock import new_turn_id, utc_now
from ctxwrap.session.lookup import StoreLike, key_for
from ctxwrap.session.session import Session
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.stores import given_store
from ctxwrap.stores.base import Files
from ctxwrap.types import Record, SessionKey

logger = logging.getLogger("ctxwrap")

LARGEST = 512 << 20
"""In bytes: what is larger is refused before it is read."""

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class ImportedEnvelope:
    key: SessionKey
    """What it is called here."""
    evidence: Evidence


def is_envelope(file: str | os.PathLike[str]) -> bool:
    """Whether a file looks like evidence, as far as its first bytes tell."""
    try:
        with open(file, "rb") as handle:
            head = handle.read(_HEAD) if stat.S_ISREG(os.fstat(handle.fileno()).st_mode) else b""
    except OSError:
        return False
    return head.lstrip().startswith(b"{") and FORMAT.encode() in head


def check_envelope(file: str | os.PathLike[str], largest: int = LARGEST) -> Evidence:
    """The evidence in a file, every record and reference checked; an InvalidArchive that says what is wrong."""
    path = os.fspath(file)
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise InvalidArchive("it is no regular file")
            data = handle.read(largest + 1)
        if len(data) > largest:
            raise InvalidArchive(f"it is larger than {largest} bytes")
        return checked(evidence_in(data))
    except InvalidArchive as error:
        raise InvalidArchive(f"{path!r} cannot be imported: {error}") from None
    except OSError as error:
        raise NotFound(f"cannot read {path!r}: {error.strerror or error}") from error


def import_envelope(
    file: str | os.PathLike[str],
    *,
    session: str | None = None,
    store: StoreLike = None,
    tenant: str = "default",
    agent: str = "default",
    largest: int = LARGEST,
) -> ImportedEnvelope:
    """Keep the evidence in a file as that of a session, under its own name or another one that is free.

    It is kept as it is, to be looked at and exported again. Neither messages nor memory come back with it: evidence
    tells what was sent, and an archive (`export_session`) carries a session.
    """
    evidence = check_envelope(file, largest)
    key = key_for(evidence.envelope.session_id if session is None else session, tenant, agent)
    target = Session(key, given_store(store).open(key))
    with defer_finalizers(), target.locked():
        if not target.is_empty:
            raise SettingsError(
                f"there is a session {key.session!r} of tenant {tenant!r} and agent {agent!r} already: "
                "name another with session= (--session)"
            )
        blob = target.keep(evidence.as_bytes())
        event = {"type": "evidence", "target": evidence.target, "ctx": {"blobs": [blob]}}
        target.append(new_turn_id(), [], [event], utc_now())
    return ImportedEnvelope(key, evidence)


def note_export(
    evidence: Evidence, session: str, *, store: StoreLike = None, tenant: str = "default", agent: str = "default"
) -> None:
    """Let the log say that evidence left it, and for whom; that of a store that takes no more is given all the same."""
    key = key_for(session, tenant, agent)
    exported = context_event("context.exported", EventIds(key.session), evidence.root, target=evidence.target)
    known = Session(key, given_store(store).open(key))
    try:
        with defer_finalizers(), known.locked():
            known.append(new_turn_id(), [], [exported], utc_now())
    except StoreUnavailable as error:
        logger.warning("ctxwrap: that evidence was exported is not in the log: %s", error)


def imported_evidence(events: Sequence[Record], files: Files) -> Evidence | None:
    """The evidence that was imported into a session, if some was; a StoreCorrupt if it is damaged."""
    kept = [blob for event in events if event.get("type") == "evidence" for blob in blobs_in(event)]
    if not kept:
        return None
    try:
        return evidence_in(loaded(kept[-1], files))
    except (InvalidArchive, LookupError) as error:
        raise StoreCorrupt(f"the evidence that was imported is damaged: {error}") from error
