"""The time that a model is told: it never goes back, and does not stay in a future that did not come."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.session.state import SessionState
from ctxwrap.settings import Settings
from ctxwrap.testing import Answer, ScriptedProvider
from ctxwrap.types import Runtime
from tests.support import lines

BEGAN = datetime(2026, 11, 17, tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


def told(*clock: datetime) -> list[datetime]:
    """What the model is told in one round after the other."""
    past, found = SessionState(Settings()), []
    for round, now in enumerate(clock, 1):
        past.runtime = past.next_runtime(round, now)
        found.append(datetime.fromisoformat(past.runtime.datetime))
    return found


@given(st.lists(st.timedeltas(timedelta(days=-40000), timedelta(days=300)), min_size=1, max_size=8))
def test_clock_never_goes_back(jumps: list[timedelta]) -> None:
    moments = told(BEGAN, *(BEGAN + jump for jump in jumps))
    assert all(before < after for before, after in pairwise(moments))


@pytest.mark.parametrize("future", [datetime(2031, 1, 1, tzinfo=UTC), LAST])
def test_one_call_in_the_far_future_does_not_keep_the_clock_there(future: datetime) -> None:
    moments = told(BEGAN, future, BEGAN + timedelta(days=1), BEGAN + timedelta(days=2))
    assert moments == [BEGAN, future, BEGAN + timedelta(days=1), BEGAN + timedelta(days=2)]


@pytest.mark.parametrize("written", ["2026-11-17 12:00:00.000000Z", "2026-11-17T13:00:00+01:00", "2026-11-17T12:00Z"])
def test_time_in_another_form_is_compared_as_a_time(written: str) -> None:
    past, noon = SessionState(Settings()), BEGAN + timedelta(hours=12)
    past.runtime = Runtime(1, written, "2026-11-17T00:00:00.000000Z")
    early, late = (past.next_runtime(2, noon + timedelta(hours=hours)).datetime for hours in (-1, 1))
    assert noon < datetime.fromisoformat(early) < noon + timedelta(minutes=1)
    assert datetime.fromisoformat(late) == noon + timedelta(hours=1)


def test_maximum_datetime_is_no_error() -> None:
    assert told(LAST, LAST, BEGAN) == [LAST] * 3


class Ticking:
    """A clock that is one second further every time it is read."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


TALK = ("My name is Ada.", "I live in Turin.", "I like tea.", "Who am I?", "Where do I live?", "Goodbye.")


def run(home: Path, **settings: Any) -> tuple[list[bytes], dict[str, bytes]]:
    """Hold a chat; return the requests as they were sent, and the files that show context and packs."""
    script = [Answer(f"Answer {number}.", remembers=text) for number, text in enumerate(TALK)]
    with ScriptedProvider(script) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, session="s", store=home, derive="inline", **settings)
        for text in TALK:
            client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": text}])
        sent = [seen.body for seen in provider.seen]
    client.close()
    context = home / "home/default/agent/default/session/s/context"
    return sent, {str(path.relative_to(context)): path.read_bytes() for path in context.rglob("*") if path.is_file()}


def log(home: Path) -> list[dict[str, Any]]:
    """The records of the log, apart from the process that wrote them and from their checksums."""
    records = [record for stream in ("messages", "events") for record in lines(home, "s", stream)]
    for record in records:
        record["ctx"] = {name: value for name, value in record["ctx"].items() if name not in ("writer", "c")}
    return records


@pytest.mark.parametrize("clock", [lambda: BEGAN, Ticking], ids=["fixed", "ticking"])
def test_two_runs_by_the_same_clock_are_the_same(clock: Callable[[], Any], tmp_path: Path) -> None:
    sent, files = run(tmp_path / "one", clock=clock())
    again, same = run(tmp_path / "two", clock=clock())
    assert sent == again
    assert {"pack.json", "pack.md", "document.md"} <= files.keys()
    assert files == same
    assert log(tmp_path / "one") == log(tmp_path / "two")


def test_times_and_ids_come_from_the_clock(tmp_path: Path) -> None:
    moment = datetime(2031, 5, 6, 7, 8, tzinfo=timezone(timedelta(hours=2)))
    sent, _ = run(tmp_path, clock=moment)
    assert b"2031-05-06T05:08:00" in sent[0]
    assert {record["ctx"]["time"] for record in log(tmp_path)} == {"2031-05-06T05:08:00.000000Z"}
    starts = [event for event in lines(tmp_path, "s", "events") if event["type"] == "start"]
    turns = [event["ctx"]["id"].partition("-")[0] for event in starts]
    assert len(set(turns)) == len(TALK)
    assert turns == sorted(turns)
    assert {int(turn[:11], 16) for turn in turns} == {int(moment.timestamp() * 1000)}


def test_clock_without_a_time_zone_is_an_error_of_the_call(tmp_path: Path) -> None:
    with pytest.raises(ctxwrap.SettingsError, match="clock must return a datetime with a time zone"):
        run(tmp_path, clock=lambda: datetime(2026, 1, 1), strict=True)


def test_what_a_question_asks_for_by_its_distance_in_time_is_found_by_the_clock() -> None:
    now = BEGAN
    with ScriptedProvider(lambda _: "I see.") as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, session="s", store="memory:", clock=lambda: now, budget=1200)
        for item in range(60):
            now = BEGAN.replace(year=2023) + timedelta(days=item)
            text = f"At the market I bought item {item} and a loaf of bread."
            client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": text}])
        text = "What did I buy at the market five weeks ago?"
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": text}])
        assert f"bought item {59 - 35} " in provider.last.ask.last_user
    client.close()
