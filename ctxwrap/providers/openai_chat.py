"""OpenAI Chat Completions: the API that most providers offer and litellm maps the others to."""

from collections.abc import Callable, Mapping
from typing import Any

from ctxwrap.callers_list import read_each, values_of
from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import (
    CACHE_KEY_FIELD,
    ample_limits,
    api_content,
    append_text,
    is_user,
    join_texts,
    leading_operators,
    log_content,
    neutral_message,
    prepend_text,
    raise_limits,
    reply_text,
    sent_messages,
    set_path,
    short_answer_options,
    tool_call,
    unknown_keys,
    with_content,
    with_injected_texts,
)
from ctxwrap.providers.text_channel import Channel
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import PER_REPLY, as_list, content_counter
from ctxwrap.types import Body, Injection, Message, Reply, Request, Role, TextStream

_ROLES: dict[str, Role] = {"developer": "system", "function": "tool"}
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "annotations", "audio"})
_PARTS = ("image_url", "input_audio", "file", "refusal")
_OWN_TOOLS = ("function", "custom", None)
"""Types of tools that the caller runs."""
_SEARCHES = frozenset({"web_search_options", "search_parameters", "plugins", "data_sources"})
"""Options that let a provider search before it answers, which the reply need not show."""
_FOUND = frozenset(
    {"annotations", "citations", "context", "executed_tools", "search_results", "web_search_results"}
    | {"vertex_ai_grounding_metadata", "server_tool_use"}
)
"""Fields in which a reply shows what the provider searched."""
_BESIDE = "provider_specific_fields"
"""Where litellm puts fields that the API does not have."""
_SHOWING = _FOUND | {_BESIDE}
_SHAPING = frozenset({"response_format", "modalities", "tool_choice"})
"""Options that may leave no room for a trailer."""
_DEFINING = frozenset({"tools", "functions", "response_format"})
"""Fields beside the messages that the model reads."""


class OpenAIAdapter(ProviderAdapter):
    """What OpenAI's APIs have in common."""

    field_names = SHARED_FIELDS._replace(
        words=SHARED_FIELDS.words | {"effort", "reasoning_effort", "service_tier", "truncation", "verbosity"},
        ids=SHARED_FIELDS.ids | {"previous_response_id", "user", "safety_identifier", CACHE_KEY_FIELD},
    )
    cache_key_field = CACHE_KEY_FIELD
    cache_key_host = "api.openai.com"


class OpenAIChat(OpenAIAdapter):
    name = "openai_chat"
    reply_limits: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    stored_path = "chat/completions(?:/[^/]+(?:/messages)?)?"

    def read(self, body: Body) -> Request:
        items = body.get("messages") or ()
        messages, places = read_each((), items, _log_messages)
        return Request(
            messages=messages,
            places=places,
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer="" if _SHAPING.isdisjoint(body) else _no_trailer(body),
            fetched=any(values_of(items, _is_fetched)),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        messages = sent_messages(body.get("messages") or (), injection, _with_results)
        own = leading_operators(messages)
        messages[own:own] = map(_api_message, injection.history)
        messages, rest = with_injected_texts(list(map(neutral_message, messages)), injection, is_user, "text")
        return {
            **body,
            **raise_limits(body, self.reply_limits, injection.reserve),
            **self.cache_key_in(body),
            "messages": with_instructions(messages, injection.protocol, join_texts(injection.standing, rest)),
        }

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "ChatRewriter":
        return ChatRewriter(body, streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        messages, said = list(body.get("messages") or ()), reply_text(reply)
        if messages and messages[-1].get("role") == "assistant":  # a prefill that the reply continues
            said = _log_messages(messages.pop())[0].text + said
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": question}]
        changed = {**short_answer_options(body), **ample_limits(body, self.reply_limits, reserve), "messages": messages}
        if body.get("functions"):
            changed["function_call"] = "none"
        if body.get("store"):  # metadata requires store
            changed = {name: value for name, value in changed.items() if name not in ("store", "metadata")}
        return changed

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content = content_counter(counter, str(body.get("model") or ""))
        tokens = PER_REPLY + content.messages(body.get("messages"))
        if not _DEFINING.isdisjoint(body):
            tokens += content.tools(as_list(body.get("tools")) + as_list(body.get("functions")))
            tokens += content.schema(body.get("response_format"))
        return tokens


CHAT = OpenAIChat()


def _no_trailer(body: Body) -> str:
    wanted = body.get("response_format")
    if isinstance(wanted, type) or (isinstance(wanted, dict) and wanted.get("type") in ("json_object", "json_schema")):
        return "structured output"
    if "audio" in (body.get("modalities") or ()):
        return "audio output"
    if body.get("tool_choice") in ("required", "any") or isinstance(body.get("tool_choice"), dict):
        return "forced tool choice"
    return ""


def with_instructions(messages: list[Body], protocol: str, standing: str) -> list[Body]:
    """`messages` whose system prompt begins with `protocol` and ends with `standing`.

    The number of system messages stays the same, or becomes one: many providers accept only one.
    """
    own = leading_operators(messages)
    if not own:
        return [{"role": "system", "content": join_texts(protocol, standing)}, *messages]
    prompt = [with_content(messages[0], prepend_text, protocol), *messages[1:own]]
    prompt[-1] = with_content(prompt[-1], append_text, standing)
    return [*prompt, *messages[own:]]


def _log_messages(message: Body) -> tuple[Message]:
    role, content = str(message.get("role")), message.get("content")
    if not isinstance(content, str):
        content = log_content(content)
    if len(message) == 2 and content:
        return (Message(_ROLES.get(role, role), content),)  # type: ignore[arg-type]  # the fast path for most messages
    calls = message.get("tool_calls") or ()
    read = Message(
        role=_ROLES.get(role, role),  # type: ignore[arg-type]  # an unknown role is kept
        content=content or str(message.get("refusal") or ""),
        name=str(message.get("name") or ""),
        tool_calls=tuple(_call(call) for call in calls),
        tool_call_id=str(message.get("tool_call_id") or ""),
        extra=unknown_keys(message, _KNOWN),
    )
    return (read,)


def _with_results(message: Body, texts: Mapping[str, str]) -> Body:
    return {**message, "content": texts[str(message.get("tool_call_id") or "")]}


def _call(call: Body) -> Body:
    function = call.get("function") or call.get("custom") or {}
    return tool_call(call.get("id"), function.get("name"), function.get("arguments", function.get("input")))


def _api_message(message: Message) -> Body:
    content = message.content
    if not isinstance(content, str):
        content = api_content(content, "text", _PARTS)
    made: Body = {"role": message.role, "content": content}
    if message.name:
        made["name"] = message.name
    if message.tool_call_id:
        made["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in message.tool_calls
        ]
    return made


def _may_fetch(body: Body) -> bool:
    """Whether the provider may run a tool of its own for the reply."""
    if not _SEARCHES.isdisjoint(body) and any(body[name] is not None for name in _SEARCHES.intersection(body)):
        return True
    tools = body.get("tools") or []
    return bool(tools) and any(isinstance(tool, dict) and tool.get("type") not in _OWN_TOOLS for tool in tools)


def _is_fetched(message: Body) -> bool:
    return not _SHOWING.isdisjoint(message) and _shows_search(message)


def _shows_search(message: Body) -> bool:
    beside = message.get(_BESIDE)
    found = not _FOUND.isdisjoint(message) and any(map(message.get, _FOUND.intersection(message)))
    return found or (isinstance(beside, dict) and _shows_search(beside))


class Choices:
    """A reply with choices: its newest chunk, and its id, model and usage."""

    def __init__(self, body: Body) -> None:
        self.ended = False
        self._awaited = int(body.get("n") or 1)
        """The number of choices that the request asks for."""
        self._newest: Body = {}
        self._usage: Body = {}

    def _note(self, payload: Body) -> None:
        if payload.get("choices"):
            self._newest = payload
        usage = payload.get("usage")
        if not isinstance(usage, dict) and isinstance(payload.get("x_groq"), dict):
            usage = payload["x_groq"].get("usage")  # Groq's streams have it in a field of their own
        if isinstance(usage, dict):
            self._usage = usage

    def _chunk(self, choice: Body) -> Body:
        """A chunk of the same reply with only `choice`."""
        return {**{name: value for name, value in self._newest.items() if name != "usage"}, "choices": [choice]}

    def _split_chunk(self, event: Body, at: int, no_text: Body) -> tuple[Body, Body]:
        """A chunk that has text and ends a choice as two chunks: text that was held back goes between them."""
        choice = event["choices"][at]
        said = self._chunk({**choice, "finish_reason": None})
        return said, set_path(event, ("choices", at), {**choice, "logprobs": None, **no_text})


class _Choice:
    """One choice of a reply, as far as it has arrived."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.calls: dict[int, Body] = {}
        self.refusal: list[str] = []
        self.finish = ""

    def take(self, delta: Body) -> None:
        """Take the refusal and the tool calls of a delta or a message."""
        if isinstance(delta.get("refusal"), str):
            self.refusal.append(delta["refusal"])
        for at, call in enumerate(delta.get("tool_calls") or ()):
            part, known = _call(call), self.calls.setdefault(call.get("index", at), tool_call("", "", ""))
            self.calls[call.get("index", at)] = {
                "id": known["id"] or part["id"],
                "name": known["name"] or part["name"],
                "arguments": known["arguments"] + part["arguments"],
            }

    @property
    def message(self) -> Message:
        content = self.channel.text or "".join(self.refusal)
        calls = tuple([self.calls[at] for at in sorted(self.calls)]) if self.calls else ()
        return Message("assistant", content, tool_calls=calls)


class ChatRewriter(Choices):
    """Removes the trailer from every choice, whole or chunk by chunk, and drops chunks that become empty."""

    def __init__(self, body: Body, streams: Callable[[], TextStream]) -> None:
        super().__init__(body)
        self._streams = streams
        self._choices: dict[int, _Choice] = {}
        self.fetched = _may_fetch(body)

    def whole(self, payload: Body) -> Body:
        self._note(payload)
        self.fetched |= not _SHOWING.isdisjoint(payload) and _shows_search(payload)
        for at, choice in enumerate(payload.get("choices") or ()):
            message = choice.get("message") or {}
            self.fetched |= not _SHOWING.isdisjoint(message) and _shows_search(message)
            known = self._choice(choice.get("index", at))
            if message.get("refusal") or message.get("tool_calls"):
                known.take(message)
            known.finish = str(choice.get("finish_reason") or "")
            text = message.get("content")
            if isinstance(text, str):
                visible = known.channel.whole(text)
                if visible != text:
                    payload = set_path(payload, ("choices", at, "message", "content"), visible)
                    payload = _put_tokens(payload, at, known.channel) if choice.get("logprobs") else payload
            elif isinstance(text, list):
                shown = _shown_parts(text, known.channel, is_whole=True)
                payload = payload if shown == text else set_path(payload, ("choices", at, "message", "content"), shown)
        self.ended = True
        return payload

    def event(self, event: Body) -> list[Body]:
        self._note(event)
        self.fetched |= _shows_search(event)
        given, held = event, list[Body]()
        for at, choice in enumerate(event.get("choices") or ()):
            if not isinstance(choice, dict):
                continue
            delta = choice.get("delta") or {}
            self.fetched |= _shows_search(delta)
            known = self._choice(choice.get("index", at))
            known.take(delta)
            text = delta.get("content")
            if isinstance(text, str) and text:
                visible = known.channel.feed(text)
                if visible != text:
                    event = set_path(event, ("choices", at, "delta", "content"), visible)
            elif isinstance(text, list):
                shown = _shown_parts(text, known.channel)
                event = event if shown == text else set_path(event, ("choices", at, "delta", "content"), shown)
            event = _put_tokens(event, at, known.channel)
            if choice.get("finish_reason"):
                known.finish = choice["finish_reason"]
                rest = self._released(choice.get("index", at), known)
                if rest and (event["choices"][at].get("delta") or {}).get("content"):
                    said, event = self._split_chunk(event, at, {"delta": {}})
                    rest.insert(0, said)
                held += rest
        return held if event is not given and _is_empty(event) else [*held, event]

    def text_delta(self, event: Body) -> TextDelta | None:
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            return None
        choice = choices[0]
        delta = choice.get("delta") or {}
        if not isinstance(delta.get("content"), str) or delta.get("refusal") or delta.get("tool_calls"):
            return None
        if choice.get("finish_reason") or choice.get("logprobs"):
            return None
        path, channel = ("choices", 0, "delta", "content"), self._choice(choice.get("index", 0)).channel
        if not _is_empty(set_path(event, path, "")):
            return TextDelta(path, channel.passes)
        return TextDelta(path, channel.passes, channel.hides)

    @property
    def spoken(self) -> bool:
        return self.ended or sum(bool(choice.finish) for choice in self._choices.values()) >= self._awaited

    def close(self) -> list[Body]:
        """Chunks with the text held back when the stream stopped without an end."""
        return [chunk for index, choice in self._choices.items() for chunk in self._released(index, choice)]

    @property
    def reply(self) -> Reply:
        first = self._choices.get(0)
        return Reply(
            messages=tuple(self._choices[index].message for index in sorted(self._choices)),
            reading=first.channel.reading if first and first.channel.closed else None,
            finish=first.finish if first else "",
            natural=first is not None and first.finish == "stop",
            usage=self._usage,
            response_id=str(self._newest.get("id") or ""),
            model=str(self._newest.get("model") or ""),
        )

    def _choice(self, index: int) -> _Choice:
        if index not in self._choices:
            self._choices[index] = _Choice(Channel(self._streams()))
        return self._choices[index]

    def _released(self, index: int, choice: _Choice) -> list[Body]:
        if choice.channel.closed:
            return []
        rest, tokens = choice.channel.close(), choice.channel.tokens([])
        if not rest and not tokens:
            return []
        piece: Body = {"index": index, "delta": {"content": rest}, "finish_reason": None}
        if tokens:
            piece["logprobs"] = {"content": tokens}
        return [self._chunk(piece)]


def _shown_parts(parts: list[Any], channel: Channel, *, is_whole: bool = False) -> list[Any]:
    """Content in parts, as Mistral's reasoning models write it, without the trailer."""
    texts = [at for at, part in enumerate(parts) if isinstance(part, dict) and part.get("type") == "text"]
    shown = list(parts)
    for at in texts:
        visible = channel.feed(parts[at].get("text") or "")
        if is_whole and at == texts[-1]:
            visible += channel.close()
        if visible != parts[at].get("text"):
            shown[at] = {**parts[at], "text": visible}
    return [part for at, part in enumerate(shown) if part is parts[at] or part["text"]]


def _is_empty(chunk: Body) -> bool:
    """Whether a chunk whose text was removed has nothing else: no role, finish reason or usage."""
    return not chunk.get("usage") and not any(
        choice.get("finish_reason") or any(choice["delta"].values()) or any((choice.get("logprobs") or {}).values())
        for choice in chunk["choices"]
    )


def _put_tokens(payload: Body, at: int, channel: Channel) -> Body:
    """`payload` with the log probabilities of a choice cut to the visible text."""
    logprobs: Any = payload["choices"][at].get("logprobs")
    arrived = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(arrived, list):
        return payload
    released = channel.tokens(arrived)
    return payload if released == arrived else set_path(payload, ("choices", at, "logprobs", "content"), released)
