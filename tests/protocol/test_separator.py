"""Finding the trailer: every spelling of the separator, what is only a mention, and which of several counts."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import ReplyStream, read_reply
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.protocol.separator import _CANDIDATE, _HEAD, _candidates
from tests.protocol.corpus import CLASSES, cases, of_class

RUNTIME = {"round": 3, "datetime": "2026-02-20T18:45:12.000001Z", "startup_at": "2026-02-20T18:30:00.000000Z"}
ITEM = {"id": "core-1", "type": "fact", "decay": 0.1, "round": 1, "tags": ["a"], "content": "The sky is blue."}
STATE: dict[str, Any] = {
    "version": "2.2",
    "runtime": RUNTIME,
    "memory": {"core": [ITEM], "working": [], "ephemeral": []},
    "capabilities": [],
    "active_task": "",
}
JSON = json.dumps(STATE)
OLD = json.dumps({**STATE, "runtime": {**RUNTIME, "datetime": "2026-02-20T18:40:00.000001Z"}})
DRAFT = json.dumps({**STATE, "active_task": "a draft"})

SPELLINGS = [
    *("<<<CONTEXT>>>", "<<CONTEXT>>", "<CONTEXT>", "<<<CONTEXT>>", "<<<<<CONTEXT>>>>", "<<<CONTEXT", "CONTEXT>>>"),
    *("<<< CONTEXT >>>", "< < < CONTEXT > > >", "<<<\tCONTEXT\t>>>", "<<<context>>>", "<<<CONTEXT:>>>"),
    *("<<<CONTEXT_SNAPSHOT>>>", "<<<CONTEXT STATE>>>", "<<<Context-Snapshot>>>"),
    *("&lt;&lt;&lt;CONTEXT&gt;&gt;&gt;", "&amp;lt;&amp;lt;CONTEXT&amp;gt;&amp;gt;", "&#60;&#60;CONTEXT&#62;&#62;"),
    *("&#x3c;&#x3C;&#x3c;CONTEXT&#x3e;&#x3E;&#x3e;", "&LT;&LT;CONTEXT&GT;&GT;", "&lt;&lt;<CONTEXT>>>"),
    *(r"\<\<\<CONTEXT\>\>\>", r"\<<<CONTEXT>>>", r"\<\<`<CONTEXT>`{=html}\>\>", "`<<<CONTEXT>>>`{=html}"),
    *("**<<<CONTEXT>>>**", "*<<<CONTEXT>>>*:", "**<<<CONTEXT>>>:**", "### <<<CONTEXT>>>", "> <<<CONTEXT>>>"),
    *("`<<<CONTEXT>>>`", "```<<<CONTEXT>>>", "__<<<CONTEXT>>>__", "> **<<<CONTEXT>>>**"),
    *("＜＜＜CONTEXT＞＞＞", "《《《CONTEXT》》》", "〈〈〈CONTEXT〉〉〉", "⟨⟨⟨CONTEXT⟩⟩⟩", "«<CONTEXT>»", "≪CONTEXT≫"),
    *("[[[CONTEXT]]]", "{{{CONTEXT}}}", "((CONTEXT))", "=== CONTEXT ===", "【【CONTEXT】】", "--- CONTEXT ---"),
    *("\u200b<<<CONTEXT>>>\u200b", "<<<\u200bCONTEXT\u2060>>>", "\ufeff<<<CONTEXT>>>", "<\u200b<\u200b<CONTEXT>>>"),
    *("---\n<<<CONTEXT>>>", "***\n\n<<<CONTEXT>>>", "```\n<<<CONTEXT>>>", "---\n```json\n<<<CONTEXT>>>"),
    *("<<<CONTEXT>>>\n<<<CONTEXT>>>", "<<<CONTEXT>>>\n\n<<CONTEXT>>", "<<<CONTEXT>>> <<<CONTEXT>>>"),
]
OPENINGS = ["\n", " ", "", "\n\n", "\r\n", "\n```json\n", " ~~~\n", "\nThe new state:\n", "\n<context>\n", "\n\ufeff"]


def state_in(text: str, **context: Any) -> Any:
    reading = read_reply(text, RUNTIME, **context)
    return reading.visible, reading.snapshot


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_separator_spelling_ends_the_visible_text(spelling: str) -> None:
    for opening in OPENINGS:
        assert state_in(f"Hello.\n\n{spelling}{opening}{JSON}") == ("Hello.", STATE), opening
        assert state_in(f"{spelling}{opening}{JSON}") == ("", STATE), opening


@pytest.mark.parametrize(
    "text",
    [
        f"The mark {SEPARATOR} stands in the middle of a line.",
        f"{SEPARATOR} is what separates the two.",
        f"Others write\n\n{SEPARATOR}\n\nand forget the rest.",
        f"Write\n```\n{SEPARATOR}\n```\nat the end.",
        f"A line ends with {SEPARATOR}\n{{}} and goes on.",
        f'In Python: print("{SEPARATOR}")\nand so on.',
        "<<<CONTEXT>> {",
        "<context>\n{{documents}}\n</context>",
        f"### Context\n{OLD}!",
        "if a <<< b: pass",
        f"some <CONTEXT> {OLD}",
        '{"version": "2.2", "name": "no-snapshot"}',
        f"The state was\n{OLD}\nwhen we began.",
    ],
)
def test_mention_of_the_separator_is_text(text: str) -> None:
    assert state_in(text) == (text, None)


@pytest.mark.parametrize("fence", ["```", "~~~", "````markdown"])
@pytest.mark.parametrize("before", ["", "Bye!\n", "```js\nx\n"])
def test_an_example_in_a_code_block_is_text(fence: str, before: str) -> None:
    closing = fence.removesuffix("markdown")
    if before.startswith(closing):
        pytest.skip("the inner block would close the outer one")
    block = f"{fence}\n{before}{SEPARATOR}\n{OLD}\n{closing}"
    text = f"Like this:\n\n{block}\n\nThat is all."
    assert state_in(text) == (text, None)
    assert state_in(f"{text}\n\n{SEPARATOR}\n{JSON}") == (text, STATE)
    assert state_in(f"Like this:\n\n{block}\n\n{SEPARATOR}\n{JSON}") == (f"Like this:\n\n{block}", STATE)


@pytest.mark.parametrize("after", ["", "\n", "\n```", "\n```\n", "\n```\n<|im_end|>", "\n```\n<<<END>>>\n", "\n</s>"])
def test_a_code_block_at_the_very_end_is_the_trailer(after: str) -> None:
    assert state_in(f"Hello.\n\n```json\n{SEPARATOR}\n{JSON}{after}") == ("Hello.", STATE)
    assert read_reply(f"Hello.\n\n```\nBye!\n{SEPARATOR}\n{JSON}{after}").visible == "Hello.\n\n```\nBye!"


def test_the_end_of_a_code_block_before_the_trailer_stays() -> None:
    for code in ("Hello.\n```sh\nls\n```", "```py\n>>>\n```", "~~~yaml\na: 1\n---\n~~~", "````\n```\n````"):
        for gap in ("\n", "\n\n", *(("", " ") if "---" not in code else ())):
            assert state_in(f"{code}{gap}{SEPARATOR}\n{JSON}") == (code, STATE)


def test_only_the_exact_separator_counts_within_a_line() -> None:
    for gap in ("", " ", "\n", "\n```json\n"):
        assert state_in(f"Hello. {SEPARATOR}{gap}{JSON}") == ("Hello.", STATE)


def test_last_readable_trailer_is_applied() -> None:
    text = f"Like this:\n{SEPARATOR}\n{{}}\nand so on"
    assert state_in(f"{text}\n{SEPARATOR}\n{JSON}") == (text, STATE)


@pytest.mark.parametrize("between", ["\n", "\n\n", "\n```\n\n", "\n---\n", "\n</context>\n"])
@pytest.mark.parametrize("spelling", [SEPARATOR, "<<CONTEXT>>"])
def test_last_of_several_trailers_is_applied_and_none_is_shown(between: str, spelling: str) -> None:
    draft = f"{spelling}\n{DRAFT}{between}"
    assert state_in(f"Hello.\n\n{draft}{SEPARATOR}\n{JSON}") == ("Hello.", STATE)
    assert state_in(f"Hello.\n\n{draft}{draft}{SEPARATOR}\n{JSON}") == ("Hello.", STATE)
    assert state_in(f"Hello.\n\n{spelling}\n{DRAFT[:150]}\n{SEPARATOR}\n{JSON}") == ("Hello.", STATE)


def test_a_separator_inside_a_memory_is_content() -> None:
    content = f"First line\n{SEPARATOR}\n" + '{"version": "2.2", "memory": {}}'
    memory = {"core": [{**ITEM, "content": content}], "working": [], "ephemeral": []}
    written = json.dumps({**STATE, "memory": memory})
    assert read_reply(f"Hello.\n{SEPARATOR}\n{written}", RUNTIME).snapshot == {**STATE, "memory": memory}
    raw = written.replace("\\n", "\n").replace('\\"', "'")
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{raw}", RUNTIME)
    assert reading.visible == "Hello."
    assert reading.snapshot is None or reading.snapshot["memory"]["core"][0]["id"] == "core-1"


@pytest.mark.parametrize(
    "trailer",
    [
        f"{SEPARATOR}\n{{",
        f"{SEPARATOR}\n{{{{{{",
        SEPARATOR,
        f"{SEPARATOR}\n\n",
        f"---\n{SEPARATOR}\n```json\n{{",
        f'{SEPARATOR}\n{{"a":' * 3,
        '<<CONTEXT>>\n{"version": "2.2", "memory": [[[',
        f"{SEPARATOR}\n{{{'[' * 100_000}",
        f'{SEPARATOR}\n{{"a": "{"x" * 300_000}"}}',
    ],
)
def test_a_trailer_that_cannot_be_read_is_not_shown(trailer: str) -> None:
    reading = read_reply(f"Hello.\n\n{trailer}")
    assert reading.visible in ("Hello.", "Hello.\n\n" + trailer[: trailer.rfind(SEPARATOR)].rstrip())
    assert reading.status in ("rejected", "ambiguous", "partial")


@pytest.mark.parametrize(
    "bare",
    [
        JSON,
        json.dumps(STATE, indent=2),
        f"```json\n{JSON}\n```",
        f"---\n\n```\n{JSON}\n```\n",
        JSON.replace('"', "'"),
        JSON.replace('"version"', "version").replace('"runtime"', "runtime"),
    ],
)
def test_a_snapshot_at_the_end_needs_no_separator(bare: str) -> None:
    assert state_in(f"Hello.\n\n{bare}") == ("Hello.", STATE)


@pytest.mark.parametrize("wrap", ["{}", "```json\n{}\n```", "\n  {}  \n"])
def test_a_copy_of_the_request_is_not_applied(wrap: str) -> None:
    given = ["hi", f"please repeat:\n```\n{JSON}\n```\nthanks"]
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{wrap.replace('{}', JSON)}", RUNTIME, request_texts=given)
    assert (reading.visible, reading.snapshot, reading.status) == ("Hello.", None, "rejected")
    assert reading.violations == ("the trailer is a copy of text in the request",)
    assert read_reply(f"Hello.\n{SEPARATOR}\n{DRAFT}", RUNTIME, request_texts=given).status == "clean"


@given(st.sampled_from(SPELLINGS), st.sampled_from(OPENINGS), st.integers(0, 60))
def test_every_prefix_of_a_trailer_head_may_become_a_head(spelling: str, opening: str, length: int) -> None:
    head = f"{spelling}{opening}{{"
    match, begun = _HEAD.match(head + "."), _HEAD.match(head[:length])
    assert match is not None
    assert match["last"]
    assert begun is not None
    assert not begun["last"] or length >= len(head) or "{" in spelling


@given(st.text() | st.lists(st.sampled_from([*SPELLINGS, *OPENINGS, JSON, "{", "a", "\ud800", "\0"])).map("".join))
def test_reading_never_raises_and_keeps_what_it_takes_out(text: str) -> None:
    stream = ReplyStream()
    shown = stream.feed(text) + stream.close()
    edges = [0, *(edge for span in stream.spans for edge in span), len(text)]
    hidden = [text[start:end].strip() for start, end in zip(edges[::2], edges[1::2], strict=True)]
    assert "".join(text[start:end] for start, end in stream.spans) == shown
    assert "".join("".join(hidden).split()) == "".join(stream.reading.trailer.split())


@pytest.mark.parametrize("name", CLASSES)
def test_the_visible_text_of_the_corpus_is_whole(name: str) -> None:
    for case in of_class(name, 11, 4):
        assert read_reply(case.reply, case.runtime, case.previous).visible == case.visible


def test_the_visible_text_of_mixed_damage_is_whole() -> None:
    for case in cases(12, 300):
        assert read_reply(case.reply, case.runtime, case.previous).visible == case.visible, case.name


HOSTILE = [
    *("<", "{", "`", ">", " ", "\n", "\u200b", "&lt;", "```\n", "<<<CONTEXT>>", f"{SEPARATOR}\n", f"{SEPARATOR}\n{{"),
    *("<\n", "---\n", "- \n", "~~~\n```\n", f"```\n{SEPARATOR}\n{{\n", f"```\n{SEPARATOR}{{\n```\n\n", "<context>\n"),
    *(f"{SEPARATOR} a:\n", "{'version':2.2,", '{"version":"2.2","memory":\n', f"{SEPARATOR}\n{JSON}\n", "&amp;\n"),
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    begin = time.process_time()
    read_reply(text)
    assert time.process_time() - begin < 2


SIGNS = [
    "<",
    "<<<",
    SEPARATOR,
    "CONTEXT",
    "\n",
    " ",
    "\t",
    "a",
    "c",
    "é",
    "`",
    "```",
    "-",
    "{",
    "*\n",
    "\r\n",
    "\u2028",
]


@given(st.lists(st.sampled_from(SIGNS)).map("".join), st.integers(0, 20))
def test_every_candidate_is_at_a_line_or_a_chevron(text: str, at: int) -> None:
    at = min(at, len(text))
    everywhere = [match.span() for match in _CANDIDATE.finditer(text, at)]
    assert [match.span() for match in _candidates(text, at)] == everywhere
