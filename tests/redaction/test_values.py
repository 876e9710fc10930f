"""A secret at any place of what is stored, shown or sent is redacted, whether or not anybody thought of the place."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxwrap.redaction import Redaction, redactor
from ctxwrap.redaction.redactor import Redactor
from ctxwrap.session.redaction import EventRedaction as Forgetting
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import Message, ParsedReply, Request, Runtime, TurnInputs
from tests.redaction.corpus import Maker
from tests.redaction.planting import places_in, planted

make = Maker(11)
SECRETS = [
    "gh" + "p_" + make.of("abcXYZ0123456789", 36),
    "ada@example.com",
    make.card("4", 16),
    make.iban("DE", make.of("0123456789", 18)),
]
STRUCTURE = redactor._WORDS | redactor._IDS | redactor._ENCODED | redactor._OURS | redactor._OUR_FIELDS
OTHERS = {"name", "text", "content", "input", "arguments", "partial_json", "metadata", "thinking", "api_key", "headers"}
NAMES = st.sampled_from(sorted(STRUCTURE | OTHERS)) | st.text(max_size=4)
TYPES = st.sampled_from(["text", "image", "tool_use", "function", "input_file", "x"])
JSON = st.recursive(
    st.text(max_size=4) | TYPES | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: any(True for _ in places_in(value)))


@given(JSON, st.sampled_from(SECRETS), st.data())
@settings(max_examples=150, deadline=None)
def test_a_secret_is_redacted_wherever_it_is(value: Any, secret: str, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(list(places_in(value))))
    said, redactor, screen = planted(value, place, secret), Redactor(Redaction()), TurnRedactor(Redaction())
    message = Message("user", [said], "n", ({"id": "c", "name": "f", "arguments": json.dumps(said)},), "c", {"x": said})
    told = [
        redactor.value(said),
        redactor.numbers_too(said),
        json.loads(redactor.json_text(json.dumps(said))),
        redactor.records([{"type": "done", "run": "1", "data": said, "ctx": {}}]),
        screen.message(message),
        screen.request(Request((message,), model=secret)),
        screen.body({"model": "m", "messages": [said], "tools": said, "anything": said, "user": secret}),
        screen.reading(ParsedReply("", {"a": said}, (secret,), (secret,), trailer=f"{{{json.dumps(said)}")),
    ]
    assert not [each for each in told if secret in str(each)]


@pytest.mark.parametrize("secret", SECRETS)
def test_every_field_of_what_a_turn_starts_from_is_looked_at(secret: str) -> None:
    opening = TurnInputs(Runtime(1, "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"), {}, (), (), "")
    ours = {"runtime", "before", "parent", "writer"}
    for field in fields(TurnInputs):
        if field.name not in ours:
            said: Any = {"x": [secret, {secret: {"id": secret}}]}
            given = replace(opening, **{field.name: ((Message("user", [said]), 1),) if field.name == "new" else said})
            assert secret not in str(TurnRedactor(Redaction()).inputs(given)), field.name


def test_what_only_we_say_is_left_alone() -> None:
    """Ids and hashes of ours may look like a card by chance."""
    card = SECRETS[2]
    event = {"type": "start", "run": card, "sha256": card, "ctx": {"digest": card}, "prefix": {"head": [card]}}
    assert Redactor(Redaction()).records([event]) == [event]


def test_values_that_say_nothing_secret_are_the_very_values() -> None:
    message = Message("user", [{"type": "text", "text": "hi"}], extra={"x": 1})
    assert TurnRedactor(Redaction()).message(message) is message
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 1}
    assert Redactor(Redaction()).body(body) is body


def test_half_a_character_in_an_id_does_no_harm() -> None:
    assert Redactor(Redaction()).value({"id": f"{SECRETS[1]} \ud800"})["id"].startswith("redacted_")


def test_what_is_to_be_forgotten_goes_from_names_of_fields_too() -> None:
    event = {"type": "done", "run": "1", "notes": {SECRETS[1]: {"to": SECRETS[1]}}, "ctx": {}}
    assert SECRETS[1] not in str(Forgetting(texts=(SECRETS[1],)).event(event))
