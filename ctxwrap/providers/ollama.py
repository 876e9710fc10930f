"""Ollama's own chat API: lines of JSON instead of server-sent events, arguments that are objects, calls without ids."""

import json
import re
from collections import Counter as Times
from collections.abc import Callable, Mapping
from typing import Any

from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import (
    ample_limits,
    id_of_call,
    is_user,
    join_texts,
    leading_operators,
    neutral_message,
    raise_limits,
    reply_text,
    sent_messages,
    tool_call,
    with_injected_texts,
)
from ctxwrap.providers.openai_chat import with_instructions
from ctxwrap.providers.text_channel import Channel
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import ContentCounter, messages_tokens
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_LIMIT = "num_predict"
_IMAGE = re.compile(r"data:image/[\w.+-]{1,64};base64,")
_ANSWER_OPTIONS = frozenset({"stop", "num_predict"})


def _message(message: Body, results: Times[str]) -> Message:
    """A message of the log; `results` counts the tool results directly before it."""
    role, text = str(message.get("role")), str(message.get("content") or "")
    name = str(message.get("tool_name") or message.get("name") or "")
    if role == "tool":
        return Message("tool", text, name=name, tool_call_id=id_of_call(message.get("tool_call_id"), name, results))
    pictures = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        for image in message.get("images") or ()
    ]
    content = [*([{"type": "text", "text": text}] if text else []), *pictures] if pictures else text
    return Message(role, content, tool_calls=_calls(message))  # type: ignore[arg-type]  # an unknown role is kept


def _messages(messages: list[Body]) -> list[Message]:
    read, results = list[Message](), Times[str]()
    for message in messages:
        if message.get("role") != "tool":
            results.clear()
        read.append(_message(message, results))
    return read


def _calls(message: Body) -> tuple[Body, ...]:
    calls, times = list[Body](), Times[str]()
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        name, given = str(function.get("name") or ""), function.get("arguments")
        arguments = (
            given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, separators=(",", ":"))
        )
        calls.append(tool_call(id_of_call(call.get("id"), name, times), name, arguments))
    return tuple(calls)


def _api_message(message: Message) -> Body:
    made: Body = {"role": message.role, "content": message.text}
    if message.role == "tool":
        made["tool_name"] = message.name or message.tool_call_id
    if isinstance(message.content, list):
        urls = [str((part.get("image_url") or {}).get("url") or "") for part in message.content]
        if images := [url[found.end() :] for url in urls if (found := _IMAGE.match(url))]:
            made["images"] = images
    if message.tool_calls:
        made["tool_calls"] = [
            {"function": {"name": call["name"], "arguments": _loaded(call["arguments"])}} for call in message.tool_calls
        ]
    return made


def _loaded(arguments: str) -> Any:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    return {**message, "content": next(iter(texts.values()))}


class OllamaChat(ProviderAdapter):
    name = "ollama_chat"
    telemetry_name = "ollama"
    reply_limits = (_LIMIT,)
    field_names = SHARED_FIELDS._replace(
        words=SHARED_FIELDS.words | {"think", "keep_alive"}, encoded=SHARED_FIELDS.encoded | {"images"}
    )

    def read(self, body: Body) -> Request:
        messages = _messages(body.get("messages") or [])
        return Request(
            messages=tuple(messages),
            places=tuple(range(len(messages))),
            model=str(body.get("model") or ""),
            stream=body.get("stream") is not False,
            no_trailer="structured output"
            if body.get("format")
            else "log probabilities"
            if body.get("logprobs")
            else "",
            no_context="" if messages else "a request that only loads the model",
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        messages = sent_messages(body.get("messages") or (), injection, _with_results)
        own = leading_operators(messages)
        messages[own:own] = [_api_message(message) for message in injection.history]
        messages = [neutral_message(message) for message in messages]
        messages, rest = with_injected_texts(messages, injection, is_user, "text")
        changed = {
            **body,
            "messages": with_instructions(messages, injection.protocol, join_texts(injection.standing, rest)),
        }
        if self.reply_limit(body):
            changed["options"] = {**body["options"], **raise_limits(body["options"], (_LIMIT,), injection.reserve)}
        return changed

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "OllamaRewriter":
        return OllamaRewriter(Channel(streams()))

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        messages, said = list(body.get("messages") or ()), reply_text(reply)
        if messages and messages[-1].get("role") == "assistant":  # a prefill that the reply continues
            said = str(messages.pop().get("content") or "") + said
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
        changed = {name: value for name, value in body.items() if name != "tools"} | {"messages": messages}
        options = {name: value for name, value in (body.get("options") or {}).items() if name not in _ANSWER_OPTIONS}
        if self.reply_limit(body):
            options |= ample_limits(body["options"], (_LIMIT,), reserve)
        return {**changed, **({"options": options} if options else {}), "stream": False}

    def request_tokens(self, body: Body, counter: Counter) -> int:
        model = str(body.get("model") or "")
        content = ContentCounter(counter, model)
        said = messages_tokens(_messages(body.get("messages") or []), counter, model)
        return said + content.tools(body.get("tools")) + content.schema(body.get("format"))

    def reply_limit(self, body: Body) -> int | None:
        """The limit; a negative one means none."""
        limit = super().reply_limit(body.get("options") or {})
        return limit if limit is not None and limit > 0 else None


CHAT = OllamaChat()


class OllamaRewriter:
    """Removes the trailer from the content; thinking and tool calls pass unchanged."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls: list[Body] = []
        self._newest: Body = {}
        self.ended = self.fetched = False

    @property
    def spoken(self) -> bool:
        return self.ended

    def whole(self, payload: Body) -> Body:
        return self._taken(payload, is_last=True)

    def event(self, event: Body) -> list[Body]:
        shown = self._taken(event, is_last=bool(event.get("done")))
        is_empty = shown is not event and not event.get("done") and not any(_beside_role(shown["message"]))
        return [] if is_empty else [shown]

    def text_delta(self, event: Body) -> TextDelta | None:
        """None: every event has another time, so that none is a template for the next."""

    def close(self) -> list[Body]:
        rest = "" if self._channel.closed else self._channel.close()
        if not rest:
            return []
        head: Body = {name: self._newest[name] for name in ("model", "created_at") if name in self._newest}
        return [{**head, "message": {"role": "assistant", "content": rest}, "done": False}]

    @property
    def reply(self) -> Reply:
        finish = str(self._newest.get("done_reason") or "")
        counts = {"prompt_tokens": "prompt_eval_count", "completion_tokens": "eval_count"}
        calls = _calls({"tool_calls": self._calls})
        is_begun = bool(self._newest)
        return Reply(
            messages=(Message("assistant", self._channel.text, tool_calls=calls),) if is_begun else (),
            reading=self._channel.reading if self._channel.closed else None,
            finish=finish,
            natural=finish == "stop" and not calls,
            usage={
                ours: self._newest[name] for ours, name in counts.items() if isinstance(self._newest.get(name), int)
            },
            model=str(self._newest.get("model") or ""),
        )

    def _taken(self, payload: Body, *, is_last: bool) -> Body:
        self._newest, self.ended = payload, is_last
        message = payload.get("message") or {}
        self._calls += message.get("tool_calls") or ()
        text = message.get("content") or ""
        visible = self._channel.feed(text)
        if is_last and not self._channel.closed:
            visible += self._channel.close()
        return payload if visible == text else {**payload, "message": {**message, "content": visible}}


def _beside_role(message: Body) -> list[Any]:
    return [value for name, value in message.items() if name != "role"]
