"""Values as JSON: what `json` reads from it is the value, whatever characters and numbers it holds."""

import json
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.encoding import encode_json

TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_json_holds_the_value_in_one_line(value: object) -> None:
    encoded = encode_json(value)
    assert json.loads(encoded) == value
    assert b"\n" not in encoded


@given(st.text())
def test_texts_are_spelled_as_the_log_searches_for_them(text: str) -> None:
    assert encode_json(text) == json.dumps(text, ensure_ascii=False).encode()


def test_numbers_keep_what_providers_write_beyond_the_standard() -> None:
    assert encode_json([inf, -inf, float("nan"), 10**30]) == b"[Infinity,-Infinity,NaN,1000000000000000000000000000000]"


def test_deeply_nested_values_are_encoded() -> None:
    nested: list[object] = []
    for _ in range(400):
        nested = [nested]
    assert json.loads(encode_json(nested)) == nested


def test_objects_without_a_form_in_json_become_their_text() -> None:
    assert encode_json({"at": range(3)}) == b'{"at":"range(0, 3)"}'
