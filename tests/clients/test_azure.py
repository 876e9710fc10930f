"""The Azure clients of the OpenAI SDK, wrapped: deployment paths, tokens, and chunks without choices."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap import turn_of
from ctxwrap.testing.practice import Failure, Provider
from tests.clients.openai_cases import (
    CHAT,
    HELLO,
    SAID,
    TEXT,
    Desk,
    Surface,
    both,
    chat_copy,
    chat_create,
    chat_helper,
    chat_raw,
    chat_raw_stream,
    chat_stream,
    chat_streamed_lines,
    chat_streamed_stream,
    content,
    each,
    each_of,
    got,
    looked,
    mode_sent,
    named,
    open_desk,
    response_create,
    response_helper,
    response_stream,
    text_create,
    text_stream,
)
from tests.support import Told, assert_clean, events, said

VERSION = "2024-10-21"


class AzureDesk(Desk):
    """Speaks to deployments; the answers hold what Azure adds."""

    def __init__(self, kind: str, home: Path, stack: ExitStack) -> None:
        super().__init__(kind, home, stack)
        self.answer(Told(TEXT, azure=True))

    def make(self, provider: Provider, **options: Any) -> Any:
        cls: Any = openai.AsyncAzureOpenAI if self.is_async else openai.AzureOpenAI
        named_by = {} if "base_url" in options else {"azure_endpoint": provider.url}
        key = {} if "azure_ad_token_provider" in options else {"api_key": "k"}
        return cls(**{"api_version": VERSION, **named_by, **key, **options})


@pytest.fixture(params=["sync", "async"])
def desk(request: pytest.FixtureRequest, home: Path) -> Iterator[Desk]:
    with open_desk(request.param, home, AzureDesk) as desk:
        yield desk


SURFACES = named(
    chat_create,
    chat_stream,
    chat_helper,
    chat_raw,
    chat_raw_stream,
    chat_streamed_lines,
    chat_streamed_stream,
    chat_copy,
    text_create,
    text_stream,
    response_create,
    response_stream,
    response_helper,
)


@each_of(SURFACES)
@both
async def test_every_surface_of_azure_shows_what_the_bare_client_shows(desk: Desk, surface: Surface) -> None:
    bare = await looked(desk.bare(), surface)
    wrapped = await looked(desk.wrapped(), surface)
    assert bare.values
    assert wrapped.values == bare.values
    assert_clean(*wrapped.texts)
    assert {mode_sent(seen) for seen in desk.provider.seen} == {"enabled"}
    assert [seen.path for seen in desk.provider.seen] == [seen.path for seen in desk.bare_provider.seen]
    assert said(desk.home, "s")[:2] == HELLO


@both
async def test_a_stream_begins_with_the_chunk_that_has_no_choices(desk: Desk) -> None:
    stream = await got(desk.wrapped().chat.completions.create(**CHAT, stream=True))
    chunks = [chunk async for chunk in each(stream)]
    assert chunks[0].choices == []
    assert chunks[0].model_extra["prompt_filter_results"]
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == TEXT
    assert turn_of(stream).report.status == "complete"


@both
async def test_content_filter_results_of_azure_are_kept(desk: Desk) -> None:
    reply = await got(desk.wrapped().chat.completions.create(**CHAT))
    assert content(reply) == TEXT
    assert reply.model_extra["prompt_filter_results"]
    assert reply.choices[0].model_extra["content_filter_results"]["hate"] == {"filtered": False, "severity": "safe"}


DEPLOYMENTS: dict[str, Callable[[Provider], dict[str, Any]]] = {
    "of the model": lambda provider: {},
    "of the client": lambda provider: {"azure_deployment": "d"},
    "in the address": lambda provider: {"base_url": f"{provider.url}/openai/deployments/d"},
}


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@both
async def test_wrapped_client_calls_the_same_azure_deployment(desk: Desk, deployment: str) -> None:
    options = DEPLOYMENTS[deployment]
    await got(desk.bare(**options(desk.bare_provider)).chat.completions.create(**CHAT))
    client = desk.wrapped(options=options(desk.provider))
    for user in (client, client.with_options(timeout=20)):
        assert turn_of(await got(user.chat.completions.create(**CHAT))).mode == "enabled"
    name = "m" if deployment == "of the model" else "d"
    expected = f"/openai/deployments/{name}/chat/completions?api-version={VERSION}"
    assert [seen.path for seen in desk.bare_provider.seen] == [expected]
    assert [seen.path for seen in desk.provider.seen] == [expected] * 2
    assert said(desk.home, "s") == HELLO * 2


@both
async def test_a_wrapped_azure_client_keeps_its_type(desk: Desk) -> None:
    bare, wrapped = desk.bare(), desk.wrapped()
    assert isinstance(wrapped, type(bare))
    assert type(wrapped).__name__ == type(bare).__name__
    assert ctxwrap.wrap(wrapped) is wrapped
    copied = wrapped.with_options(api_version="2025-01-01")
    assert type(copied) is type(wrapped)
    await got(copied.chat.completions.create(**CHAT))
    assert desk.provider.seen[0].path.endswith("api-version=2025-01-01")
    assert mode_sent(desk.provider.seen[0]) == "enabled"


@both
async def test_token_provider_is_called_as_often_as_by_the_bare_client(desk: Desk) -> None:
    asked: list[str] = []

    def token() -> str:
        asked.append("token")
        return f"token-{len(asked)}"

    await got(desk.bare(azure_ad_token_provider=token).chat.completions.create(**CHAT))
    often = len(asked)
    asked.clear()
    await got(desk.wrapped(options={"azure_ad_token_provider": token}).chat.completions.create(**CHAT))
    assert len(asked) == often > 0
    assert desk.provider.seen[0].headers["authorization"] == desk.bare_provider.seen[0].headers["authorization"]


@pytest.mark.parametrize("mode", ["disabled", "shadow"])
@each_of(named(chat_raw, chat_streamed_stream, text_create, response_stream))
@both
async def test_disabled_and_shadow_send_azure_the_bare_client_s_bytes(desk: Desk, surface: Surface, mode: str) -> None:
    bare = await looked(desk.bare(), surface)
    wrapped = await looked(desk.wrapped(context_mode=mode), surface)
    assert (wrapped.values, wrapped.texts) == (bare.values, bare.texts)
    for seen, expected in zip(desk.provider.seen, desk.bare_provider.seen, strict=True):
        assert (seen.method, seen.path, seen.body) == (expected.method, expected.path, expected.body)
        assert {**seen.headers, "host": ""} == {**expected.headers, "host": ""}


@both
async def test_session_and_mode_headers_do_not_reach_azure(desk: Desk) -> None:
    client = desk.wrapped(options={"default_headers": {"x-ctxwrap-session": "of-client"}})
    await got(client.chat.completions.create(**CHAT))
    await got(client.chat.completions.create(**CHAT, session="of-call", context_mode="readonly"))
    assert (said(desk.home, "of-client"), said(desk.home, "of-call")) == (HELLO, HELLO)
    assert [mode_sent(seen) for seen in desk.provider.seen] == ["enabled", "readonly"]
    assert not [name for seen in desk.provider.seen for name in seen.headers if "ctxwrap" in name]


@both
async def test_a_retry_at_azure_is_one_turn(desk: Desk) -> None:
    client = desk.wrapped(options={"max_retries": 1})
    waiting, answer = [Failure(429, headers={"retry-after-ms": "1"})], Told(TEXT, azure=True)
    desk.provider.answer = lambda ask: waiting.pop() if waiting else answer(ask)
    assert content(await got(client.chat.completions.create(**CHAT))) == TEXT
    first, second = desk.provider.seen
    assert (first.path, first.body) == (second.path, second.body)
    assert said(desk.home, "s") == HELLO


@both
async def test_a_filtered_prompt_is_the_bare_client_s_error(desk: Desk) -> None:
    bare, wrapped = desk.bare(), desk.wrapped()
    desk.script(Failure(400, "The prompt was filtered.", param="prompt", code="content_filter"))
    errors = []
    for client in (bare, wrapped):
        with pytest.raises(openai.BadRequestError) as caught:
            await got(client.chat.completions.create(**CHAT))
        errors.append((caught.value.code, caught.value.param, caught.value.body, str(caught.value)))
    assert errors[0][0] == "content_filter"
    assert errors[0] == errors[1]
    assert said(desk.home, "s") == [("user", SAID)]
    assert events(desk.home, "s")[-1]["status"] == "error"
