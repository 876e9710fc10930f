"""Which calls name a cache: those to OpenAI itself, or all where settings say so.

A server that only speaks OpenAI's API may refuse a field that it does not know, and Azure does so for some models.
"""

from typing import Any

from ctxwrap.context import Context, Target
from ctxwrap.types import Wire
from ctxwrap.wires import CHAT, RESPONSES
from ctxwrap.wires.cache_key import CacheKeyed

_OPENAI = "api.openai.com"
"""There is one for each region as well, such as eu.api.openai.com."""


def with_cache_key(wire: Wire, client: Any, context: Context, target: Target) -> Wire:
    """`wire`, with a key for the provider's cache where the client's provider takes one."""
    wanted = context.settings.cache_key
    if target.key is None or wire not in (CHAT, RESPONSES) or wanted is False:
        return wire
    return CacheKeyed(wire, target.key) if wanted or _is_openai(client) else wire


def _is_openai(client: Any) -> bool:
    host = str(getattr(getattr(client, "base_url", None), "host", "")).lower()
    return host == _OPENAI or host.endswith(f".{_OPENAI}")
