"""Frames around texts that the text itself cannot close, open or imitate."""

import json
import re
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.types import SessionKey

_BOUNDARY = re.compile(r"[0-9a-z]{8,64}")
FrameRole = Literal["system", "developer", "user", "context"]
"""How the model should treat a text."""

_ROLES: tuple[FrameRole, ...] = get_args(FrameRole)
_JOINER = "\N{ZERO WIDTH JOINER}"


class FramedBlock(NamedTuple):
    role: str
    path: str
    content: str


def boundary_of(key: SessionKey) -> str:
    """Return the session's boundary, constant so that prompt caches hold; `harmless` breaks it up in foreign text."""
    return blake2b("\0".join(key).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def check_boundary(boundary: str) -> str:
    if not _BOUNDARY.fullmatch(boundary):
        raise ValueError(
            f"a boundary must be 8 to 64 characters of 0-9 and a-z, new for each request, not {boundary!r}"
        )
    return boundary


def frame_text(content: str, path: str, role: FrameRole, boundary: str) -> str:
    """Frame content that `harmless` has processed."""
    tag = f"{role}-{boundary}"
    return f"<{tag} path={quote_line(path, boundary)}>\n{content}\n</{tag}>\n"


def sanitise_framed(text: str, boundary: str) -> str:
    """Break up the boundary and imitations of ctxwrap's marks; the text looks the same."""
    broken = re.sub(f"{boundary[0]}(?={boundary[1:]})", f"\\g<0>{_JOINER}", text, flags=re.IGNORECASE)
    return sanitise(broken)


def quote_line(text: str, boundary: str) -> str:
    """Return the text in quotes on one line, without marks."""
    written = json.dumps(text, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
    return sanitise_framed(written, boundary)


def blocks_in(text: str, boundary: str) -> list[FramedBlock]:
    """Parse frames; the inverse of `framed`."""
    pattern = rf'^<({"|".join(_ROLES)})-{boundary} path=("[^\n]*")>\n(.*?)\n</\1-{boundary}>$'
    found = re.finditer(pattern, text, re.DOTALL | re.MULTILINE)
    return [FramedBlock(match[1], json.loads(match[2]), match[3]) for match in found]
