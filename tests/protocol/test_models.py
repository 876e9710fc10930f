"""The snapshot's types, its JSON Schema, and its canonical form."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import read_reply
from ctxwrap.protocol.instructions import VERSION
from ctxwrap.protocol.models import is_valid, json_schema
from ctxwrap.protocol.recovery import INTERNAL, recover
from tests.protocol.corpus import cases, fuzz
from tests.protocol.test_reply import ITEM, RUNTIME, SEPARATOR, state

CHECK = jsonschema.Draft202012Validator(json_schema())


def test_snapshot_schema_is_valid_and_names_the_version() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["properties"]["version"]["const"] == VERSION


WRONG = [
    {"version": "1.0"},
    {"memory": {"core": []}},
    {"memory": {"core": [], "working": [], "ephemeral": [], "attic": []}},
    {"runtime": {**RUNTIME, "round": "3"}},
    {"capabilities": "none"},
    {"active_task": None},
    {"notes": []},
    *(
        {"memory": {"core": [{**ITEM, **change}], "working": [], "ephemeral": []}}
        for change in ({"decay": 2}, {"decay": "0"}, {"round": 1.5}, {"round": -1}, {"tags": [1]}, {"content": ""})
    ),
]


@pytest.mark.parametrize("change", [{}, *WRONG])
def test_types_and_schema_agree(change: dict[str, Any]) -> None:
    assert is_valid(state(**change)) == CHECK.is_valid(state(**change)) == (not change)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_snapshot_that_is_read_conforms_to_the_schema(seed: int) -> None:
    for case in (*cases(seed, 60), *fuzz(seed, 40)):
        reading = read_reply(case.reply, case.runtime, case.previous)
        if reading.snapshot is not None:
            CHECK.validate(reading.snapshot)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(("id", "type", "decay", "round", "tags", "content", "Content", "note", "..."))
ITEMS = st.dictionaries(FIELDS, VALUES, max_size=7) | st.just(ITEM) | VALUES
TIERS = st.sampled_from(("core", "working", "ephemeral", "Core", "temp", "attic"))
STATES = st.fixed_dictionaries(
    {},
    optional={
        "version": VALUES,
        "runtime": VALUES,
        "memory": st.dictionaries(TIERS, st.lists(ITEMS, max_size=4) | ITEMS, max_size=4) | VALUES,
        "capabilities": VALUES,
        "active_task": VALUES,
        "note": VALUES,
    },
)


@given(STATES, st.booleans())
def test_any_json_is_read_into_canonical_form(data: dict[str, Any], shown: bool) -> None:
    """Reading never raises, keeps the schema, and reading its result again gives the same, clean."""
    read = recover(json.dumps(data), RUNTIME, state() if shown else None)
    assert not any(INTERNAL in violation for violation in read.violations)
    if read.snapshot is not None:
        CHECK.validate(read.snapshot)
        text = json.dumps(read.snapshot, ensure_ascii=False)
        text.encode()
        again = read_reply(f"{SEPARATOR}\n{text}", RUNTIME)
        assert (again.status, again.snapshot, again.visible) == ("clean", read.snapshot, "")
        assert again.violations == ()


@given(st.text(alphabet="{}[],:\"\\ \nmemorycid0.5…'", max_size=60))
def test_reading_any_text_does_not_raise(text: str) -> None:
    for tail in (text, '{"memory": {"core": [{"id": ' + text, '{"version": "2.2", ' + text):
        read = recover(tail, RUNTIME, state())
        assert not any(INTERNAL in violation for violation in read.violations)
        assert (read.snapshot is not None) == (read.status in ("clean", "repaired", "partial"))
