"""Alignment: whatever a caller sends along, the log gets what is new, once."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.session.branch import Alignment, align, digest
from ctxwrap.session.session import Session
from ctxwrap.stores.log_format import as_record
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.types import Message, Request, Role, SessionKey, TurnInputs

NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)


class Chat:
    """A session and a caller of it, driven without a provider."""

    def __init__(self) -> None:
        self.log = MemoryStore().open(SessionKey("t", "a", "s"))
        self.session = Session(SessionKey("t", "a", "s"), self.log)
        self.turns = 0

    def ask(self, *messages: Message, answer: str | Message | None = None) -> TurnInputs:
        """One turn; without an answer it fails."""
        self.turns += 1
        with self.session.locked():
            opening = self.session.open_turn(Request(messages), NOW)
            records = [
                as_record(message, round=number, parent=opening.parent if at == 0 else "")
                for at, (message, number) in enumerate(opening.new)
            ]
            start = {"type": "start", "runtime": opening.runtime.as_json(), "ctx": {}}
            self.session.append(f"t{self.turns}", records, [start], NOW)
        if answer is not None:
            reply = assistant(answer) if isinstance(answer, str) else answer
            parent = "" if opening.new else opening.parent
            with self.session.locked():
                record = as_record(reply, round=opening.runtime.round, parent=parent)
                self.session.append(f"t{self.turns}", [record], [], NOW)
        return opening

    @property
    def said(self) -> list[str]:
        return [str(record["content"]) for record in self.log.read("messages")[0]]


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


CALL = Message("assistant", "", tool_calls=({"id": "c1", "name": "f", "arguments": "{}"},))
RESULT = Message("tool", "42", tool_call_id="c1")


def test_both_kinds_of_callers_get_the_same_log_and_rounds() -> None:
    resending, newest = Chat(), Chat()
    history: list[Message] = []
    for text in ("hello", "ok", "ok", "bye"):
        history.append(user(text))
        first = resending.ask(*history, answer=f"re {text}")
        second = newest.ask(user(text), answer=f"re {text}")
        history.append(assistant(f"re {text}"))
        assert first.runtime.round == second.runtime.round
        assert first.history == (), "the caller sends all of it"
        assert [kept.message for kept in second.history] == history[:-2]
    assert resending.said == newest.said
    assert resending.said == ["hello", "re hello", "ok", "re ok", "ok", "re ok", "bye", "re bye"]


@given(
    st.lists(st.sampled_from(["ok", "yes", "no", "more"]), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
)
def test_caller_may_send_any_suffix_of_its_history(texts: list[str], kept: list[int]) -> None:
    chat, history = Chat(), list[Message]()
    for at, text in enumerate(texts):
        history.append(user(text))
        tail = history[max(0, len(history) - 1 - 2 * kept[at]) :]
        opening = chat.ask(*tail, answer=f"answer {at}")
        history.append(assistant(f"answer {at}"))
        assert opening.runtime.round == at + 1
        assert [message for message, _ in opening.new] == [user(text)]
    assert chat.said == [message.content for message in history]


def test_retried_call_keeps_its_round_and_adds_no_message() -> None:
    for resends in (True, False):
        chat = Chat()
        chat.ask(user("one"), answer="1")
        before = [user("one"), assistant("1")] if resends else []
        failed = chat.ask(*before, user("two"))
        again = chat.ask(*before, user("two"), answer="2")
        assert failed.runtime == again.runtime
        assert chat.said == ["one", "1", "two", "2"]


def test_tool_results_stay_in_the_round() -> None:
    chat = Chat()
    first = chat.ask(user("use the tool"), answer=CALL)
    second = chat.ask(user("use the tool"), CALL, RESULT, answer="it says 42")
    assert first.runtime == second.runtime
    assert [message for message, _ in second.new] == [RESULT]
    third = chat.ask(user("thanks"))
    assert third.runtime.round == first.runtime.round + 1


def test_a_tool_result_alone_continues_the_round() -> None:
    chat = Chat()
    first = chat.ask(user("use the tool"), answer=CALL)
    assert chat.ask(RESULT, answer="it says 42").runtime == first.runtime


def test_edited_history_becomes_a_branch() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    chat.ask(user("one"), assistant("1"), user("two"), answer="2")
    edited = chat.ask(user("one"), assistant("1"), user("two, I mean three"), answer="3")
    assert edited.parent == chat.log.read("messages")[0][1]["ctx"]["id"]
    assert edited.runtime.round == 3
    assert chat.said == ["one", "1", "two", "2", "two, I mean three", "3"]
    onward = chat.ask(user("four"))
    assert [kept.message.content for kept in onward.history] == ["one", "1", "two, I mean three", "3"]


def test_regenerated_reply_becomes_a_branch() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    chat.ask(user("one"), assistant("1"), user("two"), answer="2")
    again = chat.ask(user("one"), assistant("1"), user("two"), answer="2, better")
    assert again.new == ()
    assert again.parent == chat.log.read("messages")[0][2]["ctx"]["id"]
    assert [kept.message.content for kept in chat.ask(user("x")).history] == ["one", "1", "two", "2, better"]


def test_regenerated_reply_after_a_tool_result_becomes_a_branch() -> None:
    chat = Chat()
    chat.ask(user("hello"), answer="hi")
    chat.ask(user("use the tool"), answer=CALL)
    first = chat.ask(user("use the tool"), CALL, RESULT, answer="it says 42")
    again = chat.ask(user("use the tool"), CALL, RESULT, answer="forty-two")
    assert again.new == ()
    assert again.history == first.history
    assert [kept.message for kept in first.history] == [user("hello"), assistant("hi")]
    assert chat.said == ["hello", "hi", "use the tool", "", "42", "it says 42", "forty-two"]


def test_unknown_messages_before_a_known_suffix_are_ignored() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    chat.ask(user("one"), assistant("1"), user("two"), answer="2")
    opening = chat.ask(user("summary so far: …"), assistant("fine"), user("two"), assistant("2"), user("three"))
    assert [message for message, _ in opening.new] == [user("three")]
    assert opening.parent == ""


def test_unknown_history_is_imported_round_by_round() -> None:
    chat = Chat()
    opening = chat.ask(user("one"), assistant("1"), user("two"), assistant("2"), user("three"))
    assert [number for _, number in opening.new] == [1, 1, 2, 2, 3]
    assert opening.runtime.round == 3


def test_history_unlike_the_log_becomes_a_branch_from_the_root() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    opening = chat.ask(user("uno"), assistant("un"), user("dos"))
    assert opening.parent == "root"
    assert len(opening.new) == 3


def test_a_system_prompt_is_logged_when_it_changes() -> None:
    chat = Chat()
    system = Message("system", "Be brief.")
    chat.ask(system, Message("system", "Be kind."), user("one"), answer="1")
    chat.ask(system, Message("system", "Be kind."), user("two"), answer="2")
    chat.ask(system, user("three"), answer="3")
    assert chat.said == ["Be brief.", "Be kind.", "one", "1", "two", "2", "Be brief.", "three", "3"]


@pytest.mark.parametrize("spelling", ["1", " 1\n", "1 "])
def test_whitespace_around_a_reply_makes_no_branch(spelling: str) -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    assert chat.ask(user("one"), assistant(spelling), user("two")).parent == ""


PICTURE = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,x"}}]


def test_message_parts_are_compared_by_content() -> None:
    chat = Chat()
    chat.ask(Message("user", PICTURE), answer="A cat.")
    onward = chat.ask(Message("user", PICTURE), assistant("A cat."), user("Sure?"), answer="Yes.")
    assert [message for message, _ in onward.new] == [user("Sure?")]
    other = [PICTURE[0], {**PICTURE[1], "image_url": {"url": "data:image/png;base64,y"}}]
    edited = chat.ask(Message("user", other), assistant("A cat."), user("Sure?"), answer="No.")
    assert edited.parent == "root"


@given(st.text(), st.integers(0, 3), st.sampled_from(["user", "assistant", "tool"]), st.text())
def test_digest_of_a_text_follows_from_role_call_and_text(text: str, times: int, role: Role, call: str) -> None:
    """Digests are in logs: they stay the same, for kept ones as for those of long texts."""
    long = text * 2000 * times
    for content in (text, long, text):
        said = f"{role}\n{call!r}\n{content.strip()}".encode("utf-8", "surrogatepass")
        assert digest(Message(role, content, tool_call_id=call)) == blake2b(said, digest_size=8).hexdigest()


def test_text_content_equals_a_single_text_part() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    parts = Message("user", [{"type": "text", "text": "one"}])
    assert [message for message, _ in chat.ask(parts, assistant("1"), user("two"), answer="2").new] == [user("two")]
    marked = Message("user", [{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}])
    assert chat.ask(marked, assistant("1"), user("two"), assistant("2"), user("three")).parent == ""


def test_the_log_keeps_every_branch_with_its_parent() -> None:
    chat = Chat()
    chat.ask(user("one"), answer="1")
    for text in ("two", "zwei", "deux"):
        chat.ask(user("one"), assistant("1"), user(text), answer=f"re {text}")
    log = chat.log.read("messages")[0]
    assert [record["content"] for record in log] == ["one", "1", "two", "re two", "zwei", "re zwei", "deux", "re deux"]
    assert [record["ctx"].get("parent") for record in log[4::2]] == [log[1]["ctx"]["id"]] * 2
    assert not any(record["ctx"].get("parent") for record in (*log[:4], *log[5::2]))


def test_log_timestamps_never_decrease() -> None:
    chat = Chat()
    first = chat.ask(user("one"), answer="1")
    second = chat.ask(user("two"), answer="2")
    assert second.runtime.datetime > first.runtime.datetime
    assert second.runtime.startup_at == first.runtime.startup_at
    assert first.runtime.datetime == "2026-02-20T18:30:00.000000Z"


def plainly_aligned(known: Sequence[str], given: Sequence[str], answers: Sequence[int], began: int) -> Alignment:
    """What alignment means, tried out place by place."""

    def placed(at: int, length: int) -> Alignment:
        return Alignment(at + length, length, length, at)

    same = max((n for n in range(len(given) + 1) if began >= 0 and known[began:][:n] == given[:n]), default=0)
    same = min(same, max(0, len(known) - began))
    if answers and same > answers[-1]:
        return placed(began, same)
    for start in range(max(0, len(known) - len(given)), len(known)):
        if known[start:] == given[: len(known) - start]:
            return placed(start, len(known) - start)
    if not known or not answers:
        return placed(len(known), 0)
    for at in range(len(given), 1, -1):
        if len(known) > 1 and known[-2:] == given[at - 2 : at]:
            ends = [n for n in range(2, min(at, len(known)) + 1) if known[-n:] == given[at - n : at]]
            return Alignment(len(known), at, ends[-1], min(began, len(known) - ends[-1]) if same else 0)
    runs = [(length, same >= length and start == began, start)
            for start in range(len(known)) for length in range(1, len(given) + 1)
            if len(known) - start >= length and known[start : start + length] == given[:length]]  # fmt: skip
    length, _, start = max(runs, default=(0, False, 0))
    return placed(start, length)


DIGESTS = st.lists(st.sampled_from("abc"), max_size=9)


@st.composite
def lists(draw: st.DrawFn) -> tuple[list[str], list[str], list[int], int]:
    """What is known and given, the places of answers in it, and where the last list began."""
    known, given = draw(DIGESTS), draw(DIGESTS)
    answers = draw(st.lists(st.integers(0, max(0, len(given) - 1)), max_size=3 if given else 0))
    return known, given, sorted(answers), draw(st.integers(-1, len(known) - 1))


@given(lists())
def test_one_pass_alignment_matches_exhaustive_alignment(
    found: tuple[list[str], list[str], list[int], int],
) -> None:
    known, given, answers, began = found
    assert align(known, given, answered=max(answers, default=-1), began=began) == plainly_aligned(
        known, given, answers, began
    )


@given(lists())
def test_truncated_branch_is_aligned_within_its_bounds(lists: tuple[list[str], list[str], list[int], int]) -> None:
    known, given, answers, began = lists
    found = align(known, given, answered=max(answers, default=-1), began=began, cut=True)
    assert 0 <= found.covered <= found.keep <= len(known)
    assert found.covered <= found.new <= len(given)
    assert 0 <= found.before <= found.keep - found.covered
    assert found.keep == len(known) or answers


@given(st.lists(st.integers(), min_size=2, max_size=20, unique=True), st.integers(0, 20), st.integers(1, 20))
def test_truncated_branch_continues_for_a_caller_with_longer_history(said: list[int], cut: int, back: int) -> None:
    history = [str(number) for number in said]
    known = history[min(cut, len(history) - 2) :]
    assert align(known, [*history, "new"], answered=1, cut=True) == Alignment(
        len(known), len(history), covered=len(known)
    )
    kept = len(known) - back
    if kept > 1:
        edited = [*history[:-back], "edited"]
        assert align(known, edited, answered=0, cut=True) == Alignment(kept, len(history) - back, covered=kept)


@pytest.mark.parametrize("cut", [True, False])
def test_repeated_messages_do_not_slow_alignment(cut: bool) -> None:
    start = time.thread_time()
    align(["a"] * 1999 + ["b"], ["a"] * 4000 + ["c"], answered=4000, began=3, cut=cut)
    assert time.thread_time() - start < 0.5
