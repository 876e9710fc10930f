"""Names and places: what a file of a session may be called, and which files a pack may be made of."""

import hashlib
import re
from typing import Literal

from ctxwrap.stores.names import safe_name

SESSION_FILES = frozenset(
    {"messages.jsonl", "events.jsonl", "latest.md", "state", "cwd", "created_at", "updated_at", "meta.json"}
)
CONTEXT_FILES = frozenset(
    {"budget", "pack.json", "pack.md", "plan.json", "summary.md", "todo.md", "document.md"}
    | {"facts.jsonl", "decisions.jsonl", "refs.jsonl"}
)

SourceFault = Literal[
    "empty",
    "absolute",
    "empty component",
    "dot component",
    "parent component",
    "unsupported child path",
    "unsupported session path",
]

_LEGAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_BLOB_DIGITS = 56
"""A legal name has room for 57 behind `sha256-`; whole bytes are easier on the eye."""

_FAULTY_PARTS: dict[str, SourceFault] = {"": "empty component", ".": "dot component", "..": "parent component"}


def is_legal_name(text: str) -> bool:
    return _LEGAL.fullmatch(text) is not None and not text.endswith((".sock", ".d"))


def legal_name(text: str) -> str:
    """A legal name for an id: the id itself if it is one, else a readable stem, `+` and a digest of the id.

    Two ids get one name only if one of them is spelled like the name of the other.
    """
    return text if is_legal_name(text) else safe_name(text)


def blob_name(data: bytes) -> tuple[str, str]:
    """The name of a blob that holds `data`, which has room for a part of the digest only, and the whole digest."""
    digits = hashlib.sha256(data).hexdigest()
    return named_by(digits), f"sha256:{digits}"


def named_by(digits: str) -> str:
    """The name of a blob with this digest."""
    return f"sha256-{digits[:_BLOB_DIGITS]}"


def is_blob_name(text: str) -> bool:
    return is_legal_name(text) and text.startswith(("sha256-", "sha256_", "sha256."))


def source_issue(source: str) -> SourceFault | None:
    """Why nothing in a pack may come from this place of the session, or None if it may."""
    if not source:
        return "empty"
    if source.startswith("/"):
        return "absolute"
    parts = source.split("/")
    fault = next((_FAULTY_PARTS[part] for part in parts if part in _FAULTY_PARTS), None)
    if fault or _is_file(parts):
        return fault
    return "unsupported child path" if parts[:2] == ["context", "child"] else "unsupported session path"


def _is_file(parts: list[str]) -> bool:
    match parts:
        case [name]:
            return name in SESSION_FILES
        case ["context", name]:
            return name in CONTEXT_FILES
        case ["context", "child", child, "handoff.md" | "result.md" | "refs.jsonl"]:
            return is_legal_name(child)
        case ["context", "child", child, "artifact", name]:
            return is_legal_name(child) and is_legal_name(name)
        case (
            ["context", "pinned" | "swap" | "dedup", name]
            | ["context", "swap", "chunk", name]
            | ["context", "dedup", "blob", name]
        ):
            return is_legal_name(name)
    return False
