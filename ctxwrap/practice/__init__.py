"""A provider on this machine for practice and for tests: the APIs are the real ones, the model is not."""

from ctxwrap.practice.answer import Answer, Failure, ToolCall
from ctxwrap.practice.ask import Ask, Seen
from ctxwrap.practice.model import PracticeModel
from ctxwrap.practice.provider import Provider, script
from ctxwrap.practice.window import within

__all__ = ["Answer", "Ask", "Failure", "PracticeModel", "Provider", "Seen", "ToolCall", "script", "within"]
