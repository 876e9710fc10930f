"""Replies that break off or cannot be read: the caller gets what a bare client gives, and the log has the same text."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import SessionKey

ASK: Any = [{"role": "user", "content": "Go on."}]
TEXTS = ("Well. ", "What I held back:\n\n", "<<<CONT")
"""The last of them may be the beginning of a separator, and the line breaks may stand before one."""
BAD_TEXT = b"\xff\xfe"


def _openai(delta: dict[str, Any]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode()


def _anthropic(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}".encode()


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
MESSAGE |= {"stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
STARTS = {
    "openai": [_openai({"role": "assistant", "content": ""}), *(_openai({"content": text}) for text in TEXTS)],
    "anthropic": [
        _anthropic("message_start", message=MESSAGE),
        _anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(_anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": text}) for text in TEXTS),
    ],
}
BREAKS = {
    ("openai", "an error"): [b'data: {"error": {"message": "boom", "type": "server_error", "code": 500}}'],
    ("anthropic", "an error"): [_anthropic("error", error={"type": "overloaded_error", "message": "Overloaded"})],
    ("openai", "no JSON"): [b"data: {not json"],
    ("openai", "no text"): [_openai({"content": "@"}).replace(b"@", BAD_TEXT)],
    ("anthropic", "no text"): [
        _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": "@"}).replace(b"@", BAD_TEXT)
    ],
    ("openai", "a cut"): [],
    ("anthropic", "a cut"): [],
}


def http_of(sdk: str) -> Any:
    """The HTTP library that an SDK is made of: httpx or httpx2."""
    default: Any = openai.DefaultHttpxClient if sdk == "openai" else anthropic.DefaultHttpxClient
    roots = [cls.__module__.partition(".")[0] for cls in default.__mro__]
    return sys.modules[next(root for root in roots if root in ("httpx", "httpx2"))]


def stream_of(sdk: str, frames: list[bytes], *, is_cut: bool) -> Any:
    """The response that sends these frames and then ends or breaks off."""
    http = http_of(sdk)

    class Bytes(http.SyncByteStream, http.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield from (frame + b"\n\n" for frame in frames)
            if is_cut:
                raise http.RemoteProtocolError("cut")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in self:
                yield piece

    return http.Response(200, headers={"content-type": "text/event-stream"}, stream=Bytes())


def client_of(sdk: str, respond: Any, *, is_async: bool) -> Any:
    module: Any = openai if sdk == "openai" else anthropic
    http = http_of(sdk)
    name = ("Async" if is_async else "") + ("OpenAI" if sdk == "openai" else "Anthropic")
    client = (http.AsyncClient if is_async else http.Client)(transport=http.MockTransport(respond))
    return getattr(module, name)(api_key="k", base_url="http://provider.test", max_retries=0, http_client=client)


def texts_in(chunk: Any) -> str:
    if hasattr(chunk, "choices"):
        return "".join(choice.delta.content or "" for choice in chunk.choices)
    return getattr(getattr(chunk, "delta", None), "text", None) or ""


def streamed(client: Any, sdk: str, *, is_async: bool) -> tuple[str, str]:
    """What a caller reads of a stream, and the error that ends it."""
    create = client.chat.completions.create if sdk == "openai" else client.messages.create
    asked = {"model": "m", "messages": ASK, "stream": True, **({} if sdk == "openai" else {"max_tokens": 9})}
    read: list[str] = []

    async def read_async() -> None:
        async for chunk in await create(**asked):
            read.append(texts_in(chunk))  # noqa: PERF401  # what was read before an error counts

    try:
        if is_async:
            asyncio.run(read_async())
        else:
            read.extend(map(texts_in, create(**asked)))
    except Exception as error:
        return "".join(read), type(error).__name__
    return "".join(read), ""


def answers_in(store: MemoryStore) -> list[str]:
    records = store.open(SessionKey("default", "default", "s")).read("messages")[0]
    return [record["content"] for record in records if record["role"] == "assistant"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("sdk", "kind"), BREAKS)
def test_broken_stream_delivers_and_logs_held_back_text_before_its_error(sdk: str, kind: str, is_async: bool) -> None:
    def respond(request: Any) -> Any:
        return stream_of(sdk, [*STARTS[sdk], *BREAKS[sdk, kind]], is_cut=kind == "a cut")

    bare = streamed(client_of(sdk, respond, is_async=is_async), sdk, is_async=is_async)
    assert bare[0] == "".join(TEXTS)
    assert bare[1]
    store = MemoryStore()
    wrapped = ctxwrap.wrap(client_of(sdk, respond, is_async=is_async), store=store, session="s")
    assert streamed(wrapped, sdk, is_async=is_async) == bare
    assert answers_in(store) == [bare[0]]


def test_cut_trailer_is_not_delivered() -> None:
    def respond(request: Any) -> Any:
        frames = [*STARTS["openai"][:2], _openai({"content": f'\n\n{SEPARATOR}\n{{"version": "2.2", "memory": {{'})]
        return stream_of("openai", frames, is_cut=True)

    store = MemoryStore()
    wrapped = ctxwrap.wrap(client_of("openai", respond, is_async=False), store=store, session="s")
    text, error = streamed(wrapped, "openai", is_async=False)
    assert (text.strip(), error) == ("Well.", "RemoteProtocolError")
    assert answers_in(store) == [text]


def whole(content: str, extra: bytes = b'""') -> bytes:
    message = {"role": "assistant", "content": content, "extra": "@"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(reply).encode().replace(b'"@"', extra)


def test_undecodable_reply_raises_the_bare_clients_error() -> None:
    def respond(request: Any) -> Any:
        content = whole("@@").replace(b"@@", BAD_TEXT)
        return http_of("openai").Response(200, headers={"content-type": "application/json"}, content=content)

    def outcome(client: Any) -> str:
        try:
            return repr(client.chat.completions.create(model="m", messages=ASK))
        except Exception as error:
            return type(error).__name__

    bare = outcome(client_of("openai", respond, is_async=False))
    assert outcome(ctxwrap.wrap(client_of("openai", respond, is_async=False), store=MemoryStore(), session="s")) == bare


@pytest.mark.parametrize("trailer", ["", f'\n\n{SEPARATOR}\n{{"version": "2.2", "memory": {{"core": []}}}}'])
def test_deeply_nested_reply_is_read(trailer: str) -> None:
    nested = b"[" * 500 + b"]" * 500

    def respond(request: Any) -> Any:
        content = whole(f"Fine.{trailer}", nested)
        return http_of("openai").Response(200, headers={"content-type": "application/json"}, content=content)

    store = MemoryStore()
    wrapped = ctxwrap.wrap(client_of("openai", respond, is_async=False), store=store, session="s", max_reasks=0)
    message = wrapped.chat.completions.create(model="m", messages=ASK).choices[0].message
    assert message.content == "Fine."
    assert message.model_extra["extra"] == json.loads(nested)
    assert answers_in(store) == ["Fine."]
