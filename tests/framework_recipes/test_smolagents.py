"""smolagents: agents that write code, and that call tools; messages whose roles are enums."""

import pytest

import ctxwrap
from ctxwrap.testing import Answer, ToolCall
from tests.framework_recipes.conftest import REMEMBERED, REPLIES, SESSION, Stage

pytest.importorskip("smolagents")


def written(text: str) -> str:
    return f'I answer.\n<code>\nfinal_answer("{text}")\n</code>'


TWO_TURNS = (Answer(written(REPLIES[0]), remembers=REMEMBERED), Answer(written(REPLIES[1])))


def test_recipe(stage: Stage) -> None:
    stage.run("smolagents", *TWO_TURNS)
    stage.check_two_turns_with_own_prompts(*map(written, REPLIES))


def test_streams(stage: Stage) -> None:
    from smolagents import CodeAgent

    model = stage.run("smolagents", *TWO_TURNS)["model"]
    stage.answer(written("Sunny."))
    with ctxwrap.using(session=SESSION):
        agent = CodeAgent(tools=[], model=model, stream_outputs=True, verbosity_level=0)
        assert agent.run("How is Oslo?") == "Sunny."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said()[-1] == ("assistant", written("Sunny."))


def test_tools(stage: Stage) -> None:
    from smolagents import ToolCallingAgent

    model = stage.run("smolagents", *TWO_TURNS)["model"]
    stage.answer(Answer(tool_calls=(ToolCall("call_1", "final_answer", '{"answer": "Sunny."}'),)))
    with ctxwrap.using(session=SESSION):
        assert ToolCallingAgent(tools=[], model=model, verbosity_level=0).run("How is Oslo?") == "Sunny."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said()[-2:] == [("user", "New task:\nHow is Oslo?"), ("assistant", "")]
