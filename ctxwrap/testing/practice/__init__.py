"""A provider on this machine for practice and for tests: the APIs are the real ones, the model is not."""

from ctxwrap.testing.practice.answer import Answer, Failure, ToolCall
from ctxwrap.testing.practice.model import PracticeModel
from ctxwrap.testing.practice.provider import Provider, script
from ctxwrap.testing.practice.requests import Ask, RecordedRequest
from ctxwrap.testing.practice.usage import within

__all__ = ["Answer", "Ask", "Failure", "PracticeModel", "Provider", "RecordedRequest", "ToolCall", "script", "within"]
