"""The two streams of the log: valid lines of `messages.jsonl` and `events.jsonl`.

The strict form is what the ABI's first implementation accepts; the other one also accepts what callers send and ctxwrap
writes.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, get_args

from ctxwrap.pack.receipt import EVENT_CLASSES
from ctxwrap.session.abi.names import (
    Issue,
    IssueKind,
    Repeating,
    is_count,
    is_legal_name,
    line_issues,
    objects,
    repeats,
)
from ctxwrap.types import Record, Role

ROLES = frozenset(get_args(Role))

PROVIDER_NATIVE = frozenset(
    {"thread_id", "response_id", "conversation_id", "provider_thread_id", "provider_response_id"}
    | {"openai_response_id", "anthropic_message_id", "gemini_response_id", "native_thread", "native_state"}
)
"""Fields that tie a conversation to one provider."""

_NATIVE_IDS = frozenset(name for name in PROVIDER_NATIVE if name.endswith("_id"))
"""Provider fields that our events may hold: an id for reference, never a state that is needed to continue."""

_OURS = frozenset({"ctx", "extra"})
"""Top-level fields of our lines: control data, and fields of the caller that we do not know."""

_OPAQUE = frozenset({"arguments", "input"})
"""Tool arguments: their fields are named by the tool's author."""

EVENT_TYPES = frozenset(
    {"start", "delta", "message", "reasoning_delta", "reasoning_message", "tool_call", "usage", "error", "done"}
    | {"approval_request", "approval_result", "agent.child.cancel", "agent.stop"}
)
OWN_EVENT_TYPES = frozenset(
    {
        "snapshot",
        "observation",
        "recall",
        "pin",
        "forget",
        "purge",
        "evolution",
        "reask",
        "repack",
        "choice",
        "summarise",
        "summary",
        "tool_result",
    }
    | {"agent.child.start", "agent.child.result", "working_set", "resources", "evidence"}
    | {"memory", "entry", "document", "session_end", "session_resume"}
    | {"join", "contribution", "merge"}
    | {*EVENT_CLASSES}
)
_WITHOUT_RUN = frozenset(
    {"agent.child.cancel", "agent.stop", "agent.child.start", "agent.child.result"}
    | {"recall", "pin", "forget", "purge", "summarise", "summary", "evidence"}
    | {"memory", "entry", "document", "session_end", "session_resume", "join", "merge"}
    | {*EVENT_CLASSES}
)
"""Events that may occur outside of a run."""

ERROR_CODES = frozenset(
    {"EACCES", "EINVAL", "ENOENT", "EMSGSIZE", "EHOSTDOWN", "ECONNREFUSED", "EAGAIN", "EIO", "EINTR", "ENOSYS"}
)

_PARTS = {"text": ("text",), "image": ("path",), "tool_result": ("tool_call_id",)}
"""The content parts of the strict form, with their required text fields."""


def message_issues(text: str, *, strict: bool = False) -> tuple[Issue, ...]:
    return (*line_issues(text, "message not object", partial(_message_issues, strict=strict)), *_unfinished(text))


def event_issues(text: str, *, strict: bool = False) -> tuple[Issue, ...]:
    return (*line_issues(text, "event not object", partial(_event_issues, strict=strict)), *_unfinished(text))


def issues_in_record(stream: str, record: Record) -> tuple[Issue, ...]:
    """The same in our form, for a parsed line of `messages` or `events`."""
    check = _message_form_issues if stream == "messages" else _event_form_issues
    return tuple(check(record, strict=False))


def _unfinished(text: str) -> Iterator[Issue]:
    if text and not text.endswith("\n"):
        yield Issue("missing final newline", text.count("\n") + 1)


def _message_issues(record: Record, strict: bool) -> Iterator[Issue]:
    if isinstance(record, Repeating) or repeats([value for name, value in record.items() if name != "content"]):
        yield Issue("invalid json")
    else:
        yield from _message_form_issues(record, strict)


def _message_form_issues(record: Record, strict: bool) -> Iterator[Issue]:
    yield from _native_fields(record, PROVIDER_NATIVE, strict)
    role, content = record.get("role"), record.get("content")
    if not isinstance(role, str):
        yield Issue("missing role")
        return
    if role not in ROLES:
        yield Issue("invalid role", value=role)
    if content is None:
        yield Issue("missing content")
    elif repeats(content) or not _is_content(content, strict):
        yield Issue("invalid content")


def _native_fields(record: Record, names: frozenset[str], strict: bool) -> Iterator[Issue]:
    own = {name: value for name, value in record.items() if name not in _OURS}
    for found in objects(own, without=frozenset() if strict else _OPAQUE):
        yield from (Issue("provider native field", field=name) for name in found if name in names)


def _is_content(content: Any, strict: bool) -> bool:
    pending = [content]
    while pending:
        content = pending.pop()
        if isinstance(content, str):
            continue
        if not isinstance(content, list) or not all(_is_part(part, strict) for part in content):
            return False
        if strict:
            pending.extend(part.get("content") for part in content if part["type"] == "tool_result")
    return True


def _is_part(part: Any, strict: bool) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    if not strict:
        return True
    texts = _PARTS.get(part["type"])
    return texts is not None and all(isinstance(part.get(name), str) for name in texts)


def _event_issues(record: Record, strict: bool) -> Iterator[Issue]:
    if repeats(record):
        yield Issue("invalid json")
    else:
        yield from _event_form_issues(record, strict)


def _event_form_issues(record: Record, strict: bool) -> Iterator[Issue]:
    yield from _native_fields(record, PROVIDER_NATIVE if strict else PROVIDER_NATIVE - _NATIVE_IDS, strict)
    kind = record.get("type")
    if not isinstance(kind, str):
        yield Issue("missing type")
    elif kind not in EVENT_TYPES and (strict or kind not in OWN_EVENT_TYPES):
        yield Issue("unknown type", value=kind)
    else:
        yield from _form_issues(kind, record)


def _form_issues(kind: str, event: Record) -> Iterator[Issue]:
    if kind not in _WITHOUT_RUN and not isinstance(event.get("run"), str):
        yield Issue("missing run")
    if kind in _FORMS:
        is_well_formed, issue = _FORMS[kind]
        if not is_well_formed(event):
            yield Issue(issue)


def _is_error(event: Record) -> bool:
    return _is_one_of(event.get("code"), ERROR_CODES)


def _is_done(event: Record) -> bool:
    return _is_one_of(event.get("status"), {"ok", "error", "cancelled"})


def _is_usage(event: Record) -> bool:
    needed = [event.get(name) for name in ("input_tokens", "output_tokens")]
    given = [event[name] for name in ("cached_tokens", "cache_write_tokens") if event.get(name) is not None]
    return all(map(is_count, needed + given))


def _is_call(event: Record) -> bool:
    return _are_names(event, "id", "name")


def _is_approval_request(event: Record) -> bool:
    arguments = event.get("args")
    return _is_call(event) and isinstance(arguments, list) and all(isinstance(each, str) for each in arguments)


def _is_approval_result(event: Record) -> bool:
    reason = event.get("reason")
    decided = _is_one_of(event.get("decision"), {"allow_once", "deny"})
    return _is_call(event) and decided and isinstance(reason, str) and reason != ""


def _is_child_cancel(event: Record) -> bool:
    return _are_names(event, "parent", "child") and event.get("reason") == "parent_dead"


def _is_stop(event: Record) -> bool:
    return _are_names(event, "agent") and event.get("status") == "cancelled"


def _are_names(event: Record, *fields: str) -> bool:
    values = [event.get(field) for field in fields]
    return all(isinstance(value, str) and is_legal_name(value) for value in values)


def _is_one_of(value: object, words: set[str] | frozenset[str]) -> bool:
    return isinstance(value, str) and value in words


_FORMS: dict[str, tuple[Callable[[Record], bool], IssueKind]] = {
    "error": (_is_error, "invalid error code"),
    "done": (_is_done, "invalid done status"),
    "usage": (_is_usage, "invalid usage"),
    "tool_call": (_is_call, "invalid tool call"),
    "approval_request": (_is_approval_request, "invalid approval"),
    "approval_result": (_is_approval_result, "invalid approval"),
    "agent.child.cancel": (_is_child_cancel, "invalid agent lifecycle"),
    "agent.stop": (_is_stop, "invalid agent lifecycle"),
}
