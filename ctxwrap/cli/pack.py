"""The commands `pack` and `cost`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import (
    AS_JSON,
    Column,
    as_name,
    as_time,
    facts,
    heading,
    json_text,
    printable,
    session_command,
    show,
    table,
)
from ctxwrap.cli.turns import damage
from ctxwrap.inspect import Cost, Way
from ctxwrap.session.pack_view import PackView, pack_markdown
from ctxwrap.types import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctxwrap.service.handle import SessionHandle


_LEFT_OUT = 12
"""How many of the items left out are shown."""

_ITEMS = (
    Column("kind"),
    Column("source", folds=True),
    Column("tokens", right=True),
    Column("why", fills=True),
)
_MISSING = (Column("severity"), Column("status"), Column("question", fills=True))
_BLOCKS = (Column("", right=True), Column("block"), Column("role"), Column("tokens", right=True), Column("from"))


@session_command("pack")
@click.option("--turn", metavar="N", help="Number or id of a turn. [default: the newest with a pack]")
@click.option("--md", "form", flag_value="md", help="Print every block as it was sent, as Markdown.")
@click.option("--json", "form", flag_value="json", help="Print JSON.")
@click.option("--report", "form", flag_value="report", help="Print the boot header and the assembly report.")
def pack_command(handle: "SessionHandle", turn: str | None, form: str | None) -> None:
    """Show what a request of SESSION contained, what was left out, and why."""
    view = handle.pack(turn)
    if form == "json":
        click.echo(json_text(view.as_json()))
    elif form == "md":
        click.echo(printable(pack_markdown(view)), nl=False)
    elif form == "report":
        click.echo(printable(_report(view)), nl=False)
    else:
        show(*_parts(view))


def _report(view: PackView) -> str:
    """Return the boot header and the assembly report of the working set; without one, the budget."""
    import yaml  # type: ignore[import-untyped]

    report = {"assembly_report": view.report} if view.report else {"budget": view.budget}
    dumped: str = yaml.safe_dump(report, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(filter(None, [view.boot_header, dumped]))


def _parts(view: PackView) -> "Iterator[RenderableType]":
    about = [
        ("session", as_name(view.session)),
        ("turn", f"{view.turn}, round {view.round}, {as_time(view.at)} UTC"),
        ("model", f"{view.model}, {view.mode}"),
    ]
    yield facts([*about, *_spending(view.budget), ("sha256", view.sha256), *(("note", note) for note in view.notes)])
    for title, items in (("included", view.included), ("left out", view.left_out[:_LEFT_OUT])):
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


_WAYS = (
    Column("sent"),
    Column("tokens in", right=True),
    Column("per turn", right=True),
    Column("last turn", right=True, needs=60),
    Column("cached", right=True),
    Column("tokens out", right=True),
    Column("per turn", right=True, needs=80),
    Column("US dollars", right=True, needs=70),
)


@session_command("cost")
@AS_JSON
def cost_command(handle: "SessionHandle", as_json: bool) -> None:
    """Show the tokens and cost of SESSION, compared with other ways to send it."""
    cost = handle.cost()
    if as_json:
        click.echo(json_text(cost.as_json()))
    else:
        show(*_cost_parts(cost))


def _cost_parts(cost: Cost) -> "Iterator[RenderableType]":
    out, again = cost.sent.total.tokens_out, cost.reasks
    unknown = f"{cost.unknown} turns that failed, are running, or have no usage"
    yield facts(
        [
            ("session", as_name(cost.key.session)),
            ("turns", cost.turns),
            ("models", ", ".join(map(as_name, cost.models))),
            ("counted by", _counted_by(cost)),
            ("snapshots", f"{cost.snapshot} tokens out, {_share(cost.snapshot, out)} of all"),
            ("second requests", f"{again.tokens_in} tokens in, {again.tokens_out} out" if again.tokens_in else ""),
            ("not counted", unknown if cost.unknown else ""),
            ("damage", damage(cost.damaged)),
        ]
    )
    yield ""
    names = ("ctxwrap", "whole conversation", "last 20 messages")
    yield table(_WAYS, [_row(cost, name, way) for name, way in zip(names, cost.ways.values(), strict=True)])


def _counted_by(cost: Cost) -> str:
    own = cost.turns - cost.reported
    if cost.reported and own:
        return f"the provider in {cost.reported} turns, ctxwrap in {own}"
    return "the provider" if cost.reported else "ctxwrap" if own else ""


def _row(cost: Cost, name: str, way: Way) -> tuple[object, ...]:
    mean, total = cost.average(way), way.total
    money = "" if total.money is None else f"{total.money:.4f}"
    cached = _share(total.cached, total.tokens_in)
    return (
        name,
        total.tokens_in,
        mean.tokens_in,
        way.last.tokens_in,
        cached,
        total.tokens_out,
        mean.tokens_out,
        money,
    )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"
