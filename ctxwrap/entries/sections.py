"""Sections: a context document as headings with what stands under them, and back to the same text."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

HEADINGS = ("Description", "Participants", "Facts", "Preferences", "Decisions", "Tasks", "Notes", "Timeline")
"""In the order in which a document has them."""

_ALSO = {
    "people": "Participants",
    "entities": "Participants",
    "participant": "Participants",
    "todo": "Tasks",
    "to-do": "Tasks",
    "open": "Tasks",
    "active": "Tasks",
    "task": "Tasks",
    "action": "Tasks",
    "decision": "Decisions",
    "decided": "Decisions",
    "preference": "Preferences",
    "fact": "Facts",
    "note": "Notes",
}
"""First words of headings that mean one of ours."""

_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_NAME = re.compile(r"[\w\-]+")


class Section(NamedTuple):
    heading: str
    """The whole line; empty for what stands before the first heading."""
    units: tuple[str, ...]
    """Lines, and blocks between fences as one."""

    @property
    def name(self) -> str:
        """The one of our headings that it is, or nothing."""
        return name_of(self.heading)


@lru_cache(maxsize=256)
def name_of(heading: str) -> str:
    found = _NAME.search(heading[:80])
    word = found[0].lower() if found else ""
    return word.capitalize() if word.capitalize() in HEADINGS else _ALSO.get(word, "")


def sections_of(document: str) -> list[Section]:
    """The parts of a document; the first has no heading."""
    found = [("", list[str]())]
    for unit in _units(document.split("\n")):
        if _HEADING.match(unit):
            found.append((unit, []))
        else:
            found[-1][1].append(unit)
    return [Section(heading, tuple(units)) for heading, units in found]


def _units(lines: Sequence[str]) -> Iterable[str]:
    ends = _fence_ends(lines)
    at = 0
    while at < len(lines):
        end = ends.get(at, at) + 1
        yield "\n".join(lines[at:end])
        at = end


def _fence_ends(lines: Sequence[str]) -> dict[int, int]:
    """For each line that opens a block the one that closes it; a block that nothing closes is none."""
    ends: dict[int, int] = {}
    opened: tuple[int, str] | None = None
    for at, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and opened is None:
            opened = at, fence[1]
        elif fence and opened and fence[1] == opened[1] and line.strip() == fence[1]:
            ends[opened[0]], opened = at, None
    return ends


def text_of(sections: Iterable[Section]) -> str:
    lines: list[str] = []
    for section in sections:
        lines += [section.heading, *section.units] if section.heading else section.units
    return "\n".join(lines)


def with_line(sections: Sequence[Section], name: str, line: str) -> list[Section]:
    """The sections with a line more at the end of one of them, which is made if there is none."""
    for at, section in enumerate(sections):
        if section.name == name:
            return [*sections[:at], Section(section.heading, _appended(section.units, line)), *sections[at + 1 :]]
    at = _place(sections, name)
    following = ("",) if at < len(sections) else ()
    before = list(sections[:at])
    if text_of(before).strip():
        before[-1] = Section(before[-1].heading, _with_blank_end(before[-1].units))
    return [*before, Section(f"# {name}", (line, *following)), *sections[at:]]


def _place(sections: Sequence[Section], name: str) -> int:
    """Where a new section goes: behind the last of ours that comes before it."""
    earlier = set(HEADINGS[: HEADINGS.index(name)])
    places = [at + 1 for at, section in enumerate(sections) if section.name in earlier]
    return max(places, default=1)


def _with_blank_end(units: tuple[str, ...]) -> tuple[str, ...]:
    return units if units and not units[-1].strip() else (*units, "")


def _appended(units: tuple[str, ...], line: str) -> tuple[str, ...]:
    end = len(units)
    while end and not units[end - 1].strip():
        end -= 1
    return (*units[:end], line, *units[end:])
