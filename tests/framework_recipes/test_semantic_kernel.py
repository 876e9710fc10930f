"""Semantic Kernel: an agent of chat completions, its functions and its streams."""

import asyncio

import pytest

import ctxwrap
from tests.framework_recipes.conftest import SESSION, THANKS, TOOL_TURN, Stage

pytest.importorskip("semantic_kernel")


def test_recipe(stage: Stage) -> None:
    stage.run("Semantic Kernel")
    stage.check_two_turns()


def test_functions_and_streams(stage: Stage) -> None:
    from openai import AsyncOpenAI
    from semantic_kernel.agents import ChatCompletionAgent
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
    from semantic_kernel.functions import kernel_function

    class Weather:
        @kernel_function
        def weather(self, city: str) -> str:
            """The weather in a city."""
            return "Sunny."

    stage.run("Semantic Kernel")
    stage.call_tool("Weather-weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")

    async def talk() -> str:
        service = OpenAIChatCompletion(ai_model_id="gpt-5", async_client=ctxwrap.wrap(AsyncOpenAI()))
        agent = ChatCompletionAgent(service=service, name="assistant", plugins=[Weather()])
        with ctxwrap.using(session=SESSION):
            reply = await agent.get_response(messages="How is Oslo?")
            assert str(reply.content) == "It is sunny."
            stream = agent.invoke_stream(messages="Thank you.", thread=reply.thread)
            return "".join([str(each.content) async for each in stream])

    assert asyncio.run(talk()) == "You are welcome."
    stage.check_later_turns(TOOL_TURN, THANKS)
