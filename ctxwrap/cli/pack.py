"""What a call sent: its blocks, what was left out, and why."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.tables import Column, facts, heading, show, table
from ctxwrap.cli.text import as_name, as_time, json_text, printable
from ctxwrap.inspection import pack_of
from ctxwrap.session.finding import key_for
from ctxwrap.session.packs.markdown import markdown
from ctxwrap.session.packs.view import PackView
from ctxwrap.stores import open_store
from ctxwrap.types import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

_NEAR = 12
"""So many of what was left out are shown."""

_ITEMS = (
    Column("kind"),
    Column("source", folds=True),
    Column("tokens", right=True),
    Column("why", fills=True),
)
_MISSING = (Column("severity"), Column("status"), Column("question", fills=True))
_BLOCKS = (Column("", right=True), Column("block"), Column("role"), Column("tokens", right=True), Column("from"))


def show_pack(*, session: str, tenant: str, agent: str, store: str | None, turn: str | None, form: str) -> None:
    view = pack_of(open_store(store), key_for(session, tenant, agent), turn)
    if form == "json":
        click.echo(json_text(view.as_json()))
    elif form == "md":
        click.echo(printable(markdown(view)), nl=False)
    elif form == "report":
        click.echo(printable(report(view)), nl=False)
    else:
        show(*_parts(view))


def report(view: PackView) -> str:
    """The boot header and the assembly report of the working set; what was spent, if there is none."""
    import yaml  # type: ignore[import-untyped]

    told = {"assembly_report": view.report} if view.report else {"budget": view.budget}
    dumped: str = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(filter(None, [view.boot_header, dumped]))


def _parts(view: PackView) -> "Iterator[RenderableType]":
    about = [
        ("session", as_name(view.session)),
        ("turn", f"{view.turn}, round {view.round}, {as_time(view.at)} UTC"),
        ("model", f"{view.model}, {view.mode}"),
    ]
    yield facts([*about, *_spending(view.budget), ("sha256", view.sha256), *(("note", note) for note in view.notes)])
    for title, items in (("in", view.included), ("left out", view.left_out[:_NEAR])):
        if items:
            yield ""
            yield heading(title)
            yield table(_ITEMS, [(item.kind, item.source, item.tokens, item.reason) for item in items])
    if view.missing:
        yield ""
        yield heading("missing")
        yield table(_MISSING, [(each.severity, each.status, each.question) for each in view.missing])
    yield ""
    yield heading("sent")
    rows = [(at, block.name, block.role, block.tokens, block.source) for at, block in enumerate(view.blocks, 1)]
    yield table(_BLOCKS, rows)


def _spending(budget: Record) -> list[tuple[str, object]]:
    if not budget:
        return []
    spent = ", ".join(f"{tokens} {kind}" for kind, tokens in budget["spent"].items() if tokens)
    return [
        ("limit", f"{budget['limit']} tokens, set by {budget['set_by']}"),
        ("fixed", budget["fixed"]),
        ("used", f"{budget['used']} of {budget['effective']}: {spent or 'nothing'}"),
        ("counted by", budget["counter"] if budget["exact"] else f"{budget['counter']}, with a margin"),
    ]
