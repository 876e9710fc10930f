"""Automatic priorities: files rise with use and sink without, and large tool outputs become files."""

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
class TendingRules:
    output_priority: float = 0.3
    most_outputs: int = 5
    """So many tool outputs are kept, the newest."""
    output_turns: int = 5
    """A tool's output goes after so many turns."""
    often: int = 3
    """A file that is referenced so often rises."""
    unused_turns: int = 5
    """A file sinks one step for every so many turns in which nobody referenced it."""
    step: float = 0.1
    highest: float = 0.95
    """No file rises beyond that."""
    highest_by_hint: float = 0.8
    lowest: float = 0.1
    """No file sinks below that."""


class FileUse(NamedTuple):
    """How a file was used of late."""

    references: int
    last_turn: int


class ToolOutput(NamedTuple):
    """What a tool gave, as a file that nobody wrote."""

    path: str
    """One that no file can have."""
    turn: int
    why: str = "recent tool output"


def with_outputs(
    manifest: Manifest,
    outputs: Sequence[ToolOutput],
    turn: int,
    before: Collection[str] = (),
    rules: TendingRules | None = None,
) -> Outcome:
    """The manifest for this turn's assembly with recent tool outputs, the newest of those given; it is not to be saved.

    The decisions tell what came and what went since the last turn, which had those of the paths `before`.
    """
    rules = rules or TendingRules()
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


def in_effect(
    manifest: Manifest,
    uses: Mapping[str, FileUse],
    turn: int,
    hints: Hints | None = None,
    rules: TendingRules | None = None,
) -> Outcome:
    """The manifest for this turn's assembly, its priorities moved by use and hints; it is not to be saved.

    What a file has in the manifest is where each turn starts from, so nothing adds up. Vital and pinned files, and
    those of the system and the developer, stay where they are; hints do not move what the operator put there.
    """
    rules = rules or TendingRules()
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


def _modest(manifest: Manifest, rules: TendingRules) -> float:
    """The priority of outputs: never above a file that the model must not be without."""
    return min([rules.output_priority, *(file.priority for file in manifest.files if file.is_vital)])


def _came(file: WorkingFile) -> Decision:
    reason = "it is large, and no longer sent with the conversation"
    return Decision(ADD, file.path, True, reason, file.why, file.priority, "orchestrator")


def _why_gone(age: int | None, rules: TendingRules) -> str:
    if age is None:
        return "it is sent with the conversation, or not at hand any more"
    return f"the output is {age} turns old" if age > rules.output_turns else "there are newer outputs"


def _moved(
    file: WorkingFile,
    uses: Mapping[str, FileUse],
    turn: int,
    hints: Hints,
    rules: TendingRules,
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


def _by_use(file: WorkingFile, use: FileUse | None, turn: int, rules: TendingRules) -> tuple[float, str]:
    if use and use.references >= rules.often and turn - use.last_turn < rules.unused_turns:
        risen = _between(file.priority + rules.step, file.priority, rules, rules.highest)
        return risen, f"referenced {use.references} times"
    unused = max(0, turn - (use.last_turn if use else file.turn or 0))
    if steps := unused // rules.unused_turns:
        sunk = _between(file.priority - steps * rules.step, file.priority, rules, rules.highest)
        return sunk, f"not referenced for {unused} turns"
    return file.priority, ""


def _between(wanted: float, now: float, rules: TendingRules, highest: float) -> float:
    """`wanted`, as far as the rules let a file move from where it is."""
    bounded = min(wanted, max(highest, now)) if wanted > now else max(wanted, min(rules.lowest, now))
    return round(bounded, 6)


_ROUNDS = 10
"""So many rounds are looked at for what they speak of."""
_LOOK = 32 * 1024
"""So many characters of them at most."""
_LARGE = 1000
"""A tool's result of so many characters is worth a file."""
_LONGEST = 64 * 1024
"""So many characters of a result are kept, the last ones."""
_LONGEST_NAME = 64
_SEEN = TendingRules().output_turns + 1
"""Results of so many turns ago are looked at: the last of them is too old, which is worth a word."""
_WORD = re.compile(r"[\w.-]+")
_NO_NAME = re.compile(r"[^\w.-]+")


class UsageMessage(NamedTuple):
    """A message of the conversation, by its place from the first one, and the round it belongs to."""

    at: int
    round: int
    message: Message


def backwards(messages: Sequence[Message], last: int) -> Iterator[UsageMessage]:
    """The messages of a conversation in round `last`, the newest first: a round begins with what a user says."""
    for at in range(len(messages) - 1, -1, -1):
        yield UsageMessage(at, last, messages[at])
        is_first = messages[at].role == "user" and (at == 0 or messages[at - 1].role != "user")
        last -= is_first


def followed(offered: WorkingSetView, messages: Sequence[Message], round: int) -> WorkingSetView:
    """With the priorities of this turn: moved by what the last rounds speak of, and by hints."""
    uses = uses_in(offered.manifest.files, messages, round)
    outcome = in_effect(offered.manifest, uses, round, offered.hints)
    return offered._replace(manifest=outcome.manifest, adjusted=outcome.decisions)


def uses_in(files: Iterable[WorkingFile], messages: Sequence[Message], round: int) -> dict[str, FileUse]:
    """In how many of the last rounds each file is spoken of, and when last; before the first of them is not known."""
    texts = dict(_texts_by_round(messages, round))
    words = {number: frozenset(each.rstrip(".-") for each in _WORD.findall(text)) for number, text in texts.items()}
    oldest = min(texts, default=round + 1)
    uses = {}
    for file in files:
        name = file.path.rpartition("/")[2]  # a path that is named names it, too
        said = words if _WORD.fullmatch(name) else texts
        spoken = [number for number in texts if name in said[number]]
        uses[file.path] = FileUse(len(spoken), max(spoken, default=max(oldest - 1, min(file.turn or 0, round))))
    return uses


def _texts_by_round(messages: Sequence[Message], last: int) -> Iterator[tuple[int, str]]:
    """What was said in the newest rounds that can be looked at as a whole; of the last one at least a part."""
    recent: list[str] = []
    left, current = _LOOK, last
    for told in backwards(messages, last):
        if left < 0:
            break
        if told.round != current:
            yield current, "\n".join(recent)
            recent, current = [], told.round
        if last - current >= _ROUNDS:
            return
        text = _words_of(told.message)
        recent.append(text[:left])
        left -= len(text)
    if recent and (left >= 0 or current == last):
        yield current, "\n".join(recent)


def _words_of(message: Message) -> str:
    return "\n".join([message.text, *(str(call.get("arguments", "")) for call in message.tool_calls)])


def with_results(
    offered: WorkingSetView,
    messages: Sequence[Message],
    unsent: Sequence[HistoryMessage],
    round: int,
    before: Collection[str],
) -> WorkingSetView:
    """With the large results of tools that are not sent, the first of the messages, as files that nobody wrote.

    `before` are the paths of those that the last turn had; `outputs` of what comes back tells what came and went.
    """
    results: dict[str, tuple[int, HistoryMessage]] = {}
    names: dict[str, str] = {}
    for told in reversed([*takewhile(lambda told: told.round >= round - _SEEN, backwards(messages, round))]):
        names |= {str(call.get("id")): str(call.get("name")) for call in told.message.tool_calls}
        if told.at < len(unsent) and _is_large_result(told.message):
            older = unsent[told.at]
            results[_path(older, names)] = told.round, older
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
    """A path that no file can have, since one of its parts is empty."""
    id = older.message.tool_call_id
    parts = (older.message.name or names.get(id) or "unknown", f"{older.number}-{id}" if id else str(older.number))
    return OUTPUT + "/".join(_NO_NAME.sub("_", part)[:_LONGEST_NAME] for part in parts) + ".txt"


def _as_text(path: str, older: HistoryMessage) -> FileText:
    text = older.message.text[-_LONGEST:]
    return FileText(path, text, sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), older.tokens)
