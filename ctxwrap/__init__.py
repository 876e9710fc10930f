"""Context middleware around LLM clients: history, memory and a packed prompt in, a snapshot out of every reply."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ctxwrap.archive import export_session as export_session
    from ctxwrap.archive import import_session as import_session
    from ctxwrap.clients.results import resources_for as resources_for
    from ctxwrap.clients.results import turn_of as turn_of
    from ctxwrap.copying import copy_sessions as copy_sessions
    from ctxwrap.documenting import flush as flush
    from ctxwrap.ending import end_session as end_session
    from ctxwrap.errors import Conflict as Conflict
    from ctxwrap.errors import ContextConflict as ContextConflict
    from ctxwrap.errors import ContextMissing as ContextMissing
    from ctxwrap.errors import CtxwrapError as CtxwrapError
    from ctxwrap.errors import InvalidArchive as InvalidArchive
    from ctxwrap.errors import InvalidId as InvalidId
    from ctxwrap.errors import InvalidInput as InvalidInput
    from ctxwrap.errors import InvalidManifest as InvalidManifest
    from ctxwrap.errors import KeyMismatch as KeyMismatch
    from ctxwrap.errors import NoSessionWarning as NoSessionWarning
    from ctxwrap.errors import NotFound as NotFound
    from ctxwrap.errors import QuotaExceeded as QuotaExceeded
    from ctxwrap.errors import SessionBusy as SessionBusy
    from ctxwrap.errors import SettingsError as SettingsError
    from ctxwrap.errors import StoreCorrupt as StoreCorrupt
    from ctxwrap.errors import StoreError as StoreError
    from ctxwrap.errors import StoreUnavailable as StoreUnavailable
    from ctxwrap.errors import UnknownFormat as UnknownFormat
    from ctxwrap.errors import UnsupportedClient as UnsupportedClient
    from ctxwrap.errors import WritesLost as WritesLost
    from ctxwrap.forgetting import forget as forget
    from ctxwrap.forgetting import purge as purge
    from ctxwrap.housekeeping import collect_garbage as collect_garbage
    from ctxwrap.offers import offer as offer
    from ctxwrap.pinning import pin as pin
    from ctxwrap.pinning import unpin as unpin
    from ctxwrap.previewing import preview as preview
    from ctxwrap.redacting import Redaction as Redaction
    from ctxwrap.resolving import resolve_missing as resolve_missing
    from ctxwrap.scope import carry as carry
    from ctxwrap.scope import using as using
    from ctxwrap.service.memories import Memories as Memories
    from ctxwrap.settings import MemoryRules as MemoryRules
    from ctxwrap.settings import PerTier as PerTier
    from ctxwrap.settings import Quotas as Quotas
    from ctxwrap.settings import Settings as Settings
    from ctxwrap.settings import Shares as Shares
    from ctxwrap.stores import open_store as open_store
    from ctxwrap.summarising import Summariser as Summariser
    from ctxwrap.verifying import rebuild as rebuild
    from ctxwrap.verifying import verify as verify
    from ctxwrap.wrapping import acompletion as acompletion
    from ctxwrap.wrapping import completion as completion
    from ctxwrap.wrapping import wrap as wrap

_HOMES = {
    "Conflict": "errors",
    "ContextConflict": "errors",
    "ContextMissing": "errors",
    "CtxwrapError": "errors",
    "InvalidArchive": "errors",
    "InvalidId": "errors",
    "InvalidInput": "errors",
    "InvalidManifest": "errors",
    "KeyMismatch": "errors",
    "Memories": "service.memories",
    "MemoryRules": "settings",
    "NoSessionWarning": "errors",
    "NotFound": "errors",
    "PerTier": "settings",
    "QuotaExceeded": "errors",
    "Quotas": "settings",
    "Redaction": "redacting",
    "SessionBusy": "errors",
    "Settings": "settings",
    "SettingsError": "errors",
    "Shares": "settings",
    "StoreCorrupt": "errors",
    "StoreError": "errors",
    "StoreUnavailable": "errors",
    "Summariser": "summarising",
    "UnknownFormat": "errors",
    "UnsupportedClient": "errors",
    "WritesLost": "errors",
    "acompletion": "wrapping",
    "carry": "scope",
    "collect_garbage": "housekeeping",
    "completion": "wrapping",
    "copy_sessions": "copying",
    "end_session": "ending",
    "export_session": "archive",
    "flush": "documenting",
    "forget": "forgetting",
    "import_session": "archive",
    "offer": "offers",
    "open_store": "stores",
    "pin": "pinning",
    "preview": "previewing",
    "purge": "forgetting",
    "rebuild": "verifying",
    "resolve_missing": "resolving",
    "resources_for": "clients.results",
    "turn_of": "clients.results",
    "unpin": "pinning",
    "using": "scope",
    "verify": "verifying",
    "wrap": "wrapping",
}
"""Where each public name lives; importing ctxwrap loads none of it."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
