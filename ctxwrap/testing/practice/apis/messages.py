"""Replies in the format of Anthropic's messages."""

import json
from collections.abc import Iterator

from ctxwrap.testing.practice.answer import JSON, Answer, ToolCall
from ctxwrap.testing.practice.apis.parts import BROKEN_MESSAGE, Pace, PracticeTurn, StreamError, StreamEvent, fragments
from ctxwrap.testing.practice.usage import cached_tokens, input_tokens, output_tokens

_STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
}
_SIGNATURE = "cHJhY3RpY2Ugc2lnbmF0dXJl"


def complete(turn: PracticeTurn) -> JSON:
    answer = turn.answer
    return _message(turn, _blocks(answer), output_tokens([answer])) | _stop(answer)


def events(turn: PracticeTurn) -> Iterator[StreamEvent]:
    for data in _stream(turn):
        yield StreamEvent(data, data["type"])


def _message(turn: PracticeTurn, content: list[JSON], written: int) -> JSON:
    asked = input_tokens(turn.ask)
    cached = cached_tokens(turn.shared, asked)
    return {
        "id": turn.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": turn.ask.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": asked - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": written,
            "service_tier": "standard",
        },
    }


def _stop(answer: Answer) -> JSON:
    stop: JSON = {"stop_reason": _STOP[answer.finish], "stop_sequence": None}
    if stop["stop_reason"] == "refusal":
        stop["stop_details"] = {"type": "refusal", "category": None, "explanation": answer.refusal or None}
    return stop


def _blocks(answer: Answer) -> list[JSON]:
    """The finished content blocks."""
    blocks: list[JSON] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": _SIGNATURE})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    blocks.extend(_tool_use(call) | {"input": _input(call)} for call in answer.tool_calls)
    return blocks


def _tool_use(call: ToolCall) -> JSON:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _input(call: ToolCall) -> JSON:
    """Return the arguments as an object; a complete reply cannot carry invalid JSON."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _stream(turn: PracticeTurn) -> Iterator[JSON]:
    answer = turn.answer
    pace = Pace(answer)
    yield {"type": "message_start", "message": _message(turn, [], 1)}
    yield {"type": "ping"}
    try:
        for index, (start, deltas) in enumerate(_streamed_blocks(answer, pace)):
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        pace.check()
    except StreamError:
        yield {"type": "error", "error": {"type": "overloaded_error", "message": BROKEN_MESSAGE}}
        return
    usage = {"output_tokens": output_tokens([answer])}
    yield {"type": "message_delta", "delta": _stop(answer), "usage": usage}
    yield {"type": "message_stop"}


def _streamed_blocks(answer: Answer, pace: Pace) -> Iterator[tuple[JSON, Iterator[JSON]]]:
    """Yield each content block's start, with its deltas."""
    if answer.reasoning:
        yield {"type": "thinking", "thinking": "", "signature": ""}, _thinking(answer)
    if answer.text:
        deltas = ({"type": "text_delta", "text": piece} for piece in pace.through(answer.cut()))
        yield {"type": "text", "text": ""}, deltas
    for call in answer.tool_calls:
        yield _tool_use(call), _arguments(call, pace)


def _thinking(answer: Answer) -> Iterator[JSON]:
    for part in fragments(answer.reasoning):
        yield {"type": "thinking_delta", "thinking": part}
    yield {"type": "signature_delta", "signature": _SIGNATURE}


def _arguments(call: ToolCall, pace: Pace) -> Iterator[JSON]:
    yield {"type": "input_json_delta", "partial_json": ""}
    for part in pace.through(fragments(call.arguments)):
        yield {"type": "input_json_delta", "partial_json": part}
