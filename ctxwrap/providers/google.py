"""Google's `generateContent`, of Gemini and Vertex: the model is in the URL, texts are parts, thoughts are signed."""

import json
import re
from base64 import b64encode
from collections import Counter as Times
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache
from typing import Any, Self

from ctxwrap.callers_list import read_each, values_of
from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import (
    ample_limits,
    changed_field,
    first_index,
    id_of_call,
    join_texts,
    last_index,
    neutral_value,
    raise_limits,
    reply_text,
    tool_call,
    with_references,
)
from ctxwrap.providers.text_channel import Channel, reading_of
from ctxwrap.redaction.structure import SHARED_FIELDS
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import ContentCounter, as_list, messages_tokens
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream

_STREAM, _WHOLE = ":streamGenerateContent", ":generateContent"
_CONFIG, _SYSTEM = "generationConfig", "systemInstruction"
_LIMITS = ("maxOutputTokens", "max_output_tokens")
_ANSWER_OPTIONS = frozenset({"candidateCount", "candidate_count", "stopSequences", "stop_sequences"})
"""Options that a request for a snapshot alone does not take over."""
_OWN_PARTS = frozenset(
    {"text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData"}
    | {"videoMetadata", "mediaResolution", "partMetadata"}
)
"""What a part has that is no work of the provider's own tools."""
_FOUND = frozenset({"groundingMetadata", "urlContextMetadata", "citationMetadata"})
_PLAIN = frozenset({"content", "index", "safetyRatings", "tokenCount"})
"""The fields of a candidate in a chunk that only adds text."""
_NO_SIGNATURE = b64encode(b"skip_thought_signature_validator").decode()
"""Stands for the signature of a call in the log, which holds none; since Gemini 3, calls need one."""
_DATA_URL = re.compile(r"data:([\w.+/-]{1,128});base64,")


@cache
def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found.group().lower()}", name)


def _named(value: Mapping[str, Any], name: str) -> str:
    """`name` as `value` spells it: the API takes camel case and snake case."""
    return name if name in value or _snake(name) not in value else _snake(name)


def _get(value: Any, name: str) -> Any:
    return value.get(_named(value, name)) if isinstance(value, Mapping) else None


def _parts(content: Any) -> list[Body]:
    """The parts of a content, which may also be one text."""
    parts = content.get("parts") if isinstance(content, Mapping) else content
    return [{"text": part} if isinstance(part, str) else part for part in as_list(parts)]


def _is_text(part: Body) -> bool:
    return isinstance(part.get("text"), str) and not part.get("thought")


def _is_spoken_part(part: Body) -> bool:
    return _get(part, "functionResponse") is None


def _is_spoken(content: Body) -> bool:
    """Whether a content is the user's and has more than results of tools."""
    return content.get("role", "user") == "user" and any(map(_is_spoken_part, _parts(content)))


# --- from the API to the log and back -----------------------------------------------------------------------


def log_messages(content: Body) -> list[Message]:
    """One content as messages of the log, where each result of a tool is a message."""
    parts, ids = _parts(content), _call_ids(content)
    messages = [
        Message("tool", _result_text(result), name=str(result.get("name") or ""), tool_call_id=ids[at])
        for at, part in enumerate(parts)
        if (result := _get(part, "functionResponse")) is not None
    ]
    calls = tuple(
        tool_call(ids[at], call.get("name"), _dumped(call.get("args")))
        for at, part in enumerate(parts)
        if (call := _get(part, "functionCall")) is not None
    )
    said = [_log_part(part) for at, part in enumerate(parts) if at not in ids and not part.get("thought")]
    if said or calls or not messages:
        plain = all(part["type"] == "text" for part in said)
        text = "\n".join(part["text"] for part in said) if plain else said
        messages.append(Message("assistant" if content.get("role") == "model" else "user", text, tool_calls=calls))
    return messages


def _is_fetched(content: Body) -> bool:
    return any(not _OWN_PARTS.issuperset(map(_camel, part)) for part in _parts(content))


def _call_ids(content: Body) -> dict[int, str]:
    """The ids of the calls and results in a content, by index of the part."""
    ids, times = dict[int, str](), Times[str]()
    for at, part in enumerate(_parts(content)):
        call, result = _get(part, "functionCall"), _get(part, "functionResponse")
        if call is not None or result is not None:
            call = result if call is None else call
            ids[at] = id_of_call(call.get("id"), str(call.get("name") or ""), times)
    return ids


def _dumped(value: Any) -> str:
    return json.dumps(value or {}, ensure_ascii=False, separators=(",", ":"), default=str)


def _result_text(result: Body) -> str:
    response = result.get("response")
    if isinstance(response, dict) and len(response) == 1:
        (only,) = response.values()
        if isinstance(only, str):
            return only
    return response if isinstance(response, str) else _dumped(response)


def _log_part(part: Body) -> Body:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    data = _get(part, "inlineData")
    if isinstance(data, Mapping):
        kind = str(_get(data, "mimeType") or "")
        url = f"data:{kind};base64,{data.get('data') or ''}"
        if kind.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"file_data": url}}
    return {"type": next(iter(part), "part"), **part}


def _api_part(part: Body) -> Body:
    if part.get("type") == "text":
        return {"text": part["text"]}
    if _get(part, "fileData") is not None:
        return {name: value for name, value in part.items() if name != "type"}
    given = part.get("image_url") or part.get("file")
    url = str((given.get("url") or given.get("file_data")) if isinstance(given, Mapping) else given or "")
    if found := _DATA_URL.match(url):
        return {"inlineData": {"mimeType": found[1], "data": url[found.end() :]}}
    return {"text": f"[{part.get('type')}]"}


def _api_contents(history: tuple[Message, ...], model: str) -> list[Body]:
    """Messages of the log as contents, in which the roles take turns."""
    contents: list[Body] = []
    for message in history:
        role = "model" if message.role == "assistant" else "user"
        parts = _api_parts(message, model)
        if parts and contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": parts})
    return contents


def _api_parts(message: Message, model: str) -> list[Body]:
    if message.role == "tool":
        name = message.name or message.tool_call_id
        return [{"functionResponse": {**_id(message.tool_call_id, name), "name": name, **_response(message.text)}}]
    content = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    parts = [_api_part(part) for part in content if part.get("type") != "text" or part["text"].strip()]
    calls: list[Body] = [
        {"functionCall": {**_id(call["id"], call["name"]), "name": call["name"], "args": _loaded(call["arguments"])}}
        for call in message.tool_calls
    ]
    if calls and re.match("gemini-(?![12][.-])", model):
        calls[0]["thoughtSignature"] = _NO_SIGNATURE
    return parts + calls


def _id(call_id: str, name: str) -> Body:
    """The id of a call, unless it had none: some hosts of the API know no ids."""
    return {} if re.fullmatch(rf"{re.escape(name)}(?:-\d+)?", call_id) else {"id": call_id}


def _loaded(text: str) -> Body:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"result": text}


def _response(text: str) -> Body:
    return {"response": _loaded(text) if text.startswith("{") else {"result": text}}


def _with_results(content: Body, texts: Mapping[str, str]) -> Body:
    ids, parts = _call_ids(content), _parts(content)
    for at, call_id in ids.items():
        result = _get(parts[at], "functionResponse")
        if result is not None and call_id in texts:
            name = _named(parts[at], "functionResponse")
            parts[at] = {**parts[at], name: {**result, "response": {"result": texts[call_id]}}}
    return {**content, "parts": parts}


def _neutral(content: Body) -> Body:
    if content.get("role") == "model":  # calls must stay exact
        parts = [changed_field(part, "text", neutral_value) if _is_text(part) else part for part in _parts(content)]
    else:
        parts = neutral_value(_parts(content))
    return {**content, "parts": parts}


def _with_texts(content: Any, before: str = "", after: str = "") -> Body:
    """`content` with a text before its first part that is no result of a tool, and one after its last part."""
    parts = _parts(content)
    at = next((at for at, part in enumerate(parts) if _is_spoken_part(part)), len(parts))
    parts = [*parts[:at], *_text(before), *parts[at:], *_text(after)]
    return {**(content if isinstance(content, dict) else {}), "parts": parts}


def _text(text: str) -> list[Body]:
    return [{"text": text}] if text else []


# --- the adapter ----------------------------------------------------------------------------------------------


class GoogleGenerate(ProviderAdapter):
    name = "google_generate_content"
    telemetry_name = "gcp.gemini"
    input_field = "contents"
    reply_limits = _LIMITS
    field_names = SHARED_FIELDS._replace(
        words=SHARED_FIELDS.words | {"mimeType", "mime_type", "responseMimeType", "category", "threshold"},
        ids=SHARED_FIELDS.ids | {"cachedContent"},
        encoded=SHARED_FIELDS.encoded | {"thoughtSignature", "fileUri"},
    )
    _model = ""
    _stream = False
    _is_array = False
    """Whether the reply is a stream that is no server-sent events."""

    def at(self, path: str, query: str) -> Self:
        called = copy(self)
        called._model = path.rpartition("/")[2].partition(":")[0]
        called._stream = path.endswith(_STREAM)
        called._is_array = called._stream and "alt=sse" not in query.split("&")
        return called

    def whole_path(self, path: str) -> str:
        return path.replace(_STREAM, _WHOLE).replace("alt=sse", "alt=json")

    def read(self, body: Body) -> Request:
        system = "\n".join(part["text"] for part in _parts(_get(body, _SYSTEM)) if _is_text(part))
        opening = [Message("system", system)] if system else []
        contents = body.get("contents")
        contents = contents if isinstance(contents, list) else as_list(contents)
        messages, places = read_each(opening, contents, log_messages)
        return Request(
            messages=messages,
            places=places,
            model=self._model,
            stream=self._stream,
            no_trailer=_no_trailer(body),
            no_context=self._no_context(body),
            fetched=any(values_of(contents, _is_fetched)),
        )

    def _no_context(self, body: Body) -> str:
        if self._is_array:
            return "a stream without alt=sse"
        return "cached content holds the system prompt" if _get(body, "cachedContent") else ""

    def inject(self, body: Body, injection: Injection) -> Body:
        callers = with_references(as_list(body.get("contents")), injection, _with_results)
        callers = [content for at, content in enumerate(callers) if at not in injection.left_out]
        contents = [_neutral(content) for content in (*_api_contents(injection.history, self._model), *callers)]
        first, newest = first_index(contents, _is_spoken), last_index(contents, _is_spoken)
        rest = join_texts(injection.background, injection.block) if newest < 0 else ""
        if newest >= 0:
            contents[first] = _with_texts(contents[first], before=injection.background)
            contents[newest] = _with_texts(contents[newest], after=injection.block)
        system = _with_texts(_get(body, _SYSTEM), injection.protocol, join_texts(injection.standing, rest))
        changed = {**body, "contents": contents, _named(body, _SYSTEM): system}
        if limits := raise_limits(_get(body, _CONFIG) or {}, _LIMITS, injection.reserve):
            changed[_named(body, _CONFIG)] = {**_get(body, _CONFIG), **limits}
        return changed

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "GoogleRewriter":
        return GoogleRewriter(body, streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        contents, said = list(as_list(body.get("contents"))), [{"text": reply_text(reply)}]
        if contents and contents[-1].get("role") == "model":  # a prefill that the reply continues
            said = [*_parts(contents.pop()), *said]
        contents += [{"role": "model", "parts": said}, {"role": "user", "parts": [{"text": question}]}]
        config = {name: value for name, value in (_get(body, _CONFIG) or {}).items() if name not in _ANSWER_OPTIONS}
        changed = {**body, "contents": contents}
        if config:
            changed[_named(body, _CONFIG)] = {**config, **ample_limits(config, _LIMITS, reserve)}
        if _functions(body):
            changed[_named(body, "toolConfig")] = {"functionCallingConfig": {"mode": "NONE"}}
        return changed

    def request_tokens(self, body: Body, counter: Counter) -> int:
        content, config = ContentCounter(counter, self._model), _get(body, _CONFIG)
        schema = _get(config, "responseSchema") or _get(config, "responseJsonSchema")
        said = messages_tokens(self.read(body).messages, counter, self._model)
        return said + content.tools(_functions(body)) + content.schema(schema)

    def reply_limit(self, body: Body) -> int | None:
        return super().reply_limit(_get(body, _CONFIG) or {})


GENERATE = GoogleGenerate()


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


def _functions(body: Body) -> list[Any]:
    """The functions that the caller runs."""
    return [each for tool in as_list(body.get("tools")) for each in as_list(_get(tool, "functionDeclarations"))]


def _may_fetch(body: Body) -> bool:
    """Whether the provider may run a tool of its own for the reply."""
    tools = (tool for tool in as_list(body.get("tools")) if isinstance(tool, Mapping))
    return any(_camel(name) != "functionDeclarations" for tool in tools for name in tool)


def _no_trailer(body: Body) -> str:
    config = _get(body, _CONFIG) or {}
    if _get(config, "responseMimeType") not in (None, "", "text/plain"):
        return "structured output"
    if any(str(kind).upper() != "TEXT" for kind in as_list(_get(config, "responseModalities"))):
        return "output that is no text"
    if _get(config, "responseLogprobs"):
        return "log probabilities"
    calling = _get(_get(body, "toolConfig"), "functionCallingConfig")
    return "forced tool choice" if str(_get(calling, "mode") or "").upper() == "ANY" else ""


class _Candidate:
    """One candidate of a reply, as far as it has arrived. Text parts that follow each other are one text."""

    def __init__(self, streams: Callable[[], TextStream]) -> None:
        self._streams = streams
        self.channels: list[Channel] = []
        self.contents: list[Body] = []
        """The parts with calls."""
        self.finish = ""

    def shown(self, parts: list[Body]) -> list[Body]:
        """The parts that the caller gets for `parts`."""
        shown: list[Body] = []
        for part in parts:
            if not _is_text(part):
                _add_rest(shown, self.rest())
                shown.append(part)
                if _get(part, "functionCall") is not None:
                    self.contents.append(part)
                continue
            visible = self._channel().feed(part["text"])
            if visible == part["text"]:
                shown.append(part)
            elif visible or len(part) > 1:
                shown.append({**part, "text": visible})
        return shown

    def rest(self) -> str:
        """End the open text; return what was held back of it."""
        return self.channels[-1].close() if self.channels and not self.channels[-1].closed else ""

    def _channel(self) -> Channel:
        if not self.channels or self.channels[-1].closed:
            self.channels.append(Channel(self._streams()))
        return self.channels[-1]

    @property
    def message(self) -> Message:
        text = "\n".join(channel.text for channel in self.channels if channel.text)
        (made,) = log_messages({"role": "model", "parts": self.contents})
        return made._replace(content=text)


def _add_rest(parts: list[Body], rest: str) -> None:
    """Add a text to `parts`, to the last one if that is a text."""
    if rest and parts and _is_text(parts[-1]):
        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + rest}
    elif rest:
        parts.append({"text": rest})


class GoogleRewriter:
    """Removes the trailer from the texts of every candidate; thoughts, calls and signatures pass unchanged."""

    def __init__(self, body: Body, streams: Callable[[], TextStream]) -> None:
        self._streams = streams
        self._awaited = int(_get(_get(body, _CONFIG), "candidateCount") or 1)
        self._candidates: dict[int, _Candidate] = {}
        self._newest: Body = {}
        self._usage: Body = {}
        self.fetched = _may_fetch(body)
        self.ended = False

    @property
    def spoken(self) -> bool:
        is_refused = bool(self._newest.get("promptFeedback")) and not self._candidates
        return is_refused or sum(bool(each.finish) for each in self._candidates.values()) >= self._awaited

    def whole(self, payload: Body) -> Body:
        payload = self._taken(payload, is_whole=True)
        self.ended = True
        return payload

    def event(self, event: Body) -> list[Body]:
        shown = self._taken(event, is_whole=False)
        self.ended = self.spoken
        return [] if shown is not event and _says_nothing(shown) else [shown]

    def text_delta(self, event: Body) -> TextDelta | None:
        """None: every event has other counts of tokens, so that none is a template for the next."""

    def close(self) -> list[Body]:
        held = [(index, candidate.rest()) for index, candidate in self._candidates.items()]
        head: Body = {name: self._newest[name] for name in ("modelVersion", "responseId") if name in self._newest}
        return [
            {"candidates": [{"content": {"parts": [{"text": rest}], "role": "model"}, "index": index}], **head}
            for index, rest in held
            if rest
        ]

    @property
    def reply(self) -> Reply:
        first = self._candidates.get(0)
        message = first.message if first else None
        return Reply(
            messages=tuple(self._candidates[index].message for index in sorted(self._candidates)),
            reading=reading_of(first.channels) if first else None,
            finish=first.finish if first else "",
            natural=first is not None and first.finish == "STOP" and not (message and message.tool_calls),
            usage=self._usage,
            response_id=str(self._newest.get("responseId") or ""),
            model=str(self._newest.get("modelVersion") or ""),
        )

    def _taken(self, payload: Body, *, is_whole: bool) -> Body:
        self._newest = payload
        if isinstance(payload.get("usageMetadata"), dict):
            self._usage = _usage(payload["usageMetadata"])
        given = payload.get("candidates") or []
        shown = [self._candidate(at, candidate, is_whole) for at, candidate in enumerate(given)]
        is_same = all(new is old for new, old in zip(shown, given, strict=True))
        return payload if is_same else {**payload, "candidates": shown}

    def _candidate(self, at: int, candidate: Body, is_whole: bool) -> Body:
        known = self._candidates.setdefault(candidate.get("index", at), _Candidate(self._streams))
        parts = _parts(candidate.get("content"))
        self.fetched |= any(candidate.get(name) for name in _FOUND)
        self.fetched |= any(not _OWN_PARTS.issuperset(part) for part in parts)
        shown = known.shown(parts)
        known.finish = str(candidate.get("finishReason") or known.finish)
        if is_whole or candidate.get("finishReason"):
            _add_rest(shown, known.rest())
        if shown == parts:
            return candidate
        content = {**(candidate.get("content") or {"role": "model"}), "parts": shown or [{"text": ""}]}
        return _with_own_segments({**candidate, "content": content}, known)


def _with_own_segments(candidate: Body, known: _Candidate) -> Body:
    """`candidate` whose sources are those of its visible text."""
    found = candidate.get("groundingMetadata")
    if not isinstance(found, dict) or not isinstance(found.get("groundingSupports"), list):
        return candidate
    text = "".join(channel.text for channel in known.channels)
    own = [each for each in found["groundingSupports"] if str((each.get("segment") or {}).get("text") or "") in text]
    return {**candidate, "groundingMetadata": {**found, "groundingSupports": own}}


def _says_nothing(event: Body) -> bool:
    """Whether an event whose text was removed has nothing else; its count of tokens comes again with the last one."""
    return not any(
        set(candidate) - _PLAIN or any(part != {"text": ""} for part in _parts(candidate.get("content")))
        for candidate in event["candidates"]
    )


_USAGE = {"prompt_tokens": ("promptTokenCount", "toolUsePromptTokenCount"), "total_tokens": ("totalTokenCount",)}


def _usage(counts: Body) -> Body:
    """The counts of tokens by OpenAI's names."""
    thought = counts.get("thoughtsTokenCount")
    usage: Body = {
        **{name: sum(_numbers(counts, *names)) for name, names in _USAGE.items()},
        "completion_tokens": sum(_numbers(counts, "candidatesTokenCount", "thoughtsTokenCount")),
    }
    if isinstance(counts.get("cachedContentTokenCount"), int):
        usage["prompt_tokens_details"] = {"cached_tokens": counts["cachedContentTokenCount"]}
    if isinstance(thought, int):
        usage["completion_tokens_details"] = {"reasoning_tokens": thought}
    return usage


def _numbers(counts: Body, *names: str) -> Iterator[int]:
    return (counts[name] for name in names if isinstance(counts.get(name), int))
