"""Haystack: a generator with a transport of ctxwrap, its streams, and an agent with tools."""

import asyncio

import pytest

import ctxwrap
from tests.framework_recipes.conftest import SESSION, TOOL_TURN, Stage, turn, weather

pytest.importorskip("haystack")


def test_recipe(stage: Stage) -> None:
    stage.run("Haystack")
    stage.check_two_turns()


def test_streams(stage: Stage) -> None:
    names = stage.run("Haystack")
    question, seen = names["ChatMessage"].from_user("Hello?"), list[str]()
    stage.answer("Hello once more, Ada.")
    with ctxwrap.using(session=SESSION):
        reply = names["generator"].run([question], streaming_callback=lambda chunk: seen.append(chunk.content))
    assert "".join(seen) == reply["replies"][0].text == "Hello once more, Ada."
    stage.check_later_turns(turn("Hello?", "Hello once more, Ada."))


def test_async_runs(stage: Stage) -> None:
    names = stage.run("Haystack")
    stage.answer("Hello once more, Ada.")
    transport = {"transport": ctxwrap.async_transport(session=SESSION)}
    generator = names["OpenAIChatGenerator"](model="gpt-5", http_client_kwargs=transport)
    reply = asyncio.run(generator.run_async([names["ChatMessage"].from_user("Hello?")]))
    assert reply["replies"][0].text == "Hello once more, Ada."
    stage.check_later_turns(turn("Hello?", "Hello once more, Ada."))


def test_agent_with_tools(stage: Stage) -> None:
    from haystack.components.agents import Agent
    from haystack.tools import create_tool_from_function

    names = stage.run("Haystack")
    agent = Agent(chat_generator=names["generator"], tools=[create_tool_from_function(weather)])
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    with ctxwrap.using(session=SESSION):
        done = agent.run([names["ChatMessage"].from_user("How is Oslo?")])
    assert done["last_message"].text == "It is sunny."
    stage.check_later_turns(TOOL_TURN)
