"""Records as lines with checksums, numbers of messages in few characters, and both back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.stores.log_format import checksums_in, encode_batch, is_intact, last_checksum, numbers_in, ranges
from ctxwrap.types import Record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(st.text().filter(lambda name: name != "ctx"), VALUES, max_size=3)
CONTROLS = st.dictionaries(st.text().filter(lambda name: name not in ("w", "b", "c")), VALUES, max_size=3)


@given(
    st.lists(st.tuples(FIELDS, CONTROLS, FIELDS), min_size=1, max_size=4),
    st.integers(0, 0xFFFFFFFF),
    st.none() | st.integers(0),
)
def test_lines_of_a_batch_hold_its_records_and_their_places(
    parts: list[tuple[Record, Record, Record]], check: int, synced: int | None
) -> None:
    records = [{**before, "ctx": control, **after} for before, control, after in parts]
    lines = encode_batch(records, check, synced)
    assert lines.endswith(b"\n")
    for place, (line, record) in enumerate(zip(lines.split(b"\n")[:-1], records, strict=True)):
        assert is_intact(line)
        seals = checksums_in(line)
        assert seals is not None
        assert seals.before == check
        check = seals.check
        found = json.loads(line)
        control = found.pop("ctx")
        assert control.pop("c") == f"{seals.before:08x}{seals.check:08x}"
        assert control.pop("b", None) == ([place, len(records)] if len(records) > 1 else None)
        assert control.pop("w", None) == synced
        assert control == (record["ctx"] or {"v": 1})
        assert found == {name: value for name, value in record.items() if name != "ctx"}
    assert check == last_checksum(lines)


@given(st.lists(st.integers(0, 50)))
def test_ranges_round_trip(numbers: list[int]) -> None:
    assert numbers_in(ranges(numbers)) == numbers


def test_consecutive_numbers_are_written_as_a_range() -> None:
    assert ranges([3, 4, 5, 9, 20, 21]) == "3-5,9,20-21"


@pytest.mark.parametrize("spans", ["1-99999999999", "1-999999," * 3, "x", "1-x", "-", "1-" + "9" * 30])
def test_ranges_that_are_invalid_or_too_long_are_refused(spans: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whichever of its parts is wrong
        numbers_in(spans)
