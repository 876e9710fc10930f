"""Bedrock's `converse`, as boto3 takes and gives it: blocks with one key that names them, bytes that are not encoded.

Blocks are read and written as those of Anthropic's API, which has the same kinds.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, Self

from ctxwrap.callers_list import read_each
from ctxwrap.providers.anthropic import MessagesRewriter, api_messages, call_in, log_messages
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.providers.messages import (
    ample_limits,
    first_index,
    is_user,
    join_texts,
    last_index,
    neutral_message,
    raise_limits,
    reply_text,
    sent_messages,
    set_path,
)
from ctxwrap.providers.text_channel import Channel
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import PER_MESSAGE, PER_REPLY, ContentCounter
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_CONFIG, _FIELDS, _LIMITS = "inferenceConfig", "additionalModelRequestFields", ("maxTokens",)
_THINKING = frozenset({"thinking", "reasoning_config", "reasoningConfig"})
"""Fields by which models are told to think before they answer."""
_IMAGE = "image/"
_DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_FORMATS = {media_type: name for name, media_type in _DOCUMENTS.items()}
_OWN_BLOCKS = frozenset({"text", "toolUse", "reasoningContent", "image"})
"""Blocks that the model writes itself; all others show what the provider fetched or ran."""
_USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheWriteInputTokens": "cache_creation_input_tokens",
}


def _named(block: Body) -> tuple[str, Any]:
    """The name and the value of a block, of which the API wants one."""
    return next(((name, value) for name, value in block.items() if value is not None), ("", {}))


def _texts(blocks: Iterable[Body]) -> str:
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _log_block(block: Body) -> Body | None:
    """A block in Anthropic's form; None for one that is no content."""
    name, value = _named(block)
    match name:
        case "text":
            return {"type": "text", "text": value}
        case "toolUse":
            return {"type": "tool_use", "id": value["toolUseId"], "name": value["name"], "input": value["input"]}
        case "toolResult":
            failed = {"is_error": True} if value.get("status") == "error" else {}
            return {
                "type": "tool_result",
                "tool_use_id": value["toolUseId"],
                "content": _log_blocks(value["content"]),
                **failed,
            }
        case "guardContent":
            return {"type": "text", "text": value["text"]["text"]} if "text" in value else _log_block(value)
        case "citationsContent":
            return {"type": "text", "text": _texts(value.get("content") or ())}
        case "reasoningContent":
            return {"type": "thinking", "thinking": (value.get("reasoningText") or {}).get("text") or ""}
        case "cachePoint":
            return None
    return _media(name, value) or {"type": name, name: _plain(value)}


def _media(name: str, value: Any) -> Body | None:
    """An image or a document that the request holds."""
    data = (value.get("source") or {}).get("bytes") if name in ("image", "document") else None
    if not isinstance(data, (bytes, bytearray)):
        return None
    kind = str(value.get("format") or "")
    media_type, title = (_IMAGE + kind, {}) if name == "image" else (_DOCUMENTS.get(kind, ""), {"title": value["name"]})
    source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
    return {"type": name, "source": source, **title}


def _plain(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value


def _api_block(block: Body, has_tools: bool) -> Body:
    """A block of the history. The API takes calls and results only in requests that have tools."""
    source = block.get("source") or {}
    match block.get("type"):
        case "text":
            return {"text": block["text"]}
        case "tool_use" if has_tools:
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case "tool_use":
            return {"text": f"[called {block['name']}: {call_in(block)['arguments']}]"}
        case "tool_result" if has_tools:
            failed = {"status": "error"} if block.get("is_error") else {}
            return {"toolResult": {"toolUseId": block["tool_use_id"], "content": _text(block["content"]), **failed}}
        case "tool_result":
            return {"text": f"[result: {block['content']}]"}
        case "image" if source.get("type") == "base64" and str(source.get("media_type")).startswith(_IMAGE):
            return {"image": {"format": source["media_type"].removeprefix(_IMAGE), **_bytes(source)}}
        case "document" if source.get("type") == "base64" and source.get("media_type") in _FORMATS:
            name = str(block.get("title") or "document")
            return {"document": {"format": _FORMATS[source["media_type"]], "name": name, **_bytes(source)}}
    return {"text": f"[{block.get('type')}]"}


def _bytes(source: Body) -> Body:
    return {"source": {"bytes": b64decode(source["data"])}}


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    """`message` with other texts for its tool results."""

    def changed(block: Body) -> Body:
        text = texts.get(str((block.get("toolResult") or {}).get("toolUseId")))
        return block if text is None else {"toolResult": {**block["toolResult"], "content": _text(text)}}

    return {**message, "content": list(map(changed, message["content"]))}


def _log_blocks(blocks: Iterable[Body] | None) -> list[Body]:
    return list(filter(None, map(_log_block, blocks or ())))


def _translated(message: Body) -> Body:
    """A message with blocks in Anthropic's form."""
    return {**message, "content": _log_blocks(message["content"])}


def _log_messages(message: Body) -> list[Message]:
    return log_messages(_translated(message))


def _text(text: str) -> list[Body]:
    return [{"text": text}] if text else []


def _is_spoken(message: Body) -> bool:
    return is_user(message) and any(map(_is_spoken_block, message["content"]))


def _is_spoken_block(block: Body) -> bool:
    return "toolResult" not in block and "cachePoint" not in block


def _with_texts(message: Body, before: str = "", after: str = "") -> Body:
    """`message` with a text before its first block that is no result of a tool, and one after its last block."""
    blocks = message["content"]
    at = first_index(list(blocks), _is_spoken_block)
    return {**message, "content": [*blocks[:at], *_text(before), *blocks[at:], *_text(after)]}


def _taking_turns(messages: list[Body]) -> list[Body]:
    """`messages` in which the roles take turns, as the API wants it."""
    made: list[Body] = []
    for message in messages:
        if made and made[-1]["role"] == message["role"]:
            made[-1] = {**message, "content": [*made[-1]["content"], *message["content"]]}
        else:
            made.append(message)
    return made


class BedrockConverse(ProviderAdapter):
    name = "bedrock_converse"
    telemetry_name = "aws.bedrock"
    reply_limits = _LIMITS
    field_names = SHARED_FIELDS._replace(
        words=SHARED_FIELDS.words | {"modelId", "latency", "ttl"},
        ids=SHARED_FIELDS.ids | {"toolUseId", "guardrailIdentifier"},
        signed=SHARED_FIELDS.signed | {"reasoningText"},
    )
    _stream = False

    def at(self, path: str, query: str) -> Self:
        called = copy(self)
        called._stream = path.endswith("-stream")
        return called

    def read(self, body: Body) -> Request:
        system = _texts(_log_blocks(body.get("system")))
        opening = [Message("system", system)] if system else []
        messages, places = read_each(opening, body.get("messages") or (), _log_messages)
        return Request(
            messages=messages,
            places=places,
            model=str(body.get("modelId") or ""),
            stream=self._stream,
            no_trailer=_no_trailer(body),
            no_context="a prompt that Bedrock holds" if ":prompt/" in str(body.get("modelId")) else "",
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        has_tools = bool(body.get("toolConfig"))
        history = [
            {**message, "content": [_api_block(block, has_tools) for block in message["content"]]}
            for message in api_messages(injection.history)
        ]
        messages = [*history, *sent_messages(body.get("messages") or (), injection, _with_results)]
        messages = _taking_turns([neutral_message(message) for message in messages])
        first, newest = first_index(messages, _is_spoken), last_index(messages, _is_spoken)
        rest = join_texts(injection.background, injection.block) if newest < 0 else ""
        if newest >= 0:
            messages[first] = _with_texts(messages[first], before=injection.background)
            messages[newest] = _with_texts(messages[newest], after=injection.block)
        after = join_texts(injection.standing, rest)
        system = [*_text(injection.protocol), *(body.get("system") or ()), *_text(after)]
        changed = {**body, "messages": messages, **({"system": system} if system else {})}
        if limits := raise_limits(body.get(_CONFIG) or {}, _LIMITS, injection.reserve):
            changed[_CONFIG] = {**body[_CONFIG], **limits}
        return changed

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "ConverseRewriter":
        return ConverseRewriter(streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        said = (("assistant", reply_text(reply)), ("user", question))
        asked = [{"role": role, "content": _text(text)} for role, text in said]
        changed = {**body, "messages": _taking_turns([*(body.get("messages") or ()), *asked])}
        config = {name: value for name, value in (body.get(_CONFIG) or {}).items() if name != "stopSequences"}
        parts = {
            _CONFIG: {**config, **ample_limits(config, _LIMITS, reserve)},
            _FIELDS: _without(body.get(_FIELDS), *_THINKING),
            "guardrailConfig": _without(body.get("guardrailConfig"), "streamProcessingMode"),
            "toolConfig": _without(body.get("toolConfig"), "toolChoice"),
        }
        return _without(changed, *parts) | {name: part for name, part in parts.items() if part}

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content = ContentCounter(counter, str(body.get("modelId") or ""))
        system = PER_MESSAGE + content.tokens(_log_blocks(body["system"])) if body.get("system") else 0
        said = system + content.messages(list(map(_translated, body.get("messages") or ())))
        return PER_REPLY + said + content.tools((body.get("toolConfig") or {}).get("tools"))

    def reply_limit(self, body: Body) -> int | None:
        return super().reply_limit(body.get(_CONFIG) or {})


def _without(value: Any, *names: str) -> Body:
    return {name: each for name, each in (value or {}).items() if name not in names}


def _no_trailer(body: Body) -> str:
    if (body.get("outputConfig") or {}).get("textFormat"):
        return "structured output"
    choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
    return "forced tool choice" if "any" in choice or "tool" in choice else ""


CONVERSE = BedrockConverse()


def _texts_in(block: Body) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The texts that a block of a reply shows, and where they are."""
    if isinstance(block.get("text"), str):
        yield ("text",), block["text"]
    for at, cited in enumerate((block.get("citationsContent") or {}).get("content") or ()):
        if isinstance(cited.get("text"), str):
            yield ("citationsContent", "content", at, "text"), cited["text"]


class ConverseRewriter(MessagesRewriter):
    """Removes the trailer from text blocks; reasoning and calls pass unchanged."""

    def whole(self, payload: Body) -> Body:
        self._finish = str(payload.get("stopReason") or "")
        self._message = {"id": (payload.get("ResponseMetadata") or {}).get("RequestId")}
        blocks = ((payload.get("output") or {}).get("message") or {}).get("content") or ()
        for index, block in enumerate(blocks):
            self._note(block)
            if "toolUse" in block:
                self._calls[index] = call_in(_log_block(block) or {})
            for path, text in _texts_in(block):
                visible = self._channel(len(self._channels)).whole(text)
                if visible != text:
                    payload = set_path(payload, ("output", "message", "content", index, *path), visible)
        return self._end(payload, payload)

    def event(self, event: Body) -> list[Body]:
        name, value = _named(event)
        index = value.get("contentBlockIndex", 0)
        match name:
            case "contentBlockStart":
                start = value.get("start") or {}
                self._note(start)
                if "toolUse" in start:
                    self._calls[index] = call_in(_log_block({"toolUse": {"input": {}, **start["toolUse"]}}) or {})
            case "contentBlockDelta":
                return self._delta(event, index, value.get("delta") or {})
            case "contentBlockStop":
                return [*self._released(index), event]
            case "messageStop":
                self._finish = str(value.get("stopReason") or "")
                return [*self.close(), event]
            case "metadata":
                return [self._end(event, value, "metadata")]
        return [event]

    def _note(self, block: Body) -> None:
        server = (block.get("toolUse") or {}).get("type") == "server_tool_use"
        self.fetched |= server or not _OWN_BLOCKS.issuperset(block)

    def _delta(self, event: Body, index: int, delta: Body) -> list[Body]:
        self._note(delta)
        if "toolUse" in delta:
            self._inputs.setdefault(index, []).append(delta["toolUse"].get("input") or "")
        if "text" not in delta:
            return [event]
        visible = self._channel(index).feed(delta["text"])
        if visible == delta["text"]:
            return [event]
        return [set_path(event, ("contentBlockDelta", "delta", "text"), visible)] if visible else []

    def _text_event(self, index: int, text: str) -> Body:
        return {"contentBlockDelta": {"delta": {"text": text}, "contentBlockIndex": index}}

    def _end(self, payload: Body, ending: Body, *path: str) -> Body:
        """`payload`, whose end is at `path`, with a trace without the trailer."""
        self.ended = True
        counts = ending.get("usage") or {}
        self._usage = {ours: counts[name] for name, ours in _USAGE.items() if counts.get(name) is not None}
        outputs = ((ending.get("trace") or {}).get("guardrail") or {}).get("modelOutput")
        if not outputs:
            return payload
        shown = [Channel(self._streams()).whole(text) for text in outputs]
        return payload if shown == outputs else set_path(payload, (*path, "trace", "guardrail", "modelOutput"), shown)
