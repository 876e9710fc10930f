"""A secret at any place of a stored, shown or sent value is redacted."""

import json
from collections import UserList, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.redaction import Redaction, redactor
from ctxwrap.redaction.redactor import Redactor
from ctxwrap.session.redaction import EventRedaction as Forgetting
from ctxwrap.tokens.message_columns import LoggedMessages
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.types import LoggedMessage, Message, ParsedReply, Request, Runtime, TurnInputs
from tests.redaction.corpus import Maker
from tests.redaction.planting import places_in, planted
from tests.support import examples

make = Maker(11)
SECRETS = [
    "gh" + "p_" + make.of("abcXYZ0123456789", 36),
    "ada@example.com",
    make.card("4", 16),
    make.iban("DE", make.of("0123456789", 18)),
]
_NAMES = CHAT.field_names
STRUCTURE = _NAMES.words | _NAMES.ids | _NAMES.encoded | redactor._OURS | redactor._OUR_FIELDS
OTHERS = {"name", "text", "content", "input", "arguments", "partial_json", "metadata", "thinking", "api_key", "headers"}
NAMES = st.sampled_from(sorted(STRUCTURE | OTHERS)) | st.text(max_size=4)
TYPES = st.sampled_from(["text", "image", "tool_use", "function", "input_file", "x"])
JSON = st.recursive(
    st.text(max_size=4) | TYPES | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: any(True for _ in places_in(value)))


@given(JSON, st.sampled_from(SECRETS), st.data())
@examples(150)
def test_secret_at_any_place_is_redacted(value: Any, secret: str, data: st.DataObject) -> None:
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
        screen.body(
            {"model": "m", "messages": [said], "tools": said, "anything": said, "user": secret}, CHAT.field_names
        ),
        screen.reading(ParsedReply("", {"a": said}, (secret,), (secret,), trailer=f"{{{json.dumps(said)}")),
    ]
    assert not [each for each in told if secret in str(each)]


@pytest.mark.parametrize("secret", SECRETS)
def test_all_fields_of_turn_inputs_are_redacted(secret: str) -> None:
    opening = TurnInputs(Runtime(1, "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000001Z"), {}, (), (), "")
    ours = {"runtime", "before", "parent", "writer"}
    for field in TurnInputs._fields:
        if field not in ours:
            said: Any = {"x": [secret, {secret: {"id": secret}}]}
            given = opening._replace(**{field: ((Message("user", [said]), 1),) if field == "new" else said})
            assert secret not in str(TurnRedactor(Redaction()).inputs(given)), field


@pytest.mark.parametrize("secret", SECRETS)
def test_sequences_of_any_type_are_redacted(secret: str) -> None:
    said = [LoggedMessage(1, Message("user", "hi")), LoggedMessage(2, Message("user", f"It is {secret}."))]
    for messages in (said, tuple(said), deque(said), UserList(said), LoggedMessages.of(said)):
        redacted = Redactor(Redaction()).value(messages)
        assert secret not in str(list(redacted)), type(messages)
        assert [each.number for each in redacted] == [1, 2]


def test_fields_of_ctxwrap_stay() -> None:
    """Ids and hashes of ours may look like a card by chance."""
    card = SECRETS[2]
    event = {"type": "start", "run": card, "sha256": card, "ctx": {"digest": card}, "prefix": {"head": [card]}}
    assert Redactor(Redaction()).records([event]) == [event]


def test_values_without_secrets_are_returned_themselves() -> None:
    message = Message("user", [{"type": "text", "text": "hi"}], extra={"x": 1})
    assert TurnRedactor(Redaction()).message(message) is message
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 1}
    assert Redactor(Redaction()).body(body) is body


def test_lone_surrogate_in_an_id_is_accepted() -> None:
    assert Redactor(Redaction()).value({"id": f"{SECRETS[1]} \ud800"})["id"].startswith("redacted_")


def test_forgotten_text_is_removed_from_field_names() -> None:
    event = {"type": "done", "run": "1", "notes": {SECRETS[1]: {"to": SECRETS[1]}}, "ctx": {}}
    assert SECRETS[1] not in str(Forgetting(texts=(SECRETS[1],)).event(event))
