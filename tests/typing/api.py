"""Only type-checked, never run: wrapping a client keeps every type it had."""

from typing import assert_type

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message
from openai import AsyncAzureOpenAI, AsyncOpenAI, AsyncStream, AzureOpenAI, OpenAI, Stream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

import ctxwrap
from ctxwrap.types import TurnRecord

client = ctxwrap.wrap(OpenAI(), session="s", context_mode="readonly")
assert_type(client, OpenAI)
assert_type(client.with_options(timeout=1), OpenAI)
assert_type(client.chat.completions.create(model="m", messages=[]), ChatCompletion)
assert_type(client.chat.completions.create(model="m", messages=[], stream=True), Stream[ChatCompletionChunk])
assert_type(client.responses.create(model="m", input="hi"), Response)
assert_type(ctxwrap.wrap(AzureOpenAI()), AzureOpenAI)
assert_type(ctxwrap.wrap(AsyncAzureOpenAI()), AsyncAzureOpenAI)
assert_type(ctxwrap.wrap(Anthropic()), Anthropic)
assert_type(ctxwrap.wrap(Anthropic()).messages.create(model="m", max_tokens=1, messages=[]), Message)
assert_type(ctxwrap.wrap(AsyncAnthropic()), AsyncAnthropic)
assert_type(ctxwrap.turn_of(client), TurnRecord | None)
ctxwrap.offer("browser_state", "a page", source="tab", priority=0.7, visibility=["model"], session="s")
ctxwrap.Settings(summariser=ctxwrap.Summariser(OpenAI(), model="m", every=20))


async def asynchronous() -> None:
    wrapped = ctxwrap.wrap(AsyncOpenAI())
    assert_type(await wrapped.chat.completions.create(model="m", messages=[]), ChatCompletion)
    stream = await wrapped.chat.completions.create(model="m", messages=[], stream=True)
    assert_type(stream, AsyncStream[ChatCompletionChunk])


def twice(number: int) -> int:
    return 2 * number


assert_type(ctxwrap.wrap(twice)(2), int)
