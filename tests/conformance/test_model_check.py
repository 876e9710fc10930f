"""The checkup tells of every habit what a user of such a model would find, on the terminal and to a program."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ctxwrap.cli import main
from ctxwrap.conformance.model_check import SCRIPT, Checkup, check_model, estimate, findings
from ctxwrap.settings import settings_from
from ctxwrap.testing.practice import Answer, Failure, Provider
from ctxwrap.testing.practice.habits import HABITS

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of litellm's own making

WORKS = ("obedient", "mentions_memory", "fenced_json", "wraps_object", "own_keys", "literal_editor", "only_new")
WORKS_NOT = ("silent", "falls_silent", "narrates", "copies_example", "drops_everything_once")
OTHERS = ("cuts_off", "two_snapshots", "counts_rounds", "plain_strings")
"""One habit each of those that break the end, the number, the runtime and the items of a snapshot."""


@cache
def check(habit: str, **how: Any) -> tuple[Checkup, list[tuple[int, int]]]:
    """The report on a model of this habit, and the progress that was told; the same habit always gets the same."""
    told: list[tuple[int, int]] = []
    with Provider(habit=habit) as provider:
        found = check_model("practice", base_url=provider.openai_url, progress=lambda *at: told.append(at), **how)
    return found, told


def checked(habit: str, **how: Any) -> Checkup:
    return check(habit, **how)[0]


def ctxwrap_check(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], env=environment)


@pytest.mark.parametrize("habit", [*WORKS, *WORKS_NOT, *OTHERS])
def test_model_check_report_counts_add_up(habit: str) -> None:
    found, told = check(habit)
    assert told == [(at, 20) for at in range(21)]
    assert found.clean + found.repaired + found.unusable + found.missing == found.turns == len(SCRIPT)
    assert found.rescued <= found.unusable
    assert 0 < found.snapshot_tokens < found.tokens_out or habit in ("silent", "narrates")
    assert found.cached is not None
    assert 0 <= found.cached < found.tokens_in
    assert 0 <= (found.snapshot_seconds or 0) <= found.seconds
    settings_from(None, **found.advice.settings)
    assert json.loads(json.dumps(found.as_json()))["works"] is found.works
    if habit not in OTHERS:
        assert found.works is (habit in WORKS), found


def test_model_check_reports_each_violation_once_per_reply_without_details() -> None:
    assert checked("fenced_json").forms == {"code-fence": 20}
    assert checked("counts_rounds").forms == {"runtime.round was changed from … to …": 20}


@pytest.mark.parametrize(
    ("habit", "settings"),
    [
        ("obedient", {"snapshot": "delta", "on_missing": "rules"}),
        ("silent", {"context_mode": "readonly"}),
        ("falls_silent", {"snapshot": "delta", "on_missing": "reask"}),
        ("drops_everything_once", {"snapshot": "full", "on_missing": "rules"}),
    ],
)
def test_advice_follows_from_the_findings(habit: str, settings: dict[str, str]) -> None:
    assert checked(habit).advice.settings == settings


def test_model_check_can_use_full_snapshots() -> None:
    found = checked("obedient", snapshot="full")
    assert found.works
    assert found.snapshot == found.advice.settings["snapshot"] == "full"
    assert found.snapshot_tokens > checked("obedient").snapshot_tokens


def test_findings_depend_on_the_memory_contents() -> None:
    kept = ["Ada", "no peanuts", "green", "a nurse", "moved from Bergen to Trondheim"]
    memory = {"core": [{"content": content} for content in kept], "working": [], "ephemeral": [{"content": "train"}]}
    assert all(finding.holds for finding in findings(memory))
    memory["core"] += [{"content": "lives in Bergen"}, {"content": "is on the train"}]
    assert [finding.what for finding in findings(memory) if not finding.holds] == [
        "the old home is not",
        "what was so for the moment is not core",
    ]
    assert sum(not finding.holds for finding in findings({})) == 5


def test_cost_estimate_is_close_to_the_actual_cost() -> None:
    expected, found = estimate("practice"), checked("obedient")
    assert expected.turns == found.turns
    assert expected.tokens_in / 2 < found.tokens_in < expected.tokens_in * 2
    assert expected.dollars is None
    assert 0 < (estimate("gpt-5").dollars or 0) < 1


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(habit="obedient") as provider:
        yield provider


def test_command_prints_cost_findings_and_advice(provider: Provider) -> None:
    result = ctxwrap_check("--model", "practice", "--base-url", provider.openai_url)
    assert result.exit_code == 0, result.output
    assert "20 turns with practice: about" in result.output
    assert "price unknown" in result.output
    for line in ("replies with a snapshot", "100 %", "the name is remembered", "snapshot='delta', on_missing='rules'"):
        assert line in result.output


def test_command_prints_json_and_sets_the_exit_code(provider: Provider) -> None:
    provider.answer = HABITS["silent"]
    result = ctxwrap_check("--model", "practice", "--base-url", provider.openai_url, "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["works"], told["missing"], told["advice"]["settings"]) == (False, 20, {"context_mode": "readonly"})


def test_unreachable_model_prints_one_line_and_sets_another_exit_code(provider: Provider) -> None:
    provider.answer = lambda ask: Failure(401, "bad \x1b[31mkey")
    refused = ctxwrap_check("--model", "practice", "--base-url", provider.openai_url, "--yes")
    nowhere = ctxwrap_check("--model", "no-provider-has-this", "--yes")
    no_key = ctxwrap_check("--model", "practice", "--api-key-env", "NO_SUCH_VARIABLE")
    for result in (refused, nowhere, no_key):
        assert result.exit_code == 2, result.output
        assert "Error: " in result.output
        assert "Traceback" not in result.output
        assert "\x1b" not in result.output


def test_error_during_the_check_gives_no_verdict(provider: Provider) -> None:
    answers = iter([HABITS["obedient"]] * 3)
    provider.answer = lambda ask: next(answers, lambda ask: Failure(400, "enough"))(ask)
    assert ctxwrap_check("--model", "practice", "--base-url", provider.openai_url, "--json").exit_code == 2


def test_command_asks_for_confirmation_on_a_terminal(provider: Provider) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [sys.executable, "-m", "ctxwrap", "check", "--model", "practice", "--base-url", provider.openai_url]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert "20 turns" in done.stdout
    assert "Continue?" in done.stdout
    assert not provider.seen


def test_custom_server_gets_only_the_named_api_key(provider: Provider) -> None:
    provider.answer = lambda ask: Answer(f"key {ask.headers['authorization']}")
    arguments = ("--model", "practice", "--base-url", provider.openai_url, "--json")
    ctxwrap_check(*arguments, OPENAI_API_KEY="sk-of-openai")
    assert "sk-of-openai" not in {seen.headers["authorization"] for seen in provider.seen}
    provider.seen.clear()
    ctxwrap_check(*arguments, "--api-key-env", "MINE", MINE="sk-mine")
    assert {seen.headers["authorization"] for seen in provider.seen} == {"Bearer sk-mine"}
