"""OpenAI Agents: responses and chat completions, tools, streams, handoffs, and its own sessions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ctxwrap
from tests.framework_recipes.conftest import CONVERSATION, REMEMBERED, SESSION, THANKS, TOOL_TURN, Stage, weather

agents = pytest.importorskip("agents")
openai = pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def _no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    agents.set_tracing_disabled(True)


def model(api: str) -> Any:
    """A model with a client of the test's own event loop."""
    kind = agents.OpenAIResponsesModel if api == "responses" else agents.OpenAIChatCompletionsModel
    return kind(model="gpt-5", openai_client=ctxwrap.wrap(openai.AsyncOpenAI()))


def test_recipe(stage: Stage) -> None:
    stage.run("OpenAI Agents")
    assert {request.path for request in stage.provider.seen} == {"/v1/responses"}
    stage.check_two_turns()


each_api = pytest.mark.parametrize("api", ["responses", "chat"])


@each_api
def test_tools_streams_and_sessions(stage: Stage, api: str, tmp_path: Path) -> None:
    stage.run("OpenAI Agents")
    agent = agents.Agent(name="Support", model=model(api), tools=[agents.function_tool(weather)])
    own = agents.SQLiteSession("own", tmp_path / "own.sqlite")
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    stage.answer("You are welcome.")

    async def talk() -> str:
        with ctxwrap.using(session=SESSION):
            first = await agents.Runner.run(agent, "How is Oslo?", session=own)
            assert first.final_output == "It is sunny."
            second = agents.Runner.run_streamed(agent, "Thank you.", session=own)
            events = [event async for event in second.stream_events()]
            raw = [event.data for event in events if event.type == "raw_response_event"]
            texts = [data.delta for data in raw if data.type == "response.output_text.delta"]
            assert "".join(texts) == second.final_output
            return second.final_output

    assert asyncio.run(talk()) == "You are welcome."
    stage.check_later_turns(TOOL_TURN, THANKS)


@each_api
def test_handoff_stays_in_the_session(stage: Stage, api: str) -> None:
    stage.run("OpenAI Agents")
    expert = agents.Agent(name="Expert", model=model(api), instructions="You know the weather.")
    agent = agents.Agent(name="Support", model=model(api), handoffs=[expert])
    stage.call_tool("transfer_to_expert", "{}", "It is sunny.")
    with ctxwrap.using(session=SESSION):
        done = agents.Runner.run_sync(agent, "How is Oslo?")
    assert (done.last_agent.name, done.final_output) == ("Expert", "It is sunny.")
    last = stage.requests()[-1]
    assert last.system == "You know the weather."
    assert last.memory == [REMEMBERED]
    assert stage.said()[len(CONVERSATION) :] == [
        ("user", "How is Oslo?"),
        ("assistant", ""),
        ("system", "You know the weather."),
        ("tool", '{"assistant": "Expert"}'),
        ("assistant", "It is sunny."),
    ]
