"""LangGraph: an agent with tools, and with a history that it keeps and resends itself."""

from typing import Any

import pytest

import ctxwrap
from tests.framework_recipes.conftest import CONVERSATION, REMEMBERED, SESSION, Stage

pytest.importorskip("langgraph")
pytest.importorskip("langchain_openai")


def test_recipe(stage: Stage) -> None:
    stage.run("LangGraph")
    stage.check_two_turns()


def test_tools_and_checkpointer(stage: Stage) -> None:
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    names = stage.run("LangGraph")
    agent = create_agent(names["model"], tools=[names["weather"]], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")
    with ctxwrap.using(session=SESSION):
        for text in ("How is Oslo?", "Thank you."):
            reply = agent.invoke({"messages": text}, thread)
    assert reply["messages"][-1].content == "You are welcome."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said() == [
        *CONVERSATION,
        ("user", "How is Oslo?"),
        ("assistant", ""),
        ("tool", "Sunny."),
        ("assistant", "It is sunny."),
        ("user", "Thank you."),
        ("assistant", "You are welcome."),
    ]
