"""The recent messages of a branch: what is said last, whatever was edited, regenerated or forgotten."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.session import branch as module
from ctxwrap.session.branch import ROOT, Branch
from ctxwrap.types import LoggedMessage, Message

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 120)),
        st.tuples(st.just("after"), st.integers(0, 12)),
        st.tuples(st.just("drop"), st.integers(0, 12)),
    ),
    max_size=40,
)


@given(STEPS)
def test_history_is_the_newest_part_of_the_branch(steps: list[tuple[str, int]]) -> None:
    most, size = module._RECENT, module._RECENT_SIZE
    module._RECENT, module._RECENT_SIZE = 8, 300
    try:
        _walk(steps)
    finally:
        module._RECENT, module._RECENT_SIZE = most, size


def _walk(steps: list[tuple[str, int]]) -> None:
    branch, known, seen = Branch(), list[LoggedMessage](), list[tuple[Any, list[LoggedMessage]]]()
    for number, (step, value) in enumerate(steps, 1):
        kept = LoggedMessage(number, Message("user" if number % 2 else "assistant", "x" * value))
        if step == "drop" and value < len(known):
            branch.drop(str(known.pop(value).number))
        elif step == "after" and value < len(known):
            branch.add(kept, f"d{number}", str(number), str(known[value].number))
            known = [*known[: value + 1], kept]
        elif step == "after":
            branch.add(kept, f"d{number}", str(number), ROOT)
            known = [kept]
        elif step == "add":
            branch.add(kept, f"d{number}", str(number))
            known.append(kept)
        now = branch.history(0)
        assert now == known[len(known) - len(now) :]
        assert len(now) <= 8
        assert known[-1:] == [*now][-1:]
        assert branch.history(2, 3) == [*now][: max(0, len(now) - 2)][-3:]
        assert branch.since(number - 3) == [each for each in now if each.number > number - 3]
        recent = {each.number: each for each in now}
        assert all(branch.message(each) == recent.get(each) for each in range(number + 2))
        assert Branch.from_json(branch.as_json()).history(0) == now
        seen.append((now, [*now]))
    assert all(view == messages for view, messages in seen), "what a turn began with stays"
