"""A reply that takes long to read holds up nobody else on the event loop."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.testing import ScriptedProvider

LONGEST = 0.2
"""Seconds of CPU for which the loop may stand still, at most; reading all of it there takes half a second."""
STATE = {"version": "2.2", "memory": {"core": [], "working": [], "ephemeral": []}, "capabilities": []}
HOSTILE = f"Hi.\n\n{SEPARATOR}\n{json.dumps(STATE)[:-1]}," + '"a":1,' * 8_000
SIZE = 1_000_000


async def standstill(client: Any, *, stream: bool) -> float:
    """How long the loop stood still at most while a reply came in."""
    gaps = [0.0]

    async def tick() -> None:
        while True:
            start = time.thread_time()
            await asyncio.sleep(0.001)
            gaps.append(time.thread_time() - start)

    ticker = asyncio.create_task(tick())
    said: Any = [{"role": "user", "content": "Hi."}]
    reply = await client.chat.completions.create(model="m", messages=said, stream=stream)
    if stream:
        async for _ in reply:
            pass
    ticker.cancel()
    return max(gaps)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_long_hostile_reply_does_not_block_the_event_loop(home: Path, stream: bool) -> None:
    text = HOSTILE * (SIZE // len(HOSTILE))
    with ScriptedProvider(lambda request: text) as provider:
        bare = openai.AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, session="s", store=home, max_reasks=0)
        assert asyncio.run(standstill(client, stream=stream)) < LONGEST
