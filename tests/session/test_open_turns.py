"""Open turns: which messages are a turn's answer."""

from hypothesis import example, given
from hypothesis import strategies as st

from ctxwrap.session.open_turns import LATE, OWN, Turns, answer_id

TURNS = st.text(min_size=1) | st.sampled_from(["1a1", "flush-26", "a-c0", "-c0", "a-"])


@given(TURNS, TURNS, st.sampled_from([OWN, LATE]))
@example("a", "a-c0", OWN)
def test_an_answer_is_known_by_its_turn_and_part(turn: str, other: str, part: str) -> None:
    turns = Turns()
    turns.take_answer(turn, {"id": answer_id(turn, part), "status": "complete"})
    assert turns.answered(turn, part) == "complete"
    assert not turns.answered(turn, LATE if part == OWN else OWN)
    others = Turns()
    others.take_answer(other, {"id": answer_id(turn, part), "status": "complete"})
    assert bool(others.answered(turn, part)) is (other == turn)


@given(TURNS, st.sampled_from(["o0", "c1", "l1", "d200-0", "c00", ""]))
def test_other_messages_of_a_turn_are_no_answers(turn: str, last: str) -> None:
    turns = Turns()
    turns.take_answer(turn, {"id": f"{turn}-{last}", "status": "complete"})
    turns.take_answer(turn, {})
    assert not turns.answered(turn, OWN)
    assert not turns.answered(turn, LATE)
