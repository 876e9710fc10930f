"""Context middleware around LLM clients: history, memory and a packed prompt in, a snapshot out of every reply."""

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ctxwrap.clients.preview import preview as preview
    from ctxwrap.clients.sdk_call import resources_for as resources_for
    from ctxwrap.clients.sdk_call import turn_of as turn_of
    from ctxwrap.clients.transport import async_http_client as async_http_client
    from ctxwrap.clients.transport import async_transport as async_transport
    from ctxwrap.clients.transport import http_client as http_client
    from ctxwrap.clients.transport import transport as transport
    from ctxwrap.clients.wrap import acompletion as acompletion
    from ctxwrap.clients.wrap import bind as bind
    from ctxwrap.clients.wrap import completion as completion
    from ctxwrap.clients.wrap import wrap as wrap
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
    from ctxwrap.export.archive import export_session as export_session
    from ctxwrap.export.archive import import_session as import_session
    from ctxwrap.export.copy import copy_sessions as copy_sessions
    from ctxwrap.redaction import Redaction as Redaction
    from ctxwrap.service.handle import SessionHandle as SessionHandle
    from ctxwrap.service.handle import open_session as open_session
    from ctxwrap.service.memories import Memories as Memories
    from ctxwrap.session.gc import collect_garbage as collect_garbage
    from ctxwrap.session.operator import pin as pin
    from ctxwrap.session.operator import resolve_missing as resolve_missing
    from ctxwrap.session.operator import unpin as unpin
    from ctxwrap.session.purge import forget as forget
    from ctxwrap.session.purge import purge as purge
    from ctxwrap.session.scope import carry as carry
    from ctxwrap.session.scope import using as using
    from ctxwrap.session.verify import rebuild as rebuild
    from ctxwrap.session.verify import verify as verify
    from ctxwrap.settings import MemoryRules as MemoryRules
    from ctxwrap.settings import PerTier as PerTier
    from ctxwrap.settings import Quotas as Quotas
    from ctxwrap.settings import Settings as Settings
    from ctxwrap.settings import SettingsDict as SettingsDict
    from ctxwrap.settings import Shares as Shares
    from ctxwrap.stores import open_store as open_store
    from ctxwrap.turn.document_updates import flush as flush
    from ctxwrap.turn.ending import end_session as end_session
    from ctxwrap.turn.offers import offer as offer
    from ctxwrap.turn.summariser import Summariser as Summariser

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
    "Redaction": "redaction",
    "SessionBusy": "errors",
    "SessionHandle": "service.handle",
    "Settings": "settings",
    "SettingsDict": "settings",
    "SettingsError": "errors",
    "Shares": "settings",
    "StoreCorrupt": "errors",
    "StoreError": "errors",
    "StoreUnavailable": "errors",
    "Summariser": "turn.summariser",
    "UnknownFormat": "errors",
    "UnsupportedClient": "errors",
    "WritesLost": "errors",
    "acompletion": "clients.wrap",
    "async_http_client": "clients.transport",
    "async_transport": "clients.transport",
    "bind": "clients.wrap",
    "carry": "session.scope",
    "collect_garbage": "session.gc",
    "completion": "clients.wrap",
    "copy_sessions": "export.copy",
    "end_session": "turn.ending",
    "export_session": "export.archive",
    "flush": "turn.document_updates",
    "forget": "session.purge",
    "http_client": "clients.transport",
    "import_session": "export.archive",
    "offer": "turn.offers",
    "open_session": "service.handle",
    "open_store": "stores",
    "pin": "session.operator",
    "preview": "clients.preview",
    "purge": "session.purge",
    "rebuild": "session.verify",
    "resolve_missing": "session.operator",
    "resources_for": "clients.sdk_call",
    "transport": "clients.transport",
    "turn_of": "clients.sdk_call",
    "unpin": "session.operator",
    "using": "session.scope",
    "verify": "session.verify",
    "wrap": "clients.wrap",
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


_MOVED = {
    "ctxwrap.checkup": "ctxwrap.conformance.model_check",
    "ctxwrap.children": "ctxwrap.session.child_sessions",
    "ctxwrap.evidence": "ctxwrap.export.evidence",
    "ctxwrap.inspection": "ctxwrap.inspect",
    "ctxwrap.practice": "ctxwrap.testing.practice",
    "ctxwrap.storage": "ctxwrap.stores.base",
    "ctxwrap.summarising": "ctxwrap.turn.summariser",
    "ctxwrap.swap": "ctxwrap.session.swap_search",
}
"""Documented modules of earlier versions, and where they are now."""


class _MovedModules:
    """Imports a module of `_MOVED` from its new place, with a warning."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        warnings.warn(f"{spec.name} is now {_MOVED[spec.name]}", DeprecationWarning, stacklevel=2)
        module = import_module(_MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system changed in the module: it is loaded already."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_MovedModules())
