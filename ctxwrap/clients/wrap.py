"""`wrap(client)`, which adds context to a client, and litellm's completion functions with context."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ctxwrap.errors import UnsupportedClient
from ctxwrap.settings import Settings, settings_from
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.turn.binding import ClientBinding

if TYPE_CHECKING:
    from litellm import CustomStreamWrapper, ModelResponse

T = TypeVar("T")


def wrap(
    client: T,
    /,
    *,
    session: str | None = None,
    tenant: str = "default",
    agent: str = "default",
    user: str | None = None,
    team: str | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    **setting_overrides: Any,
) -> T:
    """`client` with context: an OpenAI or Anthropic client, the `litellm` module, a litellm `Router`.

    The result has the client's type and shares its connections; the client itself does not change. `session` is the
    default of every call; `using(session=...)` and a call's own `session=` take precedence. Sessions of one `user`
    share that user's core memory; a call names another one with `for_user=`. Wrapping a wrapped client changes only
    what is named.
    """
    known: ClientBinding | None = getattr(client, "_ctxwrap", None)
    given = {"session": (session, None), "tenant": (tenant, "default"), "agent": (agent, "default")}
    given |= {"user": (user, None), "team": (team, None)}
    changes: dict[str, Any] = {name: value for name, (value, default) in given.items() if value != default}
    if known is None:
        chosen = settings_from(settings, **setting_overrides)
        return _wrapped(client, ClientBinding(store=resolve_store(store), settings=chosen, **changes))
    if store is not None:
        changes["store"] = resolve_store(store)
    if settings is not None or setting_overrides:
        changes["settings"] = settings_from(settings or known.settings, **setting_overrides)
    return _wrapped(client, known.changed(**changes)) if changes else client


def _wrapped(client: T, binding: ClientBinding) -> T:
    from ctxwrap.clients import sdk

    if sdk.is_sdk_client(client):
        return cast(T, sdk.wrap_client(client, binding))
    from ctxwrap.clients import litellm

    if litellm.is_litellm(client):
        return cast(T, litellm.wrap_litellm(client, binding))
    raise UnsupportedClient(
        f"cannot wrap {type(client).__module__}.{type(client).__qualname__}: pass an OpenAI or Anthropic client "
        "(sync or async), the litellm module, one of its completion functions, or a litellm Router"
    )


def completion(*args: Any, **kwargs: Any) -> "ModelResponse | CustomStreamWrapper":
    """`litellm.completion` with the additional parameters `session=` and `context_mode=`."""
    return _litellm().completion(*args, **kwargs)


async def acompletion(*args: Any, **kwargs: Any) -> "ModelResponse | CustomStreamWrapper":
    """`litellm.acompletion` with the additional parameters `session=` and `context_mode=`."""
    return await _litellm().acompletion(*args, **kwargs)


@cache
def _litellm() -> Any:
    from ctxwrap.clients.litellm import load_litellm

    return wrap(load_litellm())
