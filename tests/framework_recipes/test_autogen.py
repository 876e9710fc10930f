"""AutoGen: an agent over the HTTP door, its tools and its streams."""

import asyncio

import pytest

import ctxwrap
from tests.framework_recipes.conftest import CONVERSATION, REMEMBERED, SESSION, THANKS, TOOL_TURN, Stage

pytest.importorskip("autogen_agentchat")


async def weather(city: str) -> str:
    """The weather in a city."""
    return "Sunny."


def test_recipe(stage: Stage) -> None:
    stage.run("AutoGen")
    stage.check_second_remembers()
    (role, _), *rest = stage.said()
    assert (role, rest) == ("system", CONVERSATION)


def test_tools_and_streams(stage: Stage) -> None:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.messages import ModelClientStreamingChunkEvent
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    stage.run("AutoGen")
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")

    async def talk() -> str:
        model = OpenAIChatCompletionClient(model="gpt-5", http_client=ctxwrap.async_http_client(session=SESSION))
        options = {"tools": [weather], "reflect_on_tool_use": True, "model_client_stream": True}
        agent = AssistantAgent("assistant", model, **options)
        first = await agent.run(task="How is Oslo?")
        assert first.messages[-1].content == "It is sunny."
        events = [event async for event in agent.run_stream(task="Thank you.")]
        chunks = [event.content for event in events if isinstance(event, ModelClientStreamingChunkEvent)]
        return "".join(chunks)

    assert asyncio.run(talk()) == "You are welcome."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said()[1:] == [*CONVERSATION, *TOOL_TURN, *THANKS]
