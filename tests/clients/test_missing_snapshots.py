"""Replies without the snapshot that they should have: noted, counted, and told when there are many."""

import json
import logging
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.inspect import details_of
from ctxwrap.protocol.instructions import SEPARATOR, text_before_question
from ctxwrap.session.lookup import key_for
from ctxwrap.session.open_turns import MANY, NO_SNAPSHOT, Compliance, SnapshotCount
from ctxwrap.testing.practice import Answer, Ask, Provider, ToolCall
from ctxwrap.types import TurnRecord
from tests.support import Told, events, item, trailer

UNUSABLE = f'\n\n{SEPARATOR}\n{{"note": "no memory in it"}}'


class Bot:
    """A program whose model says what it is told to, with a snapshot or without."""

    def __init__(self, provider: Provider, home: Path, **settings: Any) -> None:
        self.provider, self.home, self.settings = provider, home, settings
        self.restart()

    def restart(self) -> None:
        bare = openai.OpenAI(api_key="k", base_url=self.provider.openai_url, max_retries=0)
        self.client = ctxwrap.wrap(bare, store=self.home, session="s", **self.settings)

    def hear(
        self, answer: Any, said: str = "Say hello.", *, stream: bool = False, model: str = "m", **more: Any
    ) -> TurnRecord:
        self.provider.answer = answer if callable(answer) else lambda ask: answer
        messages: Any = [{"role": "user", "content": said}]
        reply: Any = self.client.chat.completions.create(model=model, messages=messages, stream=stream, **more)
        if stream:
            list(reply)
        turn = ctxwrap.turn_of(reply)
        assert turn is not None
        return turn

    def snapshots(self) -> list[tuple[str, list[str]]]:
        return [
            (event["status"], event["violations"]) for event in events(self.home, "s") if event["type"] == "snapshot"
        ]

    def remembered(self) -> list[tuple[str, str, str]]:
        """What is remembered: its content, where it lies, and whose words it is from."""
        tiers = details_of(ctxwrap.open_store(self.home), key_for("s"))["memory"]
        return [(each["content"], tier, each["origin"]) for tier, items in tiers.items() for each in items]

    def told(self, *arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments, "--store", str(self.home)], env={"COLUMNS": "160"})
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture
def bot(provider: Provider, home: Path) -> Bot:
    return Bot(provider, home)


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_without_a_snapshot_is_a_violation_and_an_event(bot: Bot, stream: bool) -> None:
    turn = bot.hear(Answer("Hello."), stream=stream)
    assert (turn.violations, turn.report.reading, turn.report.misses) == ((NO_SNAPSHOT,), "missing", 1)
    assert bot.snapshots() == [("missing", [NO_SNAPSHOT])]


def test_an_anthropic_reply_without_a_snapshot_is_a_violation(provider: Provider, home: Path) -> None:
    bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url)
    provider.answer = lambda ask: Answer("Hello.")
    client = ctxwrap.wrap(bare, store=home, session="s")
    reply = client.messages.create(model="m", max_tokens=50, messages=[{"role": "user", "content": "Hi."}])
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert (turn.violations, turn.report.misses) == ((NO_SNAPSHOT,), 1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        (Answer("", tool_calls=(ToolCall("t", "f"),)), "enabled"),
        (Answer("Wait.", tool_calls=(ToolCall("t", "f"),)), "enabled"),
        (Answer("Hello", finish="length"), "enabled"),
        (Answer("Hello", finish="content_filter"), "enabled"),
        (Answer("", refusal="No."), "enabled"),
        (Answer("Hello."), "readonly"),
        (Answer("Hello."), "shadow"),
        (Answer("Hello."), "disabled"),
    ],
    ids=["tool call", "text and tool call", "cut", "filtered", "refusal", "readonly", "shadow", "disabled"],
)
def test_reply_that_needs_no_snapshot_is_not_counted_as_missing(
    bot: Bot, answer: Answer, mode: str, stream: bool
) -> None:
    bot.hear(Answer("Hello."))
    turn = bot.hear(answer, stream=stream, context_mode=mode)
    assert (turn.violations, turn.report.misses) == ((), 1), "the row goes on"
    assert bot.snapshots() == [("missing", [NO_SNAPSHOT])]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer", ["Nice.", f"Nice.{UNUSABLE}"], ids=["missing", "unusable"])
def test_rules_extract_the_users_facts_without_a_snapshot(bot: Bot, answer: str, stream: bool) -> None:
    turn = bot.hear(Answer(answer), "My name is Ada and I am allergic to peanuts.", stream=stream)
    assert [operation.kind for operation in turn.operations] == ["add", "add"]
    remembered = bot.remembered()
    assert [(tier, origin) for _, tier, origin in remembered] == [("core", "rule")] * 2
    assert "Ada" in remembered[0][0] + remembered[1][0]
    assert "peanuts" in remembered[0][0] + remembered[1][0]
    (observed,) = [event for event in events(bot.home, "s") if event["type"] == "observation"]
    assert [each["kind"] for each in observed["operations"]] == ["add", "add"]
    assert "extracted by rules, without a snapshot" in bot.told("show", "s", "--turn", "1")
    bot.restart()
    bot.hear(Answer("Hello."))
    assert [each[0] for each in bot.remembered()] == [each[0] for each in remembered]
    assert "peanuts" in json.dumps(bot.provider.seen[-1].json)
    bot.told("verify", "s")


def test_on_missing_keep_leaves_memory_unchanged(provider: Provider, home: Path) -> None:
    bot = Bot(provider, home, on_missing="keep")
    turn = bot.hear(Answer("Nice."), "My name is Ada.")
    assert (turn.operations, turn.violations, bot.remembered()) == ((), (NO_SNAPSHOT,), [])
    assert not [event for event in events(home, "s") if event["type"] == "observation"]


def test_rules_extract_nothing_when_there_is_a_snapshot(bot: Bot) -> None:
    bot.hear(Told("Nice."), "My name is Ada.")
    assert [origin for _, _, origin in bot.remembered()] == ["user"]
    assert not any("Ada" in content for content, _, _ in bot.remembered())


def test_model_items_replace_items_extracted_by_rules(bot: Bot) -> None:
    bot.hear(Answer("Nice."), "My name is Ada.")
    own = item("name", "The user is called Ada.")
    bot.hear(lambda ask: Answer("Yes." + trailer(ask, core=[own], working=[item("w-1", "Boil eggs.")])))
    assert ("The user is called Ada.", "core", "user") in bot.remembered()
    assert "rule" not in [origin for _, _, origin in bot.remembered()]
    assert len(bot.remembered()) == 2


def test_consecutive_misses_are_counted_across_processes(bot: Bot) -> None:
    assert [bot.hear(Answer("Hello.")).report.misses for _ in range(2)] == [1, 2]
    bot.restart()
    assert bot.hear(Answer("Hello.")).report.misses == 3
    assert (
        bot.hear(
            Answer(f"Hello.{UNUSABLE}"),
        ).report.misses
        == 3
    ), "that is no snapshot to go by"
    assert bot.hear(Told()).report.misses == 0
    assert bot.hear(Answer("Hello.")).report.misses == 1


def test_reask_result_decides_whether_a_snapshot_is_missing(provider: Provider, home: Path) -> None:
    bot = Bot(provider, home, on_missing="reask")

    def mended(ask: Ask) -> Answer:
        return Answer("Hello." if text_before_question(ask.last_user) is None else trailer(ask).strip())

    turn = bot.hear(mended)
    assert (turn.violations, turn.report.reasks, turn.report.misses) == ((), 1, 0)
    in_vain = bot.hear(Answer("Hello."))
    assert (in_vain.violations, in_vain.report.reasks, in_vain.report.misses) == ((NO_SNAPSHOT,), 1, 1)
    assert [status for status, _ in bot.snapshots()] == ["repaired", "missing"]


def test_repeated_misses_warn_once_per_session_with_advice(bot: Bot, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ctxwrap")
    for number in range(1, 2 * MANY):
        bot.hear(Answer("Hello."), model="small-1")
        assert len(caplog.records) == (number >= MANY)
    bot.hear(Told())
    bot.restart()
    for _ in range(MANY + 1):
        bot.hear(Answer("Hello."))
    (warning,) = [record.getMessage() for record in caplog.records]
    for word in ("'s'", "small-1", 'on_missing="reask"', "another model", 'context_mode="readonly"', "ctxwrap check"):
        assert word in warning


def test_cli_commands_show_missing_snapshot_counts(bot: Bot) -> None:
    bot.hear(Told(), model="good")
    assert "no snapshot" not in bot.told("sessions")
    assert "1 requested" in bot.told("show", "s")
    for _ in range(2):
        bot.hear(Answer("Hello."), model="bad")
    bot.hear(Answer(f"Hello.{UNUSABLE}"), model="bad")
    heading, line = bot.told("sessions").splitlines()
    assert heading.split()[-2:] == ["no", "snapshot"]
    assert line.split()[-1] == "50%"
    (session,) = json.loads(bot.told("sessions", "--json"))["sessions"]
    assert (session["missing_snapshots"], session["missing_share"]) == (2, 0.5)
    shown = " ".join(bot.told("show", "s").split())
    assert (
        "4 requested, 2 missing, 1 unusable; none in the last 2; good: 1 requested; bad: 3 requested, 2 missing"
        in shown
    )
    assert "snapshot: missing" in bot.told("show", "s", "--turn", "2")
    assert json.loads(bot.told("show", "s", "--json"))["snapshots"] == {
        "asked": 4,
        "missing": 2,
        "unusable": 1,
        "in_a_row": 2,
        "models": {
            "good": {"asked": 1, "missing": 0, "unusable": 0},
            "bad": {"asked": 3, "missing": 2, "unusable": 1},
        },
    }


def test_log_with_misses_verifies_and_rebuilds(bot: Bot, tmp_path: Path) -> None:
    for answer in (Answer("Hello."), Told(), Answer("Hello.")):
        bot.hear(answer)
    assert "missing" in bot.told("tail", "s", "--events")
    store, key = ctxwrap.open_store(bot.home), key_for("s")
    before = bot.told("show", "s", "--json")
    bot.told("rebuild", "s")
    assert bot.told("show", "s", "--json") == before
    bot.told("verify", "s")
    assert store.open(key).files.load("context/summary.md").split(b"\n")[3] == b"Snapshots: 2 of 3 missing"


STATUSES = st.sampled_from(["clean", "repaired", "partial", "missing", "missing", "rejected", "ambiguous"])
EVENTS = st.lists(st.tuples(STATUSES, st.sampled_from(["a", "b"]), st.booleans()), max_size=20)


@given(EVENTS, st.integers(0, 20))
def test_snapshot_counts_do_not_depend_on_the_checkpoint(told: list[tuple[str, str, bool]], at: int) -> None:
    compliance = Compliance()
    for number, (status, model, due) in enumerate(told):
        if number == at:
            compliance = Compliance(**json.loads(json.dumps(compliance.as_json())))
        compliance.take({"type": "snapshot", "status": status, "model": model} | ({"due": True} if due else {}))
    due = [(status, model) for status, model, is_due in told if is_due]
    for name in ("a", "b"):
        of = [status for status, model in due if model == name]
        missing = of.count("missing")
        unusable = of.count("rejected") + of.count("ambiguous")
        assert compliance.models.get(name, SnapshotCount()) == (len(of), missing, unusable)
    usable = [at for at, (status, _) in enumerate(due) if status in ("clean", "repaired", "partial")]
    since = due[usable[-1] + 1 :] if usable else due
    assert compliance.in_a_row == sum(status == "missing" for status, _ in since)


def test_snapshot_counts_per_model_are_bounded() -> None:
    compliance = Compliance()
    for number in range(200):
        compliance.take({"type": "snapshot", "status": "clean", "model": f"m{number}", "due": True})
    assert len(compliance.models) <= 51
    assert compliance.total == SnapshotCount(200)
