"""LangChain, with the models of OpenAI and Anthropic."""

import asyncio

import pytest
from pydantic import BaseModel

import ctxwrap
from tests.framework_recipes.conftest import REMEMBERED, SESSION, TOOL_TURN, Stage, turn, weather

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_anthropic")

OPENAI, ANTHROPIC = 0, 1
each_provider = pytest.mark.parametrize("number", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])


@each_provider
def test_recipe(stage: Stage, number: int) -> None:
    stage.run("LangChain", number=number)
    stage.check_two_turns()


@each_provider
def test_streams(stage: Stage, number: int) -> None:
    model = stage.run("LangChain", number=number)["model"]
    stage.answer("Hello once more, Ada.", "And again.")
    with ctxwrap.using(session=SESSION):
        assert "".join(chunk.text for chunk in model.stream("Hello?")) == "Hello once more, Ada."

        async def read() -> str:
            return "".join([chunk.text async for chunk in model.astream("Again?")])

        assert asyncio.run(read()) == "And again."
    stage.check_later_turns(turn("Hello?", "Hello once more, Ada."), turn("Again?", "And again."))


def test_structured_output_and_responses(stage: Stage) -> None:
    class Person(BaseModel):
        name: str

    model = stage.run("LangChain")["model"]
    stage.answer('{"name": "Ada"}', "Yes, Ada.")
    with ctxwrap.using(session=SESSION):
        assert model.with_structured_output(Person).invoke("Who am I?") == Person(name="Ada")
        responses = model.model_copy(update={"use_responses_api": True})
        assert responses.invoke("Are you sure?").text == "Yes, Ada."
    assert stage.requests()[-1].memory == [REMEMBERED]


@each_provider
def test_tools(stage: Stage, number: int) -> None:
    model = stage.run("LangChain", number=number)["model"]
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    with ctxwrap.using(session=SESSION):
        call = model.bind_tools([weather]).invoke("How is Oslo?")
        result = {"role": "tool", "tool_call_id": call.tool_calls[0]["id"], "content": "Sunny."}
        assert model.bind_tools([weather]).invoke(["How is Oslo?", call, result]).text == "It is sunny."
    stage.check_later_turns(TOOL_TURN)
