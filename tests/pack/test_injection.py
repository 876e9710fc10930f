"""What is derived of a request: its hash, which anyone can compute, and the text of an epoch."""

import json
from hashlib import blake2b, sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.epoch import Tiers
from ctxwrap.pack.injection import body_hash, memory_text

TEXTS = st.text(max_size=20) | st.text("ab é<", min_size=60, max_size=70) | st.just("x" * 20_000)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
BODIES = st.dictionaries(TEXTS, VALUES, max_size=4)


def shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= 64 else blake2b(value.encode(), digest_size=20).hexdigest()
    if isinstance(value, dict):
        return {name: shortened(each) for name, each in value.items()}
    return [shortened(each) for each in value] if isinstance(value, list) else value


def backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: backwards(value[name]) for name in reversed(value)}
    return [backwards(each) for each in value] if isinstance(value, list) else value


@given(BODIES)
def test_hash_of_a_request_is_that_of_the_documentation(body: dict[str, Any]) -> None:
    written = json.dumps(shortened(body), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert body_hash(body) == sha256(written.encode()).hexdigest() == body_hash(backwards(body))


@given(BODIES, BODIES)
def test_different_requests_have_different_hashes(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (body_hash(one) == body_hash(other)) == same


def test_text_of_an_epoch_is_its_own_however_many_there_are() -> None:
    def epoch(number: int) -> Tiers:
        return {"core": [{"id": "c", "decay": 0.1, "content": f"Fact {number}."}], "working": [], "ephemeral": []}

    epochs = [epoch(number) for number in range(200)]
    for _ in range(2):
        assert all(f'"Fact {number}."' in memory_text(each) for number, each in enumerate(epochs))
    assert all(f'"Fact {number}."' in memory_text(epoch(number)) for number in range(200)), "none outlives its epoch"
    assert memory_text({"core": [], "working": [], "ephemeral": []}) == memory_text(None) == ""
