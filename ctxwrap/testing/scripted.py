"""A provider that answers from a test's script."""

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, get_args

from ctxwrap.errors import unknown_name
from ctxwrap.memory.items import TIERS
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, strip_injected
from ctxwrap.testing import practice
from ctxwrap.testing.practice.answer import JSON, Failure
from ctxwrap.testing.practice.memory import PracticeMemory
from ctxwrap.testing.practice.model import as_trailer_json, before_reask, damage, received_state, requested_state
from ctxwrap.testing.practice.requests import Ask, SpokenLine

WAIT_SECONDS = 10.0
"""Longest wait of a test, in seconds."""

Trailer = Literal["written", "damaged", "unusable", "none"]


@dataclass(frozen=True, slots=True)
class Answer(practice.Answer):
    """One reply of the model, followed by a snapshot if the request asks for one and no tool is called.

    A text that contains `<<<CONTEXT>>>` is sent unchanged.
    """

    remembers: str | Sequence[str | Mapping[str, Any]] = ()
    """Items to add to the snapshot: texts, or objects with any of tier, id, type, decay, tags."""

    trailer: Trailer = "written"
    """written, damaged (ctxwrap repairs it), unusable (ctxwrap asks again, and gets it) or none."""

    def __post_init__(self) -> None:
        practice.Answer.__post_init__(self)
        if self.trailer not in get_args(Trailer):
            raise unknown_name("trailer", self.trailer, get_args(Trailer))


class Gate:
    """The `pause` of an answer: stops its stream before one piece until the test opens the gate.

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
        """Wait until an answer has reached the gate."""
        assert self._is_reached.wait(WAIT_SECONDS), (
            f"no answer reached the gate before piece {self._before} in {WAIT_SECONDS:g} seconds: "
            "make the call in another thread or task, and give the answer more pieces than that"
        )

    def open(self) -> None:
        self._is_open.set()


def add_snapshots(ask: Ask, answer: practice.Answer) -> practice.Answer:
    """Return the answer and its further choices with their snapshots."""
    others = tuple(add_snapshots(ask, other) for other in answer.others)
    trailer = _trailer(ask, answer) if isinstance(answer, Answer) else ""
    pieces = answer.pieces if answer.pieces is None or not trailer else (*answer.pieces, trailer)
    return replace(answer, text=answer.text + trailer, pieces=pieces, others=others)


def _trailer(ask: Ask, answer: Answer) -> str:
    is_wanted = asks_for_trailer(ask.system) and not answer.tool_calls and SEPARATOR not in answer.text
    if not is_wanted or answer.trailer == "none":
        return ""
    if answer.trailer == "unusable":
        return f'\n\n{SEPARATOR}\n{{"note": "this is no snapshot"}}'
    text = snapshot(ask, ask.messages, answer)
    return damage(text, 0) if answer.trailer == "damaged" else text


def snapshot(ask: Ask, lines: list[SpokenLine], answer: practice.Answer | None) -> str:
    """Return the trailer: the state in these messages, and what the answer adds to it."""
    memory = PracticeMemory(received_state(ask.system, lines))
    remembers = answer.remembers if isinstance(answer, Answer) else ()
    for each in [remembers] if isinstance(remembers, str) else remembers:
        item = {"content": each} if isinstance(each, str) else dict(each)
        tier = item.pop("tier", "working")
        if tier not in TIERS:
            raise unknown_name("tier", tier, TIERS)
        memory.add_item(tier, _complete_item(item, memory.round))
    return f"\n\n{SEPARATOR}\n{as_trailer_json(requested_state(ask, memory))}"


def _complete_item(item: JSON, round: int) -> JSON:
    """Return the item with all fields of a snapshot; the same text has the same id."""
    id = f"note-{hashlib.sha256(str(item['content']).encode('utf-8', 'replace')).hexdigest()[:8]}"
    return {"id": id, "type": "fact", "decay": 0.3, "round": round, "tags": [], **item}


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the model received it."""

    ask: Ask
    """The whole request: `body`, `headers`, `model`, `stream`, `tools`, and the texts with ctxwrap's additions."""

    @property
    def messages(self) -> list[SpokenLine]:
        """The conversation as (role, text), without the system prompt and ctxwrap's additions."""
        lines = [(role, strip_injected(text).strip()) for role, text in self.ask.messages]
        return [(role, text) for role, text in lines if text]

    @property
    def system(self) -> str:
        return strip_injected(self.ask.system).strip()

    @property
    def context(self) -> JSON | None:
        """The state that ctxwrap added, such as `runtime` and `memory`; None if it added none."""
        return received_state(self.ask.system, self.ask.messages)

    @property
    def memory(self) -> list[str]:
        """The contents of the memory items in the request."""
        return PracticeMemory(self.context).contents

    @property
    def text(self) -> str:
        """All texts of the request, joined."""
        return "\n\n".join([self.ask.system, *(text for _, text in self.ask.messages)])


ScriptEntry = str | practice.Answer | Failure
AnswerFunction = Callable[[Request], ScriptEntry]


class ScriptedProvider(practice.Provider):
    """Answers with the steps of a script in order, or with the result of a function for every request.

    A surplus request or a function that raises is an error for the client at once, and an AssertionError at the end of
    the `with` statement; so is an unused step, unless `all_used` is false. A repeated request for an unusable snapshot
    takes no step, and is only in `seen`.
    """

    def __init__(
        self, script: Iterable[ScriptEntry | AnswerFunction] | AnswerFunction, *, all_used: bool = True
    ) -> None:
        super().__init__(self._respond)
        self._always = script if callable(script) else None
        self._steps: list[ScriptEntry | AnswerFunction] = (
            [] if callable(script) else [script] if isinstance(script, str) else list(script)
        )
        self._all_used = all_used
        self._turn = threading.Lock()
        self._faults: list[str] = []
        self._last: practice.Answer | None = None
        self._gates: list[Gate] = []
        self.requests: list[Request] = []
        """The requests, in order."""

    @property
    def last(self) -> Request:
        assert self.requests, "there was no request: is the client's base_url the provider's openai_url?"
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
            f"{left} of the script's {len(self._steps)} steps were not used, the first of them "
            f"{self._steps[-left]!r}: remove them, or pass all_used=False"
        )

    def _respond(self, ask: Ask) -> practice.Answer | Failure:
        earlier = before_reask(ask.messages)
        if earlier is not None:
            return practice.Answer(snapshot(ask, earlier, self._last).strip())
        request = Request(ask)
        with self._turn:
            self.requests.append(request)
            number = len(self.requests)
        try:
            answer = self._step(number, request)
            return answer if isinstance(answer, Failure) else self._finish(ask, answer)
        except Exception as error:
            return self._failed(f"step {number} of the script raised {type(error).__name__}: {error}")

    def _step(self, number: int, request: Request) -> practice.Answer | Failure:
        if self._always is None and number > len(self._steps):
            return self._failed(
                f"the script has {len(self._steps)} steps, and request {number} came: "
                f"{request.ask.last_user[:80]!r}. Add a step, or pass a function instead of a list"
            )
        step = self._always or self._steps[number - 1]
        result = step(request) if callable(step) else step
        if not isinstance(result, (str, practice.Answer, Failure)):
            raise TypeError(
                f"a step must be a text, an Answer, a Failure, or a function that returns one, not {result!r}"
            )
        return Answer(result) if isinstance(result, str) else result

    def _failed(self, fault: str) -> Failure:
        self._faults.append(fault)
        return Failure(400, fault, headers={"x-should-retry": "false"})

    def _finish(self, ask: Ask, answer: practice.Answer) -> practice.Answer:
        self._last = answer
        if isinstance(answer.pause, Gate):
            self._gates.append(answer.pause)
            if not ask.stream:
                answer.pause.hold()
        return add_snapshots(ask, answer)
