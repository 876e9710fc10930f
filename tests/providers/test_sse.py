"""The framer gives whole frames in order, byte for byte, however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.providers.sse import Framer, encode_event

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(LINES, max_size=6), st.sampled_from(["\n", "\r\n"]), st.lists(st.integers(0, 200), max_size=8))
def test_frames_are_the_same_for_every_cut(datas: list[str], newline: str, cuts: list[int]) -> None:
    raws = [f"event: e{newline}data: {data}{newline}{newline}".encode() for data in datas]
    text = b"".join(raws)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    framer = Framer()
    frames = [frame for start, end in pairwise(edges) for frame in framer.feed(text[start:end])]
    assert [(frame.event, frame.data) for frame in frames] == [("e", data) for data in datas]
    assert b"".join(frame.raw for frame in frames) == text


def test_unfinished_frame_is_dropped() -> None:
    framer = Framer()
    assert framer.feed(b'data: {"a":1}\n') == []
    assert [frame.json() for frame in framer.feed(b"\ndata: {")] == [{"a": 1}]


@pytest.mark.parametrize("line", [": comment", "data: [DONE]", "data: {broken", "data: [1]", "retry: 1"])
def test_frame_without_a_json_object_has_none(line: str) -> None:
    raw = f"{line}\n\n".encode()
    (frame,) = Framer().feed(raw)
    assert frame.json() is None
    assert frame.raw == raw


def test_data_lines_are_joined() -> None:
    (frame,) = Framer().feed(b'data: {"a":\ndata: 1}\n\n')
    assert frame.json() == {"a": 1}


@given(st.dictionaries(LINES, LINES))
def test_encoded_events_read_back(data: dict[str, str]) -> None:
    (frame,) = Framer().feed(encode_event("name", data))
    assert (frame.event, frame.json()) == ("name", data)
