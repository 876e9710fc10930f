"""Answers as a test scripts them: with a snapshot written for them, and with gates that hold them."""

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ctxwrap import practice
from ctxwrap.errors import unknown_name
from ctxwrap.practice.answer import JSON
from ctxwrap.practice.ask import Ask, Line
from ctxwrap.practice.damage import damaged
from ctxwrap.practice.model import asked_for, given_state, written
from ctxwrap.practice.notebook import TIERS, Notebook
from ctxwrap.protocol.text import SEPARATOR, asks_for_trailer

PATIENCE = 10.0
"""Seconds after which something that a test waits for will not come."""

Trailer = Literal["written", "damaged", "unusable", "none"]


@dataclass(frozen=True, slots=True)
class Answer(practice.Answer):
    """One reply of the model, with a snapshot behind it where one is asked for and no tool is called.

    A text that holds `<<<CONTEXT>>>` has its own and goes out as it is.
    """

    remembers: str | Sequence[str | Mapping[str, Any]] = ()
    """What the snapshot adds to what the model was shown: texts, or items with any of tier, id, type, decay, tags."""

    trailer: Trailer = "written"
    """written, damaged (ctxwrap mends it), unusable (ctxwrap asks for it again, and gets it) or none."""

    def __post_init__(self) -> None:
        practice.Answer.__post_init__(self)
        if self.trailer not in get_args(Trailer):
            raise unknown_name("trailer", self.trailer, get_args(Trailer))


class Gate:
    """As the `pause` of an answer: stops it before one piece of its stream until the test opens the gate.

    An answer that is not streamed waits as a whole.
    """

    def __init__(self, before: int = 1) -> None:
        self._before = before
        self._is_reached, self._is_open = threading.Event(), threading.Event()

    def __call__(self, piece: int) -> None:
        if piece == self._before:
            self.hold()

    def hold(self) -> None:
        self._is_reached.set()
        self._is_open.wait()

    def wait(self) -> None:
        """Until an answer stands before the gate."""
        assert self._is_reached.wait(PATIENCE), (
            f"no answer came to the gate before piece {self._before} in {PATIENCE:g} seconds: "
            "make the call in another thread or task, and let the answer have more pieces than that"
        )

    def open(self) -> None:
        self._is_open.set()


def finished(ask: Ask, answer: practice.Answer) -> practice.Answer:
    """The answer with its snapshot, and its further choices with theirs."""
    others = tuple(finished(ask, other) for other in answer.others)
    tail = _tail(ask, answer) if isinstance(answer, Answer) else ""
    pieces = answer.pieces if answer.pieces is None or not tail else (*answer.pieces, tail)
    return replace(answer, text=answer.text + tail, pieces=pieces, others=others)


def _tail(ask: Ask, answer: Answer) -> str:
    is_wanted = asks_for_trailer(ask.system) and not answer.tool_calls and SEPARATOR not in answer.text
    if not is_wanted or answer.trailer == "none":
        return ""
    if answer.trailer == "unusable":
        return f'\n\n{SEPARATOR}\n{{"note": "this is no snapshot"}}'
    text = snapshot(ask, ask.messages, answer)
    return damaged(text, 0) if answer.trailer == "damaged" else text


def snapshot(ask: Ask, lines: list[Line], answer: practice.Answer | None) -> str:
    """What the model was shown in these lines, and what the answer adds to it."""
    notebook = Notebook(given_state(ask.system, lines))
    remembers = answer.remembers if isinstance(answer, Answer) else ()
    for each in [remembers] if isinstance(remembers, str) else remembers:
        note = {"content": each} if isinstance(each, str) else dict(each)
        tier = note.pop("tier", "working")
        if tier not in TIERS:
            raise unknown_name("tier", tier, TIERS)
        notebook.write(tier, _whole(note, notebook.round))
    return f"\n\n{SEPARATOR}\n{written(asked_for(ask, notebook))}"


def _whole(note: JSON, round: int) -> JSON:
    """The item with all that a snapshot needs; the same text has the same id."""
    id = f"note-{hashlib.sha256(str(note['content']).encode('utf-8', 'replace')).hexdigest()[:8]}"
    return {"id": id, "type": "fact", "decay": 0.3, "round": round, "tags": [], **note}
