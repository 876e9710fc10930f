"""The records as types: every word of the vocabularies, and no other; what each must say, and may not say."""

from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from ctxwrap.errors import SettingsError
from ctxwrap.export.evidence import schema_of, vocabulary
from ctxwrap.export.evidence.items import POINTS, kind_of, omission_of, visibility_of
from ctxwrap.export.evidence.objects import OBJECTS, Budget, Envelope, Event, Item, Missing
from ctxwrap.kinds import KINDS
from tests.export.logs import TIME

V = {"schema_version": "0.1.1"}
ITEM = {**V, "item_id": "i", "context_kind": "user_message", "content_mode": "opaque", "visibility": ()}
GOOD: dict[type[Any], dict[str, Any]] = {
    Item: ITEM,
    Budget: {**V, "budget_id": "b", "target": "model", "created_at": TIME},
    Envelope: {**V, "context_id": "c", "scope": "turn", "lifecycle": "draft", "created_at": TIME},
    Missing: {**V, "missing_id": "m", "scope": "turn", "question": "?", "severity": "low", "status": "open"}
    | {"created_at": TIME},
    Event: {**V, "event_id": "e", "event_type": "context.exported", "source": "x", "time": TIME, "context_id": "c"},
}


def test_all_thirteen_object_types_are_defined() -> None:
    assert len(OBJECTS) == 13
    for name, model in OBJECTS.items():
        assert "schema_version" in model.model_fields
        assert model.model_fields["schema_version"].is_required()
        assert any(field.endswith("_id") and info.is_required() for field, info in model.model_fields.items()), name


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (Item, {"context_kind": "nope"}),
        (Item, {"visibility": ("martian",)}),
        (Item, {"content_mode": "inline"}),
        (Item, {"content_mode": "ref"}),
        (Item, {"content": "x"}),
        (Item, {"redaction_state": "masked"}),
        (Item, {"token_estimate": -1}),
        (Item, {"priority": float("nan")}),
        (Item, {"schema_version": "9"}),
        (Item, {"surprise": 1}),
        (Item, {"item_id": ""}),
        (Budget, {"overflow_strategy": "nonsense"}),
        (Budget, {"target": "everybody"}),
        (Budget, {"max_tokens": "7"}),
        (Budget, {"created_at": "not a date"}),
        (Budget, {"created_at": "2026-02-30T00:00:00Z"}),
        (Budget, {"created_at": "2026-02-20T00:00:00"}),
        (Envelope, {"lifecycle": "weird"}),
        (Envelope, {"scope": "UI review"}),
        (Missing, {"severity": "URGENT!!"}),
        (Missing, {"status": "granted"}),
        (Event, {"event_type": "foo"}),
    ],
)
def test_types_reject_values_that_the_published_schemas_accept(model: type[Any], wrong: dict[str, Any]) -> None:
    assert model(**GOOD[model])
    with pytest.raises(ValidationError):
        model(**{**GOOD[model], **wrong})


@pytest.mark.parametrize("model", GOOD, ids=lambda model: model.__name__)
def test_a_record_needs_its_version_and_its_id(model: type[Any]) -> None:
    for name in [each for each, field in model.model_fields.items() if field.is_required()]:
        with pytest.raises(ValidationError):
            model(**{field: value for field, value in GOOD[model].items() if field != name})


def test_vocabularies_match_the_standard() -> None:
    counts = {"ContextKind": 22, "TargetName": 8, "EventType": 18, "OmissionReason": 12, "InjectionPoint": 12}
    counts |= {"ContentMode": 8, "RedactionState": 7, "Severity": 5, "MissingStatus": 7, "Lifecycle": 9}
    counts |= {"RankingSignal": 12, "SelectorType": 12, "OverflowStrategy": 9, "CompactionMethod": 8, "ContextScope": 7}
    assert {name: len(get_args(getattr(vocabulary, name))) for name in counts} == counts


def test_every_pack_item_kind_has_a_standard_term() -> None:
    rows = [row.evidence for row in KINDS.values()]
    terms = {term for row in rows for term in (row.kind, *(variant[2] for variant in row.variants))}
    assert terms <= set(get_args(vocabulary.ContextKind))
    assert {row.omission for row in rows} <= set(get_args(vocabulary.OmissionReason))
    assert {signal for row in rows for signal in row.signals} <= set(get_args(vocabulary.RankingSignal))
    assert set(POINTS.values()) <= set(get_args(vocabulary.InjectionPoint))
    assert [kind_of("facts", tier=tier) for tier in ("core", "working", "")] == [
        "durable_memory",
        "working_memory",
        "working_memory",
    ]
    assert kind_of("working_set", source="tool://lookup/3-call.txt") == "tool_result"
    assert [kind_of("pinned", origin=origin) for origin in ("operator", "user")] == ["policy_note", "manual_note"]
    assert [kind_of("request", role=role) for role in ("system", "user", "tool")] == [
        "system_prompt",
        "user_message",
        "tool_result",
    ]
    assert kind_of("something new") == "custom"


@pytest.mark.parametrize(
    ("kind", "reason", "word"),
    [
        ("pinned", "over budget: 9 tokens, 3 left", "budget_limit"),
        ("working_set", "Over budget, priority too low", "budget_limit"),
        ("recent_messages", "older than the budget reaches", "budget_limit"),
        ("retrieved", "others are more to the point", "low_relevance"),
        ("retrieved", "words, neighbours", "low_relevance"),
        ("pinned", "it is not for the model to see", "not_visible_to_target"),
        ("working_set", "it is a binary file; only text can be shown to a model", "unsupported_media"),
        ("working_set", "it may not be read; change its permissions or leave it out", "permission_missing"),
        ("working_set", "it has 9 bytes, more than 3; use a part of it", "too_large"),
        ("working_set", "it is not there", "custom"),
    ],
)
def test_omission_reasons_use_the_standard_terms(kind: str, reason: str, word: str) -> None:
    assert omission_of(kind, reason) == word


def test_unknown_target_grants_no_visibility() -> None:
    assert visibility_of(["martian"]) == ()
    assert visibility_of(["ui", "martian", "model"]) == ("model", "ui")


@pytest.mark.parametrize("name", [*OBJECTS, "item", "evidence"])
def test_schemas_are_schemas_and_strict(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["additionalProperties"] is False


def test_unknown_schema_name_gets_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="did you mean 'context_item'"):
        schema_of("context_itm")


def test_the_schema_refuses_what_the_type_refuses() -> None:
    item = Draft202012Validator(schema_of("context_item"))
    assert item.is_valid({**ITEM, "visibility": ["model"]})
    assert not item.is_valid({**ITEM, "visibility": ["martian"]})
    assert not item.is_valid({**ITEM, "visibility": ["model"], "surprise": 1})
