"""What the practice model understands, how it follows the protocol, and how it breaks it."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import SettingsError
from ctxwrap.protocol.instructions import PROTOCOL_TEXT, READING_TEXT, SEPARATOR, ask_state, frame_state
from ctxwrap.testing.practice import Answer, Ask, PracticeModel, ToolCall
from ctxwrap.testing.practice.model import DAMAGES

RUNTIME = {"round": 4, "datetime": "2026-02-20T18:45:12Z", "startup_at": "2026-02-20T18:30:00Z"}
MODEL = PracticeModel()


def note(id: str, content: str, type: str = "fact", round: int = 1) -> dict[str, Any]:
    return {"id": id, "type": type, "decay": 0.3, "round": round, "tags": [type], "content": content}


def state(*core: Any, working: Any = (), active_task: str = "", **more: Any) -> dict[str, Any]:
    memory = {"core": list(core), "working": list(working), "ephemeral": []}
    return {
        "version": "2.2",
        "runtime": RUNTIME,
        "memory": memory,
        "capabilities": [{"name": "memory", "scope": "write_once"}],
        "active_task": active_task,
        **more,
    }


def chat(*said: str, **body: Any) -> Ask:
    messages = [{"role": "user", "content": text} for text in said]
    return Ask("chat", {"model": "m", "messages": messages, **body}, "/v1/chat/completions", {})


def remembering(given: dict[str, Any], *said: str, protocol: str = PROTOCOL_TEXT) -> Ask:
    """A chat as ctxwrap sends it: the protocol before, the state behind the newest message."""
    *earlier, newest = [{"role": "user", "content": text} for text in said]
    newest = {"role": "user", "content": f"{newest['content']}\n\n{frame_state(given)}"}
    system = {"role": "system", "content": f"{protocol}\n\nBe kind."}
    return Ask("chat", {"messages": [system, *earlier, newest]}, "/v1/chat/completions", {})


def left(answer: Answer) -> tuple[str, dict[str, Any]]:
    """The answer's visible text and the state behind it."""
    text, _, trailer = answer.text.partition(f"\n\n{SEPARATOR}\n")
    return text, json.loads(trailer)


def contents(given: dict[str, Any], tier: str = "core") -> list[str]:
    return [item["content"] for item in given["memory"][tier]]


# --- telling and asking -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "asked", "answer"),
    [
        ("My name is Ada.", "What is my name?", "Your name is Ada."),
        ("I'm called Ada", "who am I?", "Your name is Ada."),
        ("Please call me Ada!", "Do you remember my name?", "Your name is Ada."),
        ("Hi, I’m Ada", "what’s my name", "Your name is Ada."),
        ("I live in Paris", "Where do I live?", "You live in Paris."),
        ("I've moved to Rome", "Where do I live?", "You live in Rome."),
        ("I work at Acme", "Where do I work?", "You work at Acme."),
        ("I really like tea", "What do I like?", "You like tea."),
        ("I don't like mushrooms", "What do I dislike?", "You do not like mushrooms."),
        ("My favourite colour is blue", "What is my favorite color?", "Your favourite colour is blue."),
        ("My dog is called Rex", "What is my dog's name?", "Your dog is called Rex."),
        ("My birthday is on May 3rd", "When is my birthday?", "Your birthday is on May 3rd."),
        ("I have two cats", "How many cats do I have?", "You have two cats."),
        ("I'm allergic to nuts", "What am I allergic to?", "You are allergic to nuts."),
        ("Remember that the door code is 1234", "What is the door code?", "The door code is 1234."),
        ("Remember that I was born in 1990", "When was I born?", 'You say: "I was born in 1990".'),
        ("Remember that my name is Ada", "What is my name?", "Your name is Ada."),
        ("I need to call the bank", "What do I have to do?", "You still have to: call the bank."),
        ("Remind me to buy milk", "What are my tasks?", "You still have to: buy milk."),
        ("todo: sweep the floor", "What is on my list?", "You still have to: sweep the floor."),
        ("Just for now, speak French", "What do you know about me?", "For now: speak French."),
    ],
)
def test_model_answers_with_stated_facts(told, asked, answer):
    assert MODEL(chat(told, asked)).text == answer
    assert MODEL(chat(f"{told}\n{asked}")).text.endswith(answer)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("What is my name?", "You have not told me your name."),
        ("Where do I live?", "You have not told me where you live."),
        ("What do I like?", "You have not told me what you like."),
        ("What is my shoe size?", "You have not told me that."),
        ("What are my tasks?", "You have nothing left to do."),
        ("What do you know about me?", "I know nothing about you yet."),
        ("What round is it?", "Nobody told me the round."),
        ("Hello!", "Hello!"),
        ("Thanks", "You are welcome."),
        ("Who are you?", "I am ctxwrap's practice model: a few rules, no intelligence."),
    ],
)
def test_model_admits_unknown_facts_and_names_itself(asked, answer):
    assert MODEL(chat(asked)).text == answer


@pytest.mark.parametrize("said", ["Write me a poem about rain.", "Is it raining?", "", "x" * 10_000])
def test_model_admits_its_limits(said):
    assert MODEL(chat(said)).text.startswith("I am only a practice model and understand little: try")


def test_model_reads_every_statement_of_a_message():
    said = "Hi! My name is Ada, I live in Paris and I like tea. But I hate fog; my cat is old."
    assert MODEL(chat(said, "What do you know about me?")).text == (
        "Your name is Ada, you live in Paris, you like tea, you hate fog and your cat is old."
    )


def test_later_statement_replaces_the_earlier_one():
    assert MODEL(chat("My name is Ada", "Call me Bob", "What is my name?")).text == "Your name is Bob."
    assert MODEL(chat("I like tea", "I hate tea", "What do you know about me?")).text == "You hate tea."


@pytest.mark.parametrize(
    ("said", "rest"),
    [
        ("I finished calling the bank", "buy milk"),
        ("The call to the bank is done", "buy milk"),
        ("I'm done", "call the bank"),
        ("Done with the milk", "call the bank"),
    ],
)
def test_a_finished_task_leaves_the_list(said, rest):
    tasks = ("I need to call the bank", "I need to buy milk")
    assert MODEL(chat(*tasks, said)).text.startswith("Well done")
    assert MODEL(chat(*tasks, said, "What are my tasks?")).text == f"You still have to: {rest}."


def test_all_tasks_can_be_finished_and_unknown_ones_cannot():
    tasks = ("I need to call the bank", "I need to buy milk")
    assert MODEL(chat(*tasks, "I finished everything. What are my tasks?")).text.endswith("nothing left to do.")
    assert MODEL(chat(*tasks, "I finished the roof")).text == "I have no such task on your list."


def test_model_forgets_on_request():
    assert MODEL(chat("My name is Ada. I like tea", "Forget my name")).text == "Forgotten: your name is Ada."
    known = MODEL(chat("My name is Ada. I like tea", "Forget my name", "What do you know about me?")).text
    assert known == "You like tea."


# --- the protocol -------------------------------------------------------------------------------------


def test_model_without_the_protocol_writes_no_trailer_and_ignores_the_block():
    ask = remembering(state(note("core-name", "The user's name is Ada.")), "What is my name?", protocol="")
    assert MODEL(ask).text == "You have not told me your name."


def test_model_with_read_only_instructions_uses_the_block_and_writes_no_trailer():
    given = state(note("core-name", "The user's name is Ada."))
    assert MODEL(remembering(given, "What is my name?", protocol=READING_TEXT)).text == "Your name is Ada."


def test_unchanged_state_is_returned_unchanged():
    odd = [7, {"id": "x"}, note("foreign", "ключ: значение < 3", "decision", 2)]
    given = state(*odd, working=[note("task-7", "Task: ship it", "task")], active_task="Ship", extra={"kept": 1})
    text, after = left(MODEL(remembering(given, "Hello!")))
    assert (text, after) == ("Hello!", given)


def test_new_facts_have_all_fields_of_a_memory_item():
    said = "My name is Ada. I like tea. I need to call the bank. For now, be brief."
    _, after = left(MODEL(remembering(state(), said)))
    assert after["memory"]["core"] == [
        {
            "id": "core-name",
            "type": "identity",
            "decay": 0.05,
            "round": 4,
            "tags": ["identity", "name"],
            "content": "The user's name is Ada.",
        },
        {
            "id": "pref-1",
            "type": "preference",
            "decay": 0.2,
            "round": 4,
            "tags": ["preference"],
            "content": "The user likes tea.",
        },
    ]
    assert [item["id"] for tier in ("working", "ephemeral") for item in after["memory"][tier]] == [
        *("task-1", "hint-1")
    ]
    assert after["active_task"] == "Call the bank."
    assert (after["runtime"], after["version"]) == (RUNTIME, "2.2")


def test_known_fact_keeps_its_id_and_new_facts_get_free_ids():
    given = state(
        note("core-name", "The user's name is Ada."),
        note("pref-3", "The user likes tea.", "preference"),
        note("pref-1", "The user hates fog.", "preference"),
    )
    _, after = left(MODEL(remembering(given, "My name is Bob. I love tea. I like rain")))
    assert [(item["id"], item["round"], item["content"]) for item in after["memory"]["core"]] == [
        ("core-name", 4, "The user's name is Bob."),
        ("pref-3", 4, "The user loves tea."),
        ("pref-1", 1, "The user hates fog."),
        ("pref-4", 4, "The user likes rain."),
    ]


def test_the_newest_open_task_is_the_active_one():
    tasks = [
        note("task-1", "The user needs to buy milk.", "task"),
        note("task-2", "The user needs to sweep.", "task", 3),
    ]
    given = state(working=tasks, active_task="Sweep.")
    assert left(MODEL(remembering(given, "I need to rest")))[1]["active_task"] == "Rest."
    _, after = left(MODEL(remembering(given, "I finished sweeping")))
    assert (contents(after, "working"), after["active_task"]) == (["The user needs to buy milk."], "Buy milk.")
    assert left(MODEL(remembering(given, "I finished everything")))[1]["active_task"] == ""


def test_model_answers_from_the_memory_block():
    given = state(note("a", "The user is called Ada", "identity"), note("b", "The user lives in Paris."))
    assert left(MODEL(remembering(given, "What is my name?")))[0] == "You are called Ada."
    assert left(MODEL(remembering(given, "Where do I live?")))[0] == "You live in Paris."
    assert left(MODEL(remembering(given, "What round is it?")))[0] == "This is round 4."


def test_earlier_messages_are_used_for_answers_but_not_remembered_again():
    given = state(note("core-name", "The user's name is Bob."))
    text, after = left(MODEL(remembering(given, "I'm called Ada. I like tea", "What do you know about me?")))
    assert text == "Your name is Bob and you like tea."
    assert after == given


def test_model_remembers_a_whole_conversation_without_state():
    _, after = left(MODEL(remembering(state(), "I'm called Ada. For now, be brief", "Hello")))
    assert contents(after) == ["The user's name is Ada."]
    assert contents(after, "ephemeral") == []


def test_model_without_a_block_writes_a_new_state():
    ask = Ask("messages", {"system": PROTOCOL_TEXT, "messages": [{"role": "user", "content": "I like tea"}]}, "", {})
    _, after = left(MODEL(ask))
    assert (after["version"], after["runtime"], contents(after)) == ("2.2", {}, ["The user likes tea."])


BLOCK = frame_state(state(note("core-name", "The user's name is Ada.")))
QUESTION = f"What is my name?\n\n{BLOCK}"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("completions", {"prompt": f"{PROTOCOL_TEXT}\n\n{QUESTION}"}),
        ("responses", {"instructions": f"{PROTOCOL_TEXT}\n\n{BLOCK}", "input": "What is my name?"}),
        ("responses", {"instructions": PROTOCOL_TEXT, "input": [{"role": "user", "content": QUESTION}]}),
        (
            "chat",
            {"messages": [{"role": "developer", "content": PROTOCOL_TEXT}, {"role": "user", "content": QUESTION}]},
        ),
        (
            "messages",
            {
                "system": [{"type": "text", "text": PROTOCOL_TEXT}],
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "What is my name?"}, {"type": "text", "text": BLOCK}],
                    }
                ],
            },
        ),
    ],
)
def test_every_api_carries_the_protocol(api, body):
    text, after = left(MODEL(Ask(api, body, "", {})))
    assert (text, contents(after)) == ("Your name is Ada.", ["The user's name is Ada."])


def test_state_cannot_contain_the_separator():
    answer = MODEL(remembering(state(), f"I like {SEPARATOR}")).text
    assert answer.splitlines().count(SEPARATOR) == 1
    assert SEPARATOR not in answer.splitlines()[-1]


@given(st.text(alphabet=string.printable + "éß’中\u2028", max_size=200))
def test_trailer_is_valid_for_any_message(said):
    _, _, trailer = MODEL(remembering(state(), said)).text.rpartition(f"\n\n{SEPARATOR}\n")
    after = json.loads(trailer)
    assert after["runtime"] == RUNTIME
    ids = [item["id"] for tier in after["memory"].values() for item in tier]
    assert len(ids) == len(set(ids))


# --- tools and structured answers ---------------------------------------------------------------------

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("Use the tool get_weather for Paris", {"city": "Paris"}),
        ("Please call get_weather.", {}),
        ("Call me Ada. Use get_weather in New York!", {"city": "New York"}),
    ],
)
@pytest.mark.parametrize(
    ("api", "tool"),
    [
        ("chat", {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}),
        ("responses", {"type": "function", "name": "get_weather", "parameters": CITY}),
        ("messages", {"name": "get_weather", "input_schema": CITY}),
    ],
)
def test_model_calls_the_requested_tool(api, tool, said, arguments):
    body = {"tools": [tool], ("input" if api == "responses" else "messages"): [{"role": "user", "content": said}]}
    answer = MODEL(Ask(api, body, "", {}))
    (call,) = answer.tool_calls
    assert (call.name, json.loads(call.arguments), answer.finish) == ("get_weather", arguments, "tool_calls")
    assert answer.text == ""


def test_model_reads_call_me_as_a_name_without_such_a_tool():
    assert MODEL(chat("Call me Ada")) == Answer("Nice to meet you, Ada.")
    assert ToolCall("a", "b").arguments == "{}"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (
            "chat",
            {
                "messages": [
                    {"role": "system", "content": PROTOCOL_TEXT},
                    {"role": "user", "content": f"I like tea. Use the tool weather.\n\n{BLOCK}"},
                    {"role": "assistant", "content": None, "tool_calls": []},
                    {"role": "tool", "tool_call_id": "1", "content": "Sunny."},
                ]
            },
        ),
        (
            "messages",
            {
                "system": PROTOCOL_TEXT,
                "messages": [
                    {"role": "user", "content": "I like tea. Use the tool weather."},
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "w", "input": {}}]},
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "1", "content": "Sunny."},
                            {"type": "text", "text": BLOCK},
                        ],
                    },
                ],
            },
        ),
        (
            "responses",
            {
                "instructions": f"{PROTOCOL_TEXT}\n\n{BLOCK}",
                "input": [
                    {"role": "user", "content": "I like tea. Use the tool weather."},
                    {"type": "function_call", "call_id": "1", "name": "w", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "1", "output": "Sunny."},
                ],
            },
        ),
    ],
)
def test_model_reports_a_tool_result_and_remembers_the_earlier_message(api, body):
    text, after = left(MODEL(Ask(api, body, "", {})))
    assert text == "The tool says: Sunny."
    assert contents(after) == ["The user's name is Ada.", "The user likes tea."]


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "summary": {"type": "string"},
        "age": {"type": "integer"},
        "ratio": {"type": ["number", "null"], "minimum": 1},
        "known": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mood": {"enum": ["good", "bad"]},
        "home": {"$ref": "#/$defs/Home"},
    },
    "$defs": {"Home": {"type": "object", "properties": {"city": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}},
}


@pytest.mark.parametrize(
    ("api", "format"),
    [
        ("chat", {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}),
        ("responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}),
        ("messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    ],
)
def test_structured_answers_follow_the_schema(api, format):
    said = [{"role": "user", "content": "My name is Ada and my city is Paris."}]
    ask = Ask(api, {("input" if api == "responses" else "messages"): said, **format}, "", {})
    assert json.loads(MODEL(ask).text) == {
        "name": "Ada",
        "summary": "Nice to meet you, Ada. Noted: your city is Paris.",
        "age": 0,
        "ratio": 1,
        "known": False,
        "tags": [],
        "mood": "good",
        "home": {"city": "Paris"},
    }


@pytest.mark.parametrize(
    "format", [{"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}]
)
def test_structured_answers_without_a_simple_schema_hold_the_text(format):
    ask = remembering(state(), "Hello")
    ask.body["response_format"] = format
    assert json.loads(MODEL(ask).text) == {"answer": "Hello!"}


# --- misbehaviour -------------------------------------------------------------------------------------


def rounds(model: PracticeModel, count: int = 200) -> list[str]:
    return [model(remembering(state(), f"I like tea number {number}")).text for number in range(count)]


def is_valid(answer: str) -> bool:
    _, _, trailer = answer.partition(f"\n\n{SEPARATOR}\n")
    try:
        return bool(json.loads(trailer)["runtime"] == RUNTIME)
    except ValueError:
        return False


def test_damaged_rate_1_damages_every_snapshot():
    answers = rounds(PracticeModel(damaged=1.0))
    assert all(SEPARATOR in answer and not is_valid(answer) for answer in answers)
    assert {answer[-1] for answer in answers} >= set("}`!")


@pytest.mark.parametrize("way", DAMAGES)
def test_every_kind_of_damage_makes_invalid_json(way):
    with pytest.raises(ValueError, match=r"line|char"):
        json.loads(way(json.dumps(state(note("a", 'it\'s "so"')), separators=(",", ":"))))


@pytest.mark.parametrize("faults", [{}, {"damaged": 1.0}, {"missing": 1.0}, {"forged": 1.0}])
def test_question_for_the_state_is_answered_with_the_state_only(faults):
    asked = remembering(state(), "I like tea")
    expected = left(MODEL(asked))[1]
    said = PracticeModel(**faults)(asked).text
    asked.body["messages"] += [{"role": "assistant", "content": said}, {"role": "user", "content": ask_state(["a"])}]
    answer = PracticeModel(**faults)(asked).text
    mark, _, written = answer.partition("\n")
    assert (mark, json.loads(written)) == (SEPARATOR, expected)


def test_missing_rate_1_omits_every_trailer():
    assert all(SEPARATOR not in answer for answer in rounds(PracticeModel(missing=1.0)))


def test_forged_rate_1_forges_every_runtime_section():
    for answer in rounds(PracticeModel(forged=1), 3):
        runtime = left(Answer(answer))[1]["runtime"]
        assert all(runtime[name] != RUNTIME[name] for name in RUNTIME)


def test_snapshots_are_valid_by_default():
    assert all(is_valid(answer) for answer in rounds(PracticeModel(seed=3)))


def test_the_same_seed_makes_the_same_decisions_at_about_the_rate_asked_for():
    faulty = {"damaged": 0.2, "missing": 0.2, "forged": 0.1}
    first = rounds(PracticeModel(**faulty, seed=7))
    assert first == rounds(PracticeModel(**faulty, seed=7))
    assert first != rounds(PracticeModel(**faulty, seed=8))
    assert 70 < sum(not is_valid(answer) for answer in first) < 130


@pytest.mark.parametrize(
    "rates",
    [{"damaged": -0.1}, {"missing": 1.1}, {"forged": "often"}, {"damaged": True}, {"damaged": 0.6, "missing": 0.6}],
)
def test_invalid_rates_are_rejected(rates):
    with pytest.raises(SettingsError, match=r"damaged|missing|forged"):
        PracticeModel(**rates)
