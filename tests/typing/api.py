"""Only type-checked, never run: wrapping a client keeps every type it had."""

from typing import assert_type

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message
from openai import AsyncAzureOpenAI, AsyncOpenAI, AsyncStream, AzureOpenAI, OpenAI, Stream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

import ctxwrap
from ctxwrap.export.evidence import Diff, Evidence
from ctxwrap.inspect import Cost, TurnInfo
from ctxwrap.session.child_sessions import Child
from ctxwrap.session.pack_view import PackView
from ctxwrap.session.swap_search import SwapHit
from ctxwrap.session.verify import Verification
from ctxwrap.types import MissingContext, TurnRecord

client = ctxwrap.wrap(OpenAI(), session="s", context_mode="readonly")
assert_type(client, OpenAI)
assert_type(client.with_options(timeout=1), OpenAI)
assert_type(ctxwrap.bind(client, session="t", tenant="acme", context_mode="enabled"), OpenAI)
assert_type(ctxwrap.bind(ctxwrap.wrap(AsyncAnthropic()), session="t", purpose="aux"), AsyncAnthropic)
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
session = ctxwrap.open_session("s", tenant="acme", agent="bot", store="memory:")
assert_type(session, ctxwrap.SessionHandle)
assert_type(session.turns(), tuple[TurnInfo, ...])
assert_type(session.pack(1), PackView)
assert_type(session.cost(), Cost)
assert_type(session.forget(item="c-1"), tuple[str, ...])
assert_type(session.verify(), Verification)
assert_type(session.swap("tea"), tuple[SwapHit, ...])
assert_type(session.start_child("review", handoff="Check it."), Child)
assert_type(session.missing(), tuple[MissingContext, ...])
assert_type(session.envelope(1), Evidence)
assert_type(session.diff(1, "2"), Diff)
assert_type(session.pin("c-1"), None)


async def asynchronous() -> None:
    wrapped = ctxwrap.wrap(AsyncOpenAI())
    assert_type(await wrapped.chat.completions.create(model="m", messages=[]), ChatCompletion)
    stream = await wrapped.chat.completions.create(model="m", messages=[], stream=True)
    assert_type(stream, AsyncStream[ChatCompletionChunk])


def twice(number: int) -> int:
    return 2 * number


assert_type(ctxwrap.wrap(twice)(2), int)
