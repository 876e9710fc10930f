"""Shows what a call would send, without sending or writing anything."""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from ctxwrap.clients.sdk import providers_of
from ctxwrap.clients.sdk_call import to_jsonable, with_cache_key
from ctxwrap.errors import SettingsError, UnsupportedClient
from ctxwrap.providers import PROVIDERS, load_adapter
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.session.pack_archive import Lookups, rebuilt_pack
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.scope import offers_for
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import message_in, timestamp
from ctxwrap.turn.binding import CallScope, ClientBinding, SessionNames
from ctxwrap.turn.lifecycle import pack_sources
from ctxwrap.turn.memory_changes import last_user_text
from ctxwrap.turn.owners import CallOwners
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, LoggedMessage


def preview(
    client: Any,
    /,
    *,
    session: str | None = None,
    context_mode: str | None = None,
    for_user: str | None = None,
    for_team: str | None = None,
    **request: Any,
) -> PackView:
    """The pack that a call of a wrapped client with these arguments would get now, and the whole request as `body`.

    `request` is what the client's own method takes: `model`, `messages` or `input`, `tools` and so on.
    """
    binding: ClientBinding | None = getattr(client, "_ctxwrap", None)
    if binding is None:
        raise UnsupportedClient("preview needs a wrapped client: preview(ctxwrap.wrap(client), ...)")
    scope = binding.call_scope(SessionNames(session, context_mode, for_user, for_team))
    if scope.key is None:
        raise SettingsError("preview needs a session: preview(client, session=..., model=..., messages=...)")
    adapter = with_cache_key(_adapter(client, request), client, binding, scope)
    return preview_request(binding, scope, adapter, {name: to_jsonable(value) for name, value in request.items()})


def preview_request(binding: ClientBinding, scope: CallScope, adapter: ProviderAdapter, body: Body) -> PackView:
    """The same for a request to an API, without a client."""
    assert scope.key is not None, "a preview needs a session"
    known = Session(scope.key, binding.store.open(scope.key), binding.settings)
    known.refresh()
    read = adapter.read(body)
    owners = CallOwners(binding, scope, scope.key)
    owners.prepare(partial(last_user_text, read))
    offers = [*(offer for offer in offers_for(scope.key) if offer.holder is None), *owners.found]
    sources = pack_sources(binding, scope, read.model, known, offers)
    with nullcontext() if known.is_empty else known.log.locked():  # its search index may be updated
        inputs = known.open_turn(read, known.clock())
        inputs = owners.view(inputs, last_user_text(read))
        turn = Turn("", scope.key, adapter, body, read, scope.mode, inputs, binding.settings, sources)
        return _view(turn, known)


def _view(turn: Turn, session: Session) -> PackView:
    messages, events = turn.opening_records({name: {"id": name} for name in turn.texts})
    start = {**events[0], "ctx": {**events[0]["ctx"], "time": timestamp(session.clock())}}
    known = session.packs.lookups(session.state)
    new = {
        number: LoggedMessage(number, message_in(record))
        for number, record in enumerate(messages, session.next_message)
    }
    lookups = Lookups(lambda number: new.get(number) or known.message(number), lambda name: turn.texts.get(name))
    view = rebuilt_pack(turn.key, start, start.get("epoch") or session.state.epoch, lookups)
    return view._replace(body=turn.body, missing=turn.record.report.missing)


def _adapter(client: Any, request: Mapping[str, Any]) -> ProviderAdapter:
    """The adapter of the client's API that takes such a request."""
    cls: Any = type(client)
    providers = providers_of(cls) or [provider for provider in PROVIDERS if provider.litellm]
    adapters = [load_adapter(provider) for provider in providers]
    return next((adapter for adapter in adapters if adapter.input_field in request), adapters[0])
