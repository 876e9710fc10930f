"""Cohere's chat API, version 2: requests like OpenAI's, replies of content blocks, events of its own."""

from collections.abc import Callable
from typing import Any

from ctxwrap.providers.base import TextDelta
from ctxwrap.providers.messages import set_path, tool_call
from ctxwrap.providers.openai_chat import OpenAIChat
from ctxwrap.providers.text_channel import Channel, reading_of
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.types import Body, Message, Reply, Request, TextStream

_NATURAL = frozenset({"COMPLETE", "STOP_SEQUENCE"})
_TEXT = ("delta", "message", "content", "text")


class CohereChat(OpenAIChat):
    name = "cohere_chat"
    telemetry_name = "cohere"
    reply_limits = ("max_tokens",)
    field_names = SHARED_FIELDS._replace(words=SHARED_FIELDS.words | {"safety_mode"})
    cache_key_field = cache_key_host = stored_path = ""

    def read(self, body: Body) -> Request:
        read = super().read(body)
        reason = read.no_trailer
        if body.get("tool_choice") == "REQUIRED":
            reason = "forced tool choice"
        elif body.get("logprobs"):
            reason = "log probabilities"
        return read._replace(no_trailer=reason, fetched=bool(body.get("documents")))

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "CohereRewriter":  # type: ignore[override]
        return CohereRewriter(body, streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        changed = super().ask_again(body, reply, question, reserve)
        return {**changed, "tool_choice": "NONE"} if body.get("tools") else changed


CHAT = CohereChat()


def _at(value: Any, *path: str) -> Any:
    """What is at `path`, or an empty object."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return {} if value is None else value


def _call(call: Body) -> Body:
    function = _at(call, "function")
    return tool_call(call.get("id"), function.get("name"), function.get("arguments"))


class CohereRewriter:
    """Removes the trailer from text blocks; thinking, plans and tool calls pass unchanged."""

    def __init__(self, body: Body, streams: Callable[[], TextStream]) -> None:
        self._streams = streams
        self._channels: dict[int, Channel] = {}
        self._calls: dict[int, Body] = {}
        self._id, self._finish = "", ""
        self._usage: Body = {}
        self._left_out = set[int]()
        """The indexes of citations that are left out."""
        self.fetched = bool(body.get("documents"))
        self.ended = False

    @property
    def spoken(self) -> bool:
        return self.ended

    def whole(self, payload: Body) -> Body:
        given, message = payload, _at(payload, "message")
        self._calls = {at: _call(call) for at, call in enumerate(message.get("tool_calls") or ())}
        for index, block in enumerate(message.get("content") or ()):
            if isinstance(block, dict) and block.get("type") == "text":
                visible = self._channel(index).whole(block.get("text") or "")
                if visible != block.get("text"):
                    payload = set_path(payload, ("message", "content", index, "text"), visible)
        if payload is not given and isinstance(message.get("citations"), list):
            own = [each for each in message["citations"] if self._is_visible(each)]
            payload = set_path(payload, ("message", "citations"), own)
        self._end(payload)
        self._id = str(payload.get("id") or "")
        return payload

    def event(self, event: Body) -> list[Body]:
        index, message = event.get("index", 0), _at(event, "delta", "message")
        match event.get("type"):
            case "message-start":
                self._id = str(event.get("id") or "")
            case "content-start" | "content-delta":
                return self._text(event, index)
            case "content-end":
                return [*self._released(index), event]
            case "tool-call-start":
                self._calls[index] = _call(_at(message, "tool_calls"))
            case "tool-call-delta" if index in self._calls:
                more = str(_at(message, "tool_calls", "function", "arguments") or "")
                self._calls[index] = {**self._calls[index], "arguments": self._calls[index]["arguments"] + more}
            case "citation-start" if not self._is_visible(_at(message, "citations")):
                self._left_out.add(index)
                return []
            case "citation-end" if index in self._left_out:
                return []
            case "message-end":
                held = self.close()
                self._end(_at(event, "delta"))
                return [*held, event]
        return [event]

    def text_delta(self, event: Body) -> TextDelta | None:
        if event.get("type") != "content-delta" or not isinstance(_at(event, *_TEXT), str):
            return None
        channel = self._channel(event.get("index", 0))
        return TextDelta(_TEXT, channel.passes, channel.hides)

    def close(self) -> list[Body]:
        return [event for index in list(self._channels) for event in self._released(index)]

    @property
    def reply(self) -> Reply:
        channels = [self._channels[index] for index in sorted(self._channels)]
        calls = tuple(self._calls[index] for index in sorted(self._calls))
        message = Message("assistant", "\n".join(each.text for each in channels if each.text), tool_calls=calls)
        return Reply(
            messages=(message,) if channels or calls else (),
            reading=reading_of(channels),
            finish=self._finish,
            natural=self._finish in _NATURAL,
            usage=self._usage,
            response_id=self._id,
        )

    def _end(self, ending: Body) -> None:
        self.ended, self._finish = True, str(ending.get("finish_reason") or "")
        counts = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
        tokens = _at(ending, "usage", "tokens")
        self._usage = {ours: int(tokens[name]) for ours, name in counts.items() if tokens.get(name) is not None}
        if cached := _at(ending, "usage", "cached_tokens"):
            self._usage["prompt_tokens_details"] = {"cached_tokens": int(cached)}

    def _channel(self, index: int) -> Channel:
        if index not in self._channels:
            self._channels[index] = Channel(self._streams())
        return self._channels[index]

    def _text(self, event: Body, index: int) -> list[Body]:
        text = _at(event, *_TEXT)
        if not isinstance(text, str):  # thinking
            return [event]
        visible = self._channel(index).feed(text)
        if visible == text:
            return [event]
        return [set_path(event, _TEXT, visible)] if visible or event["type"] == "content-start" else []

    def _released(self, index: int) -> list[Body]:
        channel = self._channels.get(index)
        rest = "" if channel is None or channel.closed else channel.close()
        return [{"type": "content-delta", "index": index, "delta": {"message": {"content": {"text": rest}}}}] * bool(
            rest
        )

    def _is_visible(self, citation: Body) -> bool:
        """Whether a citation is about text that the caller sees."""
        return any(str(citation.get("text") or "") in channel.text for channel in self._channels.values())
