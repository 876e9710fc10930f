"""Everything ctxwrap itself raises.

CtxwrapError
├── SettingsError (ValueError)       a setting or mode that does not exist, or a value it cannot have
├── UnsupportedClient (TypeError)    wrap() was given something that is no known client
├── InvalidId (ValueError)           a tenant, agent or session id that cannot name anything
├── SessionBusy                      another turn has the session, and settings say not to go on beside it
├── InvalidArchive (ValueError)      a file that is no archive or evidence of a session, or one that is not safe to read
├── InvalidManifest (ValueError)     a working set's manifest, or a hint, that is not read
├── ContextMissing                   vital files of the working set are not in the context, and settings are strict
├── NotFound (LookupError)           a session, round, memory or message that is not there
├── InvalidInput (ValueError)        what the memory service was given cannot be taken
├── Conflict                         what is asked for clashes with what is there
│   └── ContextConflict              the context document has another version than the writer knows
├── QuotaExceeded                    a tenant, a session or a memory would hold more than it may
└── StoreError                       the log could not be read or written
    ├── StoreUnavailable             the medium refused: not writable, full, gone
    ├── WritesLost                   writes to a memory that failed since somebody last asked
    ├── StoreCorrupt                 the medium answered with something that is not ours
    ├── UnknownFormat                the session was written in a format that this version does not read
    └── KeyMismatch                  the session is encrypted and no given key opens it, or it is not and one is given

Provider exceptions are never wrapped: they reach the caller as the SDK raised them.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class CtxwrapError(Exception):
    """The root of the tree."""


class SettingsError(CtxwrapError, ValueError):
    """A setting or mode that does not exist, or a value it cannot have."""


class UnsupportedClient(CtxwrapError, TypeError):
    """`wrap()` was given something that is no known client."""


class InvalidId(CtxwrapError, ValueError):
    """A tenant, agent or session id that cannot name anything."""


class InvalidArchive(CtxwrapError, ValueError):
    """A file that is no archive or evidence of a session, or one that is not safe to read."""


class NotFound(CtxwrapError, LookupError):
    """A session, a round of one, a memory item or a message that was asked for and is not there."""


class InvalidInput(CtxwrapError, ValueError):
    """What the memory service was given cannot be taken, and why."""


class Conflict(CtxwrapError):
    """What is asked for clashes with what is there (HTTP 409)."""


class ContextConflict(Conflict):
    """The context document is of another version than its writer knows: read `version` and merge."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class QuotaExceeded(CtxwrapError):
    """A tenant, a session or a memory would hold more than it may; nothing was written or sent (HTTP 429)."""


class SessionBusy(CtxwrapError):
    """Another turn has the session, and `on_busy` says not to go on beside it: try again later (HTTP 409)."""


class InvalidManifest(CtxwrapError, ValueError):
    """A working set's manifest, or another file of its kind, that is not read, and why."""


class ContextMissing(CtxwrapError):
    """Files that the model must not be without are not in the context."""


class StoreError(CtxwrapError):
    """The log could not be read or written."""


class StoreUnavailable(StoreError):
    """The medium refused: not writable, full, gone."""


class WritesLost(StoreError):
    """Writes to a memory failed since somebody last asked; `lost` tells what."""

    def __init__(self, message: str, lost: tuple[str, ...]) -> None:
        super().__init__(message)
        self.lost = lost


class StoreCorrupt(StoreError):
    """The medium answered with something that is not ours."""


class UnknownFormat(StoreError):
    """The session was written in a format that this version of ctxwrap does not read."""


class KeyMismatch(StoreError):
    """The session is encrypted and no given key opens it, or it is not encrypted and a key is given."""


class NoSessionWarning(UserWarning):
    """A wrapped call named no session, so it ran without memory."""


def unknown_name(kind: str, given: object, known: Iterable[str]) -> SettingsError:
    """The error for a name that is not one of `known`; it offers the likeliest meant one."""
    names = sorted(known)
    close = get_close_matches(str(given), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return SettingsError(f"unknown {kind} {given!r}: {hint}known are {', '.join(names)}")
