"""Runs the recipes of docs/frameworks.md with the frameworks, each in an environment of its own.

    python -m tests.frameworks [--keep DIRECTORY] [langchain ...]

Prints one row for each framework, as docs/frameworks.md shows them. Needs a package index, and npm for those of Node;
takes a minute for each, less if `uv` is installed. An environment is removed when its row is done, unless it is kept.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.environments import NEEDED, ROOT, environment, folder_name, run

TESTS = "tests/framework_recipes"
CTXWRAP = ("ctxwrap[openai,anthropic,serve]", *NEEDED)


class Framework(NamedTuple):
    heading: str
    """Of its recipe in docs/frameworks.md."""
    test: str
    requirements: tuple[str, ...] = ()
    """Installed beside ctxwrap."""
    apart: str = ""
    """Installed alone: a package whose dependencies exclude ctxwrap's, and whose command the test runs."""
    npm: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The one that has the framework's version."""
        first = next(filter(None, (*self.requirements, self.apart, *self.npm)))
        return first.partition("[")[0]


FRAMEWORKS = (
    Framework("LangChain", "test_langchain.py", ("langchain-openai", "langchain-anthropic")),
    Framework("LangGraph", "test_langgraph.py", ("langgraph", "langchain", "langchain-openai", "langchain-anthropic")),
    Framework("LlamaIndex", "test_llama_index.py", ("llama-index-core", "llama-index-llms-openai")),
    # openai is named where a framework's newest version needs another one than the newest litellm
    Framework("pydantic-ai", "test_pydantic_ai.py", ("pydantic-ai-slim[openai,anthropic]", "openai>=3")),
    Framework("OpenAI Agents", "test_openai_agents.py", ("openai-agents", "openai>=3")),
    Framework("instructor", "test_instructor.py", ("instructor",)),
    Framework("dspy", "test_dspy.py", ("dspy",)),
    Framework("smolagents", "test_smolagents.py", ("smolagents[openai]",)),
    Framework("CrewAI", "test_crewai.py", ("crewai",)),
    Framework("AutoGen", "test_autogen.py", ("autogen-agentchat", "autogen-ext[openai]")),
    Framework("Haystack", "test_haystack.py", ("haystack-ai",)),
    Framework("Semantic Kernel", "test_semantic_kernel.py", ("semantic-kernel",)),
    Framework("llm", "test_llm.py", ("llm", "openai>=3")),
    Framework("aider", "test_aider.py", apart="aider-chat"),
    Framework("Vercel AI SDK", "test_node.py", npm=("ai", "@ai-sdk/openai", "zod")),
    Framework("openai-node", "test_node.py", npm=("openai",)),
    Framework("anthropic-node", "test_node.py", npm=("@anthropic-ai/sdk",)),
    Framework("Claude Code", "test_claude_code.py", npm=("@anthropic-ai/claude-code",)),
)


def row(framework: Framework, directory: Path) -> tuple[str, bool]:
    place = directory / folder_name(framework.heading)
    try:
        version, python, commands = install(framework, place)
    except SystemExit as error:
        print(error, file=sys.stderr)
        return table_row(framework, "", "", "could not be installed"), False
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "NODE_PACKAGES": str(place)}
    tests = run(python, "-m", "pytest", "-n0", "-rA", f"{TESTS}/{framework.test}", cwd=ROOT, env=env)
    if tests.returncode:
        print(tests.stdout, tests.stderr, file=sys.stderr)
    summary = tests.stdout.strip().splitlines()[-1] if tests.stdout.strip() else tests.stderr.strip()
    outcome = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?)", summary)) or summary
    return table_row(framework, version, what_ran(tests.stdout), outcome), tests.returncode == 0 and "passed" in outcome


def install(framework: Framework, directory: Path) -> tuple[str, Path, Path]:
    """Install a framework; its version, the Python for the tests, and the directory of its commands."""
    if framework.requirements:
        python = environment(directory, (*CTXWRAP, *framework.requirements))
        return version_in(python, framework.package), python, python.parent
    python = environment(directory.parent / "ctxwrap", CTXWRAP)
    if framework.apart:
        own = environment(directory, (framework.apart,))
        return version_in(own, framework.package), python, own.parent
    directory.mkdir(exist_ok=True)
    (directory / "package.json").write_text('{"private": true}')
    newest = [f"{name}@latest" for name in framework.npm]
    done = run("npm", "install", "--no-audit", "--no-fund", *newest, cwd=directory)
    if done.returncode:
        raise SystemExit(f"could not install {' '.join(newest)}:\n{done.stdout}{done.stderr}")
    about = json.loads((directory / "node_modules" / framework.npm[0] / "package.json").read_text())
    return about["version"], python, directory / "node_modules" / ".bin"


def version_in(python: Path, package: str) -> str:
    return run(python, "-c", f"import importlib.metadata as m; print(m.version({package!r}))").stdout.strip()


def what_ran(output: str) -> str:
    """The names of the tests that passed, each with its cases."""
    cases: dict[str, list[str]] = {}
    for name, case in re.findall(r"^PASSED \S+::test_(\w+)(?:\[(.+)\])?$", output, re.MULTILINE):
        cases.setdefault(name.replace("_", " "), []).extend([case] if case else [])
    return "; ".join(f"{name} ({', '.join(of)})" if of else name for name, of in cases.items())


def table_row(framework: Framework, version: str, ran: str, outcome: str) -> str:
    today = datetime.now(UTC).date().isoformat()
    return f"| {framework.heading} | {framework.package} {version} | {ran} | {outcome} | {today} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", help="headings of docs/frameworks.md, in lower case, with hyphens")
    parser.add_argument("--keep", type=Path, help="a directory to keep the environments in for the next time")
    options = parser.parse_args()
    known = {folder_name(each.heading): each for each in FRAMEWORKS}
    if unknown := set(options.frameworks) - known.keys():
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(known)}")
    wanted = [known[name] for name in options.frameworks or known]
    print("| framework | version | what was run | outcome | date |\n| --- | --- | --- | --- | --- |")
    failed = False
    for framework in wanted:
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as directory:
            text, passed = row(framework, Path(directory))
        print(text, flush=True)
        failed = failed or not passed
    sys.exit(failed)


if __name__ == "__main__":
    main()
