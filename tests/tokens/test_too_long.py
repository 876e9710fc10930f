"""Errors for requests that are too long: the forms that providers use, and similar errors."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.tokens import TooLong, too_long, too_long_in


def openai_body(message: str, code: Any = "context_length_exceeded", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": code, **more}}


def anthropic_body(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


SHAPES: dict[str, tuple[int | None, Any, TooLong]] = {
    "openai chat": (
        400,
        openai_body(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
        ),
        TooLong(8192, 9001),
    ),
    "openai chat with a reply": (
        400,
        openai_body(
            "This model's maximum context length is 32768 tokens. However, you requested 35969 tokens "
            "(9969 in the messages, 26000 in the completion)."
        ),
        TooLong(32768, 35969, 26000),
    ),
    "openai completions": (
        400,
        openai_body(
            "This model's maximum context length is 4097 tokens, however you requested 5002 tokens "
            "(4902 in your prompt; 100 for the completion). Please reduce your prompt; or completion length."
        ),
        TooLong(4097, 5002, 100),
    ),
    "openai responses": (400, openai_body("Your input exceeds the context window of this model."), TooLong()),
    "openai stream": (
        None,
        {"type": "error", "sequence_number": 2, **openai_body("Your input exceeds the context window of this model.")},
        TooLong(),
    ),
    "azure": (
        400,
        openai_body(
            "Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 509,178 tokens.",
            code=None,
        ),
        TooLong(272000, 509178),
    ),
    "anthropic": (400, anthropic_body("prompt is too long: 210,345 tokens > 200000 maximum"), TooLong(200000, 210345)),
    "anthropic with a reply": (
        400,
        anthropic_body("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease it"),
        TooLong(200000, 210000, 20000),
    ),
    "anthropic bytes": (413, anthropic_body("Request exceeds the maximum size", "request_too_large"), TooLong()),
    "bedrock": (400, {"message": "Input is too long for requested model."}, TooLong()),
    "gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (218152) exceeds the maximum number of tokens allowed (65536).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        TooLong(65536, 218152),
    ),
    "vertex": (
        400,
        {"error": {"message": "The input token count is 1200000 but the model only supports up to 1048576."}},
        TooLong(1048576, 1200000),
    ),
    "openrouter": (
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 131072 tokens. However, you requested about "
                "141607 tokens (10535 of text input, 131072 in the output).",
                "code": 400,
                "metadata": {"provider_name": "Some"},
            }
        },
        TooLong(131072, 141607, 131072),
    ),
    "openrouter, of another": (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": json.dumps(anthropic_body("prompt is too long: 9 tokens > 5 maximum"))},
            }
        },
        TooLong(5, 9),
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens "
            "plus 2045 'max_tokens'.",
            "type": "BadRequestError",
            "code": 400,
        },
        TooLong(2048, 2053, 2045),
    ),
    "vllm of late": (
        400,
        {
            "error": {
                "message": "The maximum context length is 4096, but the prompt contains at least 4097 input tokens."
            }
        },
        TooLong(4096, 4097),
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (11011 tokens) exceeds the available context size (8192 tokens)",
                "type": "exceed_context_size_error",
            }
        },
        TooLong(8192, 11011),
    ),
    "cerebras": (400, {"message": "Please reduce it. Current length is 9000 while limit is 8192"}, TooLong(8192, 9000)),
    "mistral": (
        400,
        {"message": "Prompt contains 40961 tokens, too large for model with 32768 maximum context length"},
        TooLong(32768, 40961),
    ),
    "xai": (
        400,
        {"error": "This model's maximum prompt length is 131072 but the request contains 150000 tokens."},
        TooLong(131072, 150000),
    ),
    "text generation inference": (
        422,
        {
            "error": "`inputs` tokens + `max_new_tokens` must be <= 4096. "
            "Given: 5000 `inputs` tokens and 20 `max_new_tokens`"
        },
        TooLong(4096, 5020, 20),
    ),
    "sglang": (
        400,
        {"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens)."},
        TooLong(8192, 9000),
    ),
    "litellm's text": (
        400,
        "litellm.ContextWindowExceededError: AnthropicError - b'"
        + json.dumps(anthropic_body("prompt is too long: 201 tokens > 200 maximum"))
        + "'",
        TooLong(200, 201),
    ),
}
OTHERS: dict[str, tuple[int | None, Any]] = {
    "a bad key": (401, openai_body("Incorrect API key provided", "invalid_api_key")),
    "too fast": (
        429,
        openai_body("Request too large: limit 30000 tokens per min, requested 90000", "rate_limit_exceeded"),
    ),
    "too fast, by another status": (
        413,
        {
            "error": {
                "message": "Request too large, maximum context length aside",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
    ),
    "a limit of the reply": (
        400,
        openai_body("max_tokens is too large: 99999. This model supports at most 4096", None),
    ),
    "a long name": (400, openai_body("Invalid 'user': string too long. Expected 64.", "string_above_max_length")),
    "a fault": (500, {"error": {"message": "The server had an error", "type": "server_error"}}),
    "a page": (502, "<html>maximum context length is 5</html>"),
    "nothing": (400, None),
    "emptiness": (400, ""),
    "a number": (400, 5),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_too_long_errors_are_recognised_as_text_and_parsed(shape: str) -> None:
    status, body, expected = SHAPES[shape]
    written = body if isinstance(body, str) else json.dumps(body)
    assert too_long(status, body) == expected
    assert too_long(status, written) == expected
    assert too_long(status, written.encode()) == expected
    assert too_long(status, f"Error code: {status} - {body}") is not None


@pytest.mark.parametrize("shape", OTHERS)
def test_other_errors_are_not_too_long(shape: str) -> None:
    status, body = OTHERS[shape]
    assert too_long(status, body) is None


class BadRequestError(Exception):
    """As the SDKs have it."""

    def __init__(self, message: str, **attributes: Any) -> None:
        super().__init__(message)
        self.message = message
        vars(self).update(attributes)


class ContextWindowExceededError(BadRequestError):
    """As litellm has it."""


@pytest.mark.parametrize("shape", SHAPES)
def test_exceptions_are_recognised_by_public_attributes(shape: str) -> None:
    status, body, expected = SHAPES[shape]
    assert too_long_in(BadRequestError("Error", status_code=status, body=body)) == expected
    assert too_long_in(BadRequestError("Error", body=body)) == expected
    inner = body.get("error", body) if isinstance(body, dict) else body
    assert too_long_in(BadRequestError("Error", status_code=status, body=inner)) == expected


def test_exceptions_are_recognised_by_code_class_or_message_alone() -> None:
    assert too_long_in(BadRequestError("no", status_code=400, code="context_length_exceeded")) == TooLong()
    assert too_long_in(ContextWindowExceededError("no", status_code=400)) == TooLong()
    assert too_long_in(ValueError("prompt is too long: 3 tokens > 2 maximum")) == TooLong(2, 3)
    assert too_long_in(ValueError("prompt")) is None
    assert too_long_in(BadRequestError("maximum context length is 5", status_code=429)) is None
    assert too_long_in(BadRequestError("no", body=SimpleNamespace(), code=5, status_code="x")) is None


def test_sdk_errors_are_recognised() -> None:
    import anthropic
    import httpx
    import openai

    status, body, expected = SHAPES["openai chat"]
    response = httpx.Response(400, json=body, request=httpx.Request("POST", "http://localhost"))
    error: Exception = openai.OpenAI(api_key="x")._make_status_error_from_response(response)
    assert too_long_in(error) == expected
    status, body, expected = SHAPES["anthropic"]
    error = anthropic.BadRequestError(f"Error code: {status} - {body}", response=response, body=body)  # type: ignore[arg-type]
    assert too_long_in(error) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "code", "raw", "x"]), inner),
)


@given(st.none() | st.integers(), json_values)
def test_any_error_body_raises_nothing(status: int | None, body: Any) -> None:
    too_long(status, body)
    too_long(status, json.dumps(body))
    too_long_in(BadRequestError(str(body), status_code=status, body=body, code=body))


def test_long_error_bodies_are_searched_in_part() -> None:
    assert too_long(400, "[" * 1_000_000) is None
    assert too_long(400, "maximum context length is 5 " * 1_000_000) == TooLong(5, None)
    assert too_long(400, f"maximum context length is {'9' * 10_000} tokens") is not None
    deep: Any = "prompt is too long"
    for _ in range(50):
        deep = {"error": deep}
    assert too_long(400, deep) is None
