"""Recognition of errors that say a request exceeds the model's context window."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern


class TooLong(NamedTuple):
    """A request that exceeds the window, with the numbers that the provider gives."""

    limit: int | None = None
    """The tokens that fit."""
    size: int | None = None
    """The tokens of the request, including the reply's limit if the provider counts it in."""
    reply: int = 0
    """The part of `size` that is the reply's limit."""


_CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "max_prompt_tokens_exceeded",
        "request_too_large",
        "contextwindowexceedederror",
    }
)
_OTHER_LIMITS = frozenset({"rate_limit_exceeded", "rate_limit_error", "tokens", "insufficient_quota"})
"""Codes of errors about too many tokens per minute, not per request."""

_STATUSES = frozenset({None, 200, 400, 413, 422, 500})
"""An error inside a stream has status 200 or none, and some gateways turn the provider's error into a 500."""

_N = r"(\d[\d,_]{0,14})"
_LIMITS = tuple(
    lazy_pattern(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"maximum (?:context|prompt|input|sequence) length (?:is|of) {_N}",
        rf"prompt is too long: [\d,_]+ tokens > {_N} maximum",
        rf"exceeds? (?:the )?context limit: [\d,_]+ \+ [\d,_]+ > {_N}",
        rf"exceeds? the configured limit of {_N} tokens",
        rf"exceeds the maximum number of (?:input )?tokens allowed \(?{_N}",
        rf"(?:only )?supports up to {_N}",
        rf"exceeds the available context size \(?{_N}",
        rf"current length is \d+ while limit is {_N}",
        rf"`max_new_tokens` must be <= {_N}",
        rf"too large for model with {_N} maximum context length",
        rf"longer than the model's context length \(?{_N}",
        rf"tokens in the prompt cannot exceed {_N}",
    )
)
_SIZES = tuple(
    lazy_pattern(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"you requested (?:about )?{_N} tokens",
        rf"(?:messages|input|prompt) resulted in {_N} tokens",
        rf"request has {_N} input tokens(?: plus {_N})?",
        rf"(?:prompt|request) contains (?:at least )?{_N} (?:input )?tokens",
        rf"prompt is too long: {_N} tokens",
        rf"context limit: {_N} \+ {_N} >",
        rf"input token count (?:is |of )?\(?{_N}",
        rf"(?:request|input) \({_N} tokens\)",
        rf"current length is {_N} while",
        rf"given: {_N} `inputs` tokens and {_N} `max_new_tokens`",
        rf"cannot exceed \d+ - received {_N}",
    )
)
_REPLIES = tuple(
    lazy_pattern(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"\(\d[^()]* {_N} (?:in|for) the (?:completion|output)\)",
        rf"context limit: [\d,_]+ \+ {_N} >",
        rf"input tokens plus {_N}",
        rf"`inputs` tokens and {_N} `max_new_tokens`",
    )
)
_MARKS = lazy_pattern(
    r"maximum context length|maximum (?:prompt|input) length is|prompt is too long|exceeds? (?:the )?context limit"
    r"|input tokens exceed the configured limit|exceeds the maximum number of (?:input )?tokens allowed"
    r"|input token count .{0,80}supports up to|exceeds the context window|exceeds the available context size"
    r"|current length is \d+ while limit is|`inputs` tokens \+ `max_new_tokens` must be"
    r"|longer than the model's context length|input is too long for requested model|contextwindowexceedederror"
    r"|context_length_exceeded|request_too_large|tokens in the prompt cannot exceed",
    re.IGNORECASE | re.DOTALL,
)
_SEARCHED = 20_000
"""The number of characters of a text that are searched."""

_DEPTH = 10
_CODE_FIELDS = ("code", "type", "status", "reason")
_TEXT_FIELDS = ("message", "detail", "msg", "raw", "error")


def too_long(status: int | None, body: object) -> TooLong | None:
    """What an error response says about its request's length, or None if it has another cause.

    `body` is the response's JSON, as text or parsed, or any text that contains the provider's message.
    """
    codes, texts = set[str](), list[str]()
    for code, text in _codes_and_texts(body, _DEPTH):
        codes.add(code.lower())
        texts.append(text)
    return _decide(status, codes, "\n".join(text for text in texts if text)[:_SEARCHED])


def too_long_in(error: BaseException) -> TooLong | None:
    """The same for an exception of an SDK, by its public attributes."""
    status = getattr(error, "status_code", None)
    names = {kind.__name__.lower() for kind in type(error).__mro__}
    codes, texts = {*names, str(getattr(error, "code", None)).lower()}, list[str]()
    for given in (getattr(error, "body", None), getattr(error, "message", None), str(error)):
        for code, text in _codes_and_texts(given, _DEPTH):
            codes.add(code.lower())
            texts.append(text)
    text = "\n".join(dict.fromkeys(text for text in texts if text))
    return _decide(status if isinstance(status, int) else None, codes, text[:_SEARCHED])


def _decide(status: int | None, codes: set[str], text: str) -> TooLong | None:
    if status not in _STATUSES or codes & _OTHER_LIMITS:
        return None
    if not codes & _CODES and not _MARKS.search(text):
        return None
    return TooLong(_first(_LIMITS, text), _first(_SIZES, text), _first(_REPLIES, text) or 0)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return sum(int(re.sub(r"[,_]", "", number)) for number in found.groups() if number)
    return None


def _codes_and_texts(value: object, depth: int) -> Iterator[tuple[str, str]]:
    """Pairs of a code and a message in an error, at any depth; one of the two is empty."""
    if depth == 0:
        return
    if isinstance(value, bytes):
        value = value[: 4 * _SEARCHED].decode("utf-8", "replace")
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is None:
            yield "", value[:_SEARCHED]
        else:
            yield from _codes_and_texts(inner, depth - 1)
    elif isinstance(value, list):
        for item in value[:10]:
            yield from _codes_and_texts(item, depth - 1)
    elif isinstance(value, Mapping):
        yield from _in_object(value, depth)


def _in_object(value: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, str]]:
    for name in _CODE_FIELDS:
        if isinstance(value.get(name), str):
            yield value[name], ""
    for name in _TEXT_FIELDS:
        yield from _codes_and_texts(value.get(name), depth - 1)
    for inner in value.values():
        if isinstance(inner, Mapping) and inner is not value.get("error"):
            yield from _codes_and_texts(inner, depth - 1)


def _parsed(text: str) -> object:
    """A text parsed as JSON, or None if it is no JSON or too long."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > 4 * _SEARCHED:
        return None
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed
