"""Anthropic Messages: content blocks, a system prompt beside the messages, tool results inside user messages."""

from collections.abc import Callable
from dataclasses import replace

from ctxwrap.types import Body, Injection, Message, Reply, Request, TextDelta, TextStream
from ctxwrap.wires.asking import as_it_came, one_short_answer
from ctxwrap.wires.blocks import blocks_of, called, is_spoken, merged, opened, split
from ctxwrap.wires.breakpoints import with_breakpoints
from ctxwrap.wires.channel import Channel, reading_of
from ctxwrap.wires.edit import put
from ctxwrap.wires.limits import raised_limits, roomy_limits
from ctxwrap.wires.messages import joined, plain
from ctxwrap.wires.neutral import neutral_message
from ctxwrap.wires.placing import extended, first_index, kept, last_index, preceded, with_content

_NATURAL = frozenset({"end_turn", "stop_sequence"})
_OWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""What the model itself says or asks for; every other block tells of something that the provider ran or fetched."""


class AnthropicMessages:
    name = "anthropic_messages"

    def read(self, body: Body) -> Request:
        system = plain(body.get("system"))
        read = [(Message("system", system), -1)] if system else []
        read += [(part, at) for at, message in enumerate(body.get("messages") or ()) for part in split(message)]
        return Request(
            messages=tuple(message for message, _ in read),
            places=tuple(place for _, place in read),
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer=_no_trailer(body),
            server_history=bool(body.get("thread")),
            unseen=bool(body.get("thread")),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        messages = [*merged(injection.history), *kept(body.get("messages") or (), injection)]
        messages = [neutral_message(message) for message in messages]
        first, newest = first_index(messages, is_spoken), last_index(messages, is_spoken)
        texts = _arranged(body, injection, newest >= 0)
        if newest >= 0:
            messages[first] = with_content(messages[first], opened, texts.background)
        changed = {**body, **raised_limits(body, ("max_tokens",), injection.reserve), "messages": messages}
        if not _continues(body):
            changed["system"] = extended(preceded(body.get("system"), injection.protocol), texts.standing)
        if injection.breakpoints and not body.get("thread"):
            changed = with_breakpoints(changed)
        return _with_block(changed, newest, texts.block)

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "MessagesRewriter":
        return MessagesRewriter(streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        messages, said = list(body.get("messages") or ()), [{"type": "text", "text": as_it_came(reply)}]
        if messages and messages[-1].get("role") == "assistant":  # a beginning that the reply went on from
            said = [*blocks_of(messages.pop().get("content")), *said]
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


def _arranged(body: Body, injection: Injection, spoken: bool) -> Injection:
    """The texts of `injection` by where they go in `body`."""
    standing, background, block = injection.standing, injection.background, injection.block
    if _continues(body):
        return replace(injection, standing="", background="", block=joined(standing, background, block))
    return injection if spoken else replace(injection, standing=joined(standing, background), background="")


def _with_block(body: Body, newest: int, block: str) -> Body:
    """`body` with what changes at its end: behind the newest message, or where there is none, the system prompt."""
    if newest >= 0:
        body["messages"][newest] = with_content(body["messages"][newest], extended, block)
    elif not _continues(body):
        body["system"] = extended(body["system"], block)
    return body


def _is_fetched(block: Body) -> bool:
    """Whether a block of a reply shows that it is made of more than its request."""
    return block.get("type") not in _OWN_BLOCKS or bool(block.get("citations"))


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
        self._fetched = False
        self.ended = False

    @property
    def spoken(self) -> bool:
        return bool(self._finish)

    def whole(self, payload: Body) -> Body:
        self._start(payload)
        self._finish = str(payload.get("stop_reason") or "")
        for index, block in enumerate(payload.get("content") or ()):
            self._fetched |= _is_fetched(block)
            if block.get("type") == "text":
                visible = self._channel(index).whole(block.get("text") or "")
                if visible != block.get("text"):
                    payload = put(payload, ("content", index, "text"), visible)
            elif block.get("type") == "tool_use":
                self._calls[index] = called(block)
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

    def text_delta(self, event: Body) -> TextDelta | None:
        if event.get("type") != "content_block_delta" or (event.get("delta") or {}).get("type") != "text_delta":
            return None
        return TextDelta(("delta", "text"), self._channel(event.get("index", 0)).passes)

    def close(self) -> list[Body]:
        return [piece for index in list(self._channels) for piece in self._released(index)]

    @property
    def reply(self) -> Reply:
        channels = [self._channels[index] for index in sorted(self._channels)]
        texts = [channel.text for channel in channels]
        calls = tuple(self._call(index) for index in sorted(self._calls))
        message = Message("assistant", "\n".join(text for text in texts if text), tool_calls=calls)
        return Reply(
            messages=(message,) if texts or calls else (),
            reading=reading_of(channels),
            finish=self._finish,
            natural=self._finish in _NATURAL,
            usage=self._usage,
            response_id=str(self._message.get("id") or ""),
            model=str(self._message.get("model") or ""),
            fetched=self._fetched,
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
        self._fetched |= _is_fetched(block)
        if block.get("type") == "tool_use":
            self._calls[index] = called(block)
        if block.get("type") != "text":
            return [event]
        text = block.get("text") or ""
        visible = self._channel(index).feed(text)
        return [event if visible == text else put(event, ("content_block", "text"), visible)]

    def _block_delta(self, event: Body) -> list[Body]:
        delta, index = event.get("delta") or {}, event.get("index", 0)
        self._fetched |= delta.get("type") == "citations_delta"
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
