"""The scripted provider does for a user's test what its page says, with every client."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

import ctxwrap
from ctxwrap.testing import Answer, Failure, Gate, ScriptedProvider, ToolCall
from ctxwrap.testing.practice import Answer as BareAnswer
from tests.support import assert_clean

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
TEXT = "One two three."


def test_docs_example_passes(tmp_path: Path) -> None:
    bot, clock, habits, store = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "test_bot.py").write_text(bot + clock + habits)
    (tmp_path / "test_store.py").write_text("import ctxwrap\nimport pytest\n" + store)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "bot or users or round_trip", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout)


def sync_chat(provider: ScriptedProvider, store: Any) -> Callable[[str], str]:
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=store, session="s")

    def say(text: str) -> str:
        reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return reply.choices[0].message.content or ""

    return say


def sync_stream(provider: ScriptedProvider, store: Any) -> Callable[[str], str]:
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=store, session="s")

    def say(text: str) -> str:
        said: Any = [{"role": "user", "content": text}]
        stream = client.chat.completions.create(model="m", messages=said, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    return say


def async_responses(provider: ScriptedProvider, store: Any) -> Callable[[str], str]:
    async def one(text: str) -> str:
        async with openai.AsyncOpenAI(api_key="x", base_url=provider.openai_url, max_retries=0) as bare:
            client = ctxwrap.wrap(bare, store=store, session="s")
            return (await client.responses.create(model="m", input=text)).output_text

    return lambda text: asyncio.run(one(text))


def messages(provider: ScriptedProvider, store: Any) -> Callable[[str], str]:
    bare = anthropic.Anthropic(api_key="x", base_url=provider.anthropic_url, max_retries=0)
    client = ctxwrap.wrap(bare, store=store, session="s")

    def say(text: str) -> str:
        reply = client.messages.create(model="m", max_tokens=99, messages=[{"role": "user", "content": text}])
        return "".join(block.text for block in reply.content if block.type == "text")

    return say


CLIENTS = [sync_chat, sync_stream, async_responses, messages]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_every_client_gets_the_script_and_no_snapshot(client: Callable[..., Callable[[str], str]]) -> None:
    script = [
        Answer("Hello Ada.", remembers="The user is called Ada."),
        Answer(TEXT, remembers=[{"content": "Tea.", "tier": "core", "id": "tea"}], trailer="damaged"),
        Answer(TEXT, remembers=["Late."], trailer="unusable"),
        Answer("Nothing.", trailer="none"),
        lambda request: f"You said {request.messages[-1][1]!r}.",
    ]
    with ScriptedProvider(script) as provider:
        say = client(provider, ctxwrap.open_store("memory:"))
        replies = [say(f"word {number}") for number in range(len(script))]
    assert replies == ["Hello Ada.", TEXT, TEXT, "Nothing.", "You said 'word 4'."]
    assert_clean(*replies)
    assert [len(request.memory) for request in provider.requests] == [0, 1, 2, 3, 3]
    assert set(provider.last.memory) == {"The user is called Ada.", "Tea.", "Late."}
    assert [request.messages[-1] for request in provider.requests] == [("user", f"word {n}") for n in range(5)]
    assert len(provider.seen) == len(script) + 1, "one snapshot was asked for again"
    context = provider.last.context
    assert context is not None
    assert context["runtime"]["round"] == 5
    assert [item["id"] for item in context["memory"]["core"]] == ["tea"]


def test_bare_client_gets_no_snapshot() -> None:
    with ScriptedProvider([Answer("Hi.", remembers="x"), BareAnswer("Bare.")]) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        said: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
        for text in ("Hi.", "Bare."):
            assert bare.chat.completions.create(model="m", messages=said).choices[0].message.content == text
    request = provider.last
    assert (request.system, request.messages, request.context, request.memory) == (
        "Be brief.",
        [("user", "hi")],
        None,
        [],
    )


def test_delta_snapshot_contains_only_new_items() -> None:
    with ScriptedProvider([Answer("a", remembers=["A."]), Answer("b", remembers=["B."]), "c"]) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, store="memory:", session="s", snapshot="delta")
        replies = [
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": word}]) for word in "abc"
        ]
    assert [ctxwrap.turn_of(reply).report.reading for reply in replies] == ["clean"] * 3
    assert [len(ctxwrap.turn_of(reply).operations) for reply in replies] == [1, 1, 0]
    assert sorted(provider.last.memory) == ["A.", "B."]


def test_script_can_have_tools_failures_and_broken_streams() -> None:
    call = ToolCall("c1", "search", '{"q": "tea"}')
    script = [Answer(tool_calls=(call,)), Failure(429), Answer(TEXT, cut_after=2), Answer(TEXT, error_after=1)]
    with ScriptedProvider(script) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, store="memory:", session="s")
        said: Any = [{"role": "user", "content": "tea?"}]
        (asked,) = client.chat.completions.create(model="m", messages=said).choices[0].message.tool_calls or ()
        assert asked.function.name == "search"  # type: ignore[union-attr]
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="m", messages=said)
        for heard in ("One two", "One"):
            stream, pieces = iter(client.chat.completions.create(model="m", messages=said, stream=True)), []
            with pytest.raises((openai.APIError, httpx.RemoteProtocolError)):
                pieces.extend(chunk.choices[0].delta.content or "" for chunk in stream)
            assert "".join(pieces) == heard


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_an_answer_waits_at_its_gate(streams: bool) -> None:
    gate = Gate()
    with ScriptedProvider([Answer(TEXT, pause=gate)]) as provider, ThreadPoolExecutor(1) as pool:
        say = (sync_stream if streams else sync_chat)(provider, "memory:")
        reply = pool.submit(say, "go on")
        gate.wait()
        assert not reply.done()
        gate.open()
        assert reply.result() == TEXT


def test_closed_gate_does_not_block_provider_shutdown() -> None:
    with ScriptedProvider([Answer(TEXT, pause=Gate(0))]) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        said: Any = [{"role": "user", "content": "hi"}]
        stream = bare.chat.completions.create(model="m", messages=said, stream=True)
    stream.close()


# errors


def asked(script: Any, count: int, **how: Any) -> ScriptedProvider:
    """A bot that swallows every error asks so often."""
    with ScriptedProvider(script, **how) as provider:
        say = sync_chat(provider, "memory:")
        for number in range(count):
            with suppress(openai.BadRequestError):
                say(f"word {number}")
    return provider


def test_extra_request_fails_the_test_even_if_the_bot_hides_it() -> None:
    with pytest.raises(AssertionError, match=r"the script has 1 steps, and request 2 came: 'word 1.*Add a step"):
        asked(["a"], 2)


def test_client_gets_the_extra_request_error_without_retries() -> None:
    with (
        pytest.raises(openai.BadRequestError, match="Add a step, or pass a function"),
        ScriptedProvider([]) as provider,
    ):
        openai.OpenAI(api_key="x", base_url=provider.openai_url).responses.create(model="m", input="hi")
    assert len(provider.seen) == 1


def test_unused_steps_fail_the_test() -> None:
    with pytest.raises(AssertionError, match=r"2 of the script's 3 steps were not used, the first of them 'b'"):
        asked(list("abc"), 1)
    assert len(asked(list("abc"), 1, all_used=False).requests) == 1


def test_exception_of_a_script_function_fails_the_test() -> None:
    def broken(_: Any) -> str:
        raise ZeroDivisionError("by nought")

    with pytest.raises(AssertionError, match="step 1 of the script raised ZeroDivisionError: by nought"):
        asked([broken], 1)
    with pytest.raises(AssertionError, match="a step must be a text, an Answer, a Failure"):
        asked([17], 1)
    with pytest.raises(AssertionError, match="tier"):
        asked([Answer("a", remembers=[{"content": "x", "tier": "cor"}])], 1)


def test_the_tests_own_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedProvider(["a"]):
        raise ZeroDivisionError


def test_misspelt_name_error_lists_valid_names() -> None:
    with pytest.raises(Exception, match="damaged"):
        Answer("a", trailer="damagd")  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="base_url"), ScriptedProvider([]) as provider:
        provider.last  # noqa: B018
