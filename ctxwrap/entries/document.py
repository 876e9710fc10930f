"""The context document: what lasts of a conversation, grown from raw messages only, in at most 5000 characters."""

import json
from collections.abc import Sequence

from ctxwrap.entries.finishing import finished_by, is_ticked, says_only_done
from ctxwrap.entries.learning import SILENT, Learnt, learnt_from, sentences_said, short
from ctxwrap.entries.persons import told_of
from ctxwrap.entries.raw import Raw, must_be_raw
from ctxwrap.entries.requests import names_in
from ctxwrap.entries.sameness import as_confirmed, bare, gist_of, verdict, with_day
from ctxwrap.entries.sections import Section, sections_of, text_of, with_line
from ctxwrap.entries.sentences import cut, readable
from ctxwrap.entries.telling import facts_in
from ctxwrap.entries.trimming import LONGEST, TRIMMED, settled, trimmed

__all__ = ["EMPTY", "LONGEST", "PLACEHOLDER", "TRIMMED", "grown", "is_placeholder", "trimmed"]

PLACEHOLDER = (
    "This is default context that's created with the memory. "
    "Instructions for AI Agent: Provide relevant context as soon as it's available."
)
"""What a memory that nobody has written to has for a document."""

_INIT = "NEW MEMORY – init context"

EMPTY = "# Description\n"
"""The document of a memory that knows nothing yet."""

_TASK, _LINE = "- [ ] ", "- "
_ALONE = frozenset({"Tasks", "Entities", "Notes"})
_MARKS = ("- ", "* ", "• ", "+ ")


def is_placeholder(text: str) -> bool:
    """Whether a document is only what a memory begins with."""
    text = text[:1000].strip()
    if text.startswith("{"):
        try:
            text = json.loads(text)["activeContext"]
        except (ValueError, KeyError, TypeError):
            return False
    return text in (PLACEHOLDER, _INIT)


def grown(document: str, entries: Sequence[Raw]) -> str:
    """The document with what new messages tell merged in, and no longer than it may be.

    What stands in it is kept as it is, but for a line that a message confirms or changes, and tasks that are done.
    """
    entries = [must_be_raw(entry) for entry in entries]
    document = EMPTY if is_placeholder(document) else trimmed(document)
    growth = _Growth(document)
    for entry in entries:
        growth.take(entry)
    return trimmed(settled(text_of(growth.sections))) if growth.changed else document


class _Growth:
    """A document while messages are merged into it."""

    def __init__(self, document: str) -> None:
        self.sections = sections_of(document)
        self._blank = document.strip() in ("", EMPTY.strip())
        self.changed = False
        self._names = names_in(document)
        self._asked: list[str] = []
        """The tasks that the last message brought."""

    def take(self, raw: Raw) -> None:
        if raw.role in SILENT:
            return
        self._describe(raw)
        who = self._who(raw)
        sentences = [sentence for sentence in sentences_said(raw) if not self._finish(sentence, raw)]
        asked = []
        for learnt in learnt_from(sentences, raw, who):
            line = _line(learnt, raw)
            if self._merge(learnt, line) and learnt.section == "Tasks":
                asked.append(line)
        self._asked = asked or self._asked if raw.role == "assistant" else asked

    def _who(self, raw: Raw) -> str:
        """How a speaker is called; one with a name is a participant."""
        name = cut(" ".join(readable(raw.speaker).split()), 60)
        if name:
            self._merge(learnt := Learnt("Entities", f"{name} – {raw.role}", 0.0), _LINE + learnt.text)
        return name or self._names.get(raw.role) or raw.role.capitalize() or "Somebody"

    def _describe(self, raw: Raw) -> None:
        if self._blank:
            self._blank = False
            since = f" since {raw.day}" if raw.day else ""
            self._set(with_line(self.sections, "Description", f"A conversation between user and assistant{since}."))

    def _set(self, sections: list[Section]) -> None:
        self.sections, self.changed = sections, True

    def _finish(self, sentence: str, raw: Raw) -> bool:
        """Take the task away that the sentence says is done; whether there was one."""
        tasks = self._open_tasks()
        at = finished_by(sentence, [line for _, _, line in tasks])
        if at is None and len(self._asked) == 1 and says_only_done(sentence):
            at = next((place for place, task in enumerate(tasks) if task[2] == self._asked[0]), None)
        if at is None:
            return False
        section, unit, line = tasks[at]
        self._replace(section, unit, None)
        more = facts_in(sentence) - facts_in(bare(line))
        done = Learnt("Notes", f"Done: {short(told_of(sentence, self._who(raw))) if more else bare(line)}", 0.0)
        self._merge(done, _line(done, raw))
        return True

    def _open_tasks(self) -> list[tuple[int, int, str]]:
        return [
            (at, place, unit)
            for at, section in enumerate(self.sections)
            if section.name == "Tasks"
            for place, unit in enumerate(section.units)
            if unit.startswith(_MARKS) and not is_ticked(unit)
        ]

    def _merge(self, learnt: Learnt, line: str) -> bool:
        """Bring a line in: nowhere if it is known, in the place of what it changes, else at the end of its section."""
        new = gist_of(line)
        if self._has(new.text):
            return False
        for at, place, unit in self._lines_beside(learnt.section):
            said = verdict(gist_of(unit), new)
            if said == "confirmed":
                self._replace(at, place, as_confirmed(unit))
            if said in ("same", "confirmed"):
                return False
            if said == "changed" and self._change(at, place, learnt, line):
                return True
        self._set(with_line(self.sections, learnt.section, line))
        return True

    def _has(self, text: str) -> bool:
        units = (unit for section in self.sections for unit in section.units)
        return any(text in unit and gist_of(unit).text == text for unit in units)

    def _lines_beside(self, section: str) -> list[tuple[int, int, str]]:
        """The lines that may speak of the same thing as one of that section, each with its place."""
        return [
            (at, place, unit)
            for at, each in enumerate(self.sections)
            if _comparable(each.name, section)
            for place, unit in enumerate(each.units)
            if unit.lstrip().startswith(_MARKS) and "\n" not in unit
        ]

    def _change(self, at: int, place: int, learnt: Learnt, line: str) -> bool:
        """Put what is new in the place of what was; whether that is possible without losing anything else."""
        unit = self.sections[at].units[place]
        old, new = gist_of(unit), gist_of(line)
        if old.terms <= new.terms and _is_ours(self.sections[at], unit):
            self._replace(at, place, None)
            self._set(with_line(self.sections, learnt.section, line))
            return True
        days = sorted(new.days - old.days)
        if len(days) == 1 and (changed := with_day(unit, days[0])) != unit:
            self._replace(at, place, changed if new.tentative else as_confirmed(changed))
            return True
        return False

    def _replace(self, at: int, place: int, line: str | None) -> None:
        section = self.sections[at]
        units = (*section.units[:place], *(() if line is None else (line,)), *section.units[place + 1 :])
        empty = not any(map(str.strip, units)) and line is None
        kept = [] if empty and at else [Section(section.heading, units)]
        self._set([*self.sections[:at], *kept, *self.sections[at + 1 :]])


def _is_ours(section: Section, unit: str) -> bool:
    """Whether a line may be one that was grown; others stay where they are."""
    return bool(section.name) and unit.startswith(_LINE)


def _comparable(known: str, new: str) -> bool:
    """Whether lines of two sections may speak of the same thing: tasks, names and notes only among themselves."""
    return known == new or _ALONE.isdisjoint({known, new})


def _line(learnt: Learnt, raw: Raw) -> str:
    said = f" ({raw.day})" if raw.day and learnt.section != "Entities" else ""
    return f"{_TASK if learnt.section == 'Tasks' else _LINE}{learnt.text}{said}"
