"""How OpenAI's Responses spell an answer: the events of a stream."""

from collections.abc import Iterator

from ctxwrap.practice.answer import JSON, ToolCall
from ctxwrap.practice.apis.parts import BROKEN_MESSAGE, Event, Pace, StreamError, Turn, fragments
from ctxwrap.practice.apis.responses import (
    call_item,
    complete,
    content,
    logprobs,
    message_item,
    output,
    reasoning_item,
    refusal_part,
    response,
    says_something,
    text_part,
)


def events(turn: Turn) -> Iterator[Event]:
    for number, data in enumerate(_stream(turn)):
        yield Event({**data, "sequence_number": number}, data["type"])


def _stream(turn: Turn) -> Iterator[JSON]:
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


def _failed(turn: Turn) -> Iterator[JSON]:
    error = {"code": "server_error", "message": BROKEN_MESSAGE}
    yield {"type": "error", **error, "param": None}
    yield {"type": "response.failed", "response": response(turn, "failed", []) | {"error": error}}


def _items(turn: Turn, pace: Pace) -> Iterator[JSON]:
    """Every item: that it starts, how it fills, that it is done."""
    answer = turn.answer
    finished = output(turn)
    position = 0
    if answer.reasoning:
        yield from _item(0, reasoning_item(turn, ""), _reasoning(turn), finished[0])
        position = 1
    if says_something(answer):
        start = message_item(turn, position, "in_progress", [])
        yield from _item(position, start, _message(turn, pace), finished[position])
        position += 1
    for call, done in zip(answer.tool_calls, finished[position:], strict=True):
        start = call_item(turn, position, call, "in_progress", "")
        yield from _item(position, start, _call(call, pace), done)
        position += 1


def _item(position: int, start: JSON, filling: Iterator[JSON], done: JSON) -> Iterator[JSON]:
    yield {"type": "response.output_item.added", "output_index": position, "item": start}
    for event in filling:
        yield {"item_id": start["id"], "output_index": position, **event}
    yield {"type": "response.output_item.done", "output_index": position, "item": done}


def _reasoning(turn: Turn) -> Iterator[JSON]:
    text = turn.answer.reasoning
    part = {"type": "summary_text", "text": text}
    yield _summary("part.added", part={**part, "text": ""})
    for delta in fragments(text):
        yield _summary("text.delta", delta=delta)
    yield _summary("text.done", text=text)
    yield _summary("part.done", part=part)


def _summary(what: str, **fields: object) -> JSON:
    return {"type": f"response.reasoning_summary_{what}", "summary_index": 0, **fields}


def _message(turn: Turn, pace: Pace) -> Iterator[JSON]:
    for index, part in enumerate(content(turn)):
        is_text = part["type"] == "output_text"
        empty = text_part("", []) if is_text else refusal_part("")
        yield {"type": "response.content_part.added", "content_index": index, "part": empty}
        for event in _text(turn, pace) if is_text else _refusal(turn, pace):
            yield {"content_index": index, **event}
        yield {"type": "response.content_part.done", "content_index": index, "part": part}


def _text(turn: Turn, pace: Pace) -> Iterator[JSON]:
    tokens = turn.answer.cut()
    for piece in pace.through(tokens):
        yield {"type": "response.output_text.delta", "delta": piece, "logprobs": logprobs(turn, (piece,))}
    yield {
        "type": "response.output_text.done",
        "text": turn.answer.text,
        "logprobs": logprobs(turn, tokens),
    }


def _refusal(turn: Turn, pace: Pace) -> Iterator[JSON]:
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
