"""Anthropic Messages: content blocks, a separate system prompt, tool results in user messages, cache breakpoints."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from ctxwrap.callers_list import read_each
from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.cache_breakpoints import with_breakpoints
from ctxwrap.providers.messages import (
    ample_limits,
    api_content,
    append_text,
    blocks_of,
    first_index,
    join_texts,
    last_index,
    log_content,
    neutral_message,
    prepend_text,
    raise_limits,
    reply_text,
    sent_messages,
    set_path,
    short_answer_options,
    tool_call,
    with_content,
)
from ctxwrap.providers.text_channel import Channel, reading_of
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import PER_MESSAGE, PER_REPLY, content_counter
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_PARTS = ("image", "document", "search_result", "container_upload")


def is_spoken(message: Body) -> bool:
    """Whether a user message has more than tool results."""
    return message.get("role") == "user" and any(map(_is_spoken_block, blocks_of(message.get("content"))))


def _is_spoken_block(block: Body) -> bool:
    return block.get("type") != "tool_result"


def insert_before_speech(content: Any, text: str, text_type: str = "text") -> list[Body]:
    """Content with `text` before its first spoken block: the API wants tool results first.

    The text is always a block of its own, since the same message may come as one text from the caller and as blocks
    from the log.
    """
    blocks = blocks_of(content or ())  # the API rejects an empty text block
    at = next((at for at, block in enumerate(blocks) if _is_spoken_block(block)), len(blocks))
    return [*blocks[:at], {"type": text_type, "text": text}, *blocks[at:]]


def log_messages(message: Body) -> list[Message]:
    """One API message as messages of the log, where each tool result is a message."""
    role = message.get("role")
    blocks = blocks_of(message.get("content"))
    results = [
        Message(
            "tool",
            log_content(block.get("content")),
            tool_call_id=str(block.get("tool_use_id") or ""),
            extra={"is_error": True} if block.get("is_error") is True else {},
        )
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = tuple(call_in(block) for block in blocks if block.get("type") == "tool_use")
    rest = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
    if rest or calls or not results:
        results.append(Message(role, log_content(rest), tool_calls=calls))  # type: ignore[arg-type]  # any role is kept
    return results


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    return {**message, "content": [_with_result(block, texts) for block in message["content"]]}


def _with_result(block: Body, texts: Mapping[str, str]) -> Body:
    is_repeated = block.get("type") == "tool_result" and block.get("tool_use_id") in texts
    return {**block, "content": texts[block["tool_use_id"]]} if is_repeated else block


def call_in(block: Body) -> Body:
    """The tool call of a `tool_use` block."""
    return tool_call(block.get("id"), block.get("name"), _dumped(block.get("input")))


def _dumped(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"), default=str)


def api_messages(history: tuple[Message, ...]) -> list[Body]:
    """Messages of the log in the API's form: tool results inside user messages, no empty content."""
    messages: list[Body] = []
    for message in history:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _api_blocks(message)
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def _api_blocks(message: Message) -> list[Body]:
    if message.role == "tool":
        failed = {"is_error": True} if message.extra.get("is_error") is True else {}
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text, **failed}]
    blocks = blocks_of(api_content(message.content, "text", _PARTS))
    blocks = [_without_breakpoint(block) for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return blocks + [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _loaded(call["arguments"])}
        for call in message.tool_calls
    ]


def _without_breakpoint(block: Body) -> Body:
    """A block without its cache breakpoint: the breakpoints of many calls together exceed the limit."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}


_NATURAL = frozenset({"end_turn", "stop_sequence"})
_OWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Blocks that the model writes itself; all others come from tools that the provider runs."""


class AnthropicMessages(ProviderAdapter):
    name = "anthropic_messages"
    telemetry_name = "anthropic"
    field_names = SHARED_FIELDS._replace(words=SHARED_FIELDS.words | {"effort", "service_tier"})

    def read(self, body: Body) -> Request:
        system = log_content(body.get("system"))
        opening = [Message("system", system)] if system else []
        messages, places = read_each(opening, body.get("messages") or (), log_messages)
        return Request(
            messages=messages,
            places=places,
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer=_no_trailer(body),
            server_history=bool(body.get("thread")),
            unseen=bool(body.get("thread")),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        messages = [
            *api_messages(injection.history),
            *sent_messages(body.get("messages") or (), injection, _with_results),
        ]
        messages = [neutral_message(message) for message in messages]
        first, newest = first_index(messages, is_spoken), last_index(messages, is_spoken)
        texts = _placed_texts(body, injection, newest >= 0)
        if newest >= 0:
            messages[first] = with_content(messages[first], insert_before_speech, texts.background)
        changed = {**body, **raise_limits(body, self.reply_limits, injection.reserve), "messages": messages}
        if not _continues(body):
            changed["system"] = append_text(prepend_text(body.get("system"), injection.protocol), texts.standing)
        if injection.breakpoints and not body.get("thread"):
            changed = with_breakpoints(changed, is_spoken)
        return _with_block(changed, newest, texts.block)

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "MessagesRewriter":
        return MessagesRewriter(streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        messages, said = list(body.get("messages") or ()), [{"type": "text", "text": reply_text(reply)}]
        if messages and messages[-1].get("role") == "assistant":  # a prefill that the reply continues
            said = [*blocks_of(messages.pop().get("content")), *said]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
        changed = {**short_answer_options(body), **ample_limits(body, self.reply_limits, reserve), "messages": messages}
        if body.get("tools"):
            changed["tool_choice"] = {"type": "none"}
        if not _continues(body):
            changed.pop("thread", None)
        return changed

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content = content_counter(counter, str(body.get("model") or ""))
        system = PER_MESSAGE + content.tokens(body["system"]) if body.get("system") else 0
        config = body.get("output_config")
        schema = body.get("output_format") or (config.get("format") if isinstance(config, Mapping) else None)
        said = system + content.messages(body.get("messages"))
        return PER_REPLY + said + content.tools(body.get("tools")) + content.schema(schema)


MESSAGES = AnthropicMessages()


def _no_trailer(body: Body) -> str:
    config = body.get("output_config") or {}
    if body.get("output_format") or (isinstance(config, dict) and config.get("format")):
        return "structured output"
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        return "forced tool choice"
    return ""


def _continues(body: Body) -> bool:
    """Whether the provider stores the thread, with the system prompt and the protocol in it."""
    return (body.get("thread") or {}).get("type") == "continue"


def _placed_texts(body: Body, injection: Injection, spoken: bool) -> Injection:
    """`injection` with its texts moved to fields that `body` has a place for."""
    standing, background, block = injection.standing, injection.background, injection.block
    if _continues(body):
        return injection._replace(standing="", background="", block=join_texts(standing, background, block))
    return injection if spoken else injection._replace(standing=join_texts(standing, background), background="")


def _with_block(body: Body, newest: int, block: str) -> Body:
    """`body` with the changing block after the newest user message or, without one, after the system prompt."""
    if newest >= 0:
        body["messages"][newest] = with_content(body["messages"][newest], append_text, block)
    elif not _continues(body):
        body["system"] = append_text(body["system"], block)
    return body


def _is_fetched(block: Body) -> bool:
    """Whether a block shows that the provider fetched something for the reply."""
    return block.get("type") not in _OWN_BLOCKS or bool(block.get("citations"))


class MessagesRewriter:
    """Removes the trailer from text blocks; thinking, signatures and tool use pass unchanged."""

    def __init__(self, streams: Callable[[], TextStream]) -> None:
        self._streams = streams
        self._channels: dict[int, Channel] = {}
        self._calls: dict[int, Body] = {}
        self._inputs: dict[int, list[str]] = {}
        self._message: Body = {}
        self._finish = ""
        self._usage: Body = {}
        self.fetched = False
        self.ended = False

    @property
    def spoken(self) -> bool:
        return bool(self._finish)

    def whole(self, payload: Body) -> Body:
        self._start(payload)
        self._finish = str(payload.get("stop_reason") or "")
        for index, block in enumerate(payload.get("content") or ()):
            self.fetched |= _is_fetched(block)
            if block.get("type") == "text":
                visible = self._channel(index).whole(block.get("text") or "")
                if visible != block.get("text"):
                    payload = set_path(payload, ("content", index, "text"), visible)
            elif block.get("type") == "tool_use":
                self._calls[index] = call_in(block)
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
        channel = self._channel(event.get("index", 0))
        return TextDelta(("delta", "text"), channel.passes, channel.hides)

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
        self.fetched |= _is_fetched(block)
        if block.get("type") == "tool_use":
            self._calls[index] = call_in(block)
        if block.get("type") != "text":
            return [event]
        text = block.get("text") or ""
        visible = self._channel(index).feed(text)
        return [event if visible == text else set_path(event, ("content_block", "text"), visible)]

    def _block_delta(self, event: Body) -> list[Body]:
        delta, index = event.get("delta") or {}, event.get("index", 0)
        self.fetched |= delta.get("type") == "citations_delta"
        if delta.get("type") == "input_json_delta":
            self._inputs.setdefault(index, []).append(delta.get("partial_json") or "")
        if delta.get("type") != "text_delta":
            return [event]
        text = delta.get("text") or ""
        visible = self._channel(index).feed(text)
        if visible == text:
            return [event]
        return [set_path(event, ("delta", "text"), visible)] if visible else []

    def _released(self, index: int) -> list[Body]:
        channel = self._channels.get(index)
        rest = "" if channel is None or channel.closed else channel.close()
        return [self._text_event(index, rest)] if rest else []

    def _text_event(self, index: int, text: str) -> Body:
        return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
