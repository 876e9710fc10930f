"""One wrapped client for all users: each request names its session, streams its answer and can turn context off."""

import asyncio
import tempfile
from collections.abc import AsyncIterator

from openai import AsyncOpenAI

import ctxwrap
from ctxwrap.testing.practice import Provider


async def answer(client: AsyncOpenAI, user: str, text: str, mode: str) -> AsyncIterator[str]:
    """Yield the text of an answer as it arrives, without the trailer."""
    with ctxwrap.using(session=user, context_mode=mode):
        stream = await client.chat.completions.create(
            model="practice", messages=[{"role": "user", "content": text}], stream=True
        )
    async for chunk in stream:
        if chunk.choices:
            yield chunk.choices[0].delta.content or ""


async def serve(client: AsyncOpenAI, user: str, text: str, mode: str = "enabled") -> None:
    pieces = [piece async for piece in answer(client, user, text, mode)]
    print(f"{user} ({mode}): {text} -> {''.join(pieces)}")


async def main() -> None:
    with Provider() as provider, tempfile.TemporaryDirectory() as home:
        client = ctxwrap.wrap(AsyncOpenAI(api_key="practice", base_url=provider.openai_url), store=home)
        await asyncio.gather(serve(client, "ada", "My name is Ada."), serve(client, "bob", "My name is Bob."))
        await serve(client, "ada", "What is my name?")
        await serve(client, "bob", "What is my name?")
        await serve(client, "bob", "What is my name?", mode="disabled")


asyncio.run(main())
