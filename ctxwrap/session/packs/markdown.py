"""A pack as Markdown: what is in, what is not and why, and below it every block as it was sent."""

import re
from collections.abc import Iterable, Iterator

from ctxwrap.session.packs.view import KINDS, Block, PackView
from ctxwrap.types import Missing, PackItem

_FENCE = re.compile("`{3,}")
_BREAKING = re.compile(r"[\s|\\`<>\[\]*_]+")


def markdown(view: PackView) -> str:
    return "\n".join(_lines(view)) + "\n"


def _lines(view: PackView) -> Iterator[str]:
    budget = view.budget
    yield f"# Pack of round {view.round}"
    yield ""
    yield f"- turn: {_cell(view.turn or 'not sent')}, session {_cell(view.session)}, at {_cell(view.at)}"
    yield f"- model: {_cell(view.model)}, mode {_cell(view.mode)}"
    if budget:
        kind = "exact" if budget["exact"] else "estimated, with a margin"
        yield f"- budget: {budget['limit']} tokens by {_cell(budget['set_by'])}, {budget['fixed']} fixed,"
        yield f"  {budget['used']} of {budget['effective']} used; counted by {_cell(budget['counter'])}, {kind}"
    yield f"- sha256 of the request: {view.sha256 or 'none'}"
    yield from (f"- note: {_cell(note)}" for note in view.notes)
    yield from _table("In", view.included)
    yield from _table("Left out", view.left_out)
    yield from _missing(view.missing)
    yield from ("", "## Sent")
    yield from (_block(number, block) for number, block in enumerate(view.blocks, 1))


def _table(title: str, items: Iterable[PackItem]) -> Iterator[str]:
    rows = [
        (KINDS.get(item.kind, item.kind), item.source, str(item.tokens), item.reason, " ".join(item.refs))
        for item in items
    ]
    yield from ("", f"## {title}", "")
    if not rows:
        yield "Nothing."
        return
    yield from ("| kind | source | tokens | why | which |", "| --- | --- | ---: | --- | --- |")
    for row in rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _missing(missing: Iterable[Missing]) -> Iterator[str]:
    rows = [(each.severity, each.status, each.question, each.reason, each.id) for each in missing]
    if rows:
        yield from ("", "## Missing", "")
        yield from ("| severity | status | question | why | id |", "| --- | --- | --- | --- | --- |")
    for row in rows:
        yield "| " + " | ".join(map(_cell, row)) + " |"


def _block(number: int, block: Block) -> str:
    text, fence = block.text, "```"
    if fence in text:
        fence = "`" * (1 + max(map(len, _FENCE.findall(text))))
    title = f"### {number}. {block.name} ({block.role}), {block.tokens} tokens, from {block.source}"
    return f"\n{title}\n\n{fence}\n{text}\n{fence}"


def _cell(text: str) -> str:
    """A text that stays in its cell, whatever it holds."""
    return _BREAKING.sub(lambda found: "".join(_harmless(each) for each in found[0]), text)


def _harmless(mark: str) -> str:
    return " " if mark.isspace() else f"\\{mark}"
