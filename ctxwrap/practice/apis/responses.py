"""How OpenAI's Responses spell an answer: the response object and its items."""

from ctxwrap.practice.answer import JSON, Answer, ToolCall
from ctxwrap.practice.apis.parts import Turn, token_logprob, top_logprobs
from ctxwrap.practice.ask import response_items, text_of
from ctxwrap.practice.usage import cached_tokens, input_tokens, output_tokens, reasoning_tokens

# what the response object repeats from the request, with what it says when the request is silent
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


def complete(turn: Turn) -> JSON:
    """The finished response."""
    reason = _INCOMPLETE.get(turn.answer.finish)
    status = "incomplete" if reason else "completed"
    return response(turn, status, output(turn)) | {
        "incomplete_details": {"reason": reason} if reason else None,
        "completed_at": None if reason else turn.created,
        "usage": _usage(turn),
    }


def response(turn: Turn, status: str, items: list[JSON]) -> JSON:
    """The response as it stands while it is in `status`."""
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


def output(turn: Turn) -> list[JSON]:
    """The finished items: what was thought, what was said, what is to be called."""
    answer = turn.answer
    items = [reasoning_item(turn, answer.reasoning)] if answer.reasoning else []
    if says_something(answer):
        items.append(message_item(turn, len(items), _item_status(answer), content(turn)))
    calls = [
        call_item(turn, position, call, "completed", call.arguments)
        for position, call in enumerate(answer.tool_calls, start=len(items))
    ]
    return items + calls


def says_something(answer: Answer) -> bool:
    return bool(answer.text or answer.refusal or not answer.tool_calls)


def reasoning_item(turn: Turn, text: str) -> JSON:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": turn.id("rs_", 0), "type": "reasoning", "summary": summary}


def message_item(turn: Turn, position: int, status: str, parts: list[JSON]) -> JSON:
    return {
        "id": turn.id("msg_", position),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": parts,
    }


def call_item(turn: Turn, position: int, call: ToolCall, status: str, arguments: str) -> JSON:
    return {
        "id": turn.id("fc_", position),
        "type": "function_call",
        "status": status,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def content(turn: Turn) -> list[JSON]:
    """The finished parts of the message: text, refusal, or both; an empty answer is an empty text."""
    answer = turn.answer
    parts = [text_part(answer.text, logprobs(turn, answer.cut()))] if answer.text or not answer.refusal else []
    return [*parts, refusal_part(answer.refusal)] if answer.refusal else parts


def text_part(text: str, probabilities: list[JSON]) -> JSON:
    return {"type": "output_text", "annotations": [], "logprobs": probabilities, "text": text}


def refusal_part(text: str) -> JSON:
    return {"type": "refusal", "refusal": text}


def logprobs(turn: Turn, tokens: tuple[str, ...]) -> list[JSON]:
    include = turn.ask.body.get("include") or []
    if not (turn.answer.logprobs or "message.output_text.logprobs" in include):
        return []
    return [token_logprob(token, top_logprobs(turn.ask)) for token in tokens]


def input_items(turn: Turn) -> list[JSON]:
    """The items this response was made from, in order, as they can be listed later."""
    given = response_items(turn.ask.body)
    return [*turn.ask.earlier, *(_input_item(turn, index, item) for index, item in enumerate(given))]


def _input_item(turn: Turn, index: int, item: JSON) -> JSON:
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


def _usage(turn: Turn) -> JSON:
    asked, answered = input_tokens(turn.ask), output_tokens([turn.answer])
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": cached_tokens(turn.shared, asked), "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens([turn.answer])},
        "total_tokens": asked + answered,
    }
