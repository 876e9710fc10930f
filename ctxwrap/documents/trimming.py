"""Shortens a document, removing the oldest and least informative lines first."""

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ctxwrap.documents.comparison import is_ticked
from ctxwrap.documents.sections import Section, sections_of, text_of
from ctxwrap.documents.sentences import assigns, character_boundary, decides, facts_in, one_line, shorten

LONGEST = 5000
TRIMMED = 4800
CORE = 3800
"""Participants, tasks and decisions together may use this much as long as decisions can be removed."""

_ALWAYS_KEPT = 20
"""This many decisions are always kept."""

_READ_HEAD, _READ_TAIL = 15_000, 25_000
"""Characters read from the start and the end of a text; the middle is skipped."""

_CORE = frozenset({"Description", "Decisions", "Tasks", "Participants"})
_WEIGHTS = {"Notes": 3.0, "Timeline": 1.5, "Facts": 1.0, "Preferences": 0.5}
_OPEN_TASK = re.compile(r"\s{0,20}[-*•+]\s\[ \]\s")
_PARTICIPANT = re.compile(
    r"\s{0,20}[-*•+]\s\**[^\W\d_][\w .'’\-]{1,60}\** (?:–|—|-|\() ?\w|.{0,40}\bparticipants?\b", re.I
)
_NEVER_OLD = 1_000_000
"""The age of lines that are removed last."""


class LinePosition(NamedTuple):
    section: int
    unit: int


def trimmed(text: str) -> str:
    """Return the text, without its oldest low-value lines if it is too long.

    Participants, open tasks and decisions are removed last, oldest first. A fenced block, such as a diagram, is removed
    as a whole.
    """
    if len(text) <= LONGEST:
        return text
    if len(text) > _READ_HEAD + _READ_TAIL:
        head_end, tail_start = (character_boundary(text, at) for at in (_READ_HEAD, len(text) - _READ_TAIL))
        text = f"{text[:head_end]}\n{text[tail_start:]}"
    sections = sections_of(text)
    gone: set[LinePosition] = set()
    left = [sum(1 for unit in section.units if unit.strip()) for section in sections]
    size = len(text)
    for place in _removal_order(sections):
        if size <= TRIMMED:
            break
        gone.add(place)
        unit = sections[place.section].units[place.unit]
        size -= len(unit) + 1
        left[place.section] -= bool(unit.strip())
        if not left[place.section] and sections[place.section].heading:
            size -= len(sections[place.section].heading) + 1
    return _cut_down(_text_without(sections, gone))


def describe_removed(before: str, after: str) -> str:
    """Describe what trimming removed: `12 of Notes, 3 of Timeline`."""
    gone = _line_counts(before) - _line_counts(after)
    return ", ".join(f"{count} of {name or 'no heading'}" for name, count in gone.items())


def _line_counts(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for section in sections_of(text):
        counts[one_line(section.heading.lstrip("# "), 40)] += sum(bool(unit.strip()) for unit in section.units)
    return counts


def drop_surplus_decisions(text: str) -> str:
    """Remove the oldest surplus decisions from a text that is too long."""
    if len(text) <= LONGEST:
        return text
    sections = sections_of(text)
    core = sum(len(unit) + 1 for section in sections if section.name in _CORE for unit in section.units)
    gone: set[LinePosition] = set()
    for place, unit in _decisions(sections)[:-_ALWAYS_KEPT]:
        if core > CORE:
            gone.add(place)
            core -= len(unit) + 1
    return _text_without(sections, gone)


def _decisions(sections: Sequence[Section]) -> list[tuple[LinePosition, str]]:
    return [
        (LinePosition(at, place), unit)
        for at, section in enumerate(sections)
        if section.name == "Decisions"
        for place, unit in enumerate(section.units)
        if unit.strip()
    ]


def _text_without(sections: Sequence[Section], gone: set[LinePosition]) -> str:
    """Return the remaining text, without headings whose lines are all removed."""
    kept = []
    for at, section in enumerate(sections):
        units = tuple(unit for place, unit in enumerate(section.units) if LinePosition(at, place) not in gone)
        changed = len(units) != len(section.units)
        if not changed or any(unit.strip() for unit in units):
            kept.append(Section(section.heading, units))
    return text_of(kept)


def _cut_down(text: str) -> str:
    """Cut a text whose single line is too long."""
    return text if len(text) <= LONGEST else shorten(text, TRIMMED)


def _removal_order(sections: Sequence[Section]) -> Iterator[LinePosition]:
    """Yield all positions in the order of removal."""
    heap = [entry for at, section in enumerate(sections) for entry in _ranked(at, section)]
    heapq.heapify(heap)
    while heap:
        yield heapq.heappop(heap)[-1]


def _ranked(at: int, section: Section) -> Iterator[tuple[bool, float, LinePosition]]:
    """Yield each unit with whether it is core, and its age: the number of later units of the same kind."""
    following = {True: 0, False: 0}
    for place in range(len(section.units) - 1, -1, -1):
        unit = section.units[place]
        core = _is_core(section.name, unit)
        age = following[core] * _WEIGHTS.get(section.name, 1.0)
        if section.name == "Description":
            age -= _NEVER_OLD
        elif not unit.strip():
            core, age = False, float(_NEVER_OLD) if _is_repeated_blank(section.units, place) else -1.0
        yield core, -age, LinePosition(at, place)
        following[core] += 1


def _is_repeated_blank(units: Sequence[str], place: int) -> bool:
    """Whether an empty line follows another."""
    return place > 0 and not units[place - 1].strip()


def _is_core(name: str, unit: str) -> bool:
    """Whether a unit is a participant, decision or open task, by its heading or else by its words."""
    if is_ticked(unit):
        return False
    if name:
        return name in _CORE
    line = unit[:600]
    if _OPEN_TASK.match(line) or _PARTICIPANT.match(line):
        return True
    return decides(line) or (assigns(line) and bool(facts_in(line)))
