"""The SDKs for Node, over the proxy. The variable NODE_PACKAGES names the directory in which they are installed."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.framework_recipes.conftest import CONVERSATION, REMEMBERED, REPLIES, TWO_TURNS, Stage
from tests.support import assert_clean

PACKAGES = Path(os.environ.get("NODE_PACKAGES", "."))

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
    done = subprocess.run(["node", file.name], cwd=PACKAGES, capture_output=True, text=True, check=False, timeout=60)
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
    assert served.requests()[-1].memory == [REMEMBERED]
    assert served.said() == [
        *CONVERSATION,
        ("user", "How is Oslo?"),
        ("assistant", ""),
        ("tool", "Sunny."),
        ("assistant", "It is sunny."),
        ("user", "Thank you."),
        ("assistant", "You are welcome."),
    ]
