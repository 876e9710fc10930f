"""What the tests of OpenAI's clients share: one text for sync and async, and all that a caller can look at."""

import gzip
import inspect
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import DELTA_TEXT, READING_TEXT
from ctxwrap.testing.practice import Answer, Failure, Provider, script
from ctxwrap.testing.practice.requests import Answering, RecordedRequest
from tests.clients.running import each, got, opened, run_and_close
from tests.support import Told

SAID = "Say hello."
TEXT = "Hello, world."
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": SAID}]}
PROMPT: dict[str, Any] = {"model": "m", "prompt": SAID}
INPUT: dict[str, Any] = {"model": "m", "input": SAID}
HELLO = [("user", SAID), ("assistant", TEXT)]
"""The log of one such call."""

GZIP = b"\x1f\x8b"

CHANGED_HEADERS = frozenset({"date", "content-length", "content-encoding"})
"""What a reply's headers may differ in: when it was sent, and how many bytes it then was."""


def both(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """`test` runs at its `desk`, whose clients block or are awaited."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        fixtures["desk"].run(test(**fixtures))

    return run


class Desk:
    """A bare and a wrapped client, each with a provider of its own that counts and dates as the other does."""

    def __init__(self, kind: str, home: Path, stack: ExitStack) -> None:
        self.is_async = kind == "async"
        self.home = home
        self.bare_provider, self.provider = (
            stack.enter_context(Provider(Told(TEXT), clock=lambda: 1_700_000_000.0)) for _ in range(2)
        )
        self._made: list[Any] = []

    def make(self, provider: Provider, **options: Any) -> Any:
        cls: Any = openai.AsyncOpenAI if self.is_async else openai.OpenAI
        return cls(**{"api_key": "k", "base_url": provider.openai_url, **options})

    def client(self, provider: Provider | None = None, **options: Any) -> Any:
        """A bare client of the wrapped client's provider."""
        options = {"http_client": self.http_client(), "max_retries": 0, **options}
        return self.closed_later(self.make(provider or self.provider, **options))

    def bare(self, **options: Any) -> Any:
        return self.client(self.bare_provider, **options)

    def wrapped(self, session: str | None = "s", *, options: Mapping[str, Any] | None = None, **settings: Any) -> Any:
        return ctxwrap.wrap(self.client(**(options or {})), store=self.home, session=session, **settings)

    def http_client(self) -> Any:
        make = openai.DefaultAsyncHttpxClient if self.is_async else openai.DefaultHttpxClient
        return self.closed_later(make(verify=False))  # loading certificates takes longer than a whole test

    def answer(self, answering: Answering) -> None:
        self.bare_provider.answer = self.provider.answer = answering

    def script(self, *answers: Answer | Failure) -> None:
        self.bare_provider.answer, self.provider.answer = script(*answers), script(*answers)

    def closed_later(self, client: Any) -> Any:
        self._made.append(client)
        return client

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        run_and_close(work, self._made, is_async=self.is_async)


@contextmanager
def open_desk(kind: str, home: Path, cls: type[Desk] = Desk) -> Iterator[Desk]:
    with ExitStack() as stack:
        yield cls(kind, home, stack)


def need(start: Any, path: str) -> Any:
    """What is at `path` in the client `start`, or a skip where this version of the SDK lacks it."""
    for name in path.split("."):
        if not hasattr(start, name):
            pytest.skip(f"openai {openai.__version__} has no {path}")
        start = getattr(start, name)
    return start


def mode_sent(seen: RecordedRequest) -> str:
    """The mode that shows in a request: what it tells the model about context."""
    texts = list(_texts(seen.json))
    if any(DELTA_TEXT in text for text in texts):
        return "enabled"
    return "readonly" if any(READING_TEXT in text for text in texts) else "disabled"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


class Views:
    """Everything a caller looked at, as it was at that moment."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        """To compare with what a bare client shows."""
        self.texts: list[str | bytes] = []
        """In which nothing of ours may stand."""

    def model(self, value: Any) -> None:
        dump = value.model_dump(warnings=False)
        self.texts += [repr(value), str(value), value.model_dump_json(warnings=False)]
        if not says_nothing(dump):
            self.values.append((type(value), tidy(dump)))

    def raw(self, content: str | bytes) -> None:
        """Bytes or text of a reply: one JSON object, or server-sent events."""
        self.texts.append(content)
        text = content if isinstance(content, str) else content.decode()
        if text.startswith("{"):
            self.values.append(tidy(json.loads(text)))
        else:
            self.values.append([tidy(event) for event in sent_events(text) if not says_nothing(event)])

    def fact(self, value: Any) -> None:
        self.texts.append(repr(value))
        self.values.append(value)

    def head(self, response: Any) -> None:
        """What a raw response says beside its body."""
        self.fact((response.status_code, response.http_version, response.method, response.url.path))
        self.fact({name: value for name, value in response.headers.items() if name not in CHANGED_HEADERS})


def sent_events(text: str) -> list[Any]:
    """The data of server-sent events, in order."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) if line.startswith("{") else {"data": line} for line in lines]


def tidy(value: Any) -> Any:
    """`value` without what context must change: the counts of tokens, and the numbers of a stream's events."""
    if isinstance(value, list):
        return [tidy(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _uncounted(inner) if name == "usage" else tidy(inner)
        for name, inner in value.items()
        if name != "sequence_number"
    }


def _uncounted(usage: Any) -> Any:
    if isinstance(usage, dict):
        return {name: _uncounted(value) for name, value in usage.items()}
    return "counted" if isinstance(usage, int) else usage


def says_nothing(event: dict[str, Any]) -> bool:
    """Whether a stream's event is one whose text was taken out, and held nothing else."""
    kind = event.get("type")
    if kind == "chunk":
        return says_nothing(event["chunk"])
    if kind == "content.delta":
        return not event["delta"]
    choices = event.get("choices") or ()
    return bool(choices) and all(_is_empty(choice) for choice in choices)


def _is_empty(choice: dict[str, Any]) -> bool:
    if choice.get("finish_reason") or "message" in choice:
        return False
    said = [choice.get("text"), *(choice.get("delta") or {}).values()]
    return not any(said) and not any((choice.get("logprobs") or {}).values())


def content(completion: Any) -> str | None:
    return completion.choices[0].message.content


# --- every way to ask ---------------------------------------------------------------------------------

Surface = Callable[..., Coroutine[Any, Any, None]]


async def chat_create(client: Any, views: Views, **asked: Any) -> None:
    views.model(await got(client.chat.completions.create(**{**CHAT, **asked})))


async def chat_stream(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_stream(await got(client.chat.completions.create(**{**CHAT, **asked}, stream=True)), views)


async def chat_helper(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_chat_helper(need(client, "chat.completions.stream")(**{**CHAT, **asked}), views)


async def beta_chat_helper(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_chat_helper(need(client, "beta.chat.completions.stream")(**{**CHAT, **asked}), views)


async def chat_raw(client: Any, views: Views, **asked: Any) -> None:
    _look_at_raw(await got(client.chat.completions.with_raw_response.create(**{**CHAT, **asked})), views)


async def chat_raw_by_client(client: Any, views: Views, **asked: Any) -> None:
    _look_at_raw(await got(client.with_raw_response.chat.completions.create(**{**CHAT, **asked})), views)


async def chat_raw_stream(client: Any, views: Views, **asked: Any) -> None:
    create = client.chat.completions.with_raw_response.create
    await _look_at_raw_stream(await got(create(**{**CHAT, **asked}, stream=True)), views)


async def chat_streamed(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_streamed(lambda: client.chat.completions.with_streaming_response.create(**{**CHAT, **asked}), views)


async def chat_streamed_lines(client: Any, views: Views, **asked: Any) -> None:
    async with opened(client.chat.completions.with_streaming_response.create(**{**CHAT, **asked})) as response:
        await _lines(response, views)


async def chat_streamed_stream(client: Any, views: Views, **asked: Any) -> None:
    create = client.chat.completions.with_streaming_response.create
    await _look_at_streamed(lambda: create(**{**CHAT, **asked}, stream=True), views)


async def chat_with_options(client: Any, views: Views, **asked: Any) -> None:
    await chat_create(client.with_options(timeout=20), views, **asked)


async def chat_copy(client: Any, views: Views, **asked: Any) -> None:
    await chat_stream(client.copy(default_headers={"x-own": "1"}).with_options(max_retries=1), views, **asked)


async def chat_with_http_client(client: Any, views: Views, **asked: Any) -> None:
    is_async = isinstance(client, openai.AsyncOpenAI)
    http_client: Any = (openai.DefaultAsyncHttpxClient if is_async else openai.DefaultHttpxClient)(verify=False)
    async with opened(http_client):
        await chat_create(client.with_options(http_client=http_client), views, **asked)


async def text_create(client: Any, views: Views, **asked: Any) -> None:
    views.model(await got(client.completions.create(**{**PROMPT, **asked})))


async def text_stream(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_stream(await got(client.completions.create(**{**PROMPT, **asked}, stream=True)), views)


async def text_raw(client: Any, views: Views, **asked: Any) -> None:
    _look_at_raw(await got(client.completions.with_raw_response.create(**{**PROMPT, **asked})), views)


async def response_create(client: Any, views: Views, **asked: Any) -> None:
    response = await got(need(client, "responses.create")(**{**INPUT, **asked}))
    views.model(response)
    views.fact(response.output_text)


async def response_stream(client: Any, views: Views, **asked: Any) -> None:
    await _look_at_stream(await got(need(client, "responses.create")(**{**INPUT, **asked}, stream=True)), views)


async def response_helper(client: Any, views: Views, **asked: Any) -> None:
    async with opened(need(client, "responses.stream")(**{**INPUT, **asked})) as stream:
        views.fact(type(stream))
        async for event in each(stream):
            views.model(event)
            views.fact(getattr(event, "snapshot", None))
        views.model(await got(stream.get_final_response()))


async def response_raw(client: Any, views: Views, **asked: Any) -> None:
    _look_at_raw(await got(need(client, "responses.with_raw_response.create")(**{**INPUT, **asked})), views)


async def response_raw_stream(client: Any, views: Views, **asked: Any) -> None:
    create = need(client, "responses.with_raw_response.create")
    await _look_at_raw_stream(await got(create(**{**INPUT, **asked}, stream=True)), views)


async def response_streamed(client: Any, views: Views, **asked: Any) -> None:
    create = need(client, "responses.with_streaming_response.create")
    await _look_at_streamed(lambda: create(**{**INPUT, **asked}), views)


async def response_streamed_stream(client: Any, views: Views, **asked: Any) -> None:
    create = need(client, "responses.with_streaming_response.create")
    await _look_at_streamed(lambda: create(**{**INPUT, **asked}, stream=True), views)


def named(*surfaces: Surface) -> dict[str, Surface]:
    return {surface.__name__: surface for surface in surfaces}


def each_of(surfaces: Mapping[str, Surface]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("surface", surfaces.values(), ids=surfaces)


async def looked(client: Any, surface: Surface, **asked: Any) -> Views:
    """All that `surface` shows of one call, or of a few."""
    views = Views()
    await surface(client, views, **asked)
    return views


SURFACES = named(
    chat_create,
    chat_stream,
    chat_helper,
    beta_chat_helper,
    chat_raw,
    chat_raw_by_client,
    chat_raw_stream,
    chat_streamed,
    chat_streamed_stream,
    chat_with_options,
    chat_copy,
    chat_with_http_client,
    text_create,
    text_stream,
    text_raw,
    response_create,
    response_stream,
    response_helper,
    response_raw,
    response_raw_stream,
    response_streamed,
    response_streamed_stream,
)
"""Every way to get free text."""


async def _look_at_stream(stream: Any, views: Views) -> None:
    views.fact(type(stream))
    async for event in each(stream):
        views.model(event)


async def _look_at_chat_helper(manager: Any, views: Views) -> None:
    async with opened(manager) as stream:
        views.fact(type(stream))
        async for event in each(stream):
            views.model(event)
        views.model(stream.current_completion_snapshot)
        try:
            views.model(await got(stream.get_final_completion()))
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
            views.fact((type(error), str(error)))


def _look_at_raw(raw: Any, views: Views) -> None:
    views.fact((type(raw), type(raw.http_response), raw.retries_taken, raw.request_id, raw.is_closed))
    views.fact(type(raw.elapsed))
    views.head(raw)
    for text in (raw.text, raw.content, raw.http_response.text, raw.http_response.content, raw.http_response.read()):
        views.raw(text)
    views.fact(tidy(raw.http_response.json()))
    views.model(raw.parse())


async def _look_at_raw_stream(raw: Any, views: Views) -> None:
    views.fact((type(raw), type(raw.http_response), raw.request_id))
    views.head(raw)
    await _look_at_stream(raw.parse(), views)


async def _look_at_streamed(ask: Callable[[], Any], views: Views) -> None:
    for look in (_parsed, _read, _text, _bytes, _lines, _text_pieces, _raw_bytes):
        async with opened(ask()) as response:
            views.fact((type(response), type(response.http_response), response.request_id))
            views.head(response)
            await look(response, views)


async def _parsed(response: Any, views: Views) -> None:
    parsed = await got(response.parse())
    if hasattr(parsed, "model_dump"):
        views.model(parsed)
    else:
        await _look_at_stream(parsed, views)


async def _read(response: Any, views: Views) -> None:
    views.raw(await got(response.read()))


async def _text(response: Any, views: Views) -> None:
    views.raw(await got(response.text()))


async def _bytes(response: Any, views: Views) -> None:
    views.raw(b"".join([piece async for piece in each(response.iter_bytes())]))


async def _lines(response: Any, views: Views) -> None:
    views.raw("\n".join([line async for line in each(response.iter_lines())]))


async def _text_pieces(response: Any, views: Views) -> None:
    views.raw("".join([piece async for piece in each(response.iter_text())]))


async def _raw_bytes(response: Any, views: Views) -> None:
    is_async = inspect.iscoroutinefunction(response.read)
    pieces = response.http_response.aiter_raw() if is_async else response.http_response.iter_raw()
    raw = b"".join([piece async for piece in each(pieces)])
    views.raw(gzip.decompress(raw) if raw.startswith(GZIP) else raw)
