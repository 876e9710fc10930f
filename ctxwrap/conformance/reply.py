"""Checks of a model's reply against the Context Protocol, before any repair."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

from ctxwrap.conformance.checks import Check, Finding, at, describe, is_count, is_share, is_time
from ctxwrap.memory.items import TIERS
from ctxwrap.protocol.grammar import SEPARATOR
from ctxwrap.protocol.reply import read_reply as read_by_ctxwrap

_AT_LINE_START = re.compile(rf"(?m)^[ \t]*{SEPARATOR}")
_MARKUP = re.compile(r"```\w*|~~~\w*|</?[\w:-]{1,40}>|[}\],;]")
"""Markup around JSON that is not response text."""

_RUNTIME = ("round", "datetime", "startup_at")
_ITEM = ("id", "type", "decay", "round", "tags", "content")


@dataclass(frozen=True, slots=True)
class ReplyInput:
    text: str
    separators: tuple[int, ...] = ()
    """Start positions; the last one counts."""
    value: Any = None
    before: str = ""
    after: str = ""
    """The texts before and after the JSON."""
    json_at: int = 0
    json_end: int = 0
    error: str = ""
    """Why the JSON cannot be parsed."""

    def line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def separator_lines(self) -> Iterator[int]:
        line = 1
        for before, position in pairwise((0, *self.separators)):
            line += self.text.count("\n", before, position)
            yield line

    @property
    def snapshot(self) -> dict[str, Any]:
        return self.value if isinstance(self.value, dict) else {}

    @property
    def memory(self) -> dict[str, Any]:
        memory = self.snapshot.get("memory")
        return memory if isinstance(memory, dict) else {}

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for tier, items in self.memory.items():
            for number, item in enumerate(items if isinstance(items, list) else ()):
                if isinstance(item, dict):
                    yield f"memory.{tier}[{number}]", item


def read_reply(text: str) -> ReplyInput:
    separators = tuple(match.end() - len(SEPARATOR) for match in _AT_LINE_START.finditer(text))
    if not separators and (last := text.rfind(SEPARATOR)) >= 0:
        separators = (last,)
    if not separators:
        return ReplyInput(text)
    start = separators[-1] + len(SEPARATOR)
    json_at = _json_start(text, start)
    if json_at < 0:
        return ReplyInput(text, separators, json_at=start, error="no JSON follows the separator")
    try:
        value, end = _DECODER.raw_decode(text, json_at)
    except (ValueError, RecursionError) as error:
        return ReplyInput(
            text, separators, before=text[start:json_at].strip(), json_at=json_at, error=_json_error(error)
        )
    before, after = text[start:json_at].strip(), text[end:].strip()
    return ReplyInput(text, separators, value, before, after, json_at, end)


def _json_start(text: str, start: int) -> int:
    """Return the start of the JSON: right after the separator, else at the next brace."""
    begins = re.compile(r"\s*").match(text, start)
    assert begins is not None
    if text[begins.end() : begins.end() + 1] in ("{", "[", '"'):
        return begins.end()
    return text.find("{", start)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)


def _json_error(error: Exception) -> str:
    return "nested too deeply to be read" if isinstance(error, RecursionError) else str(error)


def _missing_section(reply: ReplyInput) -> Iterator[Finding]:
    if not reply.separators:
        yield Finding(f"no {SEPARATOR} in {len(reply.text)} characters")


def _text_below(reply: ReplyInput) -> Iterator[Finding]:
    if re.search(r"\w", _MARKUP.sub("", reply.after)):
        yield Finding(f"text after the JSON: {describe(reply.after)}", line=reply.line(reply.json_end))


def _several_separators(reply: ReplyInput) -> Iterator[Finding]:
    *others, _ = reply.separator_lines() if reply.separators else (0,)
    yield from (Finding("another separator before the last one", line=line) for line in others)


def _invalid_json(reply: ReplyInput) -> Iterator[Finding]:
    if reply.error and not _is_repairable(reply):
        yield Finding(reply.error, line=reply.line(reply.json_at))


def _needs_preprocessing(reply: ReplyInput) -> Iterator[Finding]:
    if reply.error and _is_repairable(reply):
        yield Finding(reply.error, line=reply.line(reply.json_at))


def _is_repairable(reply: ReplyInput) -> bool:
    return read_by_ctxwrap(reply.text).status == "repaired"


def _extra_characters(reply: ReplyInput) -> Iterator[Finding]:
    if reply.before:
        yield Finding(f"before the JSON: {describe(reply.before)}", line=reply.line(reply.separators[-1]))
    if marks := "".join(_MARKUP.findall(reply.after)) if reply.after else "":
        yield Finding(f"after the JSON: {describe(marks)}", line=reply.line(reply.json_end))
    elif reply.after and not re.search(r"\w", reply.after):
        yield Finding(f"after the JSON: {describe(reply.after)}", line=reply.line(reply.json_end))


def _missing_runtime(reply: ReplyInput) -> Iterator[Finding]:
    if not reply.snapshot:
        return
    runtime = reply.snapshot.get("runtime")
    if not isinstance(runtime, dict):
        yield Finding(f"not the injected fields: {describe(runtime)}", path="runtime")
        return
    yield from (Finding("missing", path=at("runtime", name)) for name in _RUNTIME if runtime.get(name) is None)


def _bad_round(reply: ReplyInput) -> Iterator[Finding]:
    value = _runtime(reply).get("round")
    if value is not None and not is_count(value):
        yield Finding(describe(value), path="runtime.round")


def _bad_times(reply: ReplyInput) -> Iterator[Finding]:
    for name in _RUNTIME[1:]:
        value = _runtime(reply).get(name)
        if value is not None and not is_time(value):
            yield Finding(describe(value), path=at("runtime", name))


def _runtime(reply: ReplyInput) -> dict[str, Any]:
    runtime = reply.snapshot.get("runtime")
    return runtime if isinstance(runtime, dict) else {}


def _incomplete_items(reply: ReplyInput) -> Iterator[Finding]:
    for path, item in reply.items():
        if missing := [name for name in _ITEM if item.get(name) is None]:
            yield Finding(f"lacks {', '.join(missing)}", path=path)


def _bad_decays(reply: ReplyInput) -> Iterator[Finding]:
    for path, item in reply.items():
        if item.get("decay") is not None and not is_share(item["decay"]):
            yield Finding(describe(item["decay"]), path=at(path, "decay"))


def _narrative(reply: ReplyInput) -> Iterator[Finding]:
    if reply.error or not reply.separators:
        return
    if not isinstance(reply.value, dict):
        yield Finding(f"expected an object, got {describe(reply.value)}")
    elif not isinstance(reply.value.get("memory"), dict):
        yield Finding(f"expected an object of tiers, got {describe(reply.value.get('memory'))}", path="memory")
    for tier, items in reply.memory.items():
        if not isinstance(items, list):
            yield Finding(f"expected a list of items, got {describe(items)}", path=f"memory.{tier}")
            continue
        for number, item in enumerate(items):
            if not isinstance(item, dict):
                yield Finding(f"expected an item, got {describe(item)}", path=f"memory.{tier}[{number}]")


def _unknown_tiers(reply: ReplyInput) -> Iterator[Finding]:
    yield from (
        Finding("not a tier of the protocol", path=at("memory", tier)) for tier in reply.memory.keys() - {*TIERS}
    )


def _template_violations(reply: ReplyInput) -> Iterator[Finding]:
    value = reply.snapshot
    if not value:
        return
    if value.get("version") != "2.2":
        yield Finding(describe(value.get("version")), path="version")
    yield from (
        Finding("missing", path=at("memory", tier)) for tier in TIERS if reply.memory and tier not in reply.memory
    )
    if not isinstance(value.get("capabilities"), list):
        yield Finding(describe(value.get("capabilities")), path="capabilities")
    if not isinstance(value.get("active_task"), str):
        yield Finding(describe(value.get("active_task")), path="active_task")
    for path, item in reply.items():
        yield from (
            Finding(describe(item[name]), path=at(path, name))
            for name in _ITEM
            if item.get(name) is not None and name != "decay" and not _matches_template(name, item[name])
        )


def _matches_template(name: str, value: Any) -> bool:
    if name == "round":
        return is_count(value)
    if name == "tags":
        return isinstance(value, list) and all(isinstance(tag, str) for tag in value)
    return isinstance(value, str)


def _section_in_disabled(reply: ReplyInput) -> Iterator[Finding]:
    yield from (Finding("a separator", line=line) for line in reply.separator_lines())


REPLY_CHECKS: tuple[Check[ReplyInput], ...] = (
    Check("CP-1", "MUST", "Every response MUST include a `<<<CONTEXT>>>` section.", _missing_section),
    Check("CP-2", "MUST", "`<<<CONTEXT>>>` MUST appear at the very bottom of the response.", _text_below),
    Check(
        "CP-3",
        "MUST",
        "`<<<CONTEXT>>>` MUST be the ONLY separator between response text and structured context.",
        _several_separators,
    ),
    Check("CP-4", "MUST", "All content AFTER `<<<CONTEXT>>>` MUST be valid JSON.", _invalid_json),
    Check(
        "CP-5",
        "MUST",
        "JSON MUST be directly parseable by `JSON.parse()` without preprocessing.",
        _needs_preprocessing,
    ),
    Check("CP-6", "MUST", "No extra characters are allowed before or after the JSON block.", _extra_characters),
    Check(
        "CP-7",
        "MUST",
        "`round`, `datetime`, and `startup_at` are SYSTEM-INJECTED fields. The model MUST preserve them exactly as "
        "received.",
        _missing_runtime,
    ),
    Check("CP-round", "MUST", "round: conversation counter (monotonic, system managed)", _bad_round),
    Check(
        "CP-times",
        "MUST",
        "datetime: current system time (ISO 8601); startup_at: session start time (ISO 8601)",
        _bad_times,
    ),
    Check(
        "CP-8",
        "MUST",
        "All memory objects MUST contain: `id`, `type`, `decay`, `round`, `tags`, `content`",
        _incomplete_items,
    ),
    Check("CP-9", "MUST", "`decay` MUST be a floating point number between 0 and 1.", _bad_decays),
    Check("CP-10", "MUST", "Context represents a computable state snapshot, NOT narrative text.", _narrative),
    Check(
        "CP-tiers",
        "MUST",
        "core: long-term persistent memory; working: multi-round task memory; ephemeral: short-lived temporary memory",
        _unknown_tiers,
    ),
    Check("CP-template", "SHOULD", "Context JSON Template", _template_violations),
)

DISABLED_REPLY_CHECKS: tuple[Check[ReplyInput], ...] = (
    Check(
        "CP-disabled",
        "MUST",
        "If contextMode = disabled: The agent MUST NOT output <<<CONTEXT>>>.",
        _section_in_disabled,
    ),
)
