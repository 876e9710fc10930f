"""pydantic-ai, with the models of OpenAI and Anthropic."""

import asyncio
from typing import Any

import pytest

import ctxwrap
from tests.framework_recipes.conftest import SESSION, THANKS, TOOL_TURN, Stage, weather

pytest.importorskip("pydantic_ai")


def model(api: str) -> Any:
    """The model as the page makes it, with a client of the test's own event loop."""
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    if api == "openai":
        return OpenAIChatModel("gpt-5", provider=OpenAIProvider(openai_client=ctxwrap.wrap(AsyncOpenAI())))
    provider = AnthropicProvider(anthropic_client=ctxwrap.wrap(AsyncAnthropic()))
    return AnthropicModel("claude-sonnet-5", provider=provider)


def test_recipe(stage: Stage) -> None:
    stage.run("pydantic-ai")
    stage.check_two_turns()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_tools_streams_and_history(stage: Stage, api: str) -> None:
    from pydantic_ai import Agent

    stage.run("pydantic-ai")
    agent = Agent(model(api), tools=[weather])
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")

    async def talk() -> str:
        with ctxwrap.using(session=SESSION):
            first = await agent.run("How is Oslo?")
            assert first.output == "It is sunny."
            async with agent.run_stream("Thank you.", message_history=first.all_messages()) as stream:
                return "".join([text async for text in stream.stream_text(delta=True)])

    assert asyncio.run(talk()) == "You are welcome."
    stage.check_later_turns(TOOL_TURN, THANKS)
