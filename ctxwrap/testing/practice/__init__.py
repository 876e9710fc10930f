"""The practice provider: a local server with the HTTP APIs of OpenAI and Anthropic and a rule-based model.

HTTP requests enter and replies leave, whole or streamed, in each API's format; every request is recorded. Begin with
`provider` (the server) and `service` (from a request to a reply). `requests` and `answer` are independent of an API,
and `apis` writes an answer in each API's format. `model` is the rule-based model, with `conversation` and `memory`;
`habits` are variants of it that write their snapshot in other ways.
"""

from ctxwrap.testing.practice.answer import Answer, Failure, ToolCall
from ctxwrap.testing.practice.model import PracticeModel
from ctxwrap.testing.practice.provider import Provider, script
from ctxwrap.testing.practice.requests import Ask, RecordedRequest
from ctxwrap.testing.practice.usage import within

__all__ = ["Answer", "Ask", "Failure", "PracticeModel", "Provider", "RecordedRequest", "ToolCall", "script", "within"]
