"""The SDKs for Node, over the proxy. The variable NODE_PACKAGES names the directory in which they are installed."""

import os
import subprocess
from pathlib import Path

import pytest

from ctxwrap.testing import Answer
from tests.framework_recipes.conftest import REMEMBERED, REPLIES, SESSION, THANKS, TOOL_TURN, TWO_TURNS, Stage
from tests.support import assert_clean, said

PACKAGES = Path(os.environ.get("NODE_PACKAGES", "."))

SDKS = Path(__file__).parent.parent / "service" / "serve" / "sdk.mjs"

APIS = {"openai": "openai", "anthropic": "@anthropic-ai/sdk"}

TOOLS_AND_STREAM = """
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async () => "Sunny.",
});
const asked = { model: openai("gpt-5"), prompt: "How is Oslo?", tools: { weather }, stopWhen: stepCountIs(3) };
const first = await generateText(asked);
console.log(first.text);
const second = streamText({ model: openai.chat("gpt-5"), prompt: "Thank you." });
for await (const delta of second.textStream) process.stdout.write(delta);
"""


def requires(package: str) -> None:
    if not (PACKAGES / "node_modules" / package).exists():
        pytest.skip(f"{package} is not installed")


def run(code: str) -> list[str]:
    file = PACKAGES / "recipe.mjs"
    file.write_text(code)
    return run_file(file)


def run_file(file: Path, *arguments: str | Path) -> list[str]:
    command = ["node", file, *arguments]
    done = subprocess.run(command, cwd=PACKAGES, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert_clean(done.stdout, done.stderr)
    return done.stdout.splitlines()


def recipe(served: Stage, heading: str) -> str:
    ((code, _),) = served.blocks(heading, "js")
    served.answer(*TWO_TURNS)
    return code


@pytest.mark.parametrize(
    ("heading", "package"),
    [("Vercel AI SDK", "ai"), ("openai-node", "openai"), ("anthropic-node", "@anthropic-ai/sdk")],
    ids=["vercel", "openai", "anthropic"],
)
def test_recipe(served: Stage, heading: str, package: str) -> None:
    requires(package)
    assert run(recipe(served, heading)) == [REPLIES[1]]
    served.check_two_turns()


def test_vercel_tools_and_streams(served: Stage) -> None:
    requires("ai")
    client = recipe(served, "Vercel AI SDK").replace('import { generateText } from "ai";', "")
    served.call_tool("weather", '{"city": "Oslo"}', "It is sunny.")
    served.answer("You are welcome.")
    assert run(client + TOOLS_AND_STREAM) == [REPLIES[1], "It is sunny.", "You are welcome."]
    served.check_later_turns(TOOL_TURN, THANKS)


@pytest.mark.parametrize("api", APIS)
def test_streams_and_tools(served: Stage, api: str) -> None:
    """Every surface of the script with which the suite compares them to the bare SDK, in one session."""
    requires(APIS[api])
    replies = [f"Reply {number}." for number in range(4 if api == "openai" else 3)]
    served.answer(Answer(replies[0], remembers=REMEMBERED), *replies[1:])
    (shown,) = run_file(SDKS, PACKAGES, api, served.address, SESSION)
    assert shown.count(replies[-1]) == 1
    assert [request.memory for request in served.requests()] == [[], *[[REMEMBERED]] * (len(replies) - 1)]
    turns = [(("user", "Say hello."), ("assistant", reply)) for reply in replies]
    assert said(served.home, SESSION) == [message for turn in turns for message in turn]
