"""The memory as the practice model reads it, changes it and writes it back."""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ctxwrap.practice.answer import JSON
from ctxwrap.practice.ask import dict_at, dicts
from ctxwrap.practice.tells import Fact
from ctxwrap.practice.words import capitalized, keywords
from ctxwrap.protocol.text import VERSION
from ctxwrap.protocol.words import MAX_QUESTION, MAX_QUESTIONS

TIERS = ("core", "working", "ephemeral")

_TASK = re.compile(r"The user needs to (.+)\.")


class Notebook:
    """A state in the making; what it does not understand it leaves as it was."""

    def __init__(self, state: JSON | None = None) -> None:
        self._given = {
            str(note.get("id")): note for tier in TIERS for note in dicts(dict_at(state or {}, "memory").get(tier))
        }
        self._state = deepcopy(state or {})
        self._memory = dict_at(self._state, "memory")
        for tier in TIERS:
            if not isinstance(self._memory.get(tier), list):
                self._memory[tier] = []
        self.runtime = dict_at(self._state, "runtime")
        self._tasks_changed = False

    @property
    def round(self) -> int:
        given = self.runtime.get("round")
        return given if isinstance(given, int) else 0

    @property
    def notes(self) -> list[JSON]:
        """Every memory that says something, the longest lived first."""
        return [note for tier in TIERS for note in dicts(self._memory[tier]) if isinstance(note.get("content"), str)]

    @property
    def contents(self) -> list[str]:
        return [note["content"] for note in self.notes]

    @property
    def tasks(self) -> list[JSON]:
        """The open tasks, the newest last."""
        return sorted((note for note in self.notes if note.get("type") == "task"), key=_touched)

    def knows(self, fact: Fact) -> bool:
        """Whether anything is known about what `fact` is about."""
        return self._note_like(fact) is not None

    def _note_like(self, fact: Fact) -> JSON | None:
        same = re.compile(fact.same, re.I)
        return next((note for note in self.notes if same.fullmatch(note["content"])), None)

    def put(self, fact: Fact) -> None:
        """Remember `fact`, in the place of what was known about the same thing."""
        self._tasks_changed |= fact.type == "task"
        note = self._note_like(fact)
        if note is not None:
            note.update(content=fact.content, round=self.round)
            return
        self._memory[fact.tier].append(
            {
                "id": self._free_id(fact.id),
                "type": fact.type,
                "decay": fact.decay,
                "round": self.round,
                "tags": fact.tags,
                "content": fact.content,
            }
        )

    def write(self, tier: str, note: JSON) -> None:
        """Remember `note` as it is, in the place of the one that has its id."""
        for known in TIERS:
            self._memory[known] = [each for each in self._memory[known] if each.get("id") != note["id"]]
        self._memory[tier].append(note)

    def drop(self, notes: list[JSON]) -> None:
        self._tasks_changed |= any(note.get("type") == "task" for note in notes)
        gone = {id(note) for note in notes}
        for tier in TIERS:
            self._memory[tier] = [note for note in self._memory[tier] if id(note) not in gone]

    def miss(self, question: str) -> None:
        """Note what nobody has told."""
        told, question = dicts(self._state.get("missing")), question[:MAX_QUESTION]
        if question not in [each.get("question") for each in told]:
            new = {"question": question, "severity": "low", "needed_for": "an answer"}
            self._state["missing"] = [new, *told][:MAX_QUESTIONS]

    def settle(self, is_known: Callable[[str], bool]) -> None:
        """Let go of the questions that can be answered by now."""
        told = dicts(self._state.get("missing"))
        if told:
            self._state["missing"] = [each for each in told if not is_known(str(each.get("question")))]

    def about(self, text: str) -> list[JSON]:
        """The notes that hold every word of `text` that matters."""
        wanted = keywords(text)
        return [note for note in self.notes if wanted and wanted <= keywords(note["content"])]

    def state(self) -> JSON:
        """The state as the next round gets it."""
        return self._state | {
            "version": self._state.get("version", VERSION),
            "runtime": self.runtime,
            "memory": self._memory,
            "capabilities": self._state.get("capabilities", []),
            "active_task": self._active_task(),
        }

    def changes(self) -> JSON:
        """The state with only those notes that are new or have changed, and the ids of those that are gone."""
        state = self.state()
        kept = {str(note.get("id")) for tier in TIERS for note in dicts(self._memory[tier])}
        changed = {
            tier: [note for note in dicts(self._memory[tier]) if self._given.get(str(note.get("id"))) != note]
            for tier in TIERS
        }
        return state | {"memory": changed, "dropped": [id for id in self._given if id not in kept]}

    def _active_task(self) -> Any:
        given = self._state.get("active_task", "")
        if given and not self._tasks_changed:
            return given
        return capitalized(task_text(self.tasks[-1])) + "." if self.tasks else ""

    def _free_id(self, id: str) -> str:
        prefix = id.removesuffix("#")
        ids = (str(note.get("id")) for tier in TIERS for note in dicts(self._memory[tier]))
        numbers = [int(found[1]) for taken in ids if (found := re.fullmatch(rf"{prefix}(\d+)", taken))]
        return f"{prefix}{max(numbers, default=0) + 1}" if id.endswith("#") else id


def task_text(note: JSON) -> str:
    """What is to be done, without saying who needs to."""
    content = str(note["content"])
    found = _TASK.fullmatch(content)
    return found[1] if found else content.rstrip(".")


def _touched(note: JSON) -> int:
    given = note.get("round")
    return given if isinstance(given, int) else 0
