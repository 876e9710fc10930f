"""Appending: the state follows the log, whether it is folded at once or when the session is locked the next time."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.session.purge import purge
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Record, Request
from tests.session.telling import KEY, NOW

Step = tuple[int, Literal["open", "close", "read", "erase"], bool]
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["open", "open", "close", "read", "erase"]), st.booleans()),
    max_size=12,
)
LARGE = "a long letter " * 2000


class Workers:
    """Two processes with the same session."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sessions = [self.opened(), self.opened()]
        self.open: list[str] = []
        self.turns = 0

    def opened(self) -> Session:
        return Session(KEY, self.store.open(KEY), derives=False)

    def begin(self, session: Session, *, folds_later: bool) -> None:
        self.turns += 1
        turn, said = f"t{self.turns}", LARGE if self.turns % 3 == 0 else f"Question {self.turns}."
        with session.locked():
            opening = session.open_turn(Request((Message("user", said),)), NOW)
            asked = [as_record(message, round=number) for message, number in opening.new]
            start = {"type": "start", "run": turn, "runtime": opening.runtime.as_json(), "ctx": {}}
            session.append(turn, asked, [start], NOW, part="o", folds_later=folds_later)
            if not folds_later:
                assert session.state.turns.has(turn)
        self.open.append(turn)

    def end(self, session: Session, *, folds_later: bool) -> None:
        if not self.open:
            return
        turn = self.open.pop()
        with session.locked():
            done: Record = {"type": "done", "run": turn, "status": "ok", "ctx": {}}
            session.append(
                turn, [as_record(Message("assistant", "I see."))], [done], NOW, part="c", folds_later=folds_later
            )

    def take(self, step: Step) -> None:
        at, action, folds_later = step
        session = self.sessions[at]
        if action == "open":
            self.begin(session, folds_later=folds_later)
        elif action == "close":
            self.end(session, folds_later=folds_later)
        elif action == "erase" and self.turns:
            purge("s", message=1, store=self.store)
        with self.opened().locked():
            pass


@given(STEPS)
def test_state_is_that_of_the_log_whenever_the_session_is_locked(steps: list[Step]) -> None:
    workers = Workers()
    for step in steps:
        workers.take(step)
        if step[1] == "read":
            session, fresh = workers.sessions[step[0]], workers.opened()
            with session.locked():
                known = session.state.as_json()
            with fresh.locked():
                assert known == fresh.state.as_json()
    states = []
    for session in (*workers.sessions, workers.opened()):
        with session.locked():
            states.append(session.state.as_json())
            assert [record["ctx"]["seq"] for record in session.pick(range(1, 100)).values()] == [
                record["ctx"]["seq"] for record in session.records("messages")
            ]
    assert states[0] == states[1] == states[2]
