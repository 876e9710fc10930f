"""Text deltas recognised by their bytes: the output is the same as if every event were parsed."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.providers.sse import Framer, encode_event
from ctxwrap.providers.text_channel import DeltaPassthrough, EventPassthrough
from ctxwrap.testing.practice.answer import Answer
from ctxwrap.types import Body, Reply
from tests.providers.replies import SPEAKERS, Speaker
from tests.providers.test_adapters import TRAILER, cut

PIECES = st.lists(
    st.sampled_from([" a word", "a", "\n", "\n\nA line", "<", " ", "- item", 'say "so"', "\\", "é😀", TRAILER])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=12,
)
SPEAKER = pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.adapter.name)


def streamed(speaker: Speaker, raws: Sequence[bytes], deltas: DeltaPassthrough | None) -> tuple[list[str], Reply, int]:
    """The events that a caller reads, what they amount to, and how many of them were not parsed."""
    rewriter, out, passed = speaker.adapter.rewriter({}, ReplyStream), list[str](), 0
    for raw in raws:
        (frame,) = Framer().feed(raw)
        event = frame.json()
        assert event is not None
        shown = deltas.take(raw) if deltas is not None else None
        if shown is not None:
            passed += 1
            out += [json.dumps(event)] if shown else []
            continue
        out += map(json.dumps, rewriter.event(event))
        if deltas is not None:
            deltas.learn(raw, event, rewriter.text_delta(event))
    return [*out, *map(json.dumps, rewriter.close())], rewriter.reply, passed


def raws_of(speaker: Speaker, pieces: Sequence[str], *, named: bool = True) -> list[bytes]:
    answer = Answer("".join(pieces), pieces=tuple(piece for piece in pieces if piece))
    return [encode_event(event.get("type", "") if named else "", event) for event in speaker.events(answer)]


@SPEAKER
@given(pieces=PIECES)
def test_streams_read_as_if_every_event_were_parsed(speaker: Speaker, pieces: list[str]) -> None:
    raws = raws_of(speaker, pieces)
    assert streamed(speaker, raws, DeltaPassthrough())[:2] == streamed(speaker, raws, None)[:2]


SNAPSHOTS = st.sampled_from([TRAILER, TRAILER[:-9], TRAILER.replace(": [", ": [}", 1), TRAILER.replace('"', '"}"', 3)])


@SPEAKER
@given(SNAPSHOTS, st.sampled_from(["", "\n\nMore text", "}"]), st.lists(st.integers(0, 200), max_size=60))
def test_snapshots_in_pieces_read_as_if_every_event_were_parsed(
    speaker: Speaker, snapshot: str, behind: str, cuts: list[int]
) -> None:
    raws = raws_of(speaker, [" a", " b", *cut(snapshot + behind, cuts)])
    assert streamed(speaker, raws, DeltaPassthrough())[:2] == streamed(speaker, raws, None)[:2]


TEMPLATED = pytest.mark.parametrize(
    "speaker", [each for each in SPEAKERS if each.api != "completions"], ids=lambda each: each.api
)


@TEMPLATED
def test_text_deltas_of_prose_are_not_parsed(speaker: Speaker) -> None:
    raws = raws_of(speaker, [f" word{number}" for number in range(50)])
    assert streamed(speaker, raws, DeltaPassthrough())[2] >= 48


@TEMPLATED
def test_text_deltas_of_a_snapshot_are_not_parsed(speaker: Speaker) -> None:
    content = json.dumps("words in a memory item " * 20)
    head = TRAILER.partition("[]")[0] + '[{"content": '
    raws = raws_of(speaker, [" a", " b", head, *content.split(" "), "}", *TRAILER.partition("[]")[2]])
    assert streamed(speaker, raws, DeltaPassthrough())[2] >= 100


CHAT_SPEAKER = next(each for each in SPEAKERS if each.adapter is CHAT)
RESPONSES_SPEAKER = next(each for each in SPEAKERS if each.adapter is RESPONSES)


def chunk(text: str, **more: Any) -> bytes:
    event = {"id": "x", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}
    return encode_event("", event)


def test_varying_fields_are_ignored() -> None:
    raws = [chunk(f" {at}", obfuscation="x" * at) for at in range(20)]
    assert streamed(CHAT_SPEAKER, raws, DeltaPassthrough())[2] == 19


def test_released_text_has_the_newest_sequence_number() -> None:
    raws = raws_of(RESPONSES_SPEAKER, [" a"] * 20 + [" b\n"])
    with_template, without = (streamed(RESPONSES_SPEAKER, raws, deltas)[0] for deltas in (DeltaPassthrough(), None))
    assert with_template == without


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(chunk(" b", usage={"total_tokens": 1}), id="more fields"),
        pytest.param(chunk(" b") + chunk(" c"), id="two events"),
        pytest.param(chunk(" b")[:-2], id="not the end"),
        pytest.param(chunk(" b").replace(b'" b"', b"null"), id="no text"),
        pytest.param(chunk(" b").replace(b'" b"', b'" b","content":" c"'), id="twice"),
        pytest.param(chunk(" b").replace(b'" b"', b'" b\\x"'), id="a broken escape"),
        pytest.param(chunk(" b").replace(b'" b"', b'" b\nc"'), id="a line in it"),
        pytest.param(chunk(" b").replace(b'" b"', b'" \xff"'), id="no text at all"),
        pytest.param(chunk(" b").replace(b'" b"', b"[" * 10_000), id="deep"),
        pytest.param(chunk(" b" * 20_000), id="long"),
        pytest.param(chunk(""), id="empty"),
    ],
)
def test_other_events_are_parsed(other: bytes) -> None:
    deltas, rewriter = DeltaPassthrough(), CHAT.rewriter({}, ReplyStream)
    for raw in [chunk(" a")] * 3:
        if deltas.take(raw) is None:
            event = json.loads(raw[6:])
            rewriter.event(event)
            deltas.learn(raw, event, rewriter.text_delta(event))
    assert deltas.take(chunk(" b"))
    assert deltas.take(other) is None


def test_field_of_the_same_name_elsewhere_is_not_the_text() -> None:
    raws = [chunk(f" {at}", note={"content": "constant"}) for at in range(9)]
    assert streamed(CHAT_SPEAKER, raws, DeltaPassthrough()) == (*streamed(CHAT_SPEAKER, raws, None)[:2], 0)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.lists(st.integers(0, 99), max_size=5))
def test_closed_channel_passes_nothing(text: str, cuts: list[int]) -> None:
    rewriter = CHAT.rewriter({}, ReplyStream)
    deltas = DeltaPassthrough()
    for piece in ("a", *cut(text, cuts)):
        event = json.loads(chunk(piece)[6:])
        rewriter.event(event)
        deltas.learn(chunk(piece), event, rewriter.text_delta(event))
    rewriter.close()
    assert deltas.take(chunk("b")) is None


def read_events(
    speaker: Speaker, events: Sequence[Body], deltas: EventPassthrough | None
) -> tuple[list[str], Reply, int]:
    """The same for events that are parsed by the client."""
    rewriter, out, passed = speaker.adapter.rewriter({}, ReplyStream), list[str](), 0
    for event in events:
        is_shown = deltas.take(event) if deltas is not None else None
        if is_shown is not None:
            passed += 1
            out += [json.dumps(event)] if is_shown else []
            continue
        out += map(json.dumps, rewriter.event(event))
        if deltas is not None:
            deltas.learn(event, rewriter.text_delta(event))
    return [*out, *map(json.dumps, rewriter.close())], rewriter.reply, passed


def events_of(raws: Sequence[bytes]) -> list[Body]:
    return [json.loads(raw.partition(b"data: ")[2]) for raw in raws]


@SPEAKER
@given(pieces=PIECES)
def test_events_read_as_if_none_were_passed_on(speaker: Speaker, pieces: list[str]) -> None:
    events = events_of(raws_of(speaker, pieces))
    assert read_events(speaker, events, EventPassthrough())[:2] == read_events(speaker, events, None)[:2]


@SPEAKER
@given(SNAPSHOTS, st.sampled_from(["", "\n\nMore text", "}"]), st.lists(st.integers(0, 200), max_size=60))
def test_snapshots_in_events_read_as_if_none_were_passed_on(
    speaker: Speaker, snapshot: str, behind: str, cuts: list[int]
) -> None:
    events = events_of(raws_of(speaker, [" a", " b", *cut(snapshot + behind, cuts)]))
    assert read_events(speaker, events, EventPassthrough())[:2] == read_events(speaker, events, None)[:2]


def test_events_of_prose_are_passed_on() -> None:
    events = events_of([chunk(f" word{number}") for number in range(50)])
    assert read_events(CHAT_SPEAKER, events, EventPassthrough())[2] == 49


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{"delta": {"content": None}}]},
        {"choices": [{"delta": "content"}]},
        *events_of([chunk(" b", usage={"total_tokens": 1}), chunk(" b" * 20_000), chunk("")]),
    ],
)
def test_other_events_are_not_passed_on(other: Body) -> None:
    deltas, rewriter = EventPassthrough(), CHAT.rewriter({}, ReplyStream)
    for event in events_of([chunk(" a")] * 2):
        rewriter.event(event)
        deltas.learn(event, rewriter.text_delta(event))
    assert deltas.take(events_of([chunk(" b")])[0])
    assert deltas.take(other) is None
