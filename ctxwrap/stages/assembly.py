"""Assembly: what was chosen, as the texts that are added to a request, in an order that prompt caches like.

From what never changes to what always does: the protocol and the files that instruct, the caller's system prompt, what
is pinned and the memory of the epoch, files and results as data, the conversation, what was found for the newest
message, and last of all what changed in memory, the round and the time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.protocol.text import DELTA_TEXT, PROTOCOL_TEXT, READING_TEXT, escaped, frame, framed
from ctxwrap.settings import Mode, Settings
from ctxwrap.types import Candidate, Injection, Message, Runtime


@dataclass(slots=True)
class Chosen:
    """What is to be sent beside the caller's own words."""

    instructions: str = ""
    pinned: Sequence[Candidate] = ()
    epoch: dict[str, Any] | None = None
    """The memory that seldom changes."""
    files: str = ""
    background: list[Candidate] = field(default_factory=list)
    """The summary, and the results of children."""
    history: tuple[Message, ...] = ()
    left_out: frozenset[int] = frozenset()
    found: Sequence[Candidate] = ()
    state: dict[str, Any] = field(default_factory=dict)
    """Memory as it is, or what is other than in the epoch."""


def assemble(chosen: Chosen, protocol: str, runtime: Runtime, mode: Mode, settings: Settings) -> Injection:
    return Injection(
        protocol=joined(protocol, framed("boot", chosen.instructions)),
        standing=joined(
            framed("pinned", _texts(chosen.pinned)),
            framed("memory", escaped(chosen.epoch) if chosen.epoch else ""),
        ),
        background=framed("background", joined(chosen.files, _texts(chosen.background))),
        history=chosen.history,
        block=joined(
            framed("found", "\n".join(each.text for each in _as_said(chosen.found))),
            frame(with_runtime(chosen.state, runtime)),
        ),
        reserve=settings.snapshot_reserve if mode != "readonly" else 0,
        left_out=chosen.left_out,
        breakpoints=settings.cache_marks,
    )


def protocol_for(mode: Mode, settings: Settings) -> str:
    """What the model is told about memory: to keep it, or only to read it."""
    if mode == "readonly":
        return READING_TEXT
    return DELTA_TEXT if settings.snapshot == "delta" else PROTOCOL_TEXT


def joined(*texts: str) -> str:
    return "\n\n".join(text.rstrip("\n") for text in texts if text)


def _texts(candidates: Iterable[Candidate]) -> str:
    return "".join(each.text for each in candidates)


def _as_said(found: Sequence[Candidate]) -> list[Candidate]:
    """In the order of the conversation, whichever matters most."""
    return sorted(found, key=lambda each: [int(part) for part in each.refs[0].split(".")])
