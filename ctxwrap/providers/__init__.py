"""Adapters for provider APIs: JSON in, JSON out, no I/O. Each API has a module, and a line in `PROVIDERS`."""

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctxwrap.providers.base import ProviderAdapter


class ProviderSpec(NamedTuple):
    """An API and the SDK that calls it. This is all that `wrap` needs; the first call loads the adapter."""

    adapter: str
    """`module:name` of the adapter."""
    sdk: str
    """The SDK's package."""
    path: str
    """The URL path of the API's calls, without a leading `/v1`."""
    resource: str
    """The client's attribute whose methods make these calls; there may be another one below `beta`."""
    litellm: str = ""
    """The litellm function that takes the same requests."""
    encoding: str = "o200k_base"
    """The encoding that most of the SDK's models are counted with."""
    under: str = ".*"
    """A pattern for what precedes `path` in whole URLs, where `path` alone may also belong to another API."""


PROVIDERS = [
    ProviderSpec("ctxwrap.providers.openai_chat:CHAT", "openai", "/chat/completions", "chat.completions", "completion"),
    ProviderSpec(
        "ctxwrap.providers.openai_responses:RESPONSES",
        "openai",
        "/responses",
        "responses",
        "responses",
        under=r"(?:.*/(?:v\d+|openai|codex))?",
    ),
    ProviderSpec(
        "ctxwrap.providers.openai_completions:COMPLETIONS",
        "openai",
        "/completions",
        "completions",
        "text_completion",
        under=r"(?:.*/(?:v\d+|openai|deployments/[^/]+))?",
    ),
    ProviderSpec(
        "ctxwrap.providers.anthropic:MESSAGES",
        "anthropic",
        "/messages",
        "messages",
        encoding="cl100k_base",
        under=r".*/v1",
    ),
]


def adapter_for(path: str) -> "ProviderAdapter | None":
    """The adapter for an API path such as `/v1/messages?beta=true`, or None for a path that is no chat call."""
    path = path.partition("?")[0].removeprefix("/v1")
    return next((load_adapter(provider) for provider in PROVIDERS if provider.path == path), None)


def adapter_at(path: str) -> "ProviderAdapter | None":
    """The adapter for the path of a whole URL, such as `/openai/v1/chat/completions`."""
    for provider in PROVIDERS:
        if path.endswith(provider.path) and re.fullmatch(provider.under, path.removesuffix(provider.path)):
            return load_adapter(provider)
    return None


@cache
def load_adapter(provider: ProviderSpec) -> "ProviderAdapter":
    module, _, name = provider.adapter.partition(":")
    adapter: ProviderAdapter = getattr(import_module(module), name)
    return adapter
