"""Sections of a context document, and the Mermaid diagrams in it."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

HEADINGS = ("Description", "Participants", "Facts", "Preferences", "Decisions", "Tasks", "Notes", "Timeline")
"""In document order."""

_OTHER_HEADINGS = {
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
"""First words of other headings that mean a standard one."""

_MARKS = ("- ", "* ", "• ", "+ ")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_NAME = re.compile(r"[\w\-]+")


class Section(NamedTuple):
    heading: str
    """The complete line; empty before the first heading."""
    units: tuple[str, ...]
    """Lines; a fenced block is one unit."""

    @property
    def name(self) -> str:
        """The standard heading, or ""."""
        return standard_name(self.heading)


@lru_cache(maxsize=256)
def standard_name(heading: str) -> str:
    found = _NAME.search(heading[:80])
    word = found[0].lower() if found else ""
    return word.capitalize() if word.capitalize() in HEADINGS else _OTHER_HEADINGS.get(word, "")


@lru_cache(maxsize=64)
def list_lines(section: Section) -> tuple[tuple[int, str], ...]:
    """Return the lines of lists, with their positions; of a growing document most sections stay as they are."""
    return tuple(
        (place, unit)
        for place, unit in enumerate(section.units)
        if unit.lstrip().startswith(_MARKS) and "\n" not in unit
    )


def sections_of(document: str) -> list[Section]:
    """Split a document; the first section has no heading."""
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
    """Map each opening fence to its closing line; an unclosed fence is plain text."""
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


def append_line(sections: Sequence[Section], name: str, line: str) -> list[Section]:
    """Append a line to a section, creating the section if needed."""
    for at, section in enumerate(sections):
        if section.name == name:
            return [*sections[:at], Section(section.heading, _appended(section.units, line)), *sections[at + 1 :]]
    at = _place(sections, name)
    following = ("",) if at < len(sections) else ()
    before = list(sections[:at])
    if any(section.heading or any(map(str.strip, section.units)) for section in before):
        before[-1] = Section(before[-1].heading, _with_blank_end(before[-1].units))
    return [*before, Section(f"# {name}", (line, *following)), *sections[at:]]


def _place(sections: Sequence[Section], name: str) -> int:
    """Return the position of a new section: after the last standard one that precedes it."""
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


MAX_NODES = 10

_BLOCK = re.compile(
    r"^ {0,3}(?P<fence>```|~~~)[ \t]*mermaid\b[^\n]*\n(?P<code>.*?)(?:^ {0,3}(?P=fence)|\Z)", re.M | re.S
)
_COMMENT = re.compile(r"%%[^\n]*")
_QUOTED = re.compile(r"\"[^\"\n]*\"")
_PIPED = re.compile(r"\|[^|\n]*\|")
_SHAPE = re.compile(r"\[[^\[\](){}\n]*\]|\([^\[\](){}\n]*\)|\{[^\[\](){}\n]*\}")
_NESTED = 4
_LABELLED = re.compile(r"(--|==|-\.)[ \t]+[^-=.>\n]{1,80}[ \t]*(?=--|==|\.-)")
_ARROW = re.compile(r"\s?[<ox]?(?:-{2,}|={2,}|-\.{1,3}-|\.-|~{3,})[>ox]?\s?")
_RELATION = re.compile(r"\s?[<|*o}]{0,3}(?:-{1,2}|\.\.)[>|*ox){+]{0,4}-?\s?")
_NODE = re.compile(r"[ \t]*(?P<id>[^\s:&;,<>|@\[({]+)")
_DECLARED = re.compile(r"[ \t]*(?:participant|actor|state|class|entity)[ \t]+(?:\S*[ \t]+as[ \t]+)?(?P<id>[\w.*\-]+)")
_NO_NODE_WORDS = """
    subgraph end style classdef class click linkstyle direction note loop alt else opt par and critical break rect
    activate deactivate autonumber title acctitle accdescr box state participant actor destroy create [*]
"""
_NO_NODE = frozenset(_NO_NODE_WORDS.split())


def node_counts(document: str) -> list[int]:
    """Return the number of nodes of each diagram, in order."""
    return [len(_nodes(found["code"])) for found in _BLOCK.finditer(document)]


def _nodes(code: str) -> set[str]:
    lines = [line for line in re.split(r"[\n;]", _QUOTED.sub(" ", _COMMENT.sub("", code))) if line.strip()]
    kind = lines[0].split()[0].lower() if lines else ""
    if kind == "mindmap":
        return {f"{at}" for at, _ in enumerate(lines[1:])}
    read = _of_flowchart if kind in ("graph", "flowchart") else _of_relations if _is_graph(kind) else lambda line: set()
    return {node for line in lines[1:] for node in read(line) if node.lower() not in _NO_NODE}


def _is_graph(kind: str) -> bool:
    return kind.startswith(("sequence", "state", "class", "er"))


def _of_flowchart(line: str) -> set[str]:
    if line.split()[0].lower() in _NO_NODE:
        return set()
    line = _PIPED.sub(" ", line)
    for _ in range(_NESTED):
        line = _SHAPE.sub(" ", line)
    line = _LABELLED.sub(r"\1", " ".join(line.split()))
    return _ids(part for side in _ARROW.split(line) for part in side.split("&"))


def _of_relations(line: str) -> set[str]:
    """Return both sides of a message, transition or relation, or the declared node."""
    if declared := _DECLARED.match(line):
        return {declared["id"]}
    sides = _RELATION.split(" ".join(line.partition(":")[0].split()), maxsplit=1)
    return _ids(sides) if len(sides) == 2 else set()


def _ids(parts: Iterable[str]) -> set[str]:
    return {found["id"] for part in parts if (found := _NODE.match(part))}
