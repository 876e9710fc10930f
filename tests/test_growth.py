"""Whatever reads the words of others takes time in proportion to them, and gives up at a stated size."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from ctxwrap.documents.document import grow
from ctxwrap.documents.sections import node_counts, sections_of
from ctxwrap.documents.sentences import RawMessage, sentences_in
from ctxwrap.documents.summary import fit_summary, summarise_message
from ctxwrap.documents.trimming import describe_removed, trimmed
from ctxwrap.errors import InvalidManifest
from ctxwrap.language.dates import dates_in, days_in
from ctxwrap.language.slots import slot_of
from ctxwrap.language.statements import statements_in
from ctxwrap.language.words import terms_of
from ctxwrap.memory.similarity import Facts, same_fact, subjects
from ctxwrap.protocol.instructions import SEPARATOR, parse_block, sanitise, strip_injected
from ctxwrap.protocol.lookalikes import has_imitation
from ctxwrap.protocol.recovery import recover
from ctxwrap.protocol.reply import ReplyStream, read_reply
from ctxwrap.providers.sse import MAX_FRAME, Framer
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.redactor import Redactor
from ctxwrap.retrieval.passages import passages, text_features
from ctxwrap.tokens.measure import STRATEGIES, truncate
from ctxwrap.turn.records import TurnRedactor
from ctxwrap.workingset.requests import requests_in_text
from ctxwrap.workingset.safe_yaml import pairs_of
from tests.growth import grows_too_fast, hostile, is_too_dear
from tests.support import PROFILE

RUNTIME = {"round": 3, "datetime": "2026-01-02T03:04:05.678901Z", "startup_at": "2026-01-01T00:00:00.000001Z"}
BEFORE = f"Hi.\n\n{SEPARATOR}\n{{"

UNITS = {
    "one sign": ("<", "{", '"', "'", "\\", "`", "=", "-", ".", "0", " ", "\n", "\r", "A"),
    "pairs": ("><", "{}", "[]", '\\"', "a ", "a.", "1.", "1,", "a\n"),
    "brackets": ("{[", '{"a":', "(", "[[context]]{", "\n[[context]]{"),
    "separators": (f"{SEPARATOR}\n", "<<<CONTEXT", "<context>{", "\nCONTEXT", "&amp;lt;", "＜context＞"),
    "diagrams": ("```mermaid\n", "a-->b ", "-- a ", "a & b ", "~~a~~ "),
    "frames": ("<ctxwrap-", "<ctxwrap-context>", "</ctxwrap-context>", "<ctxwrap-memory>\n\n</ctxwrap-memory>"),
    "lines": ("\r\n", "data: x\r\n\r\n", "data: x\n\n", "data: x\r\r", ": x\r\n", "```\n", "---\n", "> "),
    "snapshots": ('\n{"version":"2.2","memory":', '"memory":', '{"id":"a","content":"'),
    "secrets": ("sk-", "eyJ.", "a.b@", "a://b:c@", "password=", "-----BEGIN ", "4111 1111 1111 1111 "),
    "names of secrets": (
        "password=passw",
        "apikey=a1",
        "secret key ",
        "token is a1",
        "curl -u a:",
        "bearer a1",
        "sig=1",
    ),
    "numbers": ("+1", "01 ", "0049 1", "tel 1", "ssn 07", "DE89 ", "(415) ", "a%40a.", "a＠", "4111\u2009"),
    "sentences": ("my name is ", "I am ", "remember that ", "Jan 1, ", "2024-01-", "我叫", "e.g. ", "。", "？"),
    "odd characters": ("\ud800", "\u200b", "\u200d<\u200d", "e\u0301", "\U0001f1e6", "İ"),
    "YAML": ("- a: ", "? ", "&a ", "*a "),
}
SIZE = 6_000


def streamed(text: str, chunk: int = 7) -> None:
    stream = ReplyStream(RUNTIME, None, ("x",))
    for at in range(0, len(text), chunk):
        stream.feed(text[at : at + chunk])
    stream.close()


def screened(text: str) -> None:
    """An answer in flight, as far as it came each time."""
    screen = TurnRedactor(Redaction())
    for at in range(0, len(text) + 1, len(text) // 16):
        screen.lines(text[:at])


def framed(text: str) -> None:
    framer, data = Framer(), text.encode("utf-8", "surrogatepass")
    for at in range(0, len(data), 16):
        framer.feed(data[at : at + 16])


def compared(text: str) -> None:
    facts = Facts()
    facts.put("a", text)
    facts.near(f"{text}x")
    facts.same(text)
    same_fact(text, f"{text}x")


def manifest(text: str) -> None:
    with suppress(InvalidManifest):
        pairs_of(text)
    requests_in_text(text)


READERS: dict[str, Callable[[str], object]] = {
    "neutral": sanitise,
    "poses": has_imitation,
    "read_reply": lambda text: read_reply(text, RUNTIME, None, ("x",)),
    "read_reply of a trailer": lambda text: read_reply(BEFORE + text, RUNTIME, None, (text,)),
    "ReplyStream": streamed,
    "ReplyStream of a trailer": lambda text: streamed(BEFORE + text),
    "climb": lambda text: recover(text, RUNTIME, None),
    "Framer in small chunks": framed,
    "Framer in one chunk": lambda text: Framer().feed(text.encode("utf-8", "surrogatepass")),
    "without_injected": strip_injected,
    "unframe": parse_block,
    "Redaction": lambda text: Redaction().redacted(text),
    "Redaction of JSON": lambda text: Redactor(Redaction()).json_text(json.dumps({text: [text, {"password": text}]})),
    "Redaction of an answer in flight": lambda text: screened(text.replace(" ", "\n")),
    "statements_in": statements_in,
    "slot_of": slot_of,
    "terms_of": terms_of,
    "days_in": days_in,
    "dates_in": dates_in,
    "subjects": subjects,
    "Facts": compared,
    "summary_of": lambda text: summarise_message(RawMessage(1, "user", text)),
    "fitted": fit_summary,
    "sentences_in": sentences_in,
    "sections_of": sections_of,
    "grown": lambda text: grow("", [RawMessage(1, "user", text)]),
    "trimmed": trimmed,
    "removed": lambda text: describe_removed(text, ""),
    "node_counts": lambda text: node_counts(f"```mermaid\ngraph TD\n{text}") + node_counts(text),
    "the manifest": manifest,
    "truncated": lambda text: [truncate(text, len(text) // 3, strategy, len) for strategy in STRATEGIES],
    "truncated lines": lambda text: [truncate(text, len(text), strategy, len, 5) for strategy in STRATEGIES],
    "signs_of": text_features,
    "passages": passages,
}


@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    read = READERS[name]
    read("I am Ada. {'memory': 1}")  # what is imported on demand is imported now
    slow = [
        f"{family}: {unit!r}"
        for family, units in UNITS.items()
        for unit in units
        if grows_too_fast(read, lambda size, unit=unit: unit * (size // len(unit)), SIZE)  # type: ignore[misc]
    ]
    assert not slow


ITEM = {"id": "a", "type": "fact", "decay": 0.5, "round": 1, "tags": [], "content": "c"}
STATE = {"version": "2.2", "runtime": RUNTIME, "memory": {"core": [ITEM] * 40, "working": [], "ephemeral": []}}
DAMAGED = f"Hi.\n\n{SEPARATOR}\n{json.dumps(STATE)[:-1]},"
MB = 1_000_000
LONG = {
    "angle brackets": (sanitise, "<" * (MB // 4)),
    "names": (sanitise, "<context>" * (MB // 36)),
    "snapshots": (sanitise, '\n[[context]]{"memory":' * (MB // 88)),
    "damaged snapshots": (READERS["read_reply"], (DAMAGED + '"' * 50_000) * 10),
    "damaged snapshots with pairs": (READERS["read_reply"], (DAMAGED + '"a":1,' * 8_000) * 10),
    "frames": (READERS["Framer in one chunk"], "data: x\r\n\r\n" * (MB // 44)),
    "comments": (READERS["Framer in one chunk"], ": x\r\n\r\n" * (MB // 28)),
}


@pytest.mark.parametrize("name", LONG)
def test_a_megabyte_takes_a_second_at_most(name: str) -> None:
    read, text = LONG[name]
    assert not is_too_dear(lambda: read(text), len(text) / MB)  # type: ignore[operator]


MENDING = 0.1
"""Seconds that all mending of one reply may take, beside one for a megabyte: 0.06, and room for other interpreters."""


@pytest.mark.parametrize("seed", range(24 if PROFILE == "thorough" else 12))
def test_a_reply_of_hostile_pieces_is_read_within_its_limits(seed: int) -> None:
    read_reply(f"{BEFORE}'memory': 1}}")  # what is imported on demand is imported now
    text = hostile(seed)
    for size in (4_000, 60_000, 150_000):
        limit = MENDING + size / MB
        assert not is_too_dear(lambda: read_reply(text(size), RUNTIME, None, ("x",)), limit)  # noqa: B023
        assert not is_too_dear(lambda: streamed(text(size), 64), limit)  # noqa: B023
    assert not grows_too_fast(lambda reply: read_reply(reply, RUNTIME, None, ("x",)), text, 75_000)


def test_an_endless_event_goes_on_unread() -> None:
    framer, chunk = Framer(), b"x" * (MAX_FRAME // 4)
    frames = [frame for _ in range(6) for frame in framer.feed(chunk)]
    frames += framer.feed(b'\n\ndata: {"a":1}\n\n')
    assert b"".join(frame.raw for frame in frames) == chunk * 6 + b'\n\ndata: {"a":1}\n\n'
    assert [frame.json() for frame in frames if frame.data] == [{"a": 1}]
