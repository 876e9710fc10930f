"""LangGraph: an agent with tools, and with a history that it keeps and resends itself."""

from typing import Any

import pytest

import ctxwrap
from tests.framework_recipes.conftest import SESSION, THANKS, TOOL_TURN, Stage, weather

pytest.importorskip("langgraph")
pytest.importorskip("langchain_openai")


def test_recipe(stage: Stage) -> None:
    stage.run("LangGraph")
    stage.check_two_turns()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_tools_streams_and_checkpointer(stage: Stage, api: str) -> None:
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    names = stage.run("LangGraph") if api == "openai" else stage.run("LangChain", number=1)
    agent = create_agent(names["model"], tools=[weather], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")
    with ctxwrap.using(session=SESSION):
        assert agent.invoke({"messages": "How is Oslo?"}, thread)["messages"][-1].text == "It is sunny."
        stream = agent.stream({"messages": "Thank you."}, thread, stream_mode="messages")
        assert "".join(chunk.text for chunk, _ in stream) == "You are welcome."
    stage.check_later_turns(TOOL_TURN, THANKS)
