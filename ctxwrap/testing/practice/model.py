"""The practice model: rules that follow the protocol, or violate it on purpose."""

import hashlib
import json
import re
from collections.abc import Callable
from copy import deepcopy

from ctxwrap.errors import SettingsError
from ctxwrap.memory.epoch import expand_brief
from ctxwrap.memory.operations import complete_state
from ctxwrap.protocol.instructions import (
    READING_TEXT,
    REMINDER,
    SEPARATOR,
    asks_for_changes,
    asks_for_trailer,
    parse_block,
    strip_injected,
    text_before_question,
)
from ctxwrap.testing.practice.answer import JSON, Answer, ToolCall
from ctxwrap.testing.practice.conversation import converse, fill_schema
from ctxwrap.testing.practice.memory import PracticeMemory, sentences, strip_punctuation
from ctxwrap.testing.practice.requests import Ask, SpokenLine, dict_at


def stable_fraction(*parts: object) -> float:
    """Return a number from 0 up to 1 that depends on `parts` alone."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def damage(text: str, where: float) -> str:
    """Damage a JSON object in one of several ways, chosen by `where` (from 0 up to 1)."""
    return DAMAGES[int(where * len(DAMAGES))](text)


def forge(state: JSON) -> JSON:
    """Return `state` with a runtime that the system did not set."""
    runtime = deepcopy(state["runtime"])
    given = runtime.get("round")
    runtime["round"] = (given if isinstance(given, int) else 0) + 41
    runtime["datetime"] = "1999-12-31T23:59:59Z"
    runtime["startup_at"] = "1999-01-01T00:00:00Z"
    return state | {"runtime": runtime}


def _trailing_comma(text: str) -> str:
    return f"{text[:-1]},}}"


def _code_fence(text: str) -> str:
    return f"```json\n{text}\n```"


def _cut_off(text: str) -> str:
    return text[: len(text) * 3 // 5]


def _single_quotes(text: str) -> str:
    return text.replace('"', "'")


def _line_in_string(text: str) -> str:
    return text.replace('"active_task":"', '"active_task":"now\n', 1)


def _afterword(text: str) -> str:
    return f"{text}\n\nLet me know if there is anything else!"


def _comment(text: str) -> str:
    return f"{{ // the state\n{text[1:]}"


def _missing_brace(text: str) -> str:
    return text[:-1]


DAMAGES: tuple[Callable[[str], str], ...] = (
    _trailing_comma,
    _code_fence,
    _cut_off,
    _single_quotes,
    _line_in_string,
    _afterword,
    _comment,
    _missing_brace,
)


_USE_TOOL = re.compile(
    r"(?:use|call|run)(?: the)?(?: tool)? ([\w-]+)(?: tool)?\b(?: (?:for|with|in|on|about|to|at))?[:,]? *(.*)",
    re.I,
)


class PracticeModel:
    """Answers from the facts in the conversation, the same way every time.

    `damaged`, `missing` and `forged` are the shares of trailers that are invalid JSON, left out, or change the system's
    fields. Which ones depends on `seed`, the round and the message alone.
    """

    def __init__(self, *, damaged: float = 0.0, missing: float = 0.0, forged: float = 0.0, seed: int = 0) -> None:
        self._shares = {"damaged": damaged, "missing": missing, "forged": forged}
        self._seed = seed
        for name, share in self._shares.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise SettingsError(f"{name} must be a number from 0 to 1, not {share!r}")
        if sum(self._shares.values()) > 1:
            raise SettingsError("damaged, missing and forged are shares of all trailers: their sum must be at most 1")

    def __call__(self, ask: Ask) -> Answer:
        earlier = before_reask(ask.messages)
        if earlier is not None:
            memory = PracticeMemory(received_state(ask.system, earlier))
            converse(_user_messages(earlier), memory)
            return Answer(f"{SEPARATOR}\n{as_trailer_json(requested_state(ask, memory))}")
        messages = _user_messages(ask.messages)
        results = _tool_results(ask)
        newest = messages[-1] if messages else ""
        if not results and (call := _tool_call(newest, ask)) is not None:
            return Answer(tool_calls=(call,))
        memory = PracticeMemory(received_state(ask.system, ask.messages))
        text = converse(messages, memory)
        if results:
            text = f"The tool says: {' '.join(results)}"
        if ask.schema is not None:
            return Answer(fill_schema(ask.schema, text, memory.contents))
        return Answer(text + self._trailer(ask, memory, newest) if asks_for_trailer(ask.system) else text)

    def _trailer(self, ask: Ask, memory: PracticeMemory, newest: str) -> str:
        state, fault = requested_state(ask, memory), self._fault(memory.round, newest)
        if fault == "missing":
            return ""
        text = as_trailer_json(forge(state) if fault == "forged" else state)
        if fault == "damaged":
            text = damage(text, stable_fraction(self._seed, "way", memory.round, newest))
        return f"\n\n{SEPARATOR}\n{text}"

    def _fault(self, round: int, newest: str) -> str | None:
        drawn = stable_fraction(self._seed, "fault", round, newest)
        for name, share in self._shares.items():
            if drawn < share:
                return name
            drawn -= share
        return None


def requested_state(ask: Ask, memory: PracticeMemory) -> JSON:
    """Return the state in the form that the request asks for: whole, or changes."""
    return memory.changes() if asks_for_changes(ask.system) else memory.state()


def as_trailer_json(state: JSON) -> str:
    """Return `state` as JSON that cannot contain the separator."""
    return json.dumps(state, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def before_reask(lines: list[SpokenLine]) -> list[SpokenLine] | None:
    """Return the messages before the answer whose snapshot is requested again; None if none is."""
    for at, (role, text) in enumerate(lines):
        before = text_before_question(text)
        if before is not None:
            prompt = before.replace(REMINDER, "").partition(SEPARATOR)[0]
            return [*lines[: max(0, at - 1)], *([(role, prompt)] if prompt else [])]
    return None


def received_state(system: str, lines: list[SpokenLine]) -> JSON | None:
    """Return the state in the request; without the protocol's text it is not read."""
    if not (asks_for_trailer(system) or READING_TEXT in system):
        return None
    newest = next((text for role, text in reversed(lines) if role == "user"), "")
    state, epoch = parse_block(newest) or parse_block(system), parse_block(system, "memory")
    if state is None or epoch is None:
        return state
    full = complete_state({"memory": expand_brief(epoch)}, state)
    return {name: value for name, value in full.items() if name not in ("dropped", "unchanged")}


def _user_messages(lines: list[SpokenLine]) -> list[str]:
    """Return the user's messages without ctxwrap's additions."""
    texts = (strip_injected(text).strip() for role, text in lines if role == "user")
    return [text for text in texts if text]


def _tool_results(ask: Ask) -> list[str]:
    """Return the tool results since the last answer."""
    results: list[str] = []
    for role, text in reversed(ask.messages):
        if role == "tool":
            results.insert(0, text)
        elif role == "assistant" or strip_injected(text).strip():
            break
    return results


def _tool_call(newest: str, ask: Ask) -> ToolCall | None:
    tools = {name.lower(): name for name in ask.tools}
    for sentence in sentences(newest):
        found = _USE_TOOL.fullmatch(strip_punctuation(sentence))
        if found and (name := tools.get(found[1].lower())):
            arguments = json.dumps(_arguments(ask.tools[name], found[2].strip()), ensure_ascii=False)
            return ToolCall(f"call_{name}_{len(ask.messages)}", name, arguments)
    return None


def _arguments(schema: JSON, rest: str) -> JSON:
    """Return `rest` for each string parameter of the tool."""
    taken = dict_at(schema, "properties")
    texts = [name for name in taken if dict_at(taken, name).get("type") == "string"]
    return dict.fromkeys(texts, rest) if rest else {}
