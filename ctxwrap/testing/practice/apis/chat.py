"""Replies in the format of OpenAI's chat completions, with Azure's additions."""

from collections.abc import Iterator
from typing import Any

from ctxwrap.testing.practice.answer import JSON, Answer, ToolCall
from ctxwrap.testing.practice.apis.parts import (
    BROKEN_MESSAGE,
    DONE,
    Pace,
    PracticeTurn,
    StreamError,
    StreamEvent,
    fragments,
    interleave,
    token_logprob,
    top_logprobs,
)
from ctxwrap.testing.practice.requests import dict_at, text_of
from ctxwrap.testing.practice.usage import cached_tokens, input_tokens, output_tokens, reasoning_tokens

_FINISH = {"refusal": "stop"}
_HARMLESS = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}
_PROMPT_FILTER = [{"prompt_index": 0, "content_filter_results": _HARMLESS}]


def complete(turn: PracticeTurn) -> JSON:
    answers = turn.answer.choices(turn.ask.n)
    reply = _head(turn, "chat.completion") | {
        "choices": [_choice(turn, index, answer) for index, answer in enumerate(answers)],
        "usage": usage(turn),
    }
    return reply | ({"prompt_filter_results": _PROMPT_FILTER} if turn.answer.azure else {})


def events(turn: PracticeTurn) -> Iterator[StreamEvent]:
    if turn.answer.azure:
        yield StreamEvent(_choiceless_chunk())
    answers = turn.answer.choices(turn.ask.n)
    try:
        for choice in interleave(*(_deltas(turn, index, answer) for index, answer in enumerate(answers))):
            yield _chunk(turn, [choice])
    except StreamError:
        yield broken()
        return
    if wants_usage(turn):
        yield StreamEvent(_head(turn, "chat.completion.chunk") | {"choices": [], "usage": usage(turn)})
    yield DONE


def stored_messages(turn: PracticeTurn) -> list[JSON]:
    """Return the messages of a stored request, as the API lists them."""
    given = turn.ask.body.get("messages") or []
    return [
        {
            "id": turn.id("chatcmpl-", index),
            "role": message.get("role"),
            "content": text_of(message.get("content")),
            "content_parts": message["content"] if isinstance(message.get("content"), list) else None,
            "name": message.get("name"),
        }
        for index, message in enumerate(given)
    ]


def usage(turn: PracticeTurn) -> JSON:
    answers = turn.answer.choices(turn.ask.n)
    asked, answered = input_tokens(turn.ask), output_tokens(answers)
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": cached_tokens(turn.shared, asked), "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning_tokens(answers),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def wants_usage(turn: PracticeTurn) -> bool:
    return dict_at(turn.ask.body, "stream_options").get("include_usage") is True


def broken() -> StreamEvent:
    """Return an error event in the middle of a stream."""
    return StreamEvent({"error": {"message": BROKEN_MESSAGE, "type": "server_error", "param": None, "code": None}})


def _head(turn: PracticeTurn, kind: str) -> JSON:
    return {
        "id": turn.id("chatcmpl-"),
        "object": kind,
        "created": turn.created,
        "model": turn.ask.model,
        "service_tier": "default",
        "system_fingerprint": "fp_practice",
    }


def _choice(turn: PracticeTurn, index: int, answer: Answer) -> JSON:
    return {
        "index": index,
        "message": _message(answer),
        "logprobs": _logprobs(turn, answer, answer.cut()),
        "finish_reason": _FINISH.get(answer.finish, answer.finish),
    } | ({"content_filter_results": _HARMLESS} if turn.answer.azure else {})


def _message(answer: Answer) -> JSON:
    message: JSON = {
        "role": "assistant",
        "content": answer.text if answer.text or not (answer.tool_calls or answer.refusal) else None,
        "refusal": answer.refusal or None,
        "annotations": [],
    }
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [_tool_call(call, call.arguments) for call in answer.tool_calls]
    return message


def _tool_call(call: ToolCall, arguments: str) -> JSON:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _logprobs(turn: PracticeTurn, answer: Answer, tokens: tuple[str, ...]) -> JSON | None:
    if not (answer.logprobs or turn.ask.body.get("logprobs") is True):
        return None
    top = top_logprobs(turn.ask)
    return {"content": [token_logprob(token, top) for token in tokens], "refusal": None}


def _chunk(turn: PracticeTurn, choices: list[JSON]) -> StreamEvent:
    blank_usage: JSON = {"usage": None} if wants_usage(turn) else {}
    return StreamEvent(_head(turn, "chat.completion.chunk") | {"choices": choices} | blank_usage)


def _choiceless_chunk() -> JSON:
    return {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "",
        "object": "",
        "prompt_filter_results": _PROMPT_FILTER,
    }


def _deltas(turn: PracticeTurn, index: int, answer: Answer) -> Iterator[JSON]:
    """Yield the chunks of one choice."""
    pace = Pace(answer)

    def choice(delta: JSON, finish: str | None = None, logprobs: Any = None) -> JSON:
        filtered: JSON = {"content_filter_results": {}} if turn.answer.azure else {}
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish, **filtered}

    opening = None if answer.tool_calls and not answer.text else ""
    yield choice({"role": "assistant", "content": opening, "refusal": None})
    for part in fragments(answer.reasoning):
        yield choice({"reasoning_content": part})
    for piece in pace.through(answer.cut()):
        yield choice({"content": piece}, logprobs=_logprobs(turn, answer, (piece,)))
    for part in pace.through(fragments(answer.refusal)):
        yield choice({"refusal": part})
    for position, call in enumerate(answer.tool_calls):
        yield choice({"tool_calls": [{"index": position, **_tool_call(call, "")}]})
        for part in pace.through(fragments(call.arguments)):
            yield choice({"tool_calls": [{"index": position, "function": {"arguments": part}}]})
    pace.check()
    yield choice({}, _FINISH.get(answer.finish, answer.finish))
