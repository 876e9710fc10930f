"""What a call would send, without sending or writing anything."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from ctxwrap.clients.sdk import providers_of
from ctxwrap.clients.sdk_call import to_jsonable, with_cache_key
from ctxwrap.errors import SettingsError, UnsupportedClient
from ctxwrap.providers import PROVIDERS, load_adapter
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.session.clock import utc_now
from ctxwrap.session.pack_archive import Lookups, recorded
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.scope import offers_for
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import message_in, timestamp
from ctxwrap.turn.binding import ClientBinding, SessionNames
from ctxwrap.turn.lifecycle import sources
from ctxwrap.turn.turn import Turn
from ctxwrap.types import LoggedMessage


def preview(client: Any, /, *, session: str | None = None, context_mode: str | None = None, **request: Any) -> PackView:
    """The pack that a call of a wrapped client with these arguments would get now, and the whole request as `body`.

    `request` is what the client's own method takes: `model`, `messages` or `input`, `tools` and so on.
    """
    context: ClientBinding | None = getattr(client, "_ctxwrap", None)
    if context is None:
        raise UnsupportedClient("preview needs a client that was wrapped: preview(ctxwrap.wrap(client), ...)")
    target = context.target(SessionNames(session, context_mode))
    if target.key is None:
        raise SettingsError("preview needs a session: preview(client, session=..., model=..., messages=...)")
    adapter = with_cache_key(_adapter(client, request), client, context, target)
    body = {name: to_jsonable(value) for name, value in request.items()}
    there = Session(target.key, context.store.open(target.key), context.settings)
    there.refresh()
    asked = adapter.read(body)
    waiting = [offer for offer in offers_for(target.key) if offer.holder is None]
    given = sources(context, target, asked.model, there, waiting)
    with nullcontext() if there.is_empty else there.log.locked():  # whose index may be brought up to date
        opening = there.open_turn(asked, utc_now())
        turn = Turn("", target.key, adapter, body, asked, target.mode, opening, context.settings, given)
        return _view(turn, there)


def _view(turn: Turn, there: Session) -> PackView:
    messages, events = turn.opening_records({name: {"id": name} for name in turn.texts})
    start = {**events[0], "ctx": {**events[0]["ctx"], "time": timestamp(utc_now())}}
    known = there.packs.lookups(there.state)
    new = {
        number: LoggedMessage(number, message_in(record)) for number, record in enumerate(messages, there.next_message)
    }
    lookups = Lookups(lambda number: new.get(number) or known.message(number), lambda name: turn.texts.get(name))
    view = recorded(turn.key, start, start.get("epoch") or there.state.epoch, lookups)
    return replace(view, body=turn.body, missing=turn.record.report.missing)


def _adapter(client: Any, request: Mapping[str, Any]) -> ProviderAdapter:
    """The adapter of the client's API that takes such a request."""
    providers = providers_of(client) or [provider for provider in PROVIDERS if provider.litellm]
    adapters = [load_adapter(provider) for provider in providers]
    return next((adapter for adapter in adapters if adapter.input_field in request), adapters[0])
