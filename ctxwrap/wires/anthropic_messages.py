"""Anthropic Messages: content blocks, a system prompt beside the messages, tool results inside user messages."""

import json
from collections.abc import Callable
from typing import Any

from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream
from ctxwrap.wires.asking import as_it_came, one_short_answer
from ctxwrap.wires.channel import Channel
from ctxwrap.wires.edit import put
from ctxwrap.wires.limits import raised_limits, roomy_limits
from ctxwrap.wires.messages import extended, joined, last_index, plain, spelled, tool_call
from ctxwrap.wires.neutral import neutral_message

_PARTS = ("image", "document", "search_result", "container_upload")
_NATURAL = frozenset({"end_turn", "stop_sequence"})


class AnthropicMessages:
    name = "anthropic_messages"

    def read(self, body: Body) -> Request:
        system = plain(body.get("system"))
        opening = (Message("system", system),) if system else ()
        return Request(
            messages=(
                *opening,
                *(part for message in body.get("messages") or () for part in _split(message)),
            ),
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer=_no_trailer(body),
            server_history=bool(body.get("thread")),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        messages = [*(_merged(injection.history)), *(body.get("messages") or ())]
        messages = [neutral_message(message) for message in messages]
        at = last_index(messages, _is_spoken)
        opening = injection.protocol
        if at >= 0:
            messages[at] = {
                **messages[at],
                "content": extended(messages[at].get("content"), injection.block, "text"),
            }
        else:
            opening = joined(injection.protocol, injection.block)
        changed = {**body, **raised_limits(body, ("max_tokens",), injection.reserve), "messages": messages}
        if not _continues(body):
            changed["system"] = _opened(body.get("system"), opening)
        return changed

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "MessagesRewriter":
        return MessagesRewriter(streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        messages, said = list(body.get("messages") or ()), [{"type": "text", "text": as_it_came(reply)}]
        if messages and messages[-1].get("role") == "assistant":  # a beginning that the reply went on from
            said = [*_blocks(messages.pop()), *said]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
        changed = {**one_short_answer(body), **roomy_limits(body, ("max_tokens",), reserve), "messages": messages}
        if body.get("tools"):
            changed["tool_choice"] = {"type": "none"}
        if not _continues(body):
            changed.pop("thread", None)
        return changed


def _no_trailer(body: Body) -> str:
    config = body.get("output_config") or {}
    if body.get("output_format") or (isinstance(config, dict) and config.get("format")):
        return "structured output"
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return "forced tool choice"
    return ""


def _continues(body: Body) -> bool:
    """A thread that the provider holds already has its system prompt, the protocol in it."""
    return (body.get("thread") or {}).get("type") == "continue"


def _blocks(message: Body) -> list[Body]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _is_spoken(message: Body) -> bool:
    """A user message that says something, not only the results of tools."""
    return message.get("role") == "user" and any(block.get("type") != "tool_result" for block in _blocks(message))


def _opened(system: Any, opening: str) -> Any:
    if system is None or isinstance(system, str):
        return joined(opening, system or "")
    return [{"type": "text", "text": opening}, *system]


def _split(message: Body) -> list[Message]:
    """One message of the API as the messages of the log: results of tools stand for themselves there."""
    role = message.get("role")
    blocks = _blocks(message)
    results = [
        Message("tool", plain(block.get("content")), tool_call_id=str(block.get("tool_use_id") or ""))
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
    rest = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
    if rest or calls or not results:
        results.append(Message(role, plain(rest), tool_calls=calls))  # type: ignore[arg-type]  # as it was given
    return results


def _call(block: Body) -> Body:
    return tool_call(block.get("id"), block.get("name"), _dumped(block.get("input")))


def _dumped(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"), default=str)


def _merged(history: tuple[Message, ...]) -> list[Body]:
    """Messages from the log as the API wants them: results of tools inside user messages, nothing empty."""
    messages: list[Body] = []
    for message in history:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _spell(message)
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def _spell(message: Message) -> list[Body]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}]
    content = spelled(message.content, "text", _PARTS)
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [block for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return blocks + [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _loaded(call["arguments"])}
        for call in message.tool_calls
    ]


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}


class MessagesRewriter:
    """Strips the text blocks, one by one; thinking, signatures and tool use go through untouched."""

    def __init__(self, streams: Callable[[], TextStream]) -> None:
        self._streams = streams
        self._channels: dict[int, Channel] = {}
        self._calls: dict[int, Body] = {}
        self._inputs: dict[int, list[str]] = {}
        self._message: Body = {}
        self._finish = ""
        self._usage: Body = {}
        self.ended = False

    @property
    def spoken(self) -> bool:
        return bool(self._finish)

    def whole(self, payload: Body) -> Body:
        self._start(payload)
        self._finish = str(payload.get("stop_reason") or "")
        for index, block in enumerate(payload.get("content") or ()):
            if block.get("type") == "text":
                visible = self._channel(index).whole(block.get("text") or "")
                if visible != block.get("text"):
                    payload = put(payload, ("content", index, "text"), visible)
            elif block.get("type") == "tool_use":
                self._calls[index] = _call(block)
        self.ended = True
        return payload

    def event(self, event: Body) -> list[Body]:
        match event.get("type"):
            case "message_start":
                self._start(event.get("message") or {})
            case "content_block_start":
                return self._block_start(event)
            case "content_block_delta":
                return self._block_delta(event)
            case "content_block_stop":
                return [*self._released(event.get("index", 0)), event]
            case "message_delta":
                self._finish = str((event.get("delta") or {}).get("stop_reason") or self._finish)
                self._usage = {**self._usage, **(event.get("usage") or {})}
            case "message_stop":
                self.ended = True
        return [event]

    def close(self) -> list[Body]:
        return [piece for index in list(self._channels) for piece in self._released(index)]

    @property
    def reply(self) -> Reply:
        last = self._channels[max(self._channels)] if self._channels else None
        texts = [self._channels[index].text for index in sorted(self._channels)]
        calls = tuple(self._call(index) for index in sorted(self._calls))
        message = Message("assistant", "\n".join(text for text in texts if text), tool_calls=calls)
        return Reply(
            messages=(message,) if texts or calls else (),
            reading=last.reading if last and last.closed else None,
            finish=self._finish,
            natural=self._finish in _NATURAL,
            usage=self._usage,
            response_id=str(self._message.get("id") or ""),
            model=str(self._message.get("model") or ""),
        )

    def _start(self, message: Body) -> None:
        self._message = message
        self._usage = message.get("usage") or {}

    def _call(self, index: int) -> Body:
        streamed = "".join(self._inputs.get(index, ()))
        return {**self._calls[index], "arguments": streamed} if streamed else self._calls[index]

    def _channel(self, index: int) -> Channel:
        if index not in self._channels:
            self._channels[index] = Channel(self._streams())
        return self._channels[index]

    def _block_start(self, event: Body) -> list[Body]:
        block, index = event.get("content_block") or {}, event.get("index", 0)
        if block.get("type") == "tool_use":
            self._calls[index] = _call(block)
        if block.get("type") != "text":
            return [event]
        text = block.get("text") or ""
        visible = self._channel(index).feed(text)
        return [event if visible == text else put(event, ("content_block", "text"), visible)]

    def _block_delta(self, event: Body) -> list[Body]:
        delta, index = event.get("delta") or {}, event.get("index", 0)
        if delta.get("type") == "input_json_delta":
            self._inputs.setdefault(index, []).append(delta.get("partial_json") or "")
        if delta.get("type") != "text_delta":
            return [event]
        text = delta.get("text") or ""
        visible = self._channel(index).feed(text)
        if visible == text:
            return [event]
        return [put(event, ("delta", "text"), visible)] if visible else []

    def _released(self, index: int) -> list[Body]:
        channel = self._channels.get(index)
        rest = "" if channel is None or channel.closed else channel.close()
        if not rest:
            return []
        return [{"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": rest}}]
