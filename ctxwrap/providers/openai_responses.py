"""OpenAI Responses: input and output items, stream events, and echoed request fields."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ctxwrap.providers.base import TextDelta
from ctxwrap.providers.messages import (
    CACHE_KEY_FIELD,
    ample_limits,
    api_content,
    changed_field,
    is_operator,
    is_user,
    join_texts,
    leading_operators,
    log_content,
    neutral_message,
    neutral_value,
    raise_limits,
    reply_text,
    set_path,
    short_answer_options,
    tool_call,
    with_injected_texts,
    with_references,
)
from ctxwrap.providers.openai_chat import OpenAIAdapter
from ctxwrap.providers.text_channel import Channel, reading_of
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import PER_MESSAGE, PER_REPLY, ContentCounter, as_list
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_PARTS = ("input_image", "input_file", "input_audio", "refusal")
_TOOL_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "computer_call_output"})

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Types of items that call a tool, and the field with the arguments."""

OWN = frozenset(
    {"message", "reasoning", "item_reference", *CALLS}
    | {"computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
"""Types of items that the caller or the model writes; all others come from tools that the provider runs."""


def is_fetched(item: Body) -> bool:
    """Whether an item shows that the provider ran a tool, or that a text cites a result."""
    parts = item.get("content")
    cites = isinstance(parts, list) and any(isinstance(part, dict) and part.get("annotations") for part in parts)
    return item.get("type", "message") not in OWN or cites


class Placed(NamedTuple):
    """A message of the log and the index of its first item."""

    message: Message
    place: int


def as_items(given: Any) -> list[Body]:
    """The `input` of a request as a list of items."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(given or ())


def read_items(given: Any) -> list[Placed]:
    """The messages in an `input`."""
    read: list[Placed] = []
    for at, item in enumerate(as_items(given)):
        _read(item, -1 if isinstance(given, str) else at, read)
    return read


def _read(item: Body, at: int, read: list[Placed]) -> None:
    kind = item.get("type", "message")
    if kind in CALLS:
        _add_call(tool_call(item.get("call_id"), item.get("name"), item.get(CALLS[kind])), at, read)
    elif kind in _TOOL_RESULTS:
        result = Message("tool", log_content(item.get("output")), tool_call_id=str(item.get("call_id") or ""))
        read.append(Placed(result, at))
    elif "role" in item:
        role = "system" if is_operator(item) else item["role"]
        message = Message(role, log_content(item.get("content")))  # type: ignore[arg-type]  # any role is kept
        read.append(Placed(message, at))


def _add_call(call: Body, at: int, read: list[Placed]) -> None:
    """Add a call to the assistant message before it: the API lists the two side by side."""
    if read and read[-1].message.role == "assistant":
        said, place = read.pop()
        read.append(Placed(Message("assistant", said.content, tool_calls=(*said.tool_calls, call)), place))
    else:
        read.append(Placed(Message("assistant", tool_calls=(call,)), at))


def sent_items(items: list[Body], left_out: frozenset[int]) -> list[Body]:
    """The items that are sent; an item that begins no message, such as reasoning, goes with the one before it."""
    if not left_out:
        return list(items)
    places = [placed.place for placed in read_items(items) if not is_operator(items[placed.place])]
    begins, kept = frozenset(places), list[Body]()
    goes = bool(places) and places[0] in left_out
    for at, item in enumerate(items):
        goes = at in left_out if at in begins else goes
        if is_operator(item) or not (goes or at in left_out):
            kept.append(item)
    return kept


def api_items(message: Message) -> list[Body]:
    """A message of the log in the API's form."""
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
    text_type = "output_text" if message.role == "assistant" else "input_text"
    items: list[Body] = []
    if message.content:
        items.append({"role": message.role, "content": api_content(message.content, text_type, _PARTS)})
    items += [
        {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        for call in message.tool_calls
    ]
    return items


_ECHOED = frozenset({"instructions", "max_output_tokens", CACHE_KEY_FIELD})
"""Request fields that a response echoes; the caller gets their own values back."""

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class OpenAIResponses(OpenAIAdapter):
    name = "openai_responses"
    input_field = "input"
    reply_limits = ("max_output_tokens",)
    stored_path = "responses/[^/]+(?:/input_items)?"

    def read(self, body: Body) -> Request:
        opening = [Placed(Message("system", body["instructions"]), -1)] if body.get("instructions") else []
        items = as_items(body.get("input"))
        read = [*opening, *read_items(body.get("input"))]
        is_kept = bool(body.get("previous_response_id") or body.get("conversation"))
        return Request(
            messages=tuple(placed.message for placed in read),
            places=tuple(placed.place for placed in read),
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer=_no_trailer(body),
            no_context="a background response is read later" if body.get("background") else "",
            server_history=is_kept,
            unseen=is_kept or any(item.get("type") == "item_reference" for item in items),
            fetched=any(map(is_fetched, items)),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        """The block goes into `instructions`: the provider stores `input`, and would show every turn's block again.

        With `store=False` it goes after the newest user message, where it keeps the provider's prompt cache valid.
        """
        given = _neutral_input(body.get("input"))
        items = as_items(given)
        if isinstance(given, list):
            items = sent_items(with_references(given, injection, _with_results), injection.left_out)
        own = leading_operators(items)
        items[own:own] = [neutral_item(item) for message in injection.history for item in api_items(message)]
        items, rest = with_injected_texts(
            items, injection, is_user if body.get("store") is False else _never, "input_text"
        )
        changed = raise_limits(body, self.reply_limits, injection.reserve)
        if "input" in body or items:
            changed["input"] = given if items == as_items(given) else items
        own_text = body.get("instructions") or ""
        instructions = join_texts(injection.protocol, own_text, injection.standing, rest)
        return {**body, **changed, **self.cache_key_in(body), "instructions": instructions}

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "ResponsesRewriter":
        return ResponsesRewriter(streams, lambda name, echoed: body.get(name))

    def stored_rewriter(self, streams: Callable[[], TextStream], own: Callable[[str, Any], Any]) -> "ResponsesRewriter":
        return ResponsesRewriter(streams, own)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        """The question is not stored. It may continue a stored response, but would be added to a conversation."""
        asked = [{"role": "assistant", "content": reply_text(reply)}, {"role": "user", "content": question}]
        changed = {
            **short_answer_options(body),
            **ample_limits(body, self.reply_limits, reserve),
            "input": [*as_items(body.get("input")), *asked],
            "store": False,
        }
        return {name: value for name, value in changed.items() if name != "conversation"}

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content = ContentCounter(counter, str(body.get("model") or ""))
        instructions = PER_MESSAGE + 1 + content.tokens(body["instructions"]) if body.get("instructions") else 0
        given, text = body.get("input"), body.get("text")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else as_list(given)
        schema = text.get("format") if isinstance(text, Mapping) else None
        said = instructions + sum(map(content.item, items))
        return PER_REPLY + said + content.tools(body.get("tools")) + content.schema(schema)


RESPONSES = OpenAIResponses()


def _no_trailer(body: Body) -> str:
    wanted = body.get("text") or {}
    kind = (wanted.get("format") or {}).get("type") if isinstance(wanted, dict) else ""
    if body.get("text_format") or kind in ("json_object", "json_schema"):
        return "structured output"
    choice = body.get("tool_choice")
    if choice == "required" or (isinstance(choice, dict) and choice.get("type") != "allowed_tools"):
        return "forced tool choice"
    return ""


def _with_results(item: Body, texts: Mapping[str, str]) -> Body:
    return {**item, "output": texts[str(item.get("call_id") or "")]}


def neutral_item(item: Body) -> Body:
    """An item with neutral texts, or `item` itself if they are neutral."""
    if "role" in item:
        return neutral_message(item)
    for name in ("output", "outputs", "results"):
        item = changed_field(item, name, neutral_value)
    return item


def _neutral_input(given: Any) -> Any:
    return [neutral_item(item) for item in given] if isinstance(given, list) else neutral_value(given)


def _never(item: Body) -> bool:
    """Nothing is added to input that the provider stores."""
    return False


class ResponsesRewriter:
    """Removes the trailer from every copy of the text: deltas, done events, parts, items, the final response."""

    def __init__(self, streams: Callable[[], TextStream], own: Callable[[str, Any], Any]) -> None:
        self._streams = streams
        self._own = own
        self._channels: dict[tuple[int, int], Channel] = {}
        self._calls: dict[int, Body] = {}
        self._refusals: dict[tuple[int, int], str] = {}
        self._response: Body = {}
        self.fetched = False
        self._last: dict[tuple[int, int], Body] = {}
        self.ended = False

    @property
    def spoken(self) -> bool:
        return self.ended

    def whole(self, payload: Body) -> Body:
        self.ended = True
        return self._response_without_trailer(payload)

    def event(self, event: Body) -> list[Body]:
        # litellm gives the type as an enum member
        kind = str(getattr(event.get("type"), "value", event.get("type")))
        if kind == "response.output_text.delta":
            return self._delta(event)
        if kind == "response.output_text.done":
            return [*self._released(_place(event)), self._cut(event, (), _place(event))]
        if kind == "response.content_part.done":
            return [*self._released(_place(event)), self._part_event(event)]
        if kind == "response.output_item.done":
            return [self._item_event(event)]
        if kind in _ENDS:
            self.ended = True
            return [*self.close(), self._with_response(event)]
        return [self._previewed(event)]

    def text_delta(self, event: Body) -> TextDelta | None:
        if event.get("type") != "response.output_text.delta" or event.get("logprobs"):
            return None
        channel = self._channel(_place(event))
        return TextDelta(("delta",), channel.passes, channel.hides)

    def close(self) -> list[Body]:
        return [piece for place in list(self._channels) for piece in self._released(place)]

    @property
    def reply(self) -> Reply:
        finish = str(self._response.get("status") or "") if self.ended else ""
        return Reply(
            messages=(self._message(),) if self._channels or self._calls or self._refusals else (),
            reading=reading_of([self._channels[place] for place in sorted(self._channels)]),
            finish=finish,
            natural=finish == "completed",
            usage=self._response.get("usage") or {},
            response_id=str(self._response.get("id") or ""),
            model=str(self._response.get("model") or ""),
        )

    def _message(self) -> Message:
        texts = [self._channels[place].text for place in sorted(self._channels)]
        texts += [self._refusals[place] for place in sorted(self._refusals)]
        calls = tuple(self._calls[at] for at in sorted(self._calls))
        return Message("assistant", "\n".join(text for text in texts if text), tool_calls=calls)

    def _channel(self, place: tuple[int, int]) -> Channel:
        if place not in self._channels:
            self._channels[place] = Channel(self._streams())
        return self._channels[place]

    def _delta(self, event: Body) -> list[Body]:
        place = _place(event)
        channel = self._channel(place)
        text = event.get("delta") or ""
        visible = channel.feed(text)
        self._last[place] = event
        tokens = event.get("logprobs")
        if isinstance(tokens, list) and tokens:
            released = channel.tokens(tokens)
            event = event if released == tokens else set_path(event, ("logprobs",), released)
        if visible == text:
            return [event]
        return [set_path(event, ("delta",), visible)] if visible else []

    def _released(self, place: tuple[int, int]) -> list[Body]:
        channel = self._channels.get(place)
        if channel is None or channel.closed:
            return []
        rest, tokens = channel.close(), channel.tokens([])
        if not rest and not tokens:
            return []
        piece = {**self._last[place], "delta": rest}
        if "logprobs" in piece:
            piece["logprobs"] = tokens
        return [piece]

    def _previewed(self, event: Body) -> Body:
        """An event that opens a part or item; some providers put text into it that the deltas repeat."""
        preview = ResponsesRewriter(self._streams, self._own)
        if isinstance(event.get("response"), dict):
            self._response = event["response"]
            return preview._with_response(event)
        self.fetched |= "annotation" in event
        opened = preview._part_event(event) if "part" in event else preview._item_event(event)
        self.fetched |= preview.fetched
        return opened

    def _part_event(self, event: Body) -> Body:
        part = event.get("part")
        if not isinstance(part, dict) or part.get("type") != "output_text":
            return event
        return self._cut(event, ("part",), _place(event))

    def _item_event(self, event: Body) -> Body:
        item = event.get("item")
        if not isinstance(item, dict):
            return event
        return set_path(event, ("item",), self._item(item, int(event.get("output_index") or 0)))

    def _with_response(self, event: Body) -> Body:
        return set_path(event, ("response",), self._response_without_trailer(event["response"]))

    def _response_without_trailer(self, response: Body) -> Body:
        self._response = response
        for name in _ECHOED & response.keys():
            response = set_path(response, (name,), self._own(name, response[name]))
        output = response.get("output")
        if isinstance(output, list):
            items = [self._item(item, at) if isinstance(item, dict) else item for at, item in enumerate(output)]
            response = set_path(response, ("output",), items)
        return response

    def _item(self, item: Body, at: int) -> Body:
        kind = item.get("type")
        self.fetched |= is_fetched(item)
        if kind in CALLS:
            self._calls[at] = tool_call(item.get("call_id"), item.get("name"), item.get(CALLS[kind]))
        if kind != "message":
            return item
        for index, part in enumerate(item.get("content") or ()):
            if part.get("type") == "output_text":
                item = self._cut(item, ("content", index), (at, index))
            elif part.get("type") == "refusal":
                self._refusals[at, index] = str(part.get("refusal") or "")
        return item

    def _cut(self, value: Body, path: tuple[str | int, ...], place: tuple[int, int]) -> Body:
        """`value` with the visible text at `path`; a text that was not streamed is read here."""
        holder: Any = value
        for step in path:
            holder = holder[step]
        text = holder.get("text")
        if not isinstance(text, str) or not text:
            return value
        channel = self._channel(place)
        if not channel.closed:
            channel.whole(text)
        visible = channel.text
        tokens = holder.get("logprobs")
        if isinstance(tokens, list) and tokens and visible != text:
            value = set_path(value, (*path, "logprobs"), channel.tokens_of_all(tokens))
        return value if visible == text else set_path(value, (*path, "text"), visible)


def _place(event: Body) -> tuple[int, int]:
    return int(event.get("output_index") or 0), int(event.get("content_index") or 0)
