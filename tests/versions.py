"""Runs the surface tests against other versions of the SDKs, each in an environment of its own.

    python -m tests.versions [--keep DIRECTORY] [openai==1.109.1 ...]

The newest litellm holds openai below 3, so the versions cannot all be installed together; the suite runs on what can.
The last row installs ctxwrap as docs/operations.md says for openai 3. Prints one row for each version, as
docs/reference.md shows them. Needs a package index; takes a minute or two for each version.
"""

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

from tests.environments import NEEDED, ROOT, environment, folder_name, run

VERSIONS = (
    "openai==1.109.1",
    "openai==2.0.0",
    "openai>=2,<3",
    "openai>=3,<4",
    "anthropic==0.93.0",
    "anthropic==0.120.0",
    "anthropic==1.0.0",
    "anthropic>=2,<3",
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
)
"""Requirements that are installed together, separated by spaces."""

TESTS = {
    "openai": ("tests/clients/test_openai_surfaces.py", "tests/clients/test_opaque.py", "tests/clients/test_azure.py"),
    "anthropic": ("tests/clients/test_anthropic_surfaces.py",),
    "litellm": ("tests/clients/test_litellm_surfaces.py",),
    "cohere": ("tests/clients/test_cohere_surfaces.py",),
    "google-genai": ("tests/clients/test_google_surfaces.py",),
    "mistralai": ("tests/clients/test_mistral_surfaces.py",),
    "ollama": ("tests/clients/test_ollama_surfaces.py",),
    **dict.fromkeys(
        ("cerebras-cloud-sdk", "fireworks-ai", "groq", "together", "writer-sdk"),
        ("tests/clients/test_openai_siblings.py",),
    ),
}

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
    sdks = [sdk for each in requirement.split() if (sdk := re.split(r"[\[=<>]", each)[0]) in TESTS]
    code = f"import importlib.metadata as m; print(' with '.join(f'{{sdk}} {{m.version(sdk)}}' for sdk in {sdks}))"
    versions = run(python, "-c", code).stdout.strip()
    module = MODULES.get(sdks[0], sdks[0])
    code = f"import {module}, sys; print(' and '.join(sorted({{'httpx', 'httpx2'}} & set(sys.modules))))"
    http = run(python, "-c", code).stdout.strip()
    files = [file for sdk in sdks for file in TESTS[sdk]]
    tests = run(python, "-m", "pytest", "-n2", *files, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    summary = tests.stdout.strip().splitlines()[-1] if tests.stdout.strip() else tests.stderr.strip()
    if tests.returncode:
        print(tests.stdout, tests.stderr, file=sys.stderr)
    return f"| {versions} | {http} | {summary.strip('= ')} |", tests.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="requirements such as openai==2.0.0")
    parser.add_argument("--keep", type=Path, help="a directory to keep the environments in for the next time")
    options = parser.parse_args()
    print("| SDK | over | surface tests |\n| --- | --- | --- |")
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for requirement in options.versions:
            text, passed = row(requirement, options.keep or Path(temporary))
            print(text, flush=True)
            failed = failed or not passed
    sys.exit(failed)


if __name__ == "__main__":
    main()
