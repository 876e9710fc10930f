"""Context Protocol 2.2, hybrid mode: text and a JSON snapshot in one reply, by wrapped clients of two providers."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ctxwrap
from ctxwrap.inspect import details_of, memory_of
from ctxwrap.session.lookup import key_for
from ctxwrap.testing.practice import Answer, Ask, Provider, ToolCall
from ctxwrap.types import TurnRecord
from tests.support import events, messages, state_shown

SEPARATOR = "<<<CONTEXT>>>"

TEMPLATE: dict[str, Any] = {
    "version": "2.2",
    "runtime": {"round": 1, "datetime": "2026-02-20T18:45:12Z", "startup_at": "2026-02-20T18:30:00Z"},
    "memory": {
        "core": [
            {"id": "core-001", "type": "identity", "decay": 0.05, "round": 1, "tags": ["agent", "identity"],
             "content": "长期核心记忆"}
        ],
        "working": [
            {"id": "work-001", "type": "task", "decay": 0.4, "round": 1, "tags": ["task", "active"],
             "content": "当前任务相关记忆"}
        ],
        "ephemeral": [
            {"id": "temp-001", "type": "hint", "decay": 0.8, "round": 1, "tags": ["temporary"],
             "content": "临时上下文信息"}
        ],
    },
    "capabilities": [{"name": "memory", "scope": "write_once"}],
    "active_task": "当前执行任务摘要",
}  # fmt: skip
"""The document's own example."""


class Chat:
    """A session with one of the SDKs, whose model answers with what a test makes of the state that it was shown."""

    def __init__(self, provider: Provider, home: Path, api: str = "openai", **settings: Any) -> None:
        self.provider, self.home, self.api = provider, home, api
        bare: Any = (
            openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
            if api == "openai"
            else anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url, max_retries=0)
        )
        self.client: Any = ctxwrap.wrap(bare, store=home, session="s", **settings)
        self.shown: list[dict[str, Any]] = []
        """The states that the model was shown."""

    def say(self, text: str = "Go on.", reply: Callable[[dict[str, Any]], str] | str = "", **options: Any) -> str:
        """What the user sees of the reply; `self.turn` is what became of it."""

        def answer(ask: Ask) -> Answer:
            if callable(reply):
                self.shown.append(state_shown(ask))
                return Answer(reply(self.shown[-1]))
            return Answer(reply)

        self.provider.answer = answer
        return self.send([{"role": "user", "content": text}], **options)

    def send(self, told: list[Any], **options: Any) -> str:
        if self.api == "openai":
            self.reply = self.client.chat.completions.create(model="m", messages=told, **options)
            seen: str = self.reply.choices[0].message.content
        else:
            self.reply = self.client.messages.create(model="m", max_tokens=500, messages=told, **options)
            seen = "".join(block.text for block in self.reply.content)
        turn = ctxwrap.turn_of(self.reply)
        assert turn is not None
        self.turn: TurnRecord = turn
        return seen

    @property
    def sent(self) -> str:
        """The newest request's body."""
        return json.dumps(self.provider.seen[-1].json, ensure_ascii=False)

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        return [event for event in events(self.home, "s") if event["type"] == "snapshot"]

    @property
    def memory(self) -> dict[str, list[dict[str, Any]]]:
        """The items of each tier."""
        tiers: dict[str, list[dict[str, Any]]] = memory_of(ctxwrap.open_store(self.home), key_for("s"))["memory"]
        return tiers

    def tier_of(self, id: str) -> str:
        return next((tier for tier, items in self.memory.items() for item in items if item["id"] == id), "")


def item(id: str, content: str, decay: Any = 0.3, **fields: Any) -> dict[str, Any]:
    return {"id": id, "type": "fact", "decay": decay, "round": 1, "tags": [], "content": content, **fields}


def state(shown: dict[str, Any], **tiers: list[Any]) -> dict[str, Any]:
    """A correct snapshot with these items, which a model writes that was shown a state."""
    memory = {"core": [], "working": [], "ephemeral": [], **tiers}
    beside = {"capabilities": shown["capabilities"], "active_task": shown["active_task"]}
    return {"version": "2.2", "runtime": shown["runtime"], "memory": memory, **beside}


def trailed(told: Any, text: str = "Fine.") -> str:
    return f"{text}\n\n{SEPARATOR}\n{told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)}"


def plain(shown: dict[str, Any]) -> str:
    return trailed(state(shown))


@pytest.fixture
def chat(provider: Provider, home: Path) -> Chat:
    return Chat(provider, home)


@pytest.fixture(params=["openai", "anthropic"])
def either(provider: Provider, home: Path, request: pytest.FixtureRequest) -> Chat:
    return Chat(provider, home, request.param)


# Runtime switch


@pytest.mark.parametrize("mode", ["enabled", "readonly"])
def test_runtime_switch_line_is_shown_to_the_model(either: Chat, mode: str) -> None:
    either.say("Hi", plain if mode == "enabled" else "Fine.", context_mode=mode)
    assert f"contextMode = {mode}" in either.sent


def test_disabled_request_and_reply_are_untouched_and_memory_stays(either: Chat) -> None:
    either.say("I am Ada.", lambda shown: trailed(state(shown, core=[item("c", "The user is Ada.")])))
    before, raw = either.memory, trailed(TEMPLATE, "What a text.")
    assert either.say("Hi", raw, context_mode="disabled") == raw
    assert either.provider.seen[-1].json["messages"] == [{"role": "user", "content": "Hi"}]
    assert SEPARATOR not in either.sent
    assert "contextMode" not in either.sent
    assert (either.turn.mode, either.turn.snapshot, either.turn.violations) == ("disabled", None, ())
    assert either.memory == before
    assert either.turn.round == 2, "the exchange is recorded, and the round advances"
    assert messages(either.home, "s")[-1]["content"] == raw


def test_switch_is_taken_from_every_place_where_a_caller_writes_it(either: Chat, monkeypatch: Any) -> None:
    header: Any = {"x-ctxwrap-mode": "disabled"}
    for how in (
        {"context_mode": "disabled"},
        {"contextMode": "disabled"},
        {"extra_headers": header},
        {"extra_body": {"contextMode": "disabled"}},
        {"extra_body": {"context_mode": "disabled"}},
    ):
        either.say("Hi", "Fine.", **how)
        assert either.turn.mode == "disabled", how
        assert "disabled" not in either.sent, "the switch is not the provider's"
    with ctxwrap.using(context_mode="disabled"):
        either.say("Hi", "Fine.")
    assert either.turn.mode == "disabled"
    either.say("Hi", plain)
    assert either.turn.mode == "enabled"
    monkeypatch.setenv("CTXWRAP_MODE", "disabled")
    other = Chat(either.provider, either.home, either.api)
    other.say("Hi", "Fine.")
    assert other.turn.mode == "disabled"


@pytest.mark.parametrize("how", [{"context_mode": "of"}, {"extra_body": {"contextMode": "of"}}])
def test_switch_with_an_unknown_mode_is_an_error(either: Chat, how: dict[str, Any]) -> None:
    with pytest.raises(ctxwrap.SettingsError, match="disabled"):
        either.say("Hi", "Fine.", **how)
    assert either.provider.seen == []


# Mandatory rules


def test_rule_1_every_response_is_asked_for_a_context_section(either: Chat) -> None:
    either.say("Hi", plain)
    assert SEPARATOR in either.sent
    assert either.turn.violations == ()


def test_rule_1_a_response_without_a_context_section_is_a_violation_an_event_and_counted(either: Chat) -> None:
    assert either.say("My name is Ada.", "Hello Ada.") == "Hello Ada."
    assert len(either.turn.violations) == 1
    assert (either.turn.report.reading, either.turn.report.misses) == ("missing", 1)
    assert [(each["status"], each["violations"]) for each in either.snapshots] == [
        ("missing", list(either.turn.violations))
    ]
    assert "Ada" in str(either.memory), "what the user plainly stated is known all the same"


@pytest.mark.parametrize("stream", [False, True])
def test_rule_2_and_6_text_behind_the_json_is_a_violation_and_stays_part_of_the_answer(
    chat: Chat, stream: bool
) -> None:
    def reply(shown: dict[str, Any]) -> str:
        return trailed(state(shown, core=[item("c", "The user likes tea.")]), "Before.") + "\n\nBehind."

    if stream:
        chat.provider.answer = lambda ask: Answer(reply(state_shown(ask)))
        told: Any = chat.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in told)
        turn = ctxwrap.turn_of(told)
        assert turn is not None
    else:
        text, turn = chat.say("Hi", reply), chat.turn
    assert text.split() == ["Before.", "Behind."]
    assert turn.violations
    assert chat.tier_of("c") == "core"
    assert messages(chat.home, "s")[-1]["content"] == text


def test_rule_3_of_two_context_sections_the_user_sees_none_and_the_last_one_counts(either: Chat) -> None:
    def reply(shown: dict[str, Any]) -> str:
        first, last = (state(shown, core=[item(id, f"The answer is {id}.")]) for id in ("c-1", "c-2"))
        return trailed(first, "One.") + "\n\n" + trailed(last, "Two.")

    assert either.say("Hi", reply).split() == ["One.", "Two."]
    assert either.turn.violations
    assert [each["id"] for each in either.memory["core"]] == ["c-2"]


DAMAGED: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "fenced": lambda text: f"```json\n{text}\n```",
    "trailing comma": lambda text: text[:-1] + ",}",
    "single quotes": lambda text: text.replace('"', "'"),
    "comment": lambda text: text.replace('"memory"', '/* mine */ "memory"'),
    "cut": lambda text: text[:-3],
    "unquoted keys": lambda text: re.sub(r'"(version|runtime|memory|core)":', r"\1:", text),
    "pretty": lambda text: json.dumps(json.loads(text), indent=2),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_rule_4_and_5_json_is_parsed_or_repaired(chat: Chat, damage: str) -> None:
    def reply(shown: dict[str, Any]) -> str:
        return trailed(DAMAGED[damage](json.dumps(state(shown, core=[item("c", "Tea is fine.")]))))

    assert chat.say("Hi", reply) == "Fine."
    assert [each["content"] for each in chat.memory["core"]] == ["Tea is fine."]
    assert bool(chat.turn.repairs) == (damage not in ("plain", "pretty"))


def test_rule_5_a_snapshot_that_cannot_be_read_changes_nothing_and_the_text_is_kept(
    provider: Provider, home: Path
) -> None:
    chat = Chat(provider, home, max_reasks=0)
    chat.say("Hi", lambda shown: trailed(state(shown, core=[item("c", "Tea is fine.")])))
    assert "Fine." in chat.say("Hi", trailed("{:::]"))
    assert [each["content"] for each in chat.memory["core"]] == ["Tea is fine."]
    assert chat.turn.operations == ()


def test_rule_7_runtime_fields_are_restored_and_the_difference_is_a_violation(either: Chat) -> None:
    def reply(shown: dict[str, Any]) -> str:
        wrong = {**shown["runtime"], "round": 77, "startup_at": "2001-01-01T00:00:00Z"}
        return trailed({**state(shown), "runtime": wrong})

    either.say("Hi", reply)
    assert either.turn.snapshot is not None
    assert either.turn.snapshot["runtime"] == either.shown[0]["runtime"]
    told = " ".join(either.turn.violations)
    assert "round" in told
    assert "77" in told
    assert "startup_at" in told
    either.say("Hi", plain)
    assert either.shown[1]["runtime"]["round"] == 2
    assert either.shown[1]["runtime"]["startup_at"] == either.shown[0]["runtime"]["startup_at"]


@pytest.mark.parametrize("field", ["id", "type", "decay", "round", "tags", "content"])
def test_rule_8_an_item_without_one_of_its_fields_is_completed_or_dropped_alone(chat: Chat, field: str) -> None:
    def reply(shown: dict[str, Any]) -> str:
        bad = item("bad", "The dog is called Rex.")
        del bad[field]
        return trailed(state(shown, core=[bad, item("good", "Tea is fine.")]))

    chat.say("Hi", reply)
    contents = {each["content"] for each in chat.memory["core"]}
    assert "Tea is fine." in contents
    assert ("The dog is called Rex." in contents) == (field != "content")
    assert chat.turn.violations or chat.turn.repairs
    assert all({"id", "type", "decay", "round", "tags", "content"} <= each.keys() for each in chat.memory["core"])


@pytest.mark.parametrize(
    ("decay", "kept"), [(0, 0.0), (0.25, 0.25), (1.7, 1.0), (-3, 0.0), ("0.5", 0.5), ("high", None)]
)
def test_rule_9_decay_is_a_number_from_0_to_1(provider: Provider, home: Path, decay: Any, kept: float | None) -> None:
    chat = Chat(provider, home, evolution="off")
    chat.say("Hi", lambda shown: trailed(state(shown, core=[item("c", "Tea is fine.", decay)])))
    assert [each["decay"] for each in chat.memory["core"]] == ([] if kept is None else [kept])


def test_rule_9_the_most_important_comes_first(chat: Chat) -> None:
    items = [item("least", "The lamp is red.", 0.9), item("most", "Peanuts are deadly for me.", 0)]
    chat.say("Hi", lambda shown: trailed(state(shown, core=items)))
    assert [each["id"] for each in chat.memory["core"]] == ["most", "least"]


def test_rule_10_a_snapshot_becomes_operations_on_a_computable_state(chat: Chat) -> None:
    def first(shown: dict[str, Any]) -> str:
        return trailed(state(shown, core=[item("a", "The office is in Rome."), item("b", "Tea is fine.")]))

    def second(shown: dict[str, Any]) -> str:
        changed = state(shown, core=[item("a", "The printer hall has nine floors."), item("c", "Rex is a dog.")])
        return trailed(changed | {"dropped": ["b"]})

    chat.say("Hi", first)
    chat.say("Hi", second)
    told = [[(each["kind"], each["id"]) for each in event["operations"]] for event in chat.snapshots]
    assert told == [[("add", "a"), ("add", "b")], [("update", "a"), ("add", "c"), ("drop", "b")]]
    assert {each["id"] for each in chat.memory["core"]} == {"a", "c"}


# Strict output format


def test_strict_output_format_is_told_to_the_model(either: Chat) -> None:
    either.say("Hi", plain)
    for told in (SEPARATOR, "last of all", "Strict JSON", "no code fence"):
        assert told in either.sent


# Context JSON template

SPELLINGS: dict[str, Callable[[str], str]] = {
    "one line": lambda text: text,
    "as the document wraps it": lambda text: text.replace(", ", ",\n", 5),
    "escaped as the document is": lambda text: text.replace("[", "\\[").replace("]", "\\]"),
}


@pytest.mark.parametrize("separator", [SEPARATOR, "\\<\\<`<CONTEXT>`{=html}\\>\\>"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_template_comes_back_as_it_was_written(provider: Provider, home: Path, spelling: str, separator: str) -> None:
    chat = Chat(provider, home, evolution="off")

    def reply(shown: dict[str, Any]) -> str:
        told = SPELLINGS[spelling](json.dumps({**TEMPLATE, "runtime": shown["runtime"]}, ensure_ascii=False))
        return f"好的。\n\n{separator} {told}"

    assert chat.say("你好", reply) == "好的。"
    chat.say("你好", plain)
    assert chat.shown[1] == {**chat.shown[1], **{name: TEMPLATE[name] for name in ("capabilities", "active_task")}}
    assert chat.memory == TEMPLATE["memory"]
    assert all(each["content"] in chat.sent for items in TEMPLATE["memory"].values() for each in items)


def test_template_state_is_shown_whole_to_a_model_that_reads_only_the_newest_message(chat: Chat) -> None:
    """A model that edits the state at the end of the newest message and returns it loses nothing by that."""

    def edit(shown: dict[str, Any]) -> str:
        number = shown["runtime"]["round"]
        memory = {tier: list(shown["memory"].get(tier, ())) for tier in ("core", "working", "ephemeral")}
        memory["core"].append(item(f"c-{number}", f"Fact {number} is about {'xyzuvwabcdefgh'[number % 14] * 5}."))
        return trailed({**shown, "memory": memory})

    for _ in range(14):
        chat.say("Go on.", edit)
    assert {each["id"] for each in chat.memory["core"]} == {f"c-{number}" for number in range(1, 15)}
    assert set(chat.shown[0]) >= {"version", "runtime", "memory", "capabilities", "active_task"}


# Structural notes


def test_runtime_round_is_monotonic_and_a_tool_continuation_stays_in_its_round(chat: Chat) -> None:
    rounds = []
    chat.say("Hi", plain)
    rounds.append(chat.turn.round)
    chat.provider.answer = lambda ask: Answer("", tool_calls=(ToolCall("c1", "look", "{}"),))
    asked: Any = chat.client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Look."}])
    turn = ctxwrap.turn_of(asked)
    assert turn is not None
    rounds.append(turn.round)
    chat.provider.answer = lambda ask: Answer(plain(state_shown(ask)))
    chat.send([{"role": "tool", "tool_call_id": "c1", "content": "A cat."}])
    rounds.append(chat.turn.round)
    chat.say("Hi", plain)
    assert [*rounds, chat.turn.round] == [1, 2, 2, 3]


def test_runtime_times_are_iso_8601_and_never_go_back(either: Chat) -> None:
    for _ in range(3):
        either.say("Hi", plain)
    for shown in either.shown:
        for name in ("datetime", "startup_at"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", shown["runtime"][name])
    times = [datetime.fromisoformat(shown["runtime"]["datetime"]) for shown in either.shown]
    assert times == sorted(set(times))
    assert len({shown["runtime"]["startup_at"] for shown in either.shown}) == 1


def kept(shown: dict[str, Any]) -> str:
    """A model that repeats all it was shown, whatever round it is."""
    return trailed({**shown, "memory": {tier: shown["memory"].get(tier, []) for tier in ("core", "working")}})


def test_memory_core_persists_and_ephemeral_passes_and_working_lasts_for_a_task(chat: Chat) -> None:
    chat.say("Hi", lambda shown: trailed({**TEMPLATE, "runtime": shown["runtime"], "capabilities": []}))
    tiers = {}
    for number in range(2, 131):
        chat.say(f"What is {number} and {number}?", kept)
        if number in (20, 30, 130):
            tiers[number] = [chat.tier_of(id) for id in ("core-001", "work-001", "temp-001")]
    assert tiers[20] == ["core", "working", ""]
    assert tiers[30] == ["core", "working", ""]
    assert tiers[130] == ["core", "", ""]


def test_memory_ephemeral_does_not_rise_by_the_round_that_a_model_stamps(chat: Chat) -> None:
    def stamp(shown: dict[str, Any]) -> str:
        number = shown["runtime"]["round"]
        return trailed(state(shown, ephemeral=[item("t", "The user is in a hurry.", 0.8, type="hint", round=number)]))

    tiers = set()
    for _ in range(30):
        chat.say("What is 2 and 2?", stamp)
        tiers.add(chat.tier_of("t"))
    assert "core" not in tiers
    assert chat.tier_of("t") == ""


def test_capabilities_are_kept_and_write_once_memory_keeps_contents(either: Chat) -> None:
    def first(shown: dict[str, Any]) -> str:
        return trailed({**TEMPLATE, "runtime": shown["runtime"]})

    def second(shown: dict[str, Any]) -> str:
        changed = {**TEMPLATE["memory"]["core"][0], "content": "The user is called Grace Hopper."}
        return trailed(state(shown, core=[changed]))

    either.say("Hi", first)
    either.say("Hi", second)
    assert either.shown[1]["capabilities"] == TEMPLATE["capabilities"]
    assert "Memory is write_once" in either.sent
    assert len(either.turn.violations) == 1
    assert "write_once" in either.turn.violations[0]
    details = details_of(ctxwrap.open_store(either.home), key_for("s"))["memory"]
    assert [each["content"] for each in details["core"]] == ["The user is called Grace Hopper."]
    assert details["core"][0]["id"] != "core-001"
