"""instructor: structured replies, which carry no trailer, read what the conversation remembers."""

import pytest

from tests.framework_recipes.conftest import QUESTIONS, REMEMBERED, TWO_TURNS, Stage

instructor = pytest.importorskip("instructor")


def test_recipe(stage: Stage) -> None:
    stage.run("instructor", TWO_TURNS[0], '{"name": "Ada"}')
    stage.check_second_remembers()
    assert stage.said()[2:] == [("user", QUESTIONS[1]), ("assistant", '{"name": "Ada"}')]


def test_tools_and_partial_streams(stage: Stage) -> None:
    names = stage.run("instructor", TWO_TURNS[0], '{"name": "Ada"}')
    stage.call_tool("Person", '{"name": "Ada"}', '{"name": "Ada Lovelace"}')
    by_tool = instructor.from_openai(names["client"])
    request = {"model": "gpt-5", "response_model": names["Person"]}
    question = [{"role": "user", "content": "Who am I?"}]
    assert by_tool.chat.completions.create(messages=question, **request).name == "Ada"
    again = [{"role": "user", "content": "Say it again."}]
    *_, last = names["extract"].chat.completions.create_partial(messages=again, **request)
    assert last.name == "Ada Lovelace"
    assert stage.requests()[-1].memory == [REMEMBERED]
    assert [text for role, text in stage.said() if role == "user"][2:] == ["Who am I?", "Say it again."]
