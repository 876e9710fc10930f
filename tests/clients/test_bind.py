"""`bind`: a wrapped client for one session, which shares everything with the client that it was made of."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.types import TurnRecord
from tests.support import said

HELLO: Any = [{"role": "user", "content": "hi"}]


def turn_of(reply: Any) -> TurnRecord:
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    return turn


def ask(client: openai.OpenAI, **more: Any) -> TurnRecord:
    return turn_of(client.chat.completions.create(model="m", messages=HELLO, **more))


def ask_openai(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    return ask(wrapped(openai.OpenAI(api_key="x", base_url=provider.openai_url)))


def ask_openai_async(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    async def call() -> Any:
        async with wrapped(openai.AsyncOpenAI(api_key="x", base_url=provider.openai_url)) as client:
            return await client.chat.completions.create(model="m", messages=HELLO)

    return turn_of(asyncio.run(call()))


def ask_anthropic(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    client = wrapped(anthropic.Anthropic(api_key="x", base_url=provider.url))
    return turn_of(client.messages.create(model="m", max_tokens=9, messages=HELLO))


def ask_litellm(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    litellm = wrapped(load_litellm())
    return turn_of(litellm.completion("openai/m", HELLO, api_base=provider.openai_url, api_key="x"))


def ask_litellm_function(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    completion = wrapped(load_litellm().completion)
    return turn_of(completion("openai/m", HELLO, api_base=provider.openai_url, api_key="x"))


def ask_router(provider: Provider, wrapped: Callable[[Any], Any]) -> TurnRecord:
    model = {"model": "openai/m", "api_base": provider.openai_url, "api_key": "x"}
    router = load_litellm().Router(model_list=[{"model_name": "m", "litellm_params": model}])
    return turn_of(wrapped(router).completion(model="m", messages=HELLO))


CALLS = (ask_openai, ask_openai_async, ask_anthropic, ask_litellm, ask_litellm_function, ask_router)


@pytest.mark.parametrize("call", CALLS)
def test_bound_client_calls_for_what_it_names(call: Any, provider: Provider, home: Path) -> None:
    def wrapped(client: Any) -> Any:
        whole = ctxwrap.wrap(client, session="one", tenant="acme", agent="bot", store=home)
        bound = ctxwrap.bind(whole, session="two", context_mode="readonly")
        assert type(bound) is type(whole)
        return ctxwrap.bind(bound, tenant="other")

    turn = call(provider, wrapped)
    assert (turn.session, turn.tenant, turn.agent, turn.mode) == ("two", "other", "bot", "readonly")


@pytest.fixture
def client(provider: Provider, home: Path) -> openai.OpenAI:
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
    return ctxwrap.wrap(bare, session="of-wrap", tenant="acme", store=home, context_mode="shadow")


def names(turn: TurnRecord) -> tuple[str, str]:
    return turn.session, turn.mode


def test_precedence_is_call_then_using_then_bind_then_wrap(client: openai.OpenAI) -> None:
    assert names(ask(client)) == ("of-wrap", "shadow")
    bound = ctxwrap.bind(client, session="of-bind", context_mode="readonly")
    assert names(ask(bound)) == ("of-bind", "readonly")
    with ctxwrap.using(session="of-using", context_mode="enabled"):
        assert names(ask(bound)) == ("of-using", "enabled")
        assert names(ask(bound, session="of-call", context_mode="readonly")) == ("of-call", "readonly")
    assert names(ask(client)) == ("of-wrap", "shadow")


def test_the_later_of_bind_and_the_clients_headers_counts(client: openai.OpenAI) -> None:
    headers = {"x-ctxwrap-session": "of-headers", "X-Ctxwrap-Mode": "readonly", "x-own": "1"}
    before = ctxwrap.bind(client.with_options(default_headers=headers), session="of-bind")
    after = ctxwrap.bind(client, session="of-bind").with_options(default_headers=headers)
    assert names(ask(before)) == ("of-bind", "readonly")
    assert before.default_headers["x-own"] == "1"
    assert names(ask(after)) == ("of-headers", "readonly")


def test_wrapping_a_bound_client_changes_only_what_is_named(client: openai.OpenAI) -> None:
    bound = ctxwrap.bind(client, session="of-bind", context_mode="readonly")
    assert names(ask(ctxwrap.wrap(bound, budget=16_000))) == ("of-bind", "readonly")
    assert names(ask(ctxwrap.wrap(bound, contextMode="enabled"))) == ("of-bind", "enabled")
    assert names(ask(ctxwrap.wrap(bound, settings=ctxwrap.Settings()))) == ("of-bind", "enabled")
    assert ask(ctxwrap.wrap(bound, tenant="default")).tenant == "default"


def test_contexts_of_a_bound_client_are_kept_by_its_copies(client: openai.OpenAI) -> None:
    bound = ctxwrap.bind(client, session="of-bind", contextMode="readonly")
    assert names(ask(bound.with_options(timeout=20))) == ("of-bind", "readonly")


class CountingStore(MemoryStore):
    """Counts how often a log is read from its start."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def read_lines(self, session: str, stream: str, start: int, count: int | None = None) -> Sequence[bytes]:
        self.readings += stream == "messages" and start == 0
        return super().read_lines(session, stream, start, count)


def test_binding_for_each_request_reads_a_session_only_once(provider: Provider) -> None:
    store = CountingStore()
    client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), store=store)
    ask(ctxwrap.bind(client, session="s"))
    before = store.readings
    rounds = [ask(ctxwrap.bind(client, session="s")).round for _ in range(3)]
    assert rounds == [2, 3, 4]
    assert store.readings == before


def test_bound_client_sends_over_the_connections_of_its_client(provider: Provider, home: Path) -> None:
    http_client = openai.DefaultHttpxClient(trust_env=False)
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, http_client=http_client)
    bound = ctxwrap.bind(ctxwrap.wrap(bare, store=home), session="s")
    ask(bound)
    http_client.close()
    assert bound.is_closed()
    assert len(said(home, "s")) == 2


@pytest.mark.parametrize("thing", [openai.OpenAI(api_key="x"), None, "client"])
def test_only_a_wrapped_client_can_be_bound(thing: Any) -> None:
    with pytest.raises(ctxwrap.UnsupportedClient, match=r"bind\(ctxwrap.wrap\(client\), session=...\)"):
        ctxwrap.bind(thing, session="s")


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"sesion": "s"}, ctxwrap.SettingsError, r"unknown argument of bind\(\) 'sesion': did you mean 'session'"),
        ({"budget": 8}, ctxwrap.SettingsError, r"settings are arguments of wrap\(\)"),
        ({"context_mode": "readonyl"}, ctxwrap.SettingsError, "did you mean 'readonly'"),
        ({"session": None}, ctxwrap.InvalidId, "a session id must be a text"),
        ({"tenant": 5}, ctxwrap.InvalidId, "a tenant id must be a text"),
    ],
)
def test_a_wrong_argument_is_named_before_any_call(
    client: openai.OpenAI, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ctxwrap.bind(client, **wrong)
    with pytest.raises(error, match=message.replace("bind", "using")), ctxwrap.using(**wrong):
        pass
