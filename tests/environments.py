"""Environments of their own, for tests with packages that cannot all be installed together."""

import re
import subprocess
import venv
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parent.parent

NEEDED = (
    *("click", "platformdirs", "pydantic>=2.11,<3", "tenacity"),
    *("pytest", "pytest-timeout", "pytest-xdist", "hypothesis"),
)
"""What the tests need; ctxwrap itself is on the path, without litellm unless a requirement names it."""


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def environment(directory: Path, requirements: tuple[str, ...]) -> Path:
    """A virtual environment with what is required, where `ctxwrap` is this repository; its Python."""
    python = directory / "bin" / "python"
    fast = which("uv")
    if not python.exists():
        venv.create(directory, with_pip=not fast)
    pip = (fast, "pip") if fast else (python, "-m", "pip")
    where = ("--python", python) if fast else ()
    here = [re.sub(r"^ctxwrap\b", str(ROOT), requirement) for requirement in requirements]
    for command in (("install", "-q", *where, *here), ("check", *where)):
        done = run(*pip, *command)
        if done.returncode:
            raise SystemExit(f"could not install {' '.join(requirements)}:\n{done.stdout}{done.stderr}")
    return python


def folder_name(text: str) -> str:
    return re.sub("[^a-z0-9.]+", "-", text.lower())
