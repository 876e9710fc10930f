"""LlamaIndex, with the models of OpenAI and Anthropic."""

import asyncio

import pytest

import ctxwrap
from tests.framework_recipes.conftest import CONVERSATION, REMEMBERED, SESSION, Stage, turn, weather

pytest.importorskip("llama_index.llms.openai")


def test_recipe(stage: Stage) -> None:
    stage.run("LlamaIndex")
    stage.check_two_turns()


def test_streams(stage: Stage) -> None:
    from llama_index.core.llms import ChatMessage

    llm = stage.run("LlamaIndex")["llm"]
    stage.answer("Hello once more, Ada.", "And again.")
    with ctxwrap.using(session=SESSION):
        stream = llm.stream_chat([ChatMessage(content="Hello?")])
        assert "".join(each.delta for each in stream) == "Hello once more, Ada."
        assert asyncio.run(llm.achat([ChatMessage(content="Again?")])).message.content == "And again."
    stage.check_later_turns(turn("Hello?", "Hello once more, Ada."), turn("Again?", "And again."))


def test_agent_with_tools(stage: Stage) -> None:
    from llama_index.core.agent.workflow import FunctionAgent

    agent = FunctionAgent(tools=[weather], llm=stage.run("LlamaIndex")["llm"])
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")

    async def talk() -> str:
        with ctxwrap.using(session=SESSION):
            return str(await agent.run("How is Oslo?"))

    assert asyncio.run(talk()) == "It is sunny."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert [role for role, _ in stage.said()[len(CONVERSATION) :]] == ["user", "assistant", "tool", "assistant"]
