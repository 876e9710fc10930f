"""Automatic priorities: use raises them, disuse lowers them; large tool outputs become files."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import takewhile
from typing import NamedTuple

from ctxwrap.types import HistoryMessage, Message
from ctxwrap.workingset.manifest import Manifest, WorkingFile
from ctxwrap.workingset.reader import FileText, Hints
from ctxwrap.workingset.requests import ADD, ADJUST, REMOVE, Decision, Outcome
from ctxwrap.workingset.safe_yaml import path_fault
from ctxwrap.workingset.working_set import OUTPUT, WorkingSetView


@dataclass(frozen=True, slots=True)
class PriorityRules:
    output_priority: float = 0.3
    most_outputs: int = 5
    """The newest tool outputs that are kept."""
    output_turns: int = 5
    """Turns after which a tool output is removed."""
    often: int = 3
    """References from which on a file rises."""
    unused_turns: int = 5
    """Turns without a reference after which a file sinks one step."""
    step: float = 0.1
    highest: float = 0.95
    highest_by_hint: float = 0.8
    lowest: float = 0.1


class FileUse(NamedTuple):
    """The recent use of a file."""

    references: int
    last_turn: int


class ToolOutput(NamedTuple):
    """A tool result that is shown as a file."""

    path: str
    """A path that no file can have."""
    turn: int
    why: str = "recent tool output"


def with_outputs(
    manifest: Manifest,
    outputs: Sequence[ToolOutput],
    turn: int,
    before: Collection[str] = (),
    rules: PriorityRules | None = None,
) -> Outcome:
    """The manifest of this turn, not to be saved, with the newest of the given tool outputs.

    The decisions are the changes since the last turn, which had outputs with the paths `before`.
    """
    rules = rules or PriorityRules()
    order = sorted(outputs, key=lambda output: -output.turn)
    recent = [output for output in order if turn - output.turn <= rules.output_turns and path_fault(output.path)]
    kept = {output.path: output for output in recent[: rules.most_outputs]}
    files = tuple(_as_file(output, _modest(manifest, rules)) for output in kept.values())
    came = [_came(file) for file in files if file.path not in before]
    ages = {output.path: turn - output.turn for output in outputs}
    went = [
        Decision(REMOVE, path, True, _why_gone(ages.get(path), rules), by="orchestrator")
        for path in before
        if path not in kept
    ]
    return Outcome(replace(manifest, files=(*manifest.files, *files)), (*came, *went))


def adjusted_priorities(
    manifest: Manifest,
    uses: Mapping[str, FileUse],
    turn: int,
    hints: Hints | None = None,
    rules: PriorityRules | None = None,
) -> Outcome:
    """The manifest of this turn, not to be saved, with priorities adjusted by use and hints.

    Each turn starts from the priorities of the manifest, so adjustments do not add up. Vital and pinned files and
    instructions keep theirs; hints do not move files of the operator.
    """
    rules = rules or PriorityRules()
    decisions: list[Decision] = []
    files = tuple(_moved(file, uses, turn, hints or Hints(), rules, decisions) for file in manifest.files)
    return Outcome(replace(manifest, files=files), tuple(decisions))


def _as_file(output: ToolOutput, priority: float) -> WorkingFile:
    return WorkingFile(
        output.path,
        priority,
        truncate_strategy="start",
        why=output.why,
        added_by="orchestrator",
        turn=output.turn,
    )


def _modest(manifest: Manifest, rules: PriorityRules) -> float:
    """The priority of outputs: never above that of a vital file."""
    return min([rules.output_priority, *(file.priority for file in manifest.files if file.is_vital)])


def _came(file: WorkingFile) -> Decision:
    reason = "it is large, and no longer sent with the conversation"
    return Decision(ADD, file.path, True, reason, file.why, file.priority, "orchestrator")


def _why_gone(age: int | None, rules: PriorityRules) -> str:
    if age is None:
        return "it is sent with the conversation, or not at hand any more"
    return f"the output is {age} turns old" if age > rules.output_turns else "there are newer outputs"


def _moved(
    file: WorkingFile,
    uses: Mapping[str, FileUse],
    turn: int,
    hints: Hints,
    rules: PriorityRules,
    decisions: list[Decision],
) -> WorkingFile:
    if file.is_fixed:
        return file
    priority, reason = _by_use(file, uses.get(file.path), turn, rules)
    heat = hints.heat(file.path)
    if heat and file.added_by == "operator":
        said = "hot" if heat > 0 else "cold"
        decisions.append(
            Decision(ADJUST, file.path, False, f"hinted {said}, but the operator put it there", by="model")
        )
    elif heat:
        priority = _between(priority + heat * rules.step, priority, rules, rules.highest_by_hint)
        reason = ", ".join(filter(None, [reason, "hinted hot" if heat > 0 else "hinted cold"]))
    if priority == file.priority:
        return file
    decisions.append(Decision(ADJUST, file.path, True, reason, priority=priority, by="orchestrator"))
    return replace(file, priority=priority)


def _by_use(file: WorkingFile, use: FileUse | None, turn: int, rules: PriorityRules) -> tuple[float, str]:
    if use and use.references >= rules.often and turn - use.last_turn < rules.unused_turns:
        risen = _between(file.priority + rules.step, file.priority, rules, rules.highest)
        return risen, f"referenced {use.references} times"
    unused = max(0, turn - (use.last_turn if use else file.turn or 0))
    if steps := unused // rules.unused_turns:
        sunk = _between(file.priority - steps * rules.step, file.priority, rules, rules.highest)
        return sunk, f"not referenced for {unused} turns"
    return file.priority, ""


def _between(wanted: float, now: float, rules: PriorityRules, highest: float) -> float:
    """`wanted`, within the limits of the rules."""
    bounded = min(wanted, max(highest, now)) if wanted > now else max(wanted, min(rules.lowest, now))
    return round(bounded, 6)


_ROUNDS = 10
"""Rounds that are searched for references to files."""
_LOOK = 32 * 1024
"""The most characters of them."""
_LARGE = 1000
"""Characters from which on a tool result becomes a file."""
_LONGEST = 64 * 1024
"""The last characters of a result that are kept."""
_LONGEST_NAME = 64
_SEEN = PriorityRules().output_turns + 1
"""Turns that are searched for results; those of the oldest turn are reported as too old."""
_WORD = re.compile(r"[\w.-]+")
_NO_NAME = re.compile(r"[^\w.-]+")


class UsageMessage(NamedTuple):
    """A message of the conversation, with its index and its round."""

    at: int
    round: int
    message: Message


def backwards(messages: Sequence[Message], last: int) -> Iterator[UsageMessage]:
    """The messages of a conversation, newest first, which is in round `last`; a user's message begins a round."""
    for at in range(len(messages) - 1, -1, -1):
        yield UsageMessage(at, last, messages[at])
        is_first = messages[at].role == "user" and (at == 0 or messages[at - 1].role != "user")
        last -= is_first


def with_adjusted_priorities(offered: WorkingSetView, messages: Sequence[Message], round: int) -> WorkingSetView:
    """The working set with the priorities of this turn, adjusted by references in the last rounds and by hints."""
    uses = file_uses(offered.manifest.files, messages, round)
    outcome = adjusted_priorities(offered.manifest, uses, round, offered.hints)
    return offered._replace(manifest=outcome.manifest, adjusted=outcome.decisions)


def file_uses(files: Iterable[WorkingFile], messages: Sequence[Message], round: int) -> dict[str, FileUse]:
    """By path, in how many of the last rounds a file is referenced, and in which last."""
    texts = dict(_texts_by_round(messages, round))
    words = {number: frozenset(each.rstrip(".-") for each in _WORD.findall(text)) for number, text in texts.items()}
    oldest = min(texts, default=round + 1)
    uses = {}
    for file in files:
        name = file.path.rpartition("/")[2]  # a reference to the path contains the name
        said = words if _WORD.fullmatch(name) else texts
        spoken = [number for number in texts if name in said[number]]
        uses[file.path] = FileUse(len(spoken), max(spoken, default=max(oldest - 1, min(file.turn or 0, round))))
    return uses


def _texts_by_round(messages: Sequence[Message], last: int) -> Iterator[tuple[int, str]]:
    """The texts of the newest rounds that are short enough to search whole, and at least a part of the last one."""
    recent: list[str] = []
    left, current = _LOOK, last
    for each in backwards(messages, last):
        if left < 0:
            break
        if each.round != current:
            yield current, "\n".join(recent)
            recent, current = [], each.round
        if last - current >= _ROUNDS:
            return
        text = _words_of(each.message)
        recent.append(text[:left])
        left -= len(text)
    if recent and (left >= 0 or current == last):
        yield current, "\n".join(recent)


def _words_of(message: Message) -> str:
    return "\n".join([message.text, *(str(call.get("arguments", "")) for call in message.tool_calls)])


def with_tool_results(
    offered: WorkingSetView,
    messages: Sequence[Message],
    unsent: Sequence[HistoryMessage],
    round: int,
    before: Collection[str],
) -> WorkingSetView:
    """The working set with large tool results as files; `unsent` are the messages at the beginning that are not sent.

    `before` has the paths of the results that the last turn had; `outputs` of the returned view has the changes.
    """
    results: dict[str, tuple[int, HistoryMessage]] = {}
    names: dict[str, str] = {}
    for each in reversed([*takewhile(lambda each: each.round >= round - _SEEN, backwards(messages, round))]):
        names |= {str(call.get("id")): str(call.get("name")) for call in each.message.tool_calls}
        if each.at < len(unsent) and _is_large_result(each.message):
            older = unsent[each.at]
            results[_path(older, names)] = each.round, older
    wanted = [ToolOutput(path, number) for path, (number, _) in reversed(results.items())]
    outcome = with_outputs(offered.manifest, wanted, round, before)
    contents = {
        file.path: _as_text(file.path, results[file.path][1]) for file in outcome.manifest.files if file.path in results
    }
    return offered._replace(
        manifest=outcome.manifest, contents={**offered.contents, **contents}, outputs=outcome.decisions
    )


def _is_large_result(message: Message) -> bool:
    return message.role == "tool" and len(message.text) >= _LARGE


def _path(older: HistoryMessage, names: Mapping[str, str]) -> str:
    """A path that no file can have, because one of its parts is empty."""
    id = older.message.tool_call_id
    parts = (older.message.name or names.get(id) or "unknown", f"{older.number}-{id}" if id else str(older.number))
    return OUTPUT + "/".join(_NO_NAME.sub("_", part)[:_LONGEST_NAME] for part in parts) + ".txt"


def _as_text(path: str, older: HistoryMessage) -> FileText:
    text = older.message.text[-_LONGEST:]
    return FileText(path, text, sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), older.tokens)
