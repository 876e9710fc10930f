"""`wrap(client)` adds context to a client, `bind` names its session; litellm's completion functions with context."""

import os
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, TypeVar, Unpack, cast

from ctxwrap.errors import UnsupportedClient, unknown_name
from ctxwrap.session.scope import ScopeNames, names_from
from ctxwrap.settings import Settings, SettingsDict, settings_from
from ctxwrap.stores import resolve_store
from ctxwrap.stores.base import Store
from ctxwrap.turn.binding import ClientBinding

T = TypeVar("T")


def wrap(
    client: T,
    /,
    *,
    session: str | None = None,
    tenant: str | None = None,
    agent: str | None = None,
    user: str | None = None,
    team: str | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    **setting_overrides: Unpack[SettingsDict],
) -> T:
    """`client` with context: one of OpenAI, Anthropic or a similar SDK, boto3's for Bedrock, `litellm`, its `Router`.

    The result has the client's type and shares its connections; the client itself does not change. `session` is the
    default of every call; `bind(...)`, `using(...)` and a call's own `session=` take precedence. Sessions of one `user`
    share that user's core memory; a call names another one with `for_user=`. Wrapping a wrapped client changes only
    what is named.
    """
    _check_names(setting_overrides)
    known: ClientBinding | None = getattr(client, "_ctxwrap", None)
    given = {"session": session, "tenant": tenant, "agent": agent, "user": user, "team": team}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if known is None:
        chosen = settings_from(settings, **setting_overrides)
        return _wrapped(client, ClientBinding(store=resolve_store(store), settings=chosen, **changes))
    if store is not None:
        changes["store"] = resolve_store(store)
    if settings is not None or setting_overrides:
        changes["settings"] = settings_from(settings or known.settings, **setting_overrides)
        if settings is not None or not setting_overrides.keys().isdisjoint(("context_mode", "contextMode")):
            changes["context_mode"] = None  # the mode that `bind` named before
    return _wrapped(client, known.changed(**changes)) if changes else client


def bind(client: T, /, **names: Unpack[ScopeNames]) -> T:
    """A wrapped client for one session, tenant, agent, context_mode or purpose; what is not named stays as it is.

    The result has the client's type. It shares connections, store and sessions in memory with the client, which does
    not change: make one per request. Precedence: call arguments, `using(...)`, `bind(...)`, `wrap(...)`.
    """
    known: ClientBinding | None = getattr(client, "_ctxwrap", None)
    if known is None:
        raise UnsupportedClient("bind needs a wrapped client: bind(ctxwrap.wrap(client), session=...)")
    changes = names_from("bind", names)
    binding = known.changed(**changes)
    from ctxwrap.clients import sdk

    if sdk.is_sdk_client(client):
        return cast(T, sdk.bind_client(client, binding, changes))
    return _wrapped(client, binding)


def _check_names(given: Mapping[str, object]) -> None:
    """Raise SettingsError for a keyword of `wrap` that does not exist."""
    for name in given:
        if name not in SettingsDict.__annotations__:
            raise unknown_name(
                "argument of wrap()", name, {*(wrap.__kwdefaults__ or ()), *SettingsDict.__annotations__}
            )


def _wrapped(client: T, binding: ClientBinding) -> T:
    from ctxwrap.clients import sdk

    if sdk.is_sdk_client(client):
        return cast(T, sdk.wrap_client(client, binding))
    from ctxwrap.clients import litellm

    if litellm.is_litellm(client):
        return cast(T, litellm.wrap_litellm(client, binding))
    from ctxwrap.clients import boto

    if boto.is_bedrock(client):
        return cast(T, boto.wrap_bedrock(client, binding))
    from ctxwrap.clients import http_holders

    wrapped = None if boto.is_boto(client) else http_holders.wrap_holder(client, binding)
    if wrapped is not None:
        return cast(T, wrapped)
    raise UnsupportedClient(f"cannot wrap {_description(client)}: {_way_out(client)}")


_WAYS_OUT = {
    "botocore": "of AWS, only Bedrock is a model API: wrap boto3.client('bedrock-runtime')",
    "cohere": "its methods belong to one client: make it as cohere.ClientV2(httpx_client=ctxwrap.http_client(...)), or "
    "cohere.AsyncClientV2(httpx_client=ctxwrap.async_http_client(...))",
    "google.genai": "it may send with aiohttp: make it as genai.Client(http_options=types.HttpOptions(httpx_client="
    "ctxwrap.http_client(library='httpx2', ...), httpx_async_client=ctxwrap.async_http_client(library='httpx2', ...)))",
    "httpx": "it is an HTTP client: use ctxwrap.http_client(...), or httpx.Client(transport=ctxwrap.transport(...))",
    "httpx2": "it is an HTTP client: use ctxwrap.http_client(library='httpx2', ...)",
}
"""What to do with a client of a package that `wrap` does not take."""


def _way_out(client: object) -> str:
    module = type(client).__module__
    for package, way in _WAYS_OUT.items():
        if module == package or module.startswith(f"{package}."):
            return way
    return (
        f"pass an OpenAI or Anthropic client (sync or async), one of a similar SDK ({_others()}), "
        "boto3.client('bedrock-runtime'), the litellm module, one of its completion functions, or a litellm Router. "
        "For another provider: OpenAI(base_url=...) if it offers OpenAI's API; ctxwrap.http_client() for an SDK that "
        "takes an HTTP client; litellm, which knows most providers; or `ctxwrap serve` for a tool that takes a URL"
    )


def _others() -> str:
    """The packages of SDKs that `wrap` knows besides OpenAI's, Anthropic's and AWS's."""
    from ctxwrap.providers import PROVIDERS

    return ", ".join(sorted({each.sdk for each in PROVIDERS if each.sdk} - {"openai", "anthropic", "botocore"}))


def _description(thing: object) -> str:
    """What somebody passed instead of a client, without its value, which may be a key."""
    if isinstance(thing, type):
        return f"the class {thing.__module__}.{thing.__qualname__}, which is no client yet"
    if isinstance(thing, ModuleType):
        return f"the module {thing.__name__}"
    if callable(thing) and hasattr(thing, "__qualname__"):
        return f"the function {thing.__qualname__}"
    return f"an object of type {type(thing).__module__}.{type(thing).__qualname__}"


def completion(*args: Any, **kwargs: Any) -> Any:
    """`litellm.completion` with the additional parameters `session=` and `context_mode=`."""
    return _litellm().completion(*args, **kwargs)


async def acompletion(*args: Any, **kwargs: Any) -> Any:
    """`litellm.acompletion` with the additional parameters `session=` and `context_mode=`."""
    return await _litellm().acompletion(*args, **kwargs)


@cache
def _litellm() -> Any:
    from ctxwrap.clients.litellm import load_litellm

    return wrap(load_litellm())
