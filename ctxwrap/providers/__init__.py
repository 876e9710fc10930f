"""How each provider API spells things: JSON in, JSON out, no I/O."""

from ctxwrap.providers.anthropic import AnthropicMessages
from ctxwrap.providers.openai_chat import OpenAIChat
from ctxwrap.providers.openai_completions import OpenAICompletions
from ctxwrap.providers.openai_responses import OpenAIResponses
from ctxwrap.types import ProviderAdapter

CHAT: ProviderAdapter = OpenAIChat()
COMPLETIONS: ProviderAdapter = OpenAICompletions()
RESPONSES: ProviderAdapter = OpenAIResponses()
MESSAGES: ProviderAdapter = AnthropicMessages()

_BY_PATH = {
    "/chat/completions": CHAT,
    "/completions": COMPLETIONS,
    "/responses": RESPONSES,
    "/messages": MESSAGES,
}


def provider_for(path: str) -> ProviderAdapter | None:
    """The wire of an API path such as `/v1/messages?beta=true`, or None for a path that is no chat call."""
    path = path.partition("?")[0]
    return _BY_PATH.get(path.removeprefix("/v1"))
