"""The prompts for agents that keep a memory: files by the type of the memory, and a directory may override them."""

import os
import re
from importlib.resources import files
from pathlib import Path

from ctxwrap.errors import InvalidInput
from ctxwrap.service import checking
from ctxwrap.service.forms import Prompts

NAMES = ("context_prompt", "entry_capture_prompt", "summary_prompt")
RULES = "context_summary_rules"

_HEADING = re.compile(r"#{1,3} ")
_LABEL = re.compile(r"### TOOL:\s*`?([A-Za-z0-9_]+)`?\s*")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_LARGEST = 64 * 1024


def prompts_for(memory_type: str, directory: str | None = None) -> Prompts:
    """The prompts of a type; those of `directory`, else of CTXWRAP_PROMPTS, come before the package's own.

    A directory has the same layout: `default/<memory_type>/<name>.md` and `context_summary_rules.md`.
    """
    kind = checking.memory_type(memory_type)
    own = directory or os.environ.get("CTXWRAP_PROMPTS") or None
    found = {name: _text(f"default/{kind}/{name}.md", own) for name in NAMES}
    missing = [name for name, text in found.items() if text is None]
    if missing:
        raise InvalidInput(
            f"there are no prompts for memories of type {kind!r}: known are {', '.join(_types(own))}; others go into "
            f"default/{kind}/ of the directory that prompts_dir or CTXWRAP_PROMPTS names ({', '.join(missing)})"
        )
    templates = {name: text for name, text in found.items() if text is not None}
    return Prompts(memoryType=kind, context_summary_rules=_text(f"{RULES}.md", own) or "", templates=templates)


def block_for(prompt_text: str, tool: str) -> str:
    """The block whose `### TOOL:` label names the tool, without its label; nothing if no block does.

    A block ends with the next heading of its level or above. What is fenced as code is no heading.
    """
    block: list[str] = []
    is_inside = is_fenced = False
    for line in prompt_text.splitlines():
        is_fenced ^= bool(_FENCE.match(line))
        if not is_fenced and _HEADING.match(line):
            label = _LABEL.fullmatch(line)
            is_inside = label is not None and label[1] == tool
        elif is_inside:
            block.append(line)
    return "\n".join(block).strip()


def _text(name: str, directory: str | None) -> str | None:
    own = _own_text(Path(directory), name) if directory else None
    if own is not None:
        return own
    found = files("ctxwrap").joinpath("prompts", *name.split("/"))
    return found.read_text("utf-8") if found.is_file() else None


def _own_text(root: Path, name: str) -> str | None:
    """A file below the directory, wherever links lead."""
    path = (root / name).resolve()
    if not path.is_file() or not path.is_relative_to(root.resolve()):
        return None
    if path.stat().st_size > _LARGEST:
        raise InvalidInput(f"the prompt {name} is larger than {_LARGEST} bytes: shorten the file")
    return path.read_text("utf-8", "replace")


def _types(directory: str | None) -> list[str]:
    packaged = {entry.name for entry in files("ctxwrap").joinpath("prompts", "default").iterdir() if entry.is_dir()}
    own = Path(directory, "default") if directory else None
    return sorted(
        packaged | ({path.name for path in own.iterdir() if path.is_dir()} if own and own.is_dir() else set())
    )
