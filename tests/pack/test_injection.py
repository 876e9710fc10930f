"""What is derived of a request: its hash, which anyone can compute, how it begins, and the text of an epoch."""

import json
from hashlib import blake2b, sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.epoch import Tiers
from ctxwrap.pack.injection import as_json, body_hash, from_json, measured_head, memory_text, stable_tokens
from ctxwrap.types import Prefix

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


def test_beginning_of_a_request_is_its_own_however_many_there_are() -> None:
    def digest(text: str) -> str:
        return blake2b(text.encode(), digest_size=6).hexdigest() if text else ""

    def double(text: str) -> int:
        return 2 * len(text)

    heads = [("", f"protocol {at % 7}", f"{at} " * (at % 50) ** 2, "é" * at, "") for at in range(200)]
    for _ in range(2):
        for head in heads:
            assert measured_head(head, len) == (tuple(map(digest, head)), list(map(len, head)))
            assert measured_head(head, double)[1] == list(map(double, head))


def test_absent_part_is_the_same_one_in_every_log() -> None:
    empty, digest = blake2b(digest_size=6).hexdigest(), "0123456789ab"
    now = Prefix(("", digest, ""), (4, 5, 6, 9))
    assert from_json(as_json(now)) == now
    assert from_json({"head": [empty, digest, ""], "messages": "4-6,9"}) == now, "as older versions wrote it"


NUMBERS = st.lists(st.integers(0, 3), max_size=6).map(tuple)
HEADS = st.tuples(*[st.sampled_from(["", "a", "b"])] * 3)


@given(HEADS, HEADS, NUMBERS, NUMBERS, st.integers(0, 6))
def test_stable_part_of_a_request_ends_with_the_first_difference(
    was: tuple[str, ...], head: tuple[str, ...], known: tuple[int, ...], numbers: tuple[int, ...], recent: int
) -> None:
    before, now, sizes = Prefix(was, known), Prefix(head, numbers), [1, 10, 100]
    tokens = stable_tokens(before, now, sizes, lambda count: 1000 * min(count, recent))
    same = next((at for at in range(3) if was[at] != head[at]), 3)
    assert tokens % 1000 == sum(sizes[:same])
    count = tokens // 1000
    if same < 3:
        assert count == 0
    else:
        assert numbers[:count] == known[:count]
        assert 0 not in numbers[:count]
        told = min(len(numbers), len(known), recent)
        assert count == told or numbers[count] == 0 or numbers[count] != known[count]
    assert stable_tokens(None, now, sizes, lambda count: 1000) == 0
