"""Runs the surface tests against other versions of the SDKs, each in an environment of its own.

    python -m tests.versions [--keep DIRECTORY] [openai==1.109.1 ...]

The newest litellm holds openai below 3, so the versions cannot all be installed together; the suite runs on what can.
One row installs ctxwrap as docs/operations.md says for openai 3. The last rows are instrumentations of SDKs. Prints one
row for each version, as docs/reference.md shows them: how many of the tests that passed are sync, async, of streams and
of tools, by their names. Needs a package index; takes a minute or two for each version.
"""

import argparse
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.environments import NEEDED, ROOT, environment, folder_name, run

VERSIONS = (
    "openai==1.109.1",
    "openai==2.0.0",
    "openai>=2,<3",
    "openai>=3,<4",
    "anthropic==0.93.0",
    "anthropic==0.120.0",
    "anthropic==1.0.0",
    "anthropic[bedrock]>=2,<3",
    "aiobotocore>=3,<4 boto3>=1.43,<2",
    "boto3>=1.43,<2",
    "cerebras-cloud-sdk>=1.91,<2",
    "cohere>=7.3,<8",
    "fireworks-ai>=1.2,<2",
    "google-genai>=3.3,<4",
    "groq>=1.7,<2",
    "mistralai>=3.7,<4",
    "ollama>=0.6,<1",
    "together>=3.1,<4",
    "writer-sdk>=3,<4",
    "ctxwrap[openai] openai>=3,<4 litellm==1.83.0",
    "openinference-instrumentation-openai openai>=2,<3",
    "openinference-instrumentation-anthropic anthropic>=2,<3",
    "logfire openai>=2,<3 anthropic>=2,<3",
)
"""Requirements that are installed together, separated by spaces."""

TESTS = {
    "openai": (
        *("tests/clients/test_openai_surfaces.py", "tests/clients/test_opaque.py"),
        *("tests/clients/test_azure.py", "tests/clients/test_shortcuts.py", "tests/clients/test_kept_request.py"),
    ),
    "anthropic": (
        *("tests/clients/test_anthropic_surfaces.py", "tests/clients/test_anthropic_arguments.py"),
        *("tests/clients/test_shortcuts.py", "tests/clients/test_kept_request.py"),
    ),
    "litellm": ("tests/clients/test_litellm_surfaces.py",),
    "cohere": ("tests/clients/test_cohere_surfaces.py",),
    "google-genai": ("tests/clients/test_google_surfaces.py",),
    "mistralai": ("tests/clients/test_mistral_surfaces.py",),
    "ollama": ("tests/clients/test_ollama_surfaces.py",),
    **dict.fromkeys(("aiobotocore", "boto3"), ("tests/clients/test_bedrock_surfaces.py",)),
    **dict.fromkeys(
        ("cerebras-cloud-sdk", "fireworks-ai", "groq", "together", "writer-sdk"),
        ("tests/clients/test_openai_siblings.py",),
    ),
}

INSTRUMENTATIONS = ("openinference-instrumentation-openai", "openinference-instrumentation-anthropic", "logfire")
INSTRUMENTATION_TESTS = ("tests/turn/test_instrumentations.py",)
"""They run alone, though their row names SDKs too."""

CONTEXT_BY = {
    "cohere": "`http_client`",
    "google-genai": "`http_client`",
    **dict.fromkeys(("mistralai", "ollama", *INSTRUMENTATIONS), "`wrap`, `http_client`"),
}
"""How an SDK's clients get context in its tests, where it is not `wrap` alone."""

OVER = {"aiobotocore": "urllib3, aiohttp", "boto3": "urllib3"}
"""What an SDK sends with, where it is neither httpx nor httpx2."""

KINDS = {"sync": r"\bsync\b", "async": r"\basync\b", "streams": "stream", "tools": "tool"}
"""How the tests of a kind are known by their ids."""

MODULES = {
    "cerebras-cloud-sdk": "cerebras.cloud.sdk",
    "cohere": "cohere.client_v2",
    "fireworks-ai": "fireworks",
    "google-genai": "google.genai",
    "mistralai": "mistralai.client",
    "writer-sdk": "writerai",
}
"""The module that has an SDK's client, where it is not called like the package."""


def row(requirement: str, directory: Path) -> tuple[str, bool]:
    python = environment(directory / folder_name(requirement), (*NEEDED, *requirement.split()))
    named = [re.split(r"[\[=<>]", each)[0] for each in requirement.split()]
    sdks = [each for each in named if each in TESTS or each in INSTRUMENTATIONS]
    code = f"import importlib.metadata as m; print(' with '.join(f'{{sdk}} {{m.version(sdk)}}' for sdk in {sdks}))"
    versions = run(python, "-c", code).stdout.strip()
    is_sdk = sdks[0] in TESTS
    modules = ", ".join(MODULES.get(sdk, sdk) for sdk in (sdks[:1] if is_sdk else sdks[1:]))
    code = f"import {modules}, sys; print(' and '.join(sorted({{'httpx', 'httpx2'}} & set(sys.modules))))"
    http = OVER.get(sdks[0]) or run(python, "-c", code).stdout.strip()
    files = dict.fromkeys(file for sdk in sdks for file in TESTS[sdk]) if is_sdk else INSTRUMENTATION_TESTS
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = (python, "-m", "pytest", "-n2", f"--junitxml={report.name}", *files)
        tests = run(*command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
        counts = counted(Path(report.name))
    if tests.returncode:
        print(tests.stdout, tests.stderr, file=sys.stderr)
    by = CONTEXT_BY.get(sdks[0], "`wrap`")
    return f"| {versions} | {http} | {by} | {' | '.join(counts)} |", tests.returncode == 0


def counted(report: Path) -> list[str]:
    """The tests that passed: of each kind, and all of them, with the others."""
    passed, others = list[str](), Counter[str]()
    for case in ElementTree.parse(report).iter("testcase") if report.stat().st_size else ():
        outcome = next((each.tag for each in case if each.tag in ("skipped", "failure", "error")), "")
        if outcome:
            others[outcome] += 1
        else:
            passed.append(case.get("name", ""))
    kinds = [sum(bool(re.search(pattern, name)) for name in passed) for pattern in KINDS.values()]
    rest = "".join(f", {times} {outcome}" for outcome, times in sorted(others.items()))
    return [*(str(times or "–") for times in kinds), f"{len(passed)} passed{rest}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="requirements such as openai==2.0.0")
    parser.add_argument("--keep", type=Path, help="a directory to keep the environments in for the next time")
    options = parser.parse_args()
    print(f"| SDK | over | context by | {' | '.join(KINDS)} | all tests |\n|{' --- |' * (len(KINDS) + 4)}")
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for requirement in options.versions:
            text, passed = row(requirement, options.keep or Path(temporary))
            print(text, flush=True)
            failed = failed or not passed
    sys.exit(failed)


if __name__ == "__main__":
    main()
