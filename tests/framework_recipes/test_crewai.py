"""CrewAI: an agent with a wrapped client, its tools and its streams."""

import pytest

import ctxwrap
from tests.framework_recipes.conftest import REMEMBERED, REPLIES, SESSION, Stage, weather


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "CREWAI_TRACING_ENABLED"):
        monkeypatch.setenv(name, "false" if name == "CREWAI_TRACING_ENABLED" else "true")
    pytest.importorskip("crewai")


def test_recipe(stage: Stage) -> None:
    stage.run("CrewAI")
    stage.check_two_turns_with_own_prompts(*REPLIES)


def test_tools(stage: Stage) -> None:
    from crewai import Agent
    from crewai.tools import tool

    llm = stage.run("CrewAI")["llm"]
    agent = Agent(
        role="Assistant", goal="Answer questions.", backstory="You are brief.", llm=llm, tools=[tool(weather)]
    )
    stage.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    with ctxwrap.using(session=SESSION):
        assert agent.kickoff("How is Oslo?").raw == "It is sunny."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert ("tool", "Sunny.") in stage.said()


def test_streams(stage: Stage) -> None:
    llm = stage.run("CrewAI")["llm"]
    llm.stream = True
    stage.answer("Hello once more, Ada.")
    with ctxwrap.using(session=SESSION):
        assert llm.call("Hello?") == "Hello once more, Ada."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said()[-2:] == [("user", "Hello?"), ("assistant", "Hello once more, Ada.")]


def test_crew_with_tasks(stage: Stage) -> None:
    from crewai import Crew, Task

    names = stage.run("CrewAI")
    stage.answer("Ada likes tea.")
    task = Task(description="Say what Ada likes.", expected_output="one sentence", agent=names["agent"])
    with ctxwrap.using(session=SESSION):
        assert Crew(agents=[names["agent"]], tasks=[task]).kickoff().raw == "Ada likes tea."
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert stage.said()[-1] == ("assistant", "Ada likes tea.")
