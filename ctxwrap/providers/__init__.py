"""Adapters for provider APIs: JSON in, JSON out, no I/O. Each API has a module, and a line in `PROVIDERS`."""

import re
from collections.abc import Iterable
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
    """The SDK's package; empty if `wrap` does not know its clients, so that calls are known by their URL only.

    A client without a `resource` is known by the HTTP client that it holds.
    """
    path: str
    """The URL path of the API's calls, without the version before it."""
    resource: str
    """The client's attribute whose methods make these calls, if it has `post`; there may be another below `beta`."""
    litellm: str = ""
    """The litellm function that takes the same requests."""
    encoding: str = "o200k_base"
    """The encoding that most of the SDK's models are counted with."""
    under: str = ".*"
    """A pattern for what precedes `path` in whole URLs, where `path` alone may also belong to another API."""


_CHAT = "ctxwrap.providers.openai_chat:CHAT"
_GOOGLE = "ctxwrap.providers.google:GENERATE"
_NEVER = "(?!)"

PROVIDERS = [
    ProviderSpec(_CHAT, "openai", "/chat/completions", "chat.completions", "completion"),
    ProviderSpec(_CHAT, "cerebras", "/chat/completions", "chat.completions"),
    ProviderSpec(_CHAT, "fireworks", "/chat/completions", "chat.completions"),
    ProviderSpec(_CHAT, "groq", "/chat/completions", "chat.completions"),
    ProviderSpec(_CHAT, "mistralai", "/chat/completions", ""),
    ProviderSpec(_CHAT, "together", "/chat/completions", "chat.completions"),
    # `/v1/chat` is also the path of an API of Cohere that has another format
    ProviderSpec(_CHAT, "writerai", "/chat", "chat", under=_NEVER),
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
    ProviderSpec(_GOOGLE, "", ":generateContent", ""),
    ProviderSpec(_GOOGLE, "", ":streamGenerateContent", ""),
    ProviderSpec("ctxwrap.providers.ollama:CHAT", "ollama", "/api/chat", ""),
    ProviderSpec("ctxwrap.providers.cohere:CHAT", "", "/v2/chat", ""),
    # boto3 signs its bodies, so that nothing can be added to them on their way
    ProviderSpec(
        "ctxwrap.providers.bedrock:CONVERSE", "botocore", "/converse", "", encoding="cl100k_base", under=_NEVER
    ),
]


_VERSION = re.compile(r"(?:https?://[^/]+)?(?:/openai|/inference)?(?:/v1)?(?=/)")
"""What SDKs put before the path of a call; some name a host."""


def adapter_for(path: str, providers: Iterable[ProviderSpec] = PROVIDERS) -> "ProviderAdapter | None":
    """The adapter for a path that an SDK calls, such as `/v1/messages?beta=true`; None if that is no chat call.

    `providers` are the APIs of the SDK.
    """
    path = _VERSION.sub("", path.partition("?")[0], count=1)
    for provider in providers:
        if provider.path == path:
            return load_adapter(provider)
    return None


def adapter_at(path: str, query: str = "") -> "ProviderAdapter | None":
    """The adapter for the path and the query of a whole URL, such as `/openai/v1/chat/completions`."""
    for provider in PROVIDERS:
        if path.endswith(provider.path) and re.fullmatch(provider.under, path.removesuffix(provider.path)):
            return load_adapter(provider).at(path, query)
    return None


@cache
def load_adapter(provider: ProviderSpec) -> "ProviderAdapter":
    module, _, name = provider.adapter.partition(":")
    adapter: ProviderAdapter = getattr(import_module(module), name)
    return adapter
