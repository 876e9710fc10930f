"""The context document: lasting information from raw messages, in at most 5000 characters."""

import json
from collections.abc import Sequence

from ctxwrap.documents.comparison import (
    ChangeHints,
    Gist,
    compare_gists,
    confirm,
    covers,
    date_change_in,
    finished_task,
    gist_of,
    is_applied,
    is_dated,
    is_open,
    moved_line,
    rephrase,
    replace_day,
    says_only_done,
    tick,
)
from ctxwrap.documents.extraction import IGNORED_ROLES, DocumentLine, extract_lines, line_of_item
from ctxwrap.documents.sections import Section, append_line, list_lines, sections_of, text_of
from ctxwrap.documents.sentences import (
    MAX_READ,
    MemoryLine,
    RawMessage,
    in_one_line,
    is_filler,
    require_raw,
    sentences_in,
    strip_opener,
)
from ctxwrap.documents.trimming import LONGEST, TRIMMED, drop_surplus_decisions, trimmed
from ctxwrap.language.words import terms_of

__all__ = ["LONGEST", "TRIMMED", "trimmed"]

PLACEHOLDER = (
    "This is default context that's created with the memory. "
    "Instructions for AI Agent: Provide relevant context as soon as it's available."
)
"""The document of a memory that was never written to."""

_INIT = "NEW MEMORY – init context"

EMPTY = "# Description\n"
"""The document of a memory without content."""

_TASK, _LINE = "- [ ] ", "- "
_SEPARATE = frozenset({"Tasks", "Participants", "Notes"})
_Line = tuple[int, int, str]
"""The positions of a section and of a unit in it, and that unit."""


def is_placeholder(text: str) -> bool:
    text = text.strip() if len(text) < 1000 else ""
    if text.startswith("{"):
        try:
            text = json.loads(text)["activeContext"]
        except (ValueError, KeyError, TypeError):
            return False
    return text in (PLACEHOLDER, _INIT)


def grow(document: str, entries: Sequence[RawMessage], items: Sequence[MemoryLine] = ()) -> str:
    """Merge new messages and memory items into the document, and trim it.

    Existing text stays, except lines that a message confirms or changes, and finished tasks.
    """
    for entry in entries:
        require_raw(entry)
    document = EMPTY if is_placeholder(document) else trimmed(document)
    hints = ChangeHints([*(entry.text for entry in entries), *(item.content for item in items)])
    growth = _DocumentMerge(document, hints)
    for entry in entries:
        growth.take(entry)
    for item in items:
        growth.remember(item)
    return trimmed(drop_surplus_decisions(text_of(growth.sections))) if growth.changed else document


class _DocumentMerge:
    """A document during the merge."""

    def __init__(self, document: str, hints: ChangeHints) -> None:
        self.sections = sections_of(document)
        self._hints = hints
        self._found: dict[str, list[_Line]] = {}
        """The list lines of the sections as they are, by standard heading, as far as they were looked for."""
        self._tasks: list[str] | None = None
        """The open tasks among them."""
        self._blank = document.strip() in ("", EMPTY.strip())
        self.changed = False
        self._asked: list[str] = []
        """Tasks from the last message."""

    def take(self, raw: RawMessage) -> None:
        raw = in_one_line(raw)
        role = raw.role
        if role.lower() in IGNORED_ROLES:
            return
        if self._blank:
            self._describe(raw)
        if raw.speaker:
            self._merge(DocumentLine("Participants", f"{raw.speaker} – {role}"), "")
        changes: Sequence[bool] = ()
        if self._hints.may_change(raw.text, self._open_tasks()):
            changes = [self._finish(sentence, raw) or self._move(sentence) for sentence in _sentences(raw)]
        if role == "assistant":
            return
        lines = [] if any(changes) and len(changes) == 1 else extract_lines(raw, raw.speaker or role.capitalize())
        self._asked = [text for line in lines if (text := self._merge(line, raw.day)) and line.section == "Tasks"]

    def remember(self, item: MemoryLine) -> None:
        """Merge a memory item. An item that reports a finished task ticks it and adds no line."""
        said = item.content
        may_change = len(said) > MAX_READ or self._hints.may_change(said, self._open_tasks())
        if not said.strip() or (may_change and (self._finish(said) or self._move(said))):
            return
        self._merge(line_of_item(item.type, item.content, "User"), "", is_item=True)

    def _describe(self, raw: RawMessage) -> None:
        self._blank = False
        since = f" since {raw.day}" if raw.day else ""
        self._set(append_line(self.sections, "Description", f"A conversation between user and assistant{since}."))

    def _set(self, sections: list[Section]) -> None:
        self.sections, self.changed = sections, True
        self._found, self._tasks = {}, None

    def _finish(self, sentence: str, raw: RawMessage | None = None) -> bool:
        """Tick the task that the sentence finishes; return whether there was one."""
        tasks = [each for each in self._lines("Tasks") if is_open(each[2])]
        at = finished_task(sentence, [line for _, _, line in tasks])
        if at is None and raw and len(self._asked) == 1 and says_only_done(sentence):
            at = next((place for place, task in enumerate(tasks) if task[2] == self._asked[0]), None)
        if at is not None:
            section, place, line = tasks[at]
            self._replace(section, place, tick(line, raw.day if raw else ""))
        return at is not None

    def _move(self, sentence: str) -> bool:
        """Change the day of the line that the sentence moves; return whether there was one."""
        move = date_change_in(sentence)
        lines = (
            [each for name in ("Timeline", "Facts", "Tasks", "Decisions", "") for each in self._lines(name)]
            if move
            else []
        )
        texts = [line for _, _, line in lines]
        if move is None or is_applied(move, texts):
            return move is not None
        if (at := moved_line(move, texts)) is None:
            return False
        section, place, line = lines[at]
        changed = replace_day(line, move.day)
        self._replace(section, place, confirm(changed))
        return changed != line

    def _lines(self, name: str) -> list[_Line]:
        """Return the list lines under a standard heading, or under other headings for "", with their positions."""
        if name not in self._found:
            self._found[name] = [
                (at, place, unit)
                for at, section in enumerate(self.sections)
                if section.name == name
                for place, unit in list_lines(section)
            ]
        return self._found[name]

    def _open_tasks(self) -> list[str]:
        if self._tasks is None:
            self._tasks = [line for _, _, line in self._lines("Tasks") if is_open(line)]
        return self._tasks

    def _merge(self, new: DocumentLine, day: str, is_item: bool = False) -> str:
        """Merge a line: skip it if known, replace the line it changes, else append it to its section.

        Return the resulting line, or "".
        """
        said = f" ({day})" if day and new.section != "Participants" else ""
        line = f"{_TASK if new.section == 'Tasks' else _LINE}{new.text}{said}"
        gist = gist_of(line)
        if self._has(gist.text) or self._is_covered(gist, new, is_item):
            return ""
        for at, place, unit in self._lines_beside(new.section):
            outcome = compare_gists(gist_of(unit), gist)
            if outcome == "confirmed":
                self._replace(at, place, confirm(unit))
            if outcome in ("same", "confirmed"):
                return ""
            if outcome == "changed" and (changed := self._change(at, place, new.section, line)):
                return changed
        self._set(append_line(self.sections, new.section, line))
        return line

    def _is_covered(self, gist: Gist, new: DocumentLine, is_item: bool) -> bool:
        """Whether a line of the section already says this; an item's wording replaces a line from rules."""
        lines = self._lines(new.section) if new.section != "Tasks" else ()
        own = self._own_terms() if lines else frozenset()
        for at, place, unit in lines:
            old = gist_of(unit)
            if covers(old, gist, new.section, own):
                return True
            if is_item and is_dated(unit) and covers(gist, old, new.section, own):
                self._replace(at, place, rephrase(unit, new.text))
                return True
        return False

    def _own_terms(self) -> frozenset[str]:
        """Return the terms of the user's name."""
        lines = (line for _, _, line in self._lines("Participants"))
        return frozenset(term for line in lines if line.endswith(" – user") for term in terms_of(line))

    def _has(self, text: str) -> bool:
        for section in self.sections:
            for unit in section.units:
                if text in unit and gist_of(unit).text == text:
                    return True
        return False

    def _lines_beside(self, section: str) -> list[_Line]:
        """Return the lines that may share the subject; tasks, participants and notes only among themselves."""
        if section in _SEPARATE:
            return self._lines(section)
        names = dict.fromkeys(each.name for each in self.sections)
        return [line for name in names if name not in _SEPARATE for line in self._lines(name)]

    def _change(self, at: int, place: int, section: str, line: str) -> str:
        """Replace an outdated line if nothing else is lost; return the new line, or ""."""
        unit = self.sections[at].units[place]
        old, new = gist_of(unit), gist_of(line)
        days = sorted(new.days - old.days)
        if len(days) == 1 and old.days and (changed := replace_day(unit, days[0].lstrip("-"))) != unit:
            self._replace(at, place, changed if new.tentative else confirm(changed))
            return changed
        if old.terms <= new.terms and self.sections[at].name and unit.startswith(_LINE):
            self._set(append_line(self._with(at, place, None), section, line))
            return line
        return ""

    def _replace(self, at: int, place: int, line: str) -> None:
        self._set(self._with(at, place, line))

    def _with(self, at: int, place: int, line: str | None) -> list[Section]:
        """The sections with another line at a position, or without it."""
        section = self.sections[at]
        units = (*section.units[:place], *(() if line is None else (line,)), *section.units[place + 1 :])
        empty = line is None and not any(map(str.strip, units))
        kept = [] if empty and at else [Section(section.heading, units)]
        return [*self.sections[:at], *kept, *self.sections[at + 1 :]]


def _sentences(raw: RawMessage) -> list[str]:
    return [
        text
        for sentence in sentences_in(raw.text)
        if not is_filler(text := strip_opener(sentence)) or says_only_done(text)
    ]
