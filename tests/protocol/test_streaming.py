"""Streams: in every cut they show what the whole shows, hold back no more than they must, and stay fast."""

import json
import random
import time
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.protocol.splitter import Splitter
from tests.protocol.corpus import CLASSES, PARAGRAPHS, cases, of_class
from tests.protocol.test_separator import DRAFT, HOSTILE, JSON, OLD, OPENINGS, RUNTIME, SPELLINGS
from tests.support import examples

FRAGMENTS = [
    *(
        "<",
        ">",
        "`",
        "```",
        "~~~",
        "\n",
        "\n\n",
        " ",
        "{",
        "}",
        "[",
        "-",
        "---",
        "***",
        "#",
        "_",
        ":",
        "&",
        "&lt;",
        "\\",
    ),
    *(
        "CONTEXT",
        "context",
        "CON",
        "TEXT",
        SEPARATOR,
        SEPARATOR[:5],
        SEPARATOR[5:],
        "<<CONTEXT>>",
        "json",
        "version: 2",
    ),
    *("a", "é", "😀", "\u200b", "\ufeff", "\0", "\ud800", "\r\n", " " * 9, "\n" * 65, "a" * 161, "</s>", '{"version"'),
    *(JSON, DRAFT, OLD, JSON[:40], JSON[1:], '"memory": 1, "runtime": 2', "\n```json\n", "\n```\n", "\n---\n"),
]
TEXTS = st.lists(st.sampled_from([*FRAGMENTS, *SPELLINGS, *OPENINGS, *PARAGRAPHS]) | st.text(max_size=3), max_size=14)


def shown(text: str, cuts: list[int]) -> tuple[str, ReplyStream]:
    stream = ReplyStream(RUNTIME)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return "".join([stream.feed(text[start:end]) for start, end in pairwise(edges)]) + stream.close(), stream


@examples(400)
@given(TEXTS.map("".join), st.lists(st.integers(0, 2000), max_size=20))
def test_stream_shows_the_same_text_as_the_whole_reply_for_every_cut(text: str, cuts: list[int]) -> None:
    whole = read_reply(text, RUNTIME)
    visible, stream = shown(text, cuts)
    assert visible == whole.visible
    assert stream.reading == whole


ENDINGS = st.sampled_from(
    [JSON, DRAFT, OLD, JSON.replace('"memory":', '"memory" :'), '{"memory":1}', '{"a":[]}', "{}", "{"]
)


@examples(400)
@given(TEXTS, ENDINGS, st.sampled_from(["", "", "", "\n", " ", "}", "\n\nBye."]), TEXTS)
def test_complete_reply_is_read_like_its_stream(before: list[str], json: str, after: str, later: list[str]) -> None:
    text = f"{''.join(before)}\n{SEPARATOR}\n{json}{after}"
    whole, fed = ReplyStream(RUNTIME), ReplyStream(RUNTIME)
    assert whole.whole(text) == fed.feed(text) + fed.close()
    assert (whole.reading, whole.spans, whole.size) == (fed.reading, fed.spans, fed.size)
    assert [*map(whole.feed, later)] == [*map(fed.feed, later)]
    assert whole.spans == fed.spans


def test_usual_reply_needs_no_splitter() -> None:
    for text in ("Done.", "é\r\n", "  Two\n\nlines: \n"):
        stream = ReplyStream(RUNTIME)
        stream.whole(f"{text}\n{SEPARATOR}\n{JSON}")
        assert (stream.reading.status, stream._splitter) == ("clean", None)


@examples(400)
@given(TEXTS.map("".join), st.lists(st.integers(0, 2000), max_size=40))
def test_passed_chunk_is_shown_unchanged(text: str, cuts: list[int]) -> None:
    fed, passed = ReplyStream(RUNTIME), ReplyStream(RUNTIME)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for chunk in (text[start:end] for start, end in pairwise(edges)):
        assert fed.feed(chunk) == (chunk if passed.passes(chunk) else passed.feed(chunk))
        assert fed.spans == passed.spans
    assert fed.close() == passed.close()
    assert fed.reading == passed.reading


ENDS = [
    *JSON.partition("{"),
    "]}",
    "]",
    "}",
    "}}",
    "{",
    "[",
    '"',
    "\\",
    ",",
    " ",
    "\n",
    "",
    "a",
    '"a": [1, {"b": []}]',
    "More.",
]


@examples(400)
@given(
    TEXTS.map("".join) | st.lists(st.sampled_from(ENDS), max_size=12).map(lambda ends: f"{SEPARATOR}\n{''.join(ends)}"),
    st.lists(st.integers(0, 2000), max_size=40),
)
def test_hidden_chunk_shows_nothing_however_it_is_read(text: str, cuts: list[int]) -> None:
    fed, hidden = Splitter(), Splitter()
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for _ in range(2):  # some senders signal the end too early
        for chunk in (text[start:end] for start, end in pairwise(edges)):
            assert fed.feed(chunk) == ("" if hidden.hides(chunk) else hidden.feed(chunk))
        assert fed.close() == hidden.close()
        assert fed.parts == hidden.parts


def test_text_after_a_hidden_snapshot_is_shown_at_once() -> None:
    stream = ReplyStream(RUNTIME)
    stream.feed(f'Hi.\n\n{SEPARATOR}\n{{"version": "2.2", "memory": {{}}, "capabilities": [')
    assert not stream.hides("]}")
    assert stream.feed("]}") == ""
    assert stream.feed("\n\nMore.") == "\n\nMore."


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a": ', "}"), ('[{"a": ', "}]")])
@pytest.mark.parametrize("depth", range(12, 36))
def test_depth_of_an_object_counts_alike_for_every_cut(depth: int, opening: str, closing: str) -> None:
    deep = opening * depth + "1" + closing * depth
    for text in (f'{JSON[:-1]}, "more": {deep}}}', f'{{"more": {deep}, "brackets": "]]}}}}", {JSON[1:]}'):
        for reply in (f"Hi.\n\n{SEPARATOR}\n{text}", f"Hi.\n\n{SEPARATOR}\n{text}\n\nMore."):
            visible, stream = shown(reply, [*range(0, len(reply), 7)])
            assert visible == read_reply(reply, RUNTIME).visible
            assert stream.reading == read_reply(reply, RUNTIME)


def test_most_chunks_of_prose_pass() -> None:
    words = [f" {word}" for word in "\n\n".join(PARAGRAPHS).split(" ")]
    stream = ReplyStream(RUNTIME)
    assert sum(stream.passes(word) or 0 * len(stream.feed(word)) for word in words) > 0.7 * len(words)


@examples(200)
@given(TEXTS.map("".join))
def test_stream_of_single_characters_reads_the_same(text: str) -> None:
    assert shown(text, list(range(len(text))))[0] == read_reply(text, RUNTIME).visible


@pytest.mark.parametrize("name", CLASSES)
def test_streamed_corpus_replies_read_like_whole_replies(name: str) -> None:
    rng = random.Random(name)
    for case in of_class(name, 13, 2):
        cuts = sorted(rng.sample(range(len(case.reply)), len(case.reply) // rng.randint(1, 9)))
        stream = ReplyStream(case.runtime, case.previous)
        edges = [0, *cuts, len(case.reply)]
        pieces = [stream.feed(case.reply[start:end]) for start, end in pairwise(edges)]
        assert "".join([*pieces, stream.close()]) == case.visible
        assert stream.reading == read_reply(case.reply, case.runtime, case.previous)


def test_no_part_of_a_trailer_is_streamed() -> None:
    for case in cases(14, 120):
        stream = ReplyStream(case.runtime, case.previous)
        assert case.visible.startswith("".join(stream.feed(char) for char in case.reply)), case.name


SYMBOLS = ("<", ">", "CONTEXT", SEPARATOR, "\n", "{", "a", "`", "```", " ")
CONTINUATIONS = (
    "",
    *("a", "\na", "\n```\na", "\n```\n\na"),
    *(
        f"{missing}{gap}{JSON}"
        for gap in ("\n", "")
        for missing in ("", ">>", "CONTEXT>>", SEPARATOR, f"\n{SEPARATOR}")
    ),
    *(f"{SEPARATOR[-end:]}\n{JSON}" for end in range(1, len(SEPARATOR))),
    *(f"\n\n{SEPARATOR}\n{{", f"`{SEPARATOR}`\n{{", f"``\n{SEPARATOR}\n{{", f"`\n{SEPARATOR}\n{{", JSON[1:]),
    *(f":\n{JSON}", f"a:\n{JSON}", f"a>\n{JSON}", '"version": 1, "memory": 2', '\n<"version": 1, "memory": 2>'),
    *('"version": 1, "memory": 2>', f"`{JSON}", f"{{=html}}\n{JSON}", f"=html}}>\n{JSON}"),
    *(f"{missing}}}}}\n{JSON}" for missing in ("", "CONTEXT", "{CONTEXT")),
)


@cache
def visible(text: str) -> str:
    return read_reply(text, RUNTIME).visible


def strings() -> Iterator[str]:
    """All short strings, and some longer ones."""
    for length in range(4):
        yield from map("".join, product(SYMBOLS, repeat=length))
    rng = random.Random(15)
    yield from ("".join(rng.choices(SYMBOLS, k=rng.randint(4, 7))) for _ in range(1500))


def test_only_possible_trailer_text_is_held_back() -> None:
    for text in strings():
        stream = ReplyStream(RUNTIME)
        given_out = "".join(stream.feed(char) for char in text)
        for more in CONTINUATIONS:
            assert visible(text + more).startswith(given_out), (text, more)
        if given_out != text and text.count("{") < 2:  # of several trailers, what can be read decides which one counts
            held = text[: len(given_out) + 1]
            assert any(not visible(text + more).startswith(held) for more in CONTINUATIONS), (text, given_out)


def test_text_goes_out_as_soon_as_it_cannot_be_a_trailer() -> None:
    stream = ReplyStream(RUNTIME)
    for chunk, out in (
        ("Hello", "Hello"),
        (", world.\n", ", world."),
        ("<<<CON", ""),
        ("TROL", "\n<<<CONTROL"),
        (f"\n{SEPARATOR}", ""),
        (" is a mark.", ""),
        ("\n\n", f"\n{SEPARATOR} is a mark."),
        ("- an item", "\n\n- an item"),
        (" <b", " <b"),
        ("\n---", ""),
        ("\n\n", ""),
        ("Text", "\n---\n\nText"),
        ("\n```js", ""),
        ("\n", ""),
        ("x = 1\n```", "\n```js\nx = 1\n```"),
        ("\n```\nBye\n", "\n```\nBye"),
        (f"{SEPARATOR}\n{OLD}\n", ""),
        ("```\n\n", ""),
        ("So", f"\n{SEPARATOR}\n{OLD}\n```\n\nSo"),
        (f" it is.\n{SEPARATOR}\n{{", " it is."),
        ("and so on", ""),
    ):
        assert stream.feed(chunk) == out, chunk
    assert stream.close() == ""


@pytest.mark.parametrize(
    "piece", [*HOSTILE, "a", "word ", "\n\n\n \n", json.dumps("x" * 50), f"\n{SEPARATOR}\n{{\n```\n"]
)
@pytest.mark.parametrize("size", [1, 64])
def test_hostile_streams_take_linear_time(piece: str, size: int) -> None:
    length = 40_000 if size == 1 else 200_000
    for before in ("", f"```\n{SEPARATOR}\n{{", f"{SEPARATOR}\n"):
        text = before + piece * (length // len(piece))
        stream = ReplyStream()
        begin = time.process_time()
        for at in range(0, len(text), size):
            stream.feed(text[at : at + size])
        assert time.process_time() - begin < 2
