"""What the orchestrator does to the working set by itself: tool outputs come and go, files rise and sink with use."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ctxwrap.workingset.fields import path_fault
from ctxwrap.workingset.hints import Hints
from ctxwrap.workingset.manifest import Manifest, WorkingFile
from ctxwrap.workingset.updates import ADD, ADJUST, REMOVE, Decision, Outcome


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


class Use(NamedTuple):
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
    uses: Mapping[str, Use],
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
    uses: Mapping[str, Use],
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


def _by_use(file: WorkingFile, use: Use | None, turn: int, rules: TendingRules) -> tuple[float, str]:
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
