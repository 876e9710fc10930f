"""SDKs that are built like OpenAI's: a wrapped client gives the bare one's result, with context."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.testing.practice import Failure, Provider, ToolCall
from tests.clients.running import at_its_desk, each, got, on, opened, run_and_close
from tests.support import Told, assert_clean, events, messages, said

TEXT = "Hello, world."
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
HELLO = [("user", "Say hello."), ("assistant", TEXT)]
CALL = ToolCall("call_1", "weather", '{"city": "Paris"}')
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]


class Sibling(NamedTuple):
    module: str
    client: str
    method: str = "chat.completions.create"
    options: tuple[tuple[str, Any], ...] = ()
    path: str = "/v1/chat/completions"
    """The path that the SDK calls."""


SIBLINGS = {
    "cerebras": Sibling("cerebras.cloud.sdk", "Cerebras", options=(("warm_tcp_connection", False),)),
    "fireworks": Sibling("fireworks", "Fireworks"),
    "groq": Sibling("groq", "Groq", path="/openai/v1/chat/completions"),
    "together": Sibling("together", "Together"),
    "writer": Sibling("writerai", "Writer", "chat.chat", path="/v1/chat"),
}


class Desk:
    """A bare and a wrapped client of one SDK, each with a provider of its own that counts and dates as the other."""

    def __init__(self, sibling: Sibling, is_async: bool, home: Path, stack: ExitStack) -> None:
        module = pytest.importorskip(sibling.module, reason=f"the SDK {sibling.module} is not installed")
        self._class: Any = getattr(module, f"Async{sibling.client}" if is_async else sibling.client)
        self.sibling, self.is_async, self.home = sibling, is_async, home
        self.bare_provider, self.provider = (
            stack.enter_context(Provider(Told(TEXT), clock=lambda: 1_700_000_000.0)) for _ in range(2)
        )
        self.paths: list[str] = []
        self._made: list[Any] = []

    def bare(self, provider: Provider | None = None, **options: Any) -> Any:
        make: Any = httpx.AsyncClient if self.is_async else httpx.Client
        http_client = make(verify=False, event_hooks={"request": [self._on_request]})
        self._made.append(http_client)
        url = (provider or self.bare_provider).url
        given = {"api_key": "k", "base_url": url, "max_retries": 0, **dict(self.sibling.options), **options}
        return self._class(**given, http_client=http_client)

    def wrapped(self, **settings: Any) -> Any:
        client = ctxwrap.wrap(self.bare(self.provider), store=self.home, session="s", **settings)
        self._made.append(client)
        return client

    def answer(self, answering: Any) -> None:
        self.bare_provider.answer = self.provider.answer = answering

    def run(self, work: Any) -> None:
        run_and_close(work, self._made, is_async=self.is_async)

    @property
    def _on_request(self) -> Any:
        def note(request: Any) -> None:
            self.paths.append(request.url.path)
            if request.url.path == "/v1/chat":  # the practice provider knows this API by OpenAI's path only
                request.url = request.url.copy_with(path="/v1/chat/completions")

        async def note_async(request: Any) -> None:
            note(request)

        return note_async if self.is_async else note


@pytest.fixture(params=[f"{name}-{kind}" for name in SIBLINGS for kind in ("sync", "async")])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    name, _, kind = request.param.partition("-")
    with ExitStack() as stack:
        yield Desk(SIBLINGS[name], kind == "async", home, stack)


def at(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = getattr(client, name)
    return client


async def asked(desk: Desk, client: Any, **options: Any) -> Any:
    return await got(at(client, desk.sibling.method)(**{**CHAT, **options}))


def dumped(model: Any) -> Any:
    """What a model shows, without its number and the counts of tokens, which context changes."""
    dump = model.model_dump(mode="json", warnings=False)
    return {name: value is not None if name in ("id", "usage", "time_info") else value for name, value in dump.items()}


def has_content(chunk: Any) -> bool:
    """Whether a chunk has more than an empty text, which a chunk has when its text was removed."""
    choices = chunk["choices"] or ()
    return not choices or any(choice["finish_reason"] or any(_delta(choice).values()) for choice in choices)


def _delta(choice: Any) -> Any:
    return choice.get("delta") or {}


# --- the surfaces: what a caller sees -----------------------------------------------------------------------


async def create(desk: Desk, client: Any, **options: Any) -> list[Any]:
    return [dumped(await asked(desk, client, **options))]


async def stream(desk: Desk, client: Any, **options: Any) -> list[Any]:
    chunks = [dumped(chunk) async for chunk in each(await asked(desk, client, stream=True, **options))]
    return [chunk for chunk in chunks if has_content(chunk)]


async def raw(desk: Desk, client: Any, **options: Any) -> list[Any]:
    resource, _, name = desk.sibling.method.rpartition(".")
    response = await got(getattr(at(client, resource).with_raw_response, name)(**CHAT, **options))
    return [response.status_code, dumped(await got(response.parse()))]


async def streamed(desk: Desk, client: Any, **options: Any) -> list[Any]:
    resource, _, name = desk.sibling.method.rpartition(".")
    call = getattr(at(client, resource).with_streaming_response, name)
    async with opened(call(**CHAT, **options)) as response:
        body = json.loads(await got(response.read()))
    return [body["choices"]]


async def copied(desk: Desk, client: Any, **options: Any) -> list[Any]:
    return await create(desk, client.with_options(timeout=30), **options)


SURFACES = pytest.mark.parametrize("surface", [create, stream, raw, streamed, copied])
MAIN_SURFACES = pytest.mark.parametrize("surface", [create, stream])


@SURFACES
@at_its_desk
async def test_every_surface_gives_the_bare_clients_result(desk: Desk, surface: Any) -> None:
    bare = await surface(desk, desk.bare())
    ours = await surface(desk, desk.wrapped())
    assert bare
    assert ours == bare
    assert_clean(ours)
    assert asks_for_trailer(desk.provider.seen[0].json["messages"][0]["content"])
    assert desk.sibling.path in desk.paths
    assert said(desk.home, "s") == HELLO
    assert [event["status"] for event in events(desk.home, "s") if event["type"] == "done"] == ["ok"]


@MAIN_SURFACES
@at_its_desk
async def test_tool_calls_equal_the_bare_clients(desk: Desk, surface: Any) -> None:
    desk.answer(Told("", tool_calls=(CALL,)))
    bare = await surface(desk, desk.bare(), tools=TOOLS)
    assert await surface(desk, desk.wrapped(), tools=TOOLS) == bare
    assert [call["name"] for call in messages(desk.home, "s")[-1]["tool_calls"]] == ["weather"]


@at_its_desk
async def test_history_and_memory_come_with_the_next_call(desk: Desk) -> None:
    client = desk.wrapped()
    for _ in range(2):
        assert (await create(desk, client))[0]["choices"][0]["message"]["content"] == TEXT
    sent = desk.provider.seen[1].json["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == TEXT


@at_its_desk
async def test_session_is_an_argument_of_the_call_and_bind_names_it_too(desk: Desk) -> None:
    client = desk.wrapped()
    await asked(desk, client, session="a")
    await asked(desk, ctxwrap.bind(client, session="b"))
    assert [said(desk.home, name) for name in ("a", "b", "s")] == [HELLO, HELLO, []]


@at_its_desk
async def test_an_error_is_the_sdks_own(desk: Desk) -> None:
    desk.answer(lambda ask: Failure(401, "No such key."))
    error = getattr(import_module(desk.sibling.module), "AuthenticationError")  # noqa: B009
    with pytest.raises(error):
        await asked(desk, desk.wrapped())


@at_its_desk
async def test_a_wrapped_client_is_still_a_client_of_its_sdk(desk: Desk) -> None:
    bare = desk.bare(desk.provider)
    wrapped = ctxwrap.wrap(bare, store=desk.home, session="s")
    assert isinstance(wrapped, type(bare))
    assert desk.provider.seen == []


@on("groq-sync")
@at_its_desk
async def test_usage_at_the_end_of_a_groq_stream_is_logged(desk: Desk) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "x_groq": {"id": "r", "usage": usage}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    reply = httpx.Response(200, text=body, headers={"content-type": "text/event-stream"})
    client = desk.bare().copy(http_client=httpx.Client(transport=httpx.MockTransport(lambda request: reply)))
    list(ctxwrap.wrap(client, store=desk.home, session="s").chat.completions.create(**CHAT, stream=True))
    assert events(desk.home, "s")[-1]["usage"] == usage


@pytest.mark.parametrize("name", ["fireworks", "together"])
def test_calls_to_the_sdks_own_host_have_context(name: str, home: Path) -> None:
    module = pytest.importorskip(name, reason=f"the SDK {name} is not installed")
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        return httpx.Response(200, json={"id": "r", "object": "chat.completion", "choices": [choice]})

    client = getattr(module, name.title())(
        api_key="k", http_client=httpx.Client(transport=httpx.MockTransport(reply)), max_retries=0
    )
    ctxwrap.wrap(client, store=home, session="s").chat.completions.create(**CHAT)
    assert seen[0].url.path.endswith("/v1/chat/completions")
    assert said(home, "s") == HELLO
