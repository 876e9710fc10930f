"""A long conversation with everything that a log may hold: tools, branches, large contents, memory, other choices."""

from pathlib import Path
from typing import Any

import openai

import ctxwrap
from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.support import item, trailer

LARGE = "A long story. " * 2000
RESULT = "42 degrees in the oven. " * 100


def _answer(ask: Ask) -> Answer:
    said = ask.messages[-1][1]
    number = len(ask.messages) + len(said)
    known = [item(f"w-{number % 7}", f"The loaf {number % 7} is of rye.", round=1)]
    tail = trailer(ask, known) if asks_for_trailer(ask.system) else ""
    return Answer(f"Answer to {said[:20]!r}.{tail}")


def converse(provider: Provider, store: Store | Path, session: str = "s", turns: int = 50, **names: Any) -> None:
    provider.answer = _answer
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, store=store, session=session, **names)
    past: list[Any] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        past.append({"role": "user", "content": LARGE if turn % 20 == 11 else f"Question {turn} – ☕ \u2028"})
        if turn % 5 == 3:
            past += _called(turn)
        reply = client.chat.completions.create(model="m", messages=past, n=2 if turn % 9 == 4 else 1)
        past.append({"role": "assistant", "content": reply.choices[0].message.content})
        if turn % 10 == 7:  # an answer made again, and an edited question
            del past[-1]
            past[-1] = {"role": "user", "content": f"Edited {turn}"}
    ctxwrap.flush()


def _called(turn: int) -> list[Any]:
    call = {"id": f"call-{turn}", "type": "function", "function": {"name": "oven", "arguments": '{"at": 1}'}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call-{turn}", "content": RESULT},
        {"role": "user", "content": f"And now? {turn}"},
    ]


def directory_of(home: Path, session: str = "s", tenant: str = "default") -> Path:
    return home / "home" / tenant / "agent" / "default" / "session" / session
