"""Anthropic Messages: content blocks, a separate system prompt, tool results in user messages, cache breakpoints."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import (
    extended,
    first_index,
    joined,
    kept,
    last_index,
    neutral_message,
    plain,
    preceded,
    set_path,
    spelled,
    tool_call,
    with_content,
)
from ctxwrap.providers.options import as_it_came, one_short_answer, raised_limits, roomy_limits
from ctxwrap.providers.text_channel import Channel, reading_of
from ctxwrap.redaction.redactor import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import PER_MESSAGE, PER_REPLY, ContentCounter
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_PARTS = ("image", "document", "search_result", "container_upload")


def blocks_of(content: Any) -> list[Body]:
    """Content as blocks, in which form the API sees a text, too."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def is_spoken(message: Body) -> bool:
    """A user message that says something, not only the results of tools."""
    return message.get("role") == "user" and any(map(_says, blocks_of(message.get("content"))))


def _says(block: Body) -> bool:
    return block.get("type") != "tool_result"


def opened(content: Any, text: str, text_type: str = "text") -> list[Body]:
    """Content with `text` before what is said in it: the results of tools must come first.

    A block of its own in any case: a message that comes from the log is in blocks where the caller's was one text.
    """
    blocks = blocks_of(content or ())  # an empty text is no block
    at = next((at for at, block in enumerate(blocks) if _says(block)), len(blocks))
    return [*blocks[:at], {"type": text_type, "text": text}, *blocks[at:]]


def split(message: Body) -> list[Message]:
    """One message of the API as the messages of the log: results of tools stand for themselves there."""
    role = message.get("role")
    blocks = blocks_of(message.get("content"))
    results = [
        Message(
            "tool",
            plain(block.get("content")),
            tool_call_id=str(block.get("tool_use_id") or ""),
            extra={"is_error": True} if block.get("is_error") is True else {},
        )
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    calls = tuple(called(block) for block in blocks if block.get("type") == "tool_use")
    rest = [block for block in blocks if block.get("type") not in ("tool_result", "tool_use")]
    if rest or calls or not results:
        results.append(Message(role, plain(rest), tool_calls=calls))  # type: ignore[arg-type]  # as it was given
    return results


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    return {**message, "content": [_with_result(block, texts) for block in message["content"]]}


def _with_result(block: Body, texts: Mapping[str, str]) -> Body:
    is_repeated = block.get("type") == "tool_result" and block.get("tool_use_id") in texts
    return {**block, "content": texts[block["tool_use_id"]]} if is_repeated else block


def called(block: Body) -> Body:
    """The call in a block of type `tool_use`."""
    return tool_call(block.get("id"), block.get("name"), _dumped(block.get("input")))


def _dumped(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"), default=str)


def merged(history: tuple[Message, ...]) -> list[Body]:
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
        failed = {"is_error": True} if message.extra.get("is_error") is True else {}
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text, **failed}]
    blocks = blocks_of(spelled(message.content, "text", _PARTS))
    blocks = [_unmarked(block) for block in blocks if block.get("type") != "text" or block["text"].strip()]
    return blocks + [
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": _loaded(call["arguments"])}
        for call in message.tool_calls
    ]


def _unmarked(block: Body) -> Body:
    """A mark was meant for the call that it came with; those of many calls would be too many."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}


_MOST = 4
"""A request with more marks is refused."""

_LOOK_BACK = 20
"""How many blocks the provider goes back from a mark, to find what an earlier call had cached."""

_MARKABLE = frozenset({"image", "document", "search_result", "tool_use", "server_tool_use", "mcp_tool_use"})

_TOOLS, _SYSTEM, _MESSAGES, _WHOLE = range(4)

JsonPath = tuple[int, ...]
"""Where a block stands in the order that the provider goes by: part of the request, message, block, inner block."""


def with_breakpoints(body: Body) -> Body:
    """`body`, in which nothing changes with every call yet, with marks at its places of most use.

    The caller's marks stay as they are. A mark of ours lasts five minutes, and none that lasts longer may follow it.
    """
    callers = list(_marks(body))
    lasting = max((place for place, ttl in callers if ttl == "1h"), default=())
    marked = {place for place, _ in callers}
    places = [place for place in _wanted(body) if place > lasting and place not in marked]
    for place in places[: max(0, _MOST - len(callers))]:
        body = _with_mark(body, place)
    return body


def _marks(body: Body) -> Iterator[tuple[JsonPath, Any]]:
    """Where the caller's marks are and how long they last; one for the whole request is put behind all others."""
    yield from _marks_in(body.get("tools"), (_TOOLS,))
    yield from _marks_in(body.get("system"), (_SYSTEM,))
    for at, message in enumerate(body["messages"]):
        yield from _marks_in(message.get("content"), (_MESSAGES, at))
    yield from _marks_in([{"cache_control": body.get("cache_control")}], (_WHOLE,))


def _marks_in(blocks: Any, place: JsonPath) -> Iterator[tuple[JsonPath, Any]]:
    """The marks of blocks and of those inside of them, such as what a tool gave back."""
    for at, block in enumerate(blocks if isinstance(blocks, (list, tuple)) else ()):
        if not isinstance(block, dict):
            continue
        mark, source = block.get("cache_control"), block.get("source")
        if mark:
            yield (*place, at), mark.get("ttl") if isinstance(mark, dict) else None
        yield from _marks_in(block.get("content"), (*place, at))
        yield from _marks_in(source.get("content") if isinstance(source, dict) else None, (*place, at))


def _wanted(body: Body) -> list[JsonPath]:
    """The places of most use first: the system prompt, what was said before, and the newest message's own text."""
    messages: list[Body] = body["messages"]
    newest = last_index(messages, is_spoken)
    system = _last_markable(blocks_of(body.get("system")), (_SYSTEM,))
    if newest < 0:
        return system
    return [*system, *_end_before(messages, newest), *_end_of(messages, newest), *_out_of_sight(messages, newest)]


def _end_before(messages: list[Body], end: int) -> list[JsonPath]:
    ends = (_end_of(messages, at) for at in range(end - 1, -1, -1))
    return next(filter(None, ends), [])


def _out_of_sight(messages: list[Body], newest: int) -> list[JsonPath]:
    """What the last call was cached up to, if so much happened since then that nobody would look for it there."""
    before = last_index(messages[:newest], is_spoken)
    since = sum(len(_content(message)) for message in messages[before + 1 : newest])
    return _end_of(messages, before) if before >= 0 and since >= _LOOK_BACK else []


def _end_of(messages: list[Body], at: int) -> list[JsonPath]:
    return _last_markable(_content(messages[at]), (_MESSAGES, at))


def _last_markable(blocks: list[Body], place: JsonPath) -> list[JsonPath]:
    """The place of the last of `blocks` that may have a mark, if one may."""
    return [(*place, at) for at, block in enumerate(blocks) if _is_markable(block)][-1:]


def _is_markable(block: Body) -> bool:
    """Thoughts and empty texts may have no mark, and nor may what is yet to be invented."""
    kind = str(block.get("type"))
    if kind == "text":
        return bool(str(block.get("text") or "").strip())
    return kind in _MARKABLE or kind.endswith("tool_result")


def _content(message: Body) -> list[Body]:
    return blocks_of(message.get("content"))


def _with_mark(body: Body, place: JsonPath) -> Body:
    part, *inner, at = place
    path: tuple[str | int, ...] = ("system",) if part == _SYSTEM else ("messages", inner[0], "content")
    holder: Any = body
    for step in path:
        holder = holder[step]
    blocks = blocks_of(holder)
    blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral"}}
    return set_path(body, path, blocks)


_NATURAL = frozenset({"end_turn", "stop_sequence"})
_OWN_BLOCKS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""What the model itself says or asks for; every other block tells of something that the provider ran or fetched."""


class AnthropicMessages(ProviderAdapter):
    name = "anthropic_messages"
    telemetry_name = "anthropic"
    field_names = SHARED_FIELDS._replace(words=SHARED_FIELDS.words | {"effort", "service_tier"})

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
        messages = [*merged(injection.history), *kept(body.get("messages") or (), injection, _with_results)]
        messages = [neutral_message(message) for message in messages]
        first, newest = first_index(messages, is_spoken), last_index(messages, is_spoken)
        texts = _arranged(body, injection, newest >= 0)
        if newest >= 0:
            messages[first] = with_content(messages[first], opened, texts.background)
        changed = {**body, **raised_limits(body, self.reply_limits, injection.reserve), "messages": messages}
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
        changed = {**one_short_answer(body), **roomy_limits(body, self.reply_limits, reserve), "messages": messages}
        if body.get("tools"):
            changed["tool_choice"] = {"type": "none"}
        if not _continues(body):
            changed.pop("thread", None)
        return changed

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content = ContentCounter(counter, str(body.get("model") or ""))
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
                    payload = set_path(payload, ("content", index, "text"), visible)
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
        return [event if visible == text else set_path(event, ("content_block", "text"), visible)]

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
        return [set_path(event, ("delta", "text"), visible)] if visible else []

    def _released(self, index: int) -> list[Body]:
        channel = self._channels.get(index)
        rest = "" if channel is None or channel.closed else channel.close()
        if not rest:
            return []
        return [{"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": rest}}]
