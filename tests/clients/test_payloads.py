"""The JSON of a reply is read as Python's decoder reads it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.clients.rewritten_body import payload_in

NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?\Z")
TEXTS = st.text(st.characters(categories=None), max_size=4)
LEAVES = NUMBERS | st.sampled_from(["true", "null", "NaN", "-Infinity", '"\\ud800"', '"\\/"', "01", "'", ""])
VALUES = st.recursive(
    LEAVES | TEXTS.map(json.dumps),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
    max_leaves=5,
)


def read(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@given(st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\u0061"', "c"]), VALUES), max_size=4))
def test_payloads_are_read_alike(fields: list[tuple[str, str]]) -> None:
    content = f"{{{','.join(f'{name}:{value}' for name, value in fields)}}}".encode("utf-8", "surrogatepass")
    assert repr(payload_in(content)) == repr(read(content))


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b'{"a": 1} x', b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b"\xef\xbb\xbf{}"),
        *('{"a": "é"}'.encode(coding) for coding in ("utf-8", "utf-16", "utf-32")),
        *(b'{"a":' + b"[" * depth + b"]" * depth + b"}" for depth in (30, 300, 100_000)),
    ],
    ids=lambda content: str(content[:20]),
)
def test_odd_payloads_are_read_alike(content: bytes) -> None:
    assert payload_in(content) == read(content)
