"""dspy, over the proxy: predictions, whose fields stand in the reply's text, tools and streams."""

import asyncio

import pytest

from ctxwrap.testing import Answer
from tests.framework_recipes.conftest import REMEMBERED, REPLIES, Stage, weather

dspy = pytest.importorskip("dspy")


def fields(**values: str) -> str:
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()), "[[ ## completed ## ]]"])


TWO_TURNS = (Answer(fields(answer=REPLIES[0]), remembers=REMEMBERED), Answer(fields(answer=REPLIES[1])))


@pytest.fixture(autouse=True)
def _no_cache() -> None:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)


def test_recipe(served: Stage) -> None:
    served.run("dspy", *TWO_TURNS)
    served.check_two_turns_with_own_prompts(*(answer.text for answer in TWO_TURNS))


def test_streams(served: Stage) -> None:
    program = served.run("dspy", *TWO_TURNS)["answer"]
    listener = dspy.streaming.StreamListener(signature_field_name="answer")
    served.answer(fields(answer="It is sunny in Oslo."))

    async def read() -> tuple[str, str]:
        chunks, last = [], ""
        async for each in dspy.streamify(program, stream_listeners=[listener])(question="How is Oslo?"):
            if isinstance(each, dspy.Prediction):
                last = each.answer
            else:
                chunks.append(each.chunk)
        return "".join(chunks), last

    assert asyncio.run(read()) == ("It is sunny in Oslo.", "It is sunny in Oslo.")
    assert served.requests()[-1].memory == [REMEMBERED]


def test_tools(served: Stage) -> None:
    served.run("dspy", *TWO_TURNS)
    served.answer(
        fields(next_thought="I look.", next_tool_name="weather", next_tool_args='{"city": "Oslo"}'),
        fields(next_thought="I know.", next_tool_name="finish", next_tool_args="{}"),
        fields(reasoning="I looked.", answer="It is sunny."),
    )
    assert dspy.ReAct("question -> answer", tools=[weather])(question="How is Oslo?").answer == "It is sunny."
    assert served.requests()[-1].memory == [REMEMBERED]
    served.said()
