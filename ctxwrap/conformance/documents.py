"""Checks of context documents and entry summaries against the Context & Summary Rules."""

import re
from collections.abc import Iterator

from ctxwrap.conformance.checks import Check, Finding, describe
from ctxwrap.documents import summary
from ctxwrap.documents.sections import MAX_NODES
from ctxwrap.documents.trimming import LONGEST

_DIAGRAM = re.compile(r"(?ms)^[ \t]*```mermaid[ \t]*\n(.*?)^[ \t]*```")
_NAME = re.compile(r"[^\s\[\](){}<>|;&:\"'=.-][^\s\[\](){}<>|;&:\"']*")
_LABEL = re.compile(
    r"\[[^\]\n]{0,400}\]|\([^)\n]{0,400}\)|\{[^}\n]{0,400}\}|\|[^|\n]{0,400}\||\"[^\"\n]{0,400}\"|--[^->\n|]{1,400}(?=--)"
)
_LINK = re.compile(r"<?(?:--+|==+|-\.+-?)[>ox]?|&|;")
_NO_NODES = ("flowchart", "graph", "subgraph", "end", "classDef", "class", "style", "linkStyle", "click", "direction")

_QUOTED = re.compile(r"\"[^\"\n]{0,600}\"|“[^”\n]{0,600}”|«[^»\n]{0,600}»|「[^」\n]{0,600}」")
_PRONOUN = re.compile(
    r"(?<![\w'’])(?:I|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|[Oo]urs|[Yy]ou|[Yy]our|[Yy]ours)(?!\w)|我|你|您"
    r"|^\s*(?:[Hh]e|[Ss]he|[Tt]hey|[Ii]t)(?!\w)"
)
"""First and second person anywhere; third person at the start of a line, where it has no antecedent."""


def _long_context(text: str) -> Iterator[Finding]:
    if len(text) > LONGEST:
        yield Finding(f"{len(text)} characters")


def _large_diagrams(text: str) -> Iterator[Finding]:
    for diagram in _DIAGRAM.finditer(text):
        nodes = nodes_in(diagram[1])
        if len(nodes) > MAX_NODES:
            yield Finding(f"{len(nodes)} nodes", line=text.count("\n", 0, diagram.start()) + 1)


def nodes_in(diagram: str) -> set[str]:
    """Return the nodes of a Mermaid flowchart."""
    nodes = set[str]()
    for line in diagram.splitlines():
        bare = line.partition("%%")[0]
        if not bare.strip() or bare.split()[0] in _NO_NODES:
            continue
        for part in _LINK.split(_LABEL.sub(" ", bare)):
            if name := _NAME.search(part):
                nodes.add(name[0])
    return nodes


def _long_summary(text: str) -> Iterator[Finding]:
    if len(text.strip()) > summary.MAX_SUMMARY:
        yield Finding(f"{len(text.strip())} characters")


def _pronouns(text: str) -> Iterator[Finding]:
    for pronoun in _PRONOUN.finditer(_QUOTED.sub(" ", text.strip())):
        yield Finding(describe(pronoun[0].strip()))


CONTEXT_CHECKS: tuple[Check[str], ...] = (
    Check("MR-context-size", "MUST", "Size cap: 5000 chars.", _long_context),
    Check("MR-context-mermaid", "SHOULD", "Use Mermaid diagrams (≤10 nodes) when helpful.", _large_diagrams),
)

SUMMARY_CHECKS: tuple[Check[str], ...] = (
    Check(
        "MR-summary-size",
        "MUST",
        "Each stored entry has ONE context-aware summary capped at 512 characters (≈80 tokens).",
        _long_summary,
    ),
    Check("MR-summary-pronouns", "MUST", "Summaries must: resolve pronouns using current context", _pronouns),
)
