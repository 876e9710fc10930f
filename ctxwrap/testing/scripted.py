"""A provider that follows a test's script."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, get_args

from ctxwrap.errors import unknown_name
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, without_injected
from ctxwrap.testing import practice
from ctxwrap.testing.practice.answer import JSON, Failure
from ctxwrap.testing.practice.model import asked_for, damaged, given_state, until_asked_again, written
from ctxwrap.testing.practice.notebook import TIERS, Notebook
from ctxwrap.testing.practice.requests import Ask, SpokenLine

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


def snapshot(ask: Ask, lines: list[SpokenLine], answer: practice.Answer | None) -> str:
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


@dataclass(frozen=True, slots=True)
class Request:
    """What the model was asked, as it saw it."""

    ask: Ask
    """All of it: `body`, `headers`, `model`, `stream`, `tools`, and the texts with what was added to them."""

    @property
    def messages(self) -> list[SpokenLine]:
        """As (role, text), without the system prompt and without what ctxwrap added."""
        lines = [(role, without_injected(text).strip()) for role, text in self.ask.messages]
        return [(role, text) for role, text in lines if text]

    @property
    def system(self) -> str:
        return without_injected(self.ask.system).strip()

    @property
    def context(self) -> JSON | None:
        """The state that ctxwrap added: `runtime`, `memory` and the rest; None if it added none."""
        return given_state(self.ask.system, self.ask.messages)

    @property
    def memory(self) -> list[str]:
        """The contents of all that was remembered."""
        return Notebook(self.context).contents

    @property
    def text(self) -> str:
        """Every text that the model saw, in one."""
        return "\n\n".join([self.ask.system, *(text for _, text in self.ask.messages)])


ScriptEntry = str | practice.Answer | Failure
Telling = Callable[[Request], ScriptEntry]


class ScriptedProvider(practice.Provider):
    """Gives the steps of a script in order, or what a function makes of every request.

    What goes wrong is the client's error at once, and an AssertionError at the end of the `with` statement: a request
    too many, a function that raised, and, unless `all_used` is false, a step that nobody asked for. A question for a
    snapshot that could not be used takes no step, and is in `seen` alone.
    """

    def __init__(self, script: Iterable[ScriptEntry | Telling] | Telling, *, all_used: bool = True) -> None:
        super().__init__(self._answered)
        self._always = script if callable(script) else None
        self._steps: list[ScriptEntry | Telling] = (
            [] if callable(script) else [script] if isinstance(script, str) else list(script)
        )
        self._all_used = all_used
        self._turn = threading.Lock()
        self._faults: list[str] = []
        self._last: practice.Answer | None = None
        self._gates: list[Gate] = []
        self.requests: list[Request] = []
        """What the model was asked, in order."""

    @property
    def last(self) -> Request:
        assert self.requests, "nobody has asked anything: is the client's base_url the provider's openai_url?"
        return self.requests[-1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for gate in self._gates:
            gate.open()
        super().__exit__(kind, error, traceback)
        if kind is not None:
            return
        assert not self._faults, self._faults[0]
        left = len(self._steps) - len(self.requests)
        assert left <= 0 or not self._all_used or self._always, (
            f"{left} of the script's {len(self._steps)} steps were not asked for, the first of them "
            f"{self._steps[-left]!r}: leave them out, or say all_used=False"
        )

    def _answered(self, ask: Ask) -> practice.Answer | Failure:
        earlier = until_asked_again(ask.messages)
        if earlier is not None:
            return practice.Answer(snapshot(ask, earlier, self._last).strip())
        request = Request(ask)
        with self._turn:
            self.requests.append(request)
            number = len(self.requests)
        try:
            answer = self._step(number, request)
            return answer if isinstance(answer, Failure) else self._held(ask, answer)
        except Exception as error:
            return self._failed(f"step {number} of the script raised {type(error).__name__}: {error}")

    def _step(self, number: int, request: Request) -> practice.Answer | Failure:
        if self._always is None and number > len(self._steps):
            return self._failed(
                f"the script has {len(self._steps)} steps, and request {number} came: "
                f"{request.ask.last_user[:80]!r}. Add a step, or give a function instead of a list"
            )
        step = self._always or self._steps[number - 1]
        told = step(request) if callable(step) else step
        if not isinstance(told, (str, practice.Answer, Failure)):
            raise TypeError(f"a step is a text, an Answer, a Failure, or a function that gives one; not {told!r}")
        return Answer(told) if isinstance(told, str) else told

    def _failed(self, fault: str) -> Failure:
        self._faults.append(fault)
        return Failure(400, fault, headers={"x-should-retry": "false"})

    def _held(self, ask: Ask, answer: practice.Answer) -> practice.Answer:
        self._last = answer
        if isinstance(answer.pause, Gate):
            self._gates.append(answer.pause)
            if not ask.stream:
                answer.pause.hold()
        return finished(ask, answer)
