"""The practice model: a few rules that follow the protocol, or break it on purpose."""

import hashlib
import json
import re
from collections.abc import Callable
from copy import deepcopy

from ctxwrap.errors import SettingsError
from ctxwrap.memory.epoch import from_brief
from ctxwrap.memory.operations import whole
from ctxwrap.protocol.instructions import (
    READING_TEXT,
    REMINDER,
    SEPARATOR,
    asks_for_changes,
    asks_for_trailer,
    before_question,
    unframe,
    without_injected,
)
from ctxwrap.testing.practice.answer import JSON, Answer, ToolCall
from ctxwrap.testing.practice.conversation import converse, structured
from ctxwrap.testing.practice.notebook import Notebook, bare, sentences
from ctxwrap.testing.practice.requests import Ask, SpokenLine, dict_at


def fraction(*parts: object) -> float:
    """A number from 0 up to 1 that depends on nothing but `parts`."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


def damaged(text: str, where: float) -> str:
    """`text`, a JSON object, broken in the way that `where` (from 0 up to 1) picks."""
    return WAYS[int(where * len(WAYS))](text)


def forged(state: JSON) -> JSON:
    """`state` with a runtime the system did not set."""
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


WAYS: tuple[Callable[[str], str], ...] = (
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
    """Answers from what it was told, the same way every time.

    `damaged`, `missing` and `forged` are the shares of trailers that are to be broken JSON, left out, or to
    change what belongs to the system. Which ones depends on `seed`, the round and the message alone.
    """

    def __init__(self, *, damaged: float = 0.0, missing: float = 0.0, forged: float = 0.0, seed: int = 0) -> None:
        self._shares = {"damaged": damaged, "missing": missing, "forged": forged}
        self._seed = seed
        for name, share in self._shares.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise SettingsError(f"{name} must be a number from 0 to 1, not {share!r}")
        if sum(self._shares.values()) > 1:
            raise SettingsError("damaged, missing and forged are shares of all trailers: together at most 1")

    def __call__(self, ask: Ask) -> Answer:
        earlier = until_asked_again(ask.messages)
        if earlier is not None:
            notebook = Notebook(given_state(ask.system, earlier))
            converse(_spoken(earlier), notebook)
            return Answer(f"{SEPARATOR}\n{written(asked_for(ask, notebook))}")
        spoken = _spoken(ask.messages)
        results = _tool_results(ask)
        newest = spoken[-1] if spoken else ""
        if not results and (call := _tool_call(newest, ask)) is not None:
            return Answer(tool_calls=(call,))
        notebook = Notebook(given_state(ask.system, ask.messages))
        text = converse(spoken, notebook)
        if results:
            text = f"The tool says: {' '.join(results)}"
        if ask.schema is not None:
            return Answer(structured(ask.schema, text, notebook.contents))
        return Answer(text + self._trailer(ask, notebook, newest) if asks_for_trailer(ask.system) else text)

    def _trailer(self, ask: Ask, notebook: Notebook, newest: str) -> str:
        state, fault = asked_for(ask, notebook), self._fault(notebook.round, newest)
        if fault == "missing":
            return ""
        text = written(forged(state) if fault == "forged" else state)
        if fault == "damaged":
            text = damaged(text, fraction(self._seed, "way", notebook.round, newest))
        return f"\n\n{SEPARATOR}\n{text}"

    def _fault(self, round: int, newest: str) -> str | None:
        drawn = fraction(self._seed, "fault", round, newest)
        for name, share in self._shares.items():
            if drawn < share:
                return name
            drawn -= share
        return None


def asked_for(ask: Ask, notebook: Notebook) -> JSON:
    """The whole state, or what changed in it."""
    return notebook.changes() if asks_for_changes(ask.system) else notebook.state()


def written(state: JSON) -> str:
    """`state` as JSON in which nothing can pose as the separator."""
    return json.dumps(state, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def until_asked_again(lines: list[SpokenLine]) -> list[SpokenLine] | None:
    """What was said up to the answer whose state is asked for again; None when it is not."""
    for at, (role, text) in enumerate(lines):
        before = before_question(text)
        if before is not None:
            prompt = before.replace(REMINDER, "").partition(SEPARATOR)[0]
            return [*lines[: max(0, at - 1)], *([(role, prompt)] if prompt else [])]
    return None


def given_state(system: str, lines: list[SpokenLine]) -> JSON | None:
    """The state in the request's block; without the protocol a block is only text."""
    if not (asks_for_trailer(system) or READING_TEXT in system):
        return None
    newest = next((text for role, text in reversed(lines) if role == "user"), "")
    state, epoch = unframe(newest) or unframe(system), unframe(system, "memory")
    if state is None or epoch is None:
        return state
    told = whole({"memory": from_brief(epoch)}, state)
    return {name: value for name, value in told.items() if name not in ("dropped", "unchanged")}


def _spoken(lines: list[SpokenLine]) -> list[str]:
    """What the user said, message by message, without what was put beside it."""
    texts = (without_injected(text).strip() for role, text in lines if role == "user")
    return [text for text in texts if text]


def _tool_results(ask: Ask) -> list[str]:
    """The results that no answer followed yet."""
    results: list[str] = []
    for role, text in reversed(ask.messages):
        if role == "tool":
            results.insert(0, text)
        elif role == "assistant" or without_injected(text).strip():
            break
    return results


def _tool_call(newest: str, ask: Ask) -> ToolCall | None:
    tools = {name.lower(): name for name in ask.tools}
    for sentence in sentences(newest):
        found = _USE_TOOL.fullmatch(bare(sentence))
        if found and (name := tools.get(found[1].lower())):
            arguments = json.dumps(_arguments(ask.tools[name], found[2].strip()), ensure_ascii=False)
            return ToolCall(f"call_{name}_{len(ask.messages)}", name, arguments)
    return None


def _arguments(schema: JSON, rest: str) -> JSON:
    """`rest` for each text that the tool takes."""
    taken = dict_at(schema, "properties")
    texts = [name for name in taken if dict_at(taken, name).get("type") == "string"]
    return dict.fromkeys(texts, rest) if rest else {}
