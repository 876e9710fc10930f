"""The exceptions of ctxwrap.

CtxwrapError
├── SettingsError (ValueError)       an unknown setting or mode, or an invalid value
├── UnsupportedClient (TypeError)    an object that is no known client
├── InvalidId (ValueError)           an invalid tenant, agent or session id
├── SessionBusy                      the session has another turn in progress
├── InvalidArchive (ValueError)      a file that is no archive or evidence of a session, or is unsafe to read
├── InvalidManifest (ValueError)     an invalid manifest or hint of a working set
├── ContextMissing                   vital files of the working set are missing from the context, in strict mode
├── NotFound (LookupError)           no such session, round, memory or message
├── InvalidInput (ValueError)        an invalid argument
├── Conflict                         a request that conflicts with the stored state
│   └── ContextConflict              the context document has another version than the one that was edited
├── QuotaExceeded                    a limit of a tenant, a session or a memory
└── StoreError                       the store could not be read or written
    ├── StoreUnavailable             the store is not writable, full or gone
    ├── WritesLost                   earlier writes to a memory failed
    ├── StoreCorrupt                 the store holds data that ctxwrap did not write
    ├── UnknownFormat                the session has a format that this version cannot read
    └── KeyMismatch                  no given key opens the session, or a key is given for a session without encryption

Exceptions of the provider's SDK reach the caller unchanged.
"""

from collections.abc import Iterable


class CtxwrapError(Exception):
    """The base of all exceptions of ctxwrap."""


class SettingsError(CtxwrapError, ValueError):
    """A setting or mode is unknown, or its value invalid. The message lists what is allowed."""


class UnsupportedClient(CtxwrapError, TypeError):
    """The object is no client that ctxwrap knows. The message lists the supported ones."""


class InvalidId(CtxwrapError, ValueError):
    """A tenant, agent or session id is invalid."""


class InvalidArchive(CtxwrapError, ValueError):
    """A file is no archive or evidence of a session, or is unsafe to read."""


class NotFound(CtxwrapError, LookupError):
    """There is no such session, round, memory item or message."""


class InvalidInput(CtxwrapError, ValueError):
    """An argument of the memory service, or of a function such as `offer`, is invalid."""


class Conflict(CtxwrapError):
    """The request conflicts with the stored state (HTTP 409)."""


class ContextConflict(Conflict):
    """The context document has another version than the one that was edited: read `version`, merge, write again."""

    def __init__(self, message: str, version: int) -> None:
        super().__init__(message)
        self.version = version


class QuotaExceeded(CtxwrapError):
    """A limit of a tenant, a session or a memory is reached; nothing was written or sent (HTTP 429)."""


class SessionBusy(CtxwrapError):
    """The session has another turn in progress: try again later, or set `on_busy` (HTTP 409)."""


class InvalidManifest(CtxwrapError, ValueError):
    """The manifest of a working set, or a file of hints, is invalid."""


class ContextMissing(CtxwrapError):
    """Vital files of the working set are missing from the context, and `strict` is set."""


class StoreError(CtxwrapError):
    """The store could not be read or written."""


class StoreUnavailable(StoreError):
    """The store is not writable, full or gone."""


class WritesLost(StoreError):
    """Earlier writes to a memory failed; `lost` lists them."""

    def __init__(self, message: str, lost: tuple[str, ...]) -> None:
        super().__init__(message)
        self.lost = lost


class StoreCorrupt(StoreError):
    """The store holds data that ctxwrap did not write."""


class UnknownFormat(StoreError):
    """The session has a format that this version of ctxwrap cannot read: use the version that wrote it."""


class KeyMismatch(StoreError):
    """No given key opens the session, or a key is given for a session that is not encrypted."""


class NoSessionWarning(UserWarning):
    """A wrapped call named no session, so it runs without memory."""


def unknown_name(kind: str, given: object, known: Iterable[str]) -> SettingsError:
    """The error for a name that is not one of `known`; it suggests the most similar one."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(str(given), names, n=1) or get_close_matches(str(given).lower(), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return SettingsError(f"unknown {kind} {given!r}: {hint}known are {', '.join(names)}")
