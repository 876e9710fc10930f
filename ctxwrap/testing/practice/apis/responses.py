"""Replies in the format of OpenAI's Responses: the response object, its items and its events."""

from collections.abc import Iterator

from ctxwrap.testing.practice.answer import JSON, Answer, ToolCall
from ctxwrap.testing.practice.apis.parts import (
    BROKEN_MESSAGE,
    Pace,
    PracticeTurn,
    StreamError,
    StreamEvent,
    fragments,
    token_logprob,
    top_logprobs,
)
from ctxwrap.testing.practice.requests import response_items, text_of
from ctxwrap.testing.practice.usage import cached_tokens, input_tokens, output_tokens, reasoning_tokens

# request fields that the response repeats, with their defaults
_ECHOED: JSON = {
    "background": False,
    "conversation": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def complete(turn: PracticeTurn) -> JSON:
    """Return the finished response."""
    reason = _INCOMPLETE.get(turn.answer.finish)
    status = "incomplete" if reason else "completed"
    return response(turn, status, output(turn)) | {
        "incomplete_details": {"reason": reason} if reason else None,
        "completed_at": None if reason else turn.created,
        "usage": _usage(turn),
    }


def response(turn: PracticeTurn, status: str, items: list[JSON]) -> JSON:
    """Return the response object in `status`."""
    body = turn.ask.body
    echoed = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    if isinstance(body.get("conversation"), str):
        echoed["conversation"] = {"id": body["conversation"]}
    return echoed | {
        "id": turn.id("resp_"),
        "object": "response",
        "created_at": turn.created,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": turn.ask.model,
        "output": items,
        "text": _ECHOED["text"] | (body.get("text") or {}),
        "usage": None,
    }


def output(turn: PracticeTurn) -> list[JSON]:
    """Return the finished items: reasoning, message, tool calls."""
    answer = turn.answer
    items = [reasoning_item(turn, answer.reasoning)] if answer.reasoning else []
    if has_message(answer):
        items.append(message_item(turn, len(items), _item_status(answer), content(turn)))
    calls = [
        call_item(turn, position, call, "completed", call.arguments)
        for position, call in enumerate(answer.tool_calls, start=len(items))
    ]
    return items + calls


def has_message(answer: Answer) -> bool:
    return bool(answer.text or answer.refusal or not answer.tool_calls)


def reasoning_item(turn: PracticeTurn, text: str) -> JSON:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": turn.id("rs_", 0), "type": "reasoning", "summary": summary}


def message_item(turn: PracticeTurn, position: int, status: str, parts: list[JSON]) -> JSON:
    return {
        "id": turn.id("msg_", position),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": parts,
    }


def call_item(turn: PracticeTurn, position: int, call: ToolCall, status: str, arguments: str) -> JSON:
    return {
        "id": turn.id("fc_", position),
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def content(turn: PracticeTurn) -> list[JSON]:
    """Return the finished parts of the message: text, refusal, or both; an empty answer is an empty text."""
    answer = turn.answer
    parts = [text_part(answer.text, logprobs(turn, answer.cut()))] if answer.text or not answer.refusal else []
    return [*parts, refusal_part(answer.refusal)] if answer.refusal else parts


def text_part(text: str, probabilities: list[JSON]) -> JSON:
    return {"type": "output_text", "annotations": [], "logprobs": probabilities, "text": text}


def refusal_part(text: str) -> JSON:
    return {"type": "refusal", "refusal": text}


def logprobs(turn: PracticeTurn, tokens: tuple[str, ...]) -> list[JSON]:
    include = turn.ask.body.get("include") or []
    if not (turn.answer.logprobs or "message.output_text.logprobs" in include):
        return []
    return [token_logprob(token, top_logprobs(turn.ask)) for token in tokens]


def input_items(turn: PracticeTurn) -> list[JSON]:
    """Return the input items of the response, as the API lists them."""
    given = response_items(turn.ask.body)
    return [*turn.ask.earlier, *(_input_item(turn, index, item) for index, item in enumerate(given))]


def _input_item(turn: PracticeTurn, index: int, item: JSON) -> JSON:
    if "role" not in item:
        return {"id": turn.id("item_", index), "status": "completed", **item}
    kind = "output_text" if item["role"] == "assistant" else "input_text"
    parts = item.get("content")
    if not isinstance(parts, list):
        parts = [{"type": kind, "text": text_of(parts)}]
    return {
        "id": turn.id("msg_in-", index),
        "type": "message",
        "status": "completed",
        **item,
        "content": parts,
    }


def _item_status(answer: Answer) -> str:
    return "incomplete" if answer.finish in _INCOMPLETE else "completed"


def _usage(turn: PracticeTurn) -> JSON:
    asked, answered = input_tokens(turn.ask), output_tokens([turn.answer])
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached_tokens(turn.shared, asked), "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens([turn.answer])},
        "total_tokens": asked + answered,
    }


def events(turn: PracticeTurn) -> Iterator[StreamEvent]:
    for number, data in enumerate(_stream(turn)):
        yield StreamEvent({**data, "sequence_number": number}, data["type"])


def _stream(turn: PracticeTurn) -> Iterator[JSON]:
    yield {"type": "response.created", "response": response(turn, "in_progress", [])}
    yield {"type": "response.in_progress", "response": response(turn, "in_progress", [])}
    pace = Pace(turn.answer)
    try:
        yield from _items(turn, pace)
        pace.check()
    except StreamError:
        yield from _failed(turn)
        return
    done = complete(turn)
    yield {"type": f"response.{done['status']}", "response": done}


def _failed(turn: PracticeTurn) -> Iterator[JSON]:
    error = {"code": "server_error", "message": BROKEN_MESSAGE}
    yield {"type": "error", **error, "param": None}
    yield {"type": "response.failed", "response": response(turn, "failed", []) | {"error": error}}


def _items(turn: PracticeTurn, pace: Pace) -> Iterator[JSON]:
    """Yield the events of every item: added, deltas, done."""
    answer = turn.answer
    finished = output(turn)
    position = 0
    if answer.reasoning:
        yield from _item(0, reasoning_item(turn, ""), _reasoning(turn), finished[0])
        position = 1
    if has_message(answer):
        start = message_item(turn, position, "in_progress", [])
        yield from _item(position, start, _message(turn, pace), finished[position])
        position += 1
    for call, done in zip(answer.tool_calls, finished[position:], strict=True):
        start = call_item(turn, position, call, "in_progress", "")
        yield from _item(position, start, _call(call, pace), done)
        position += 1


def _item(position: int, start: JSON, deltas: Iterator[JSON], done: JSON) -> Iterator[JSON]:
    yield {"type": "response.output_item.added", "output_index": position, "item": start}
    for event in deltas:
        yield {"item_id": start["id"], "output_index": position, **event}
    yield {"type": "response.output_item.done", "output_index": position, "item": done}


def _reasoning(turn: PracticeTurn) -> Iterator[JSON]:
    text = turn.answer.reasoning
    part = {"type": "summary_text", "text": text}
    yield _summary("part.added", part={**part, "text": ""})
    for delta in fragments(text):
        yield _summary("text.delta", delta=delta)
    yield _summary("text.done", text=text)
    yield _summary("part.done", part=part)


def _summary(what: str, **fields: object) -> JSON:
    return {"type": f"response.reasoning_summary_{what}", "summary_index": 0, **fields}


def _message(turn: PracticeTurn, pace: Pace) -> Iterator[JSON]:
    for index, part in enumerate(content(turn)):
        is_text = part["type"] == "output_text"
        empty = text_part("", []) if is_text else refusal_part("")
        yield {"type": "response.content_part.added", "content_index": index, "part": empty}
        for event in _text(turn, pace) if is_text else _refusal(turn, pace):
            yield {"content_index": index, **event}
        yield {"type": "response.content_part.done", "content_index": index, "part": part}


def _text(turn: PracticeTurn, pace: Pace) -> Iterator[JSON]:
    tokens = turn.answer.cut()
    for piece in pace.through(tokens):
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": logprobs(turn, (piece,))}
    yield {
        "type": "response.output_text.done",
        "text": turn.answer.text,
        "logprobs": logprobs(turn, tokens),
    }


def _refusal(turn: PracticeTurn, pace: Pace) -> Iterator[JSON]:
    for part in pace.through(fragments(turn.answer.refusal)):
        yield {"type": "response.refusal.delta", "delta": part}
    yield {"type": "response.refusal.done", "refusal": turn.answer.refusal}


def _call(call: ToolCall, pace: Pace) -> Iterator[JSON]:
    for part in pace.through(fragments(call.arguments)):
        yield {"type": "response.function_call_arguments.delta", "delta": part}
    yield {
        "type": "response.function_call_arguments.done",
        "name": call.name,
        "arguments": call.arguments,
    }
