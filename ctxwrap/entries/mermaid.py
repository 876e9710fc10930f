"""Mermaid diagrams in a document, and how many nodes each of them has."""

import re
from collections.abc import Iterable

MOST_NODES = 10

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
_NO_NODE = frozenset(
    [
        "subgraph",
        "end",
        "style",
        "classdef",
        "class",
        "click",
        "linkstyle",
        "direction",
        "note",
        "loop",
        "alt",
        "else",
        "opt",
        "par",
        "and",
        "critical",
        "break",
        "rect",
        "activate",
        "deactivate",
        "autonumber",
        "title",
        "acctitle",
        "accdescr",
        "box",
        "state",
        "participant",
        "actor",
        "destroy",
        "create",
        "[*]",
    ]
)


def node_counts(document: str) -> list[int]:
    """The number of nodes of each diagram, in their order."""
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
    """The two sides of a message, a transition or a relation, or what is declared."""
    if declared := _DECLARED.match(line):
        return {declared["id"]}
    sides = _RELATION.split(" ".join(line.partition(":")[0].split()), maxsplit=1)
    return _ids(sides) if len(sides) == 2 else set()


def _ids(parts: Iterable[str]) -> set[str]:
    return {found["id"] for part in parts if (found := _NODE.match(part))}
