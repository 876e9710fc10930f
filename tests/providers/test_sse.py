"""The framer gives whole frames in order, byte for byte, however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.providers.aws_events import AwsFramer
from ctxwrap.providers.sse import Framer, encode_event, framer_for
from tests.providers.loopback import aws_event

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


@given(st.lists(st.dictionaries(LINES, LINES), max_size=6), st.lists(st.integers(0, 2000), max_size=8))
def test_aws_messages_are_the_same_for_every_cut(events: list[dict[str, str]], cuts: list[int]) -> None:
    raws = [AwsFramer().encode("", event) for event in events]
    text = b"".join(raws)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    framer = framer_for("application/vnd.amazon.eventstream")
    assert framer is not None
    frames = [frame for start, end in pairwise(edges) for frame in framer.feed(text[start:end])]
    assert [frame.json() for frame in frames] == events
    assert [frame.raw for frame in frames] == raws


def test_an_aws_message_is_what_botocore_reads() -> None:
    eventstream = pytest.importorskip("botocore.eventstream")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(AwsFramer().encode("", {"type": "ping"}))
    (message,) = buffer
    assert message.headers == {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    assert message.payload == b'{"bytes":"eyJ0eXBlIjoicGluZyJ9"}'


@pytest.mark.parametrize(
    ("raw", "is_damaged"),
    [
        (aws_event("throttlingException", {"message": "no"}, is_error=True), True),
        (aws_event("chunk", {"bytes": "abc"}), True),
        (aws_event("chunk", {"p": "abc"}), False),
        (aws_event("chunk", []), False),
        (b"\0" * 20, True),
    ],
)
def test_aws_messages_without_an_event_pass_as_they_are(raw: bytes, is_damaged: bool) -> None:
    (frame,) = AwsFramer().feed(raw)
    assert (frame.raw, frame.json(), frame.fields.is_damaged) == (raw, None, is_damaged)
