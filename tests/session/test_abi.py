"""The Context Runtime ABI: what follows it is taken, what does not is named, and nothing makes the check fail."""

import json
import unicodedata
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import openai
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.session.abi import (
    EVENT_TYPES,
    OWN_EVENT_TYPES,
    PROVIDER_NATIVE,
    RECORDS,
    ROLES,
    STATES,
    ControlName,
    Issue,
    IssueKind,
    RecordKind,
    blob_name,
    budget_in,
    control_issues,
    event_issues,
    is_legal_name,
    legal_name,
    message_issues,
    pack_issues,
    record_issues,
    source_issue,
)
from ctxwrap.stores.log_format import as_record
from ctxwrap.testing.practice import Answer, Ask, Provider
from ctxwrap.types import Message
from tests.support import trailer


def lines(*records: Any) -> str:
    """Records as a stream; a text stands for itself."""
    return "".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records)


def invalid(at: int, field: str, value: str) -> Issue:
    return Issue("invalid field", at, field, value)


# -- names


@pytest.mark.parametrize("name", ["a", "7", "Night-shift_2", "notes.v1+draft", "x" * 64, "a.dd", "sock", "d", "con"])
def test_legal_ids_become_names_unchanged(name: str) -> None:
    assert is_legal_name(name)
    assert legal_name(name) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".hidden",
        "-flag",
        "_x",
        "+1",
        "x" * 65,
        "two words",
        "a/b",
        "..",
        "run.sock",
        "conf.d",
        "é",
        "a\n",
        "٣",
        "\u212a",
    ],
)
def test_illegal_ids_are_mapped_to_legal_names(text: str) -> None:
    assert not is_legal_name(text)
    assert is_legal_name(legal_name(text))


def test_mapped_names_stay_readable() -> None:
    assert legal_name("Billing / Q3 report").startswith("billing-q3-report+")


IDS = (
    st.text(st.characters())
    | st.text(alphabet="aA.+-é/ d", max_size=5)
    | st.from_regex(r"[\w.+-]{1,70}", fullmatch=True)
)


@given(IDS)
def test_names_are_legal_and_mapping_is_idempotent(text: str) -> None:
    name = legal_name(text)
    assert is_legal_name(name)
    assert legal_name(name) == name
    assert is_legal_name(text) == (name == text)


@given(IDS, IDS)
def test_different_ids_have_different_names(one: str, other: str) -> None:
    assume(one != other)
    assume(one != legal_name(other) and other != legal_name(one))
    assert legal_name(one) != legal_name(other)


@given(IDS)
@example("Straße")
@example("ﬁle one")
@example("İstanbul")
def test_mapped_ids_differ_on_case_insensitive_file_systems(text: str) -> None:
    forms = {text, text.lower(), text.upper(), text.casefold()}
    forms |= {unicodedata.normalize(form, each) for form in ("NFC", "NFD", "NFKC", "NFKD") for each in tuple(forms)}
    mapped = [legal_name(each) for each in forms if not is_legal_name(each)]
    folded = {unicodedata.normalize("NFKC", name).casefold() for name in mapped}
    assert len(folded) == len(mapped)


@given(st.binary())
def test_a_blob_has_a_legal_name_and_its_whole_digest(data: bytes) -> None:
    name, digest = blob_name(data)
    assert is_legal_name(name)
    assert digest == f"sha256:{sha256(data).hexdigest()}"
    assert name == digest.replace(":", "-")[: len("sha256-") + 56]
    entry = {"id": name, "kind": "file", "source": f"context/swap/chunk/{name}", "summary": "a file", "tokens": 1}
    assert record_issues("swap_index", lines(entry)) == ()


def test_a_whole_digest_is_too_long_for_a_name() -> None:
    assert not is_legal_name(f"sha256-{'0' * 64}")


# -- sources of a pack


@pytest.mark.parametrize(
    "source",
    [
        "messages.jsonl",
        "latest.md",
        "context/decisions.jsonl",
        "context/todo.md",
        "context/plan.json",
        "context/pinned/house-rules.md",
        "context/swap/index.jsonl",
        "context/swap/chunk/sha256-77aa",
        "context/dedup/blob/sha256-77aa",
        "context/child/audit-9/handoff.md",
        "context/child/audit-9/result.md",
        "context/child/audit-9/refs.jsonl",
        "context/child/audit-9/artifact/findings.csv",
    ],
)
def test_sources_within_the_session_are_accepted(source: str) -> None:
    assert source_issue(source) is None


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("", "empty"),
        ("/srv/home/ada/agent/cook/session/lunch/messages.jsonl", "absolute"),
        ("context//todo.md", "empty component"),
        ("context/", "empty component"),
        ("./messages.jsonl", "dot component"),
        ("../dinner/messages.jsonl", "parent component"),
        ("context/pinned/../../../dinner/state", "parent component"),
        ("agent/cook/messages.jsonl", "unsupported session path"),
        ("passwords.txt", "unsupported session path"),
        ("context/passwords.txt", "unsupported session path"),
        ("context/pinned/two words.md", "unsupported session path"),
        ("context/pinned/deep/rules.md", "unsupported session path"),
        ("context/swap/blob/sha256-77aa", "unsupported session path"),
        ("context/swap/chunk/bad name", "unsupported session path"),
        ("context/todo.md\n", "unsupported session path"),
        ("context/child", "unsupported child path"),
        ("context/child/audit-9", "unsupported child path"),
        ("context/child/audit-9/messages.jsonl", "unsupported child path"),
        ("context/child/.audit/result.md", "unsupported child path"),
        ("context/child/audit-9/artifact/a/b", "unsupported child path"),
    ],
)
def test_sources_outside_the_session_are_refused_with_a_reason(source: str, fault: str) -> None:
    assert source_issue(source) == fault


@given(
    st.lists(st.sampled_from(["context", "child", "artifact", "pinned", "swap", "chunk", "a", "state", "", ".", ".."]))
)
def test_accepted_sources_stay_within_the_session(parts: list[str]) -> None:
    if source_issue("/".join(parts)) is None:
        assert not {"", ".", ".."} & set(parts)


# -- messages

SAID: list[Any] = [
    {"role": "system", "content": "Answer in one sentence."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Which bread is this?"}, {"type": "image", "path": "rye.png"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Rye, by its crumb."}]},
    {"role": "tool", "content": [{"type": "tool_result", "tool_call_id": "weigh-4", "content": "812 g"}]},
    {
        "role": "tool",
        "content": [{"type": "tool_result", "tool_call_id": "w", "content": [{"type": "text", "text": "x"}]}],
    },
]


@pytest.mark.parametrize("strict", [True, False])
def test_valid_abi_messages_are_accepted(strict: bool) -> None:
    assert message_issues(lines(*SAID), strict=strict) == ()
    assert message_issues("", strict=strict) == ()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("check", [message_issues, event_issues])
def test_a_stream_ends_with_a_line_feed(check: Callable[..., tuple[Issue, ...]], strict: bool) -> None:
    both = {"role": "user", "content": "and", "type": "start", "run": "t-1"}
    assert check(lines(both, both).removesuffix("\n"), strict=strict) == (Issue("missing final newline", 2),)


BAD_MESSAGES: list[tuple[Any, Issue]] = [
    ("a line that is no JSON", Issue("invalid json")),
    (["user", "hello"], Issue("message not object")),
    ({"content": "nobody said this"}, Issue("missing role")),
    ({"role": 3, "content": "nobody said this"}, Issue("missing role")),
    ({"role": "developer", "content": "Be terse."}, Issue("invalid role", value="developer")),
    ({"role": "user", "conversation_id": "c-88", "content": "hi"},
     Issue("provider native field", field="conversation_id")),
    ({"role": "user", "content": [{"type": "text", "text": "hi", "native_state": {}}]},
     Issue("provider native field", field="native_state")),
    ({"role": "user"}, Issue("missing content")),
    ({"role": "user", "content": None}, Issue("missing content")),
    ({"role": "user", "content": 7}, Issue("invalid content")),
    ({"role": "user", "content": {"type": "text", "text": "bare"}}, Issue("invalid content")),
    ({"role": "user", "content": ["bare"]}, Issue("invalid content")),
    ({"role": "user", "content": [{"text": "of no type"}]}, Issue("invalid content")),
    ('{"role":"user","content":[{"type":"text","text":"yes","text":"no"}]}', Issue("invalid content")),
    ('{"role":"user","role":"system","content":"who is it?"}', Issue("invalid json")),
    ('{"role":"user","content":"x","ctx":{"seq":1,"seq":2}}', Issue("invalid json")),
    ('{"role":"user","content":"x","ctx":{"tokens":NaN}}', Issue("invalid json")),
    ('{"role":"user","content":"x","ctx":{"tokens":1e999}}', Issue("invalid json")),
]  # fmt: skip

STRICTLY_BAD: list[Any] = [
    [{"type": "hologram", "data": "…"}],
    [{"type": "text"}],
    [{"type": "image", "path": 1}],
    [{"type": "tool_result", "content": "of no call"}],
    [{"type": "tool_result", "tool_call_id": "c", "content": {}}],
    [{"type": "tool_result", "tool_call_id": "c", "content": [{"type": "hologram"}]}],
    [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}],
]


@pytest.mark.parametrize("strict", [True, False])
def test_invalid_messages_are_reported_with_their_line(strict: bool) -> None:
    text = lines(SAID[0], *(record for record, _ in BAD_MESSAGES))
    expected = [issue._replace(at=number) for number, (_, issue) in enumerate(BAD_MESSAGES, 2)]
    assert list(message_issues(text, strict=strict)) == expected


@pytest.mark.parametrize("content", STRICTLY_BAD, ids=str)
def test_unknown_message_parts_are_accepted_as_callers_send_them(content: Any) -> None:
    text = lines({"role": "user", "content": content})
    assert message_issues(text, strict=True) == (Issue("invalid content", 1),)
    assert message_issues(text) == ()


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", sorted(PROVIDER_NATIVE))
def test_provider_fields_are_reported_everywhere_except_in_ctx_and_extra(name: str, strict: bool) -> None:
    part = {"type": "text", "text": "hi", "meta": [{"deep": {name: 1}}]}
    found = {"role": "user", "content": [part], name: 2}
    issue = Issue("provider native field", 1, name)
    assert message_issues(lines(found), strict=strict) == (issue, issue)
    kept = {"role": "user", "content": "hi", "ctx": {name: 1}, "extra": {"of_the_caller": {name: 2}}}
    assert message_issues(lines(kept), strict=strict) == ()


def test_tool_arguments_are_not_reported_as_provider_fields() -> None:
    text = lines({"role": "assistant", "content": [{"type": "mcp_tool_use", "input": {"thread_id": "mail-7"}}]})
    assert message_issues(text) == ()
    assert Issue("provider native field", 1, "thread_id") in message_issues(text, strict=True)


def test_only_a_line_feed_ends_a_line() -> None:
    said = "one\u2028two\u2029three\x85four"
    text = json.dumps({"role": "user", "content": said}, ensure_ascii=False)
    assert message_issues(f"{text}\r\n\n \t\n{text}\n", strict=True) == ()


def test_undecodable_bytes_make_only_their_line_invalid() -> None:
    data = lines(SAID[0]).encode() + b'{"role":"user","content":"\xff"}\n' + lines(SAID[2]).encode()
    assert message_issues(data.decode("utf-8", "surrogateescape")) == (Issue("invalid json", 2),)


def test_a_lone_surrogate_is_kept_as_an_escape() -> None:
    assert message_issues('{"role":"user","content":"\\ud83d"}\n') == ()


@given(st.sampled_from(sorted(ROLES)), st.text() | st.lists(st.fixed_dictionaries({"type": st.text()}), min_size=1))
def test_messages_written_by_the_log_are_valid_abi_messages(role: Any, content: Any) -> None:
    call = {"id": "c-1", "name": "weigh", "arguments": '{"thread_id": 1}'}
    message = Message(role, content, "ada", (call,), "c-0", {"response_id": "from the caller"})
    assert message_issues(lines(as_record(message, seq=1, turn="t-1"))) == ()


# -- events


@pytest.mark.parametrize("strict", [True, False])
def test_valid_abi_events_are_accepted(strict: bool) -> None:
    run = [
        {"type": "start", "run": "t-5", "model": "practice/oven"},
        {"type": "delta", "run": "t-5", "text": "Bak"},
        {"type": "reasoning_delta", "run": "t-5", "text": "is it done?"},
        {"type": "reasoning_message", "run": "t-5", "content": "it is"},
        {"type": "message", "run": "t-5", "role": "assistant", "content": [{"type": "text", "text": "Baked."}]},
        {"type": "tool_call", "run": "t-5", "id": "weigh-4", "name": "scale.read", "arguments": {"unit": "g"}},
        {"type": "approval_request", "run": "t-5", "id": "heat-1", "name": "oven.heat", "args": ["220", "fan"]},
        {"type": "approval_result", "run": "t-5", "id": "heat-1", "name": "oven.heat", "decision": "deny",
         "reason": "hot"},
        {"type": "usage", "run": "t-5", "input_tokens": 31, "output_tokens": 0, "cached_tokens": 2,
         "cache_write_tokens": 9},
        {"type": "usage", "run": "t-5", "input_tokens": 2**64 - 1, "output_tokens": 0},
        {"type": "done", "run": "t-5", "status": "ok"},
        {"type": "error", "run": "t-6", "code": "EAGAIN", "message": "the oven is busy"},
        {"type": "done", "run": "t-6", "status": "error"},
        {"type": "done", "run": "t-7", "status": "cancelled"},
        {"type": "agent.child.cancel", "parent": "cook", "child": "audit-9", "reason": "parent_dead"},
        {"type": "agent.stop", "agent": "audit-9", "status": "cancelled"},
    ]  # fmt: skip
    assert event_issues(lines(*run), strict=strict) == ()


BAD_EVENTS: list[tuple[Any, IssueKind]] = [
    ("{'type': 'start'}", "invalid json"),
    ('{"type":"start","run":"t","run":"u"}', "invalid json"),
    ('{"type":"start","run":"t","deep":[{"a":1,"a":1}]}', "invalid json"),
    (["start"], "event not object"),
    ("null", "event not object"),
    ({"run": "t-5"}, "missing type"),
    ({"type": ["start"], "run": "t-5"}, "missing type"),
    ({"type": "done", "status": "ok"}, "missing run"),
    ({"type": "delta", "run": None}, "missing run"),
    ({"type": "error", "run": "t-5", "code": "OVEN_COLD"}, "invalid error code"),
    ({"type": "error", "run": "t-5", "code": ["EIO"]}, "invalid error code"),
    ({"type": "error", "run": "t-5"}, "invalid error code"),
    ({"type": "done", "run": "t-5", "status": "perhaps"}, "invalid done status"),
    ({"type": "done", "run": "t-5", "status": {}}, "invalid done status"),
    ({"type": "usage", "run": "t-5", "input_tokens": 4, "output_tokens": 4, "cached_tokens": "3"}, "invalid usage"),
    ({"type": "usage", "run": "t-5", "input_tokens": 4}, "invalid usage"),
    ({"type": "usage", "run": "t-5", "input_tokens": -1, "output_tokens": 4}, "invalid usage"),
    ({"type": "usage", "run": "t-5", "input_tokens": True, "output_tokens": 4}, "invalid usage"),
    ({"type": "usage", "run": "t-5", "input_tokens": 2**64, "output_tokens": 4}, "invalid usage"),
    ({"type": "usage", "run": "t-5", "input_tokens": 4.0, "output_tokens": 4}, "invalid usage"),
    ({"type": "tool_call", "run": "t-5", "id": "weigh/4", "name": "scale.read"}, "invalid tool call"),
    ({"type": "tool_call", "run": "t-5", "id": "weigh-4"}, "invalid tool call"),
    ({"type": "approval_request", "run": "t-5", "id": "h", "name": "heat"}, "invalid approval"),
    ({"type": "approval_request", "run": "t-5", "id": "h", "name": "heat up", "args": []}, "invalid approval"),
    ({"type": "approval_request", "run": "t-5", "id": "h", "name": "heat", "args": ["220", 3]}, "invalid approval"),
    ({"type": "approval_result", "run": "t", "id": "h", "name": "heat", "decision": "forever", "reason": "y"},
     "invalid approval"),
    ({"type": "approval_result", "run": "t", "id": "h", "name": "heat", "decision": "deny", "reason": ""},
     "invalid approval"),
    ({"type": "agent.child.cancel", "parent": "the cook", "child": "audit-9", "reason": "parent_dead"},
     "invalid agent lifecycle"),
    ({"type": "agent.child.cancel", "parent": "cook", "child": "audit-9", "reason": "bored"},
     "invalid agent lifecycle"),
    ({"type": "agent.stop", "agent": "audit-9", "status": "asleep"}, "invalid agent lifecycle"),
]  # fmt: skip


@pytest.mark.parametrize("strict", [True, False])
def test_invalid_events_are_reported_with_their_line(strict: bool) -> None:
    text = lines(*(record for record, _ in BAD_EVENTS))
    assert list(event_issues(text, strict=strict)) == [Issue(kind, at) for at, (_, kind) in enumerate(BAD_EVENTS, 1)]


def test_provider_ids_are_allowed_only_in_events_of_ctxwrap() -> None:
    text = lines(
        {"type": "done", "run": "t-5", "status": "ok", "response_id": "r-1", "usage": {"prompt_tokens": 9}},
        {"type": "openai_thread", "run": "t-5", "thread_id": "th-2"},
        {"type": "message", "run": "t-5", "content": [{"type": "text", "text": "x", "gemini_response_id": "g"}]},
        {"type": "start", "run": "t-5", "native_thread": {}},
    )
    native: IssueKind = "provider native field"
    assert event_issues(text, strict=True) == (
        Issue(native, 1, "response_id"),
        Issue(native, 2, "thread_id"),
        Issue("unknown type", 2, value="openai_thread"),
        Issue(native, 3, "gemini_response_id"),
        Issue(native, 4, "native_thread"),
    )
    assert event_issues(text) == (Issue("unknown type", 2, value="openai_thread"), Issue(native, 4, "native_thread"))


@pytest.mark.parametrize("kind", sorted(OWN_EVENT_TYPES))
def test_ctxwrap_event_types_are_unknown_to_the_strict_check(kind: str) -> None:
    assert kind not in EVENT_TYPES
    text = lines({"type": kind, "run": "t-5", "ctx": {"turn": "t-5"}})
    assert event_issues(text) == ()
    assert event_issues(text, strict=True) == (Issue("unknown type", 1, value=kind),)


def test_events_written_by_ctxwrap_are_accepted(provider: Provider, home: Path) -> None:
    def answer(ask: Ask) -> Answer:
        return Answer(f"Rye.{trailer(ask)}" if "again" not in ask.messages[-1][1] else "Rye. {")

    provider.answer = answer
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, session="Bread / 1", store=home)
    picture: Any = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "http://x/y.png"}},
    ]
    for content in ("hello", picture, "say it again"):
        said: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": content}]
        client.chat.completions.create(model="m", messages=said, n=2)
    ctxwrap.forget("Bread / 1", item="w-1", store=home)
    ctxwrap.purge("Bread / 1", message=2, store=home)
    (meta,) = home.glob("home/*/agent/*/session/*/meta.json")
    directory = meta.parent
    assert is_legal_name(directory.name)
    messages, events = ((directory / f"{stream}.jsonl").read_text("utf-8") for stream in ("messages", "events"))
    assert message_issues(messages) == event_issues(events) == ()
    assert {json.loads(line)["type"] for line in events.splitlines()} >= {
        "start",
        "snapshot",
        "choice",
        "done",
        "purge",
    }
    assert control_issues("meta.json", (directory / "meta.json").read_text("utf-8")) == ()


# -- records

GOOD_RECORDS: list[tuple[RecordKind, Any]] = [
    ("facts", {"id": "oven-1", "text": "The oven runs hot.", "source": "messages:3-9"}),
    ("facts", {"id": "oven-2", "text": "Le four est à gaz ☕", "source": "user:latest", "of_ours": [1]}),
    ("decisions", {"id": "flour", "decision": "We buy rye only.", "source": "user:latest"}),
    ("refs", {"id": "recipe", "path": "/home/ada/rye.md", "kind": "file", "summary": "how it is baked"}),
    ("refs", {"id": "old", "path": "context/swap/chunk/sha256-77aa", "kind": "swap", "summary": "how it was baked"}),
    ("swap_index", {"id": "sha256-77aa", "kind": "message_range", "source": "messages.jsonl", "range": "1-80",
                    "summary": "first attempts", "tokens": 9100}),
    ("swap_index", {"id": "sha256_77ab", "kind": "tool_output", "source": "events.jsonl", "summary": "scale",
                    "tokens": 0}),
    ("swap_index", {"id": "sha256.77ac", "kind": "file", "source": "context/dedup/blob/sha256-77ac",
                    "summary": "recipe", "tokens": 5}),
    ("dedup_index", {"hash": "sha256-77aa", "refs": ["messages:1-80", "swap:attempts"], "bytes": 40000,
                     "tokens": 9100}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "record"), GOOD_RECORDS)
def test_valid_abi_records_are_accepted(kind: RecordKind, record: Any) -> None:
    assert record_issues(kind, lines(record)) == ()
    assert record_issues(kind, lines(record).removesuffix("\n")) == ()


STRING: IssueKind = "missing string field"


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("facts", [(STRING, "id"), (STRING, "text"), (STRING, "source")]),
        ("decisions", [(STRING, "id"), (STRING, "decision"), (STRING, "source")]),
        ("refs", [(STRING, "id"), (STRING, "path"), (STRING, "kind"), (STRING, "summary")]),
        (
            "swap_index",
            [
                (STRING, "id"),
                (STRING, "kind"),
                (STRING, "source"),
                (STRING, "summary"),
                ("missing number field", "tokens"),
            ],
        ),
        (
            "dedup_index",
            [
                (STRING, "hash"),
                ("missing string array field", "refs"),
                ("missing number field", "bytes"),
                ("missing number field", "tokens"),
            ],
        ),
    ],
)
def test_missing_fields_are_reported_in_order(kind: RecordKind, missing: list[tuple[RecordKind, str]]) -> None:
    expected = tuple(Issue(issue, 1, field) for issue, field in missing)
    assert record_issues(kind, "{}\n") == expected
    assert record_issues(kind, lines({field: {} for field in RECORDS[kind]})) == expected


def test_record_stream_is_checked_to_its_end() -> None:
    text = lines("oven", ["oven"], '{"id":"a","text":"b","source":"c"} and more', {"id": "o/v", "text": "hot"}, *"\n\n")
    assert record_issues("facts", text) == (
        Issue("invalid json", 1),
        Issue("record not object", 2),
        Issue("invalid json", 3),
        invalid(4, "id", "o/v"),
        Issue("missing string field", 4, "source"),
    )


def test_duplicate_json_keys_are_invalid() -> None:
    assert record_issues("facts", '{"id":"a","text":"b","id":"z","source":"c"}\n') == (Issue("invalid json", 1),)


@pytest.mark.parametrize(
    ("kind", "record", "issues"),
    [
        ("refs", {"id": "r", "path": "a/../../keys", "kind": "chat_thread", "summary": "s"},
         [invalid(1, "path", "a/../../keys"), invalid(1, "kind", "chat_thread")]),
        ("refs", {"id": "r", "path": "context/\x07bell.md", "kind": "file", "summary": "s"},
         [invalid(1, "path", "context/\x07bell.md")]),
        ("refs", {"id": "r", "path": "./a", "kind": "file", "summary": "two\nlines"},
         [invalid(1, "path", "./a"), invalid(1, "summary", "two\nlines")]),
        ("facts", {"id": "f", "text": "", "source": "\x7f"}, [invalid(1, "text", ""), invalid(1, "source", "\x7f")]),
        ("swap_index", {"id": "77aa", "kind": "swap", "source": "state", "summary": "s", "tokens": 1.5},
         [invalid(1, "id", "77aa"), invalid(1, "kind", "swap"), invalid(1, "source", "state"),
          Issue("missing number field", 1, "tokens")]),
        ("swap_index", {"id": "sha256-7", "kind": "file", "source": "context/child/a/messages.jsonl", "summary": "s",
                        "tokens": 1}, [invalid(1, "source", "context/child/a/messages.jsonl")]),
        ("dedup_index", {"hash": "crc-12", "refs": [], "bytes": "40", "tokens": 1},
         [invalid(1, "hash", "crc-12"), Issue("missing string array field", 1, "refs"),
          Issue("missing number field", 1, "bytes")]),
        ("dedup_index", {"hash": "sha256-7", "refs": ["a", "b\tc", ""], "bytes": 1, "tokens": 1},
         [invalid(1, "refs", "b\tc"), invalid(1, "refs", "")]),
        ("dedup_index", {"hash": "sha256-7", "refs": ["a", 1], "bytes": 1, "tokens": 1},
         [Issue("missing string array field", 1, "refs")]),
    ],
)  # fmt: skip
def test_malformed_fields_are_reported_with_their_values(kind: RecordKind, record: Any, issues: list[Issue]) -> None:
    assert list(record_issues(kind, lines(record))) == issues


# -- the small files

GOOD_CONTROL: list[tuple[ControlName, str]] = [
    *(("state", f"{state}\n") for state in sorted(STATES)),
    ("state", "idle"),
    ("cwd", "/home/ada/bakery\n"),
    ("cwd", "/\n"),
    ("cwd", "/home/ada/two words\n"),
    ("created_at", "2026-02-20T18:30:00.000000Z\n"),
    ("updated_at", "2026-02-20T18:30:00+01:00\n"),
    ("updated_at", "1771612200\n"),
    ("meta.json", '{"client":"bakery","model":"practice/oven:2","scope":"temp"}\n'),
    ("meta.json", '{"tenant":"t","agent":"a","session":"Bread / 1"}'),
    ("meta.json", "{}\n"),
    ("index/list", "bread-1\ncake+2\n"),
    ("index/list", ""),
    ("index/current", "bread-1\n"),
    ("index/by-cwd", "bakery-7"),
    ("index/by-hash", "bakery-7\n"),
    ("index/by-uuid", "bakery-7\n"),
]


@pytest.mark.parametrize(("name", "text"), GOOD_CONTROL)
def test_valid_control_files_are_accepted(name: ControlName, text: str) -> None:
    assert control_issues(name, text) == ()


BAD_CONTROL: list[tuple[ControlName, str, list[Issue]]] = [
    ("state", "baking\n", [Issue("invalid value", 1, value="baking")]),
    ("state", " idle\n", [Issue("invalid value", 1, value="idle")]),
    ("state", "", [Issue("empty value", 1)]),
    ("state", "idle\ndone\n", [Issue("multiple values", 2)]),
    ("cwd", "bakery\n", [Issue("invalid value", 1, value="bakery")]),
    ("cwd", "../bakery\n", [Issue("invalid value", 1, value="../bakery")]),
    ("cwd", "/home/../root\n", [Issue("invalid value", 1, value="/home/../root")]),
    ("cwd", "/home\rroot\n", [Issue("invalid value", 1, value="/home\rroot")]),
    ("cwd", "/home\x1b[2J\n", [Issue("invalid value", 1, value="/home\x1b[2J")]),
    ("created_at", "yesterday\n", [Issue("invalid value", 1, value="yesterday")]),
    ("created_at", "2026-02-20T18:30:00\n", [Issue("invalid value", 1, value="2026-02-20T18:30:00")]),
    ("updated_at", "\n", [Issue("empty value", 1)]),
    ("meta.json", "", [Issue("invalid json")]),
    ("meta.json", '{"client":', [Issue("invalid json")]),
    ("meta.json", "{} {}", [Issue("invalid json")]),
    ("meta.json", '{"scope":"temp","scope":"shared"}\n', [Issue("invalid json")]),
    ("meta.json", '"temp"\n', [Issue("not object")]),
    ("meta.json", '{"scope":"galaxy"}\n', [Issue("invalid value", 1, "scope", "galaxy")]),
    ("meta.json", '{"client":1,"model":"oven","scope":[]}\n',
     [Issue("invalid value", 1, "client"), Issue("invalid value", 1, "model", "oven"),
      Issue("invalid value", 1, "scope")]),
    ("index/list", "bread\nrye/1\n\n  cake\n",
     [Issue("invalid session name", 2, value="rye/1"), Issue("empty value", 3),
      Issue("invalid session name", 4, value="cake")]),
    ("index/current", "bread\ncake\n", [Issue("multiple values", 2)]),
    ("index/current", "rye/1\n", [Issue("invalid session name", 1, value="rye/1")]),
    ("index/by-cwd", "", [Issue("empty value", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "issues"), BAD_CONTROL)
def test_control_file_errors_are_reported(name: ControlName, text: str, issues: list[Issue]) -> None:
    assert list(control_issues(name, text)) == issues


@pytest.mark.parametrize(
    ("text", "budget"),
    [("", None), ("\n", None), ("0", 0), ("0\n", 0), ("32000\n", 32000), (f"{2**64 - 1}", 2**64 - 1)],
)
def test_a_budget_is_one_number_or_none(text: str, budget: int | None) -> None:
    assert budget_in(text) == budget


@pytest.mark.parametrize(
    "text", [" 7\n", "7 \n", "7\n8\n", "7\n\n", "-7", "+7", "7.0", "1_000", "٧", "0x7", "many", f"{2**64}", "9" * 9999]
)
def test_invalid_budget_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="one unsigned integer"):
        budget_in(text)


# -- packs


def test_pack_of_session_files_is_accepted() -> None:
    sources = ["context/pinned/house-rules.md", "context/summary.md", "messages.jsonl"]
    sources += [f"context/child/audit-9/{name}" for name in ("result.md", "refs.jsonl", "artifact/f.csv")]
    items = [{"kind": "any", "source": source, "tokens": 12} for source in sources]
    assert pack_issues(json.dumps({"session": "bread", "agent": "cook", "budget_tokens": 0, "items": items})) == ()
    assert pack_issues('{"items":[]}\n') == ()


def test_pack_item_from_outside_the_session_is_reported_with_its_position() -> None:
    items = [
        {"kind": "todo", "source": "context/todo.md"},
        {"kind": "stolen", "source": "/home/eve/agent/cook/session/cake/messages.jsonl"},
        {"kind": "everything the child said", "source": "context/child/audit-9/messages.jsonl"},
        {"kind": "out of thin air"},
        {"kind": "by number", "source": 7},
        "messages.jsonl",
    ]
    assert pack_issues(json.dumps({"items": items})) == (
        Issue("invalid source", 1, value="absolute"),
        Issue("invalid source", 2, value="unsupported child path"),
        Issue("missing source", 3),
        Issue("source not string", 4),
        Issue("item not object", 5),
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "invalid json"),
        ('{"items":', "invalid json"),
        ('{"items":[]} and more', "invalid json"),
        ('{"items":[],"agent":"a","agent":"b"}', "invalid json"),
        ('{"items":[{"source":"state","source":"/etc/passwd"}]}', "invalid json"),
        ('{"items":{"source":"context/todo.md"}}', "items not array"),
        ('{"items":[],"items":[{"source":"state"}]}', "items not array"),
        ("{}", "items not array"),
        ("[]", "items not array"),
    ],
)
def test_invalid_packs_are_reported(text: str, kind: IssueKind) -> None:
    assert pack_issues(text) == (Issue(kind),)


# -- whatever comes

CHECKS: list[Callable[[str], tuple[Issue, ...]]] = [
    message_issues,
    event_issues,
    pack_issues,
    lambda text: message_issues(text, strict=True),
    lambda text: event_issues(text, strict=True),
    *(lambda text, kind=kind: record_issues(kind, text) for kind in get_args(RecordKind)),
    *(lambda text, name=name: control_issues(name, text) for name in get_args(ControlName)),
]

KEYS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "run",
        "id",
        "items",
        "source",
        "ctx",
        "extra",
        "refs",
        "kind",
        "tokens",
        "scope",
    ]
)
WORDS = st.sampled_from(
    ["user", "text", "tool_result", "usage", "done", "error", "tool_call", "approval_result", "choice"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=5),
    max_leaves=12,
)
ANY_TEXT = st.text(st.characters())
"""Also with lone surrogates, as bytes that are no UTF-8 are decoded."""

HOSTILE = ANY_TEXT | VALUES.map(json.dumps) | st.lists(VALUES.map(json.dumps)).map(lambda all: lines(*all))


@given(HOSTILE)
@example("[" * 200_000)
@example('{"content":' * 200_000)
@example(
    '{"role":"tool","content":'
    + '[{"type":"tool_result","tool_call_id":"c","content":' * 450
    + '"x"'
    + "}]" * 450
    + "}\n"
)
@example('{"tokens":' + "9" * 10_000 + "}\n")
@example('{"type":"usage","run":"r","input_tokens":' + "9" * 4000 + ',"output_tokens":1}\n')
@example("-Infinity\n")
@example('{"a":-1e99999}')
@example("\ufeff{}")
@example("\udcff")
@example('"\\ud800"')
@example("9999999999999999-01-01T00:00:00Z")
@example("2026-02-30T24:61:00+99:99")
def test_checks_accept_arbitrary_text_without_raising(text: str) -> None:
    for check in CHECKS:
        assert all(issue.kind in get_args(IssueKind) for issue in check(text))
    source_issue(text)
    try:
        budget_in(text)
    except ValueError:
        assert text


@given(st.lists(HOSTILE.map(lambda text: text.replace("\n", " ")), max_size=6))
def test_each_line_is_checked_independently(all_lines: list[str]) -> None:
    for check in (message_issues, event_issues):
        alone = [issue._replace(at=at) for at, line in enumerate(all_lines, 1) for issue in check(f"{line}\n")]
        assert list(check(lines(*all_lines))) == alone
