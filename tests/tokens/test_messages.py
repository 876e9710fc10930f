"""Tokens of requests: published formulas hold exactly, and every part counts without being fetched."""

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.providers.openai_completions import COMPLETIONS
from ctxwrap.providers.openai_responses import RESPONSES
from ctxwrap.tokens import counter_for, message_tokens, messages_tokens
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.images import UNKNOWN_MODEL_IMAGE, Size, image_tokens, size_of_base64, size_of_url
from ctxwrap.tokens.messages import AUDIO, CLAUDE_TOOLS, PER_CALL, PER_MESSAGE, PER_PAGE, PER_REPLY, as_types
from ctxwrap.types import Body, Message

GPT = counter_for("gpt-4o")
ADAPTERS = {adapter.name: adapter for adapter in (CHAT, COMPLETIONS, MESSAGES, RESPONSES)}
WORDS = Counter("words", 0, lambda text: len(text.split()))
"""One token a word, so that numbers can be checked by hand."""

FERRY = [
    {"role": "system", "content": "You sell tickets for the ferry."},
    {"role": "user", "name": "ada", "content": "Two for tomorrow morning, please."},
    {"role": "assistant", "content": "The 7:40 or the 9:15?"},
]
BOOKING = {
    "name": "book",
    "description": "Books seats on a ferry",
    "parameters": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "A date, such as 2031-05-09"},
            "deck": {"type": "string", "enum": ["upper", "lower"]},
            "seats": {"type": "integer", "default": 1},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["day"],
    },
}
BOOKING_AS_TYPES = """# Tools

## functions

namespace functions {

// Books seats on a ferry
type book = (_: {
// A date, such as 2031-05-09
day: string,
deck?: "upper" | "lower",
seats?: number, // default: 1
names?: string[],
}) => any;


} // namespace functions"""


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o"])
def test_message_tokens_follow_openais_formula(model: str) -> None:
    """Three for each message, one for its role, its text, its name and one more for that; three for the reply."""
    tokens = (3 + 1 + 7) + (3 + 1 + 7 + 1 + 1) + (3 + 1 + 12) + 3
    count = counter_for(model).count
    assert [count(message["content"]) for message in FERRY] == [7, 7, 12]
    assert count("ada") == 1
    assert CHAT.request_tokens({"model": model, "messages": FERRY}, counter_for(model)) == tokens


def test_tools_count_in_the_form_that_models_see() -> None:
    assert as_types([{"type": "function", "function": BOOKING}]) == BOOKING_AS_TYPES
    tokens = GPT.count(BOOKING_AS_TYPES)
    bare = CHAT.request_tokens({"messages": FERRY}, GPT)
    for tools in ({"tools": [{"type": "function", "function": BOOKING}]}, {"functions": [BOOKING]}):
        assert CHAT.request_tokens({"messages": FERRY, **tools}, GPT) == bare + tokens
    assert tokens < GPT.count(json.dumps(BOOKING))


def test_message_formula_by_hand() -> None:
    """3 for each message, its role, its text, its name and 1 for that; 3 for the reply."""
    body = {
        "messages": [
            {"role": "user", "content": "one two three", "name": "ada"},
            {"role": "assistant", "content": "four"},
        ]
    }
    assert CHAT.request_tokens(body, WORDS) == (3 + 1 + 3 + 1 + 1) + (3 + 1 + 1) + 3
    messages = [Message("user", "one two three", "ada"), Message("assistant", "four")]
    assert messages_tokens(messages, WORDS) == 17
    assert message_tokens(messages[1], WORDS) == 5


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5"])
def test_logged_messages_and_request_have_equal_counts(model: str) -> None:
    counter = counter_for(model)
    messages: list[Body] = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": PNG}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"},
    ]
    body = {"model": model, "messages": messages}
    assert messages_tokens(CHAT.read(body).messages, counter, model) == CHAT.request_tokens(body, counter)


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}


def test_tool_calls_and_results_count_in_every_api() -> None:
    arguments = '{"city":"Oslo"}'
    call = PER_CALL + GPT.count("weather") + GPT.count(arguments)
    result = PER_CALL + GPT.count("12 degrees")
    asked = PER_REPLY + PER_MESSAGE + 1 + GPT.count("How warm?")
    bodies: dict[str, tuple[Body, int]] = {
        "openai_chat": (
            {
                "messages": [
                    {"role": "user", "content": "How warm?"},
                    {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
                    {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"},
                ]
            },
            asked + PER_MESSAGE + 1 + call + PER_MESSAGE + 1 + GPT.count("12 degrees"),
        ),
        "openai_responses": (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_text", "text": "How warm?"}]},
                    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": arguments},
                    {"type": "function_call_output", "call_id": "c1", "output": "12 degrees"},
                ]
            },
            asked + call + result,
        ),
        "anthropic_messages": (
            {
                "messages": [
                    {"role": "user", "content": "How warm?"},
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}],
                    },
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "c1",
                                "content": [{"type": "text", "text": "12 degrees"}],
                            }
                        ],
                    },
                ]
            },
            asked + PER_MESSAGE + 1 + call + PER_MESSAGE + 1 + result,
        ),
    }
    for name, (body, tokens) in bodies.items():
        assert ADAPTERS[name].request_tokens(body, GPT) == tokens, name


def test_system_prompt_and_schema_count() -> None:
    said = [{"role": "user", "content": "Hi"}]
    bare = PER_REPLY + PER_MESSAGE + 1 + 1
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    tokens = GPT.count(json.dumps(schema, separators=(",", ":")))
    assert CHAT.request_tokens({"messages": said}, GPT) == bare
    assert CHAT.request_tokens({"messages": said, "response_format": schema}, GPT) == bare + tokens
    assert CHAT.request_tokens({"messages": said, "response_format": {"type": "text"}}, GPT) == bare
    assert RESPONSES.request_tokens({"input": "Hi"}, GPT) == bare
    assert RESPONSES.request_tokens({"input": "Hi", "instructions": "Be brief."}, GPT) == bare + 4 + 3
    assert RESPONSES.request_tokens({"input": "Hi", "text": {"format": schema}}, GPT) == bare + tokens
    assert MESSAGES.request_tokens({"messages": said, "system": "Be brief."}, GPT) == bare + 3 + 3
    blocks = [{"type": "text", "text": "Be brief."}]
    assert MESSAGES.request_tokens({"messages": said, "system": blocks}, GPT) == bare + 3 + 3
    claude = {
        "model": "claude-sonnet-4-5",
        "messages": said,
        "tools": [{"name": "x", "input_schema": {"type": "object"}}],
    }
    assert CLAUDE_TOOLS < MESSAGES.request_tokens(claude, GPT) < CLAUDE_TOOLS + 60


def test_completions_prompts_count() -> None:
    prompts = ["one two", ["one", "one two three"], [1, 2, 3, 4], [[1, 2], [3]], None, []]
    assert [COMPLETIONS.request_tokens({"prompt": prompt}, WORDS) for prompt in prompts] == [2, 3, 4, 2, 0, 0]
    assert COMPLETIONS.request_tokens({"prompt": "one", "suffix": "two"}, WORDS) == 2


def png(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + head + struct.pack(">I", zlib.crc32(head)) + b"rest" * 50


def jpeg(width: int, height: int, before: int) -> bytes:
    segment = b"\xff\xe1" + struct.pack(">H", before + 2) + b"\xff\xc0" * (before // 2)
    return b"\xff\xd8" + segment * 3 + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\3" * 40


def webp(kind: bytes, width: int, height: int) -> bytes:
    sizes = {
        b"VP8X": b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"VP8L": b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little"),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + sizes[kind] + b"rest" * 9


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


PNG = "data:image/png;base64," + encoded(png(1024, 1024))
PICTURES = {
    "png": png(1024, 700),
    "gif": b"GIF89a" + struct.pack("<HH", 1024, 700) + b"rest" * 9,
    "webp": webp(b"VP8X", 1024, 700),
    "webp without loss": webp(b"VP8L", 1024, 700),
    "webp with loss": webp(b"VP8 ", 1024, 700),
    "jpeg": jpeg(1024, 700, 16),
    "jpeg behind much else": jpeg(1024, 700, 60_000),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_image_size_is_read_from_the_header(kind: str) -> None:
    assert size_of_base64(encoded(PICTURES[kind])) == (1024, 700)
    assert size_of_url(f"data:image/x;base64,{encoded(PICTURES[kind])}") == (1024, 700)
    for length in range(0, 60, 7):
        size_of_base64(encoded(PICTURES[kind])[:length])


@pytest.mark.parametrize(
    "url",
    ["", "https://example.org/a.png", "data:image/png;base64,", "data:image/png,abc", "data:x;base64,!!!!", "data:"],
)
def test_other_data_has_no_image_size(url: str) -> None:
    assert size_of_url(url) is None


@given(
    st.binary(max_size=80)
    | st.sampled_from([b"\xff\xd8" + b"\xff\xe0\0\2" * 500, b"\xff\xd8\xff\xe0\0\0" * 99, png(0, 5)])
)
def test_image_size_of_any_data_raises_nothing(data: bytes) -> None:
    for start in (b"", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"\x89PNG\r\n\x1a\n"):
        size = size_of_base64(encoded(start + data))
        assert size is None or min(size) > 0
    size_of_base64(data.decode("latin-1"))


@pytest.mark.parametrize(
    ("model", "size", "detail", "tokens"),
    [
        ("gpt-4o", (1024, 1024), "high", 765),
        ("gpt-4o", (2048, 4096), "high", 1105),
        ("gpt-4o", (4096, 8192), "low", 85),
        ("gpt-4o", (512, 512), "auto", 255),
        ("gpt-4o", None, "auto", 85 + 8 * 170),
        ("openai/gpt-4o-mini", (1024, 1024), "auto", 2833 + 4 * 5667),
        ("o3", (1024, 1024), "auto", 75 + 4 * 150),
        ("gpt-5", (1024, 1024), "auto", 70 + 4 * 140),
        ("gpt-4.1-mini", (1024, 1024), "auto", 1659),
        ("gpt-4.1-mini", (4000, 1474), "auto", 2489),
        ("gpt-5.4", (1920, 1080), "auto", 2448),
        ("gpt-5.4", (256, 256), "auto", 77),
        ("claude-sonnet-4-5", (1000, 1000), "auto", 1334),
        ("claude-sonnet-4-5", (200, 200), "auto", 64),
        ("claude-sonnet-4-5", (6000, 4000), "auto", 1600),
        ("claude-opus-4-7", (6000, 4000), "auto", 4784),
        ("claude-opus-4-7", None, "auto", 4784),
        ("some-model", (5, 5), "auto", UNKNOWN_MODEL_IMAGE),
    ],
)
def test_image_tokens_follow_the_guides(model: str, size: tuple[int, int] | None, detail: str, tokens: int) -> None:
    assert image_tokens(model, Size(*size) if size else None, detail) == tokens


@given(st.integers(1, 100_000), st.integers(1, 100_000), st.sampled_from(["gpt-4o", "o4-mini", "gpt-5.4", "claude-3"]))
def test_image_tokens_are_positive_and_bounded(width: int, height: int, model: str) -> None:
    assert 0 < image_tokens(model, Size(width, height)) <= 12_000


def test_images_audio_and_files_count_in_every_api() -> None:
    data, url = encoded(png(1024, 1024)), "https://example.org/a.png"
    parts: dict[str, list[tuple[Body, int]]] = {
        "openai_chat": [
            ({"type": "image_url", "image_url": {"url": PNG}}, 765),
            ({"type": "image_url", "image_url": {"url": url, "detail": "low"}}, 85),
            ({"type": "image_url", "image_url": PNG}, 765),
            ({"type": "input_audio", "input_audio": {"data": "A" * 640_000, "format": "mp3"}}, 300),
            ({"type": "input_audio", "input_audio": {}}, AUDIO),
            ({"type": "file", "file": {"file_id": "f"}}, PER_PAGE),
            ({"type": "file", "file": {"file_data": "data:application/pdf;base64," + "A" * 400_000}}, 4 * PER_PAGE),
        ],
        "openai_responses": [
            ({"type": "input_image", "image_url": PNG}, 765),
            ({"type": "input_image", "image_url": PNG, "detail": "low"}, 85),
            ({"type": "input_image", "file_id": "f"}, 1445),
            ({"type": "input_file", "file_id": "f"}, PER_PAGE),
        ],
        "anthropic_messages": [
            ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}, 765),
            ({"type": "image", "source": {"type": "url", "url": url}}, 1445),
            ({"type": "document", "source": {"type": "base64", "data": "A" * 100}}, PER_PAGE),
            ({"type": "document", "source": {"type": "text", "data": "Hi"}}, 1),
            ({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Hi"}]}}, 1),
            ({"type": "thinking", "thinking": "Hi", "signature": "x" * 999}, 1),
            ({"type": "redacted_thinking", "data": "x" * 600}, 100),
        ],
    }
    framing = PER_REPLY + PER_MESSAGE + 1
    for name, given_parts in parts.items():
        for part, tokens in given_parts:
            key = "input" if name == "openai_responses" else "messages"
            body = {"model": "gpt-4o", key: [{"role": "user", "content": [part]}]}
            assert ADAPTERS[name].request_tokens(body, GPT) == framing + tokens, part


def test_data_urls_in_unknown_fields_do_not_count_as_text() -> None:
    part = {"type": "screenshot", "picture": "data:image/png;base64," + "A" * 1_000_000}
    assert CHAT.request_tokens({"messages": [{"role": "user", "content": [part]}]}, GPT) < 100


def test_tools_of_any_kind_are_counted() -> None:
    nested = {
        "type": "object",
        "properties": {
            "orders": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "size": {"type": "integer", "default": 5},
        },
    }
    tools: list[Any] = [
        {"type": "function", "name": "buy", "parameters": nested},
        {"type": "function", "function": {"name": "nothing"}},
        {"type": "web_search", "user_location": {"country": "NO"}},
        {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "properties": {"a": True}}}},
        "broken",
        {"type": "function", "function": 5},
    ]
    bare = RESPONSES.request_tokens({"input": "Hi"}, GPT)
    sizes = [RESPONSES.request_tokens({"input": "Hi", "tools": tools[:number]}, GPT) for number in range(7)]
    assert sizes[0] == bare
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 7
    assert sizes[-1] < bare + GPT.count(json.dumps(tools)) + 30


NAMES = """role content type text image_url source url data input output tool_calls function name arguments tools
parameters properties messages system prompt instructions detail"""
KINDS = """text image_url image input_image file document tool_use tool_result reasoning function function_call
input_audio thinking redacted_thinking user data:image/png;base64,iVBORw0KGgo="""
names, kinds = (st.sampled_from(words.split()) for words in (NAMES, KINDS))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | kinds,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(names, values, max_size=6))
def test_counting_any_body_raises_nothing(body: Body) -> None:
    for adapter in ADAPTERS.values():
        assert adapter.request_tokens(body, WORDS) >= 0
    assert messages_tokens([Message("user", [body])], WORDS) >= PER_REPLY
