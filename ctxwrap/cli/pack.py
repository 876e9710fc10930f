"""The commands `pack` and `cost`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import Column, as_name, as_time, facts, heading, json_text, printable, show, table
from ctxwrap.cli.turns import damage
from ctxwrap.inspect import Cost, Way, cost_of, pack_of
from ctxwrap.session.lookup import key_for
from ctxwrap.session.pack_view import PackView, markdown
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


_WAYS = (
    Column("sent"),
    Column("tokens in", right=True),
    Column("a turn", right=True),
    Column("last turn", right=True, needs=60),
    Column("cached", right=True),
    Column("tokens out", right=True),
    Column("a turn", right=True, needs=80),
    Column("US dollars", right=True, needs=70),
)


def show_cost(*, session: str, tenant: str, agent: str, store: str | None, as_data: bool) -> None:
    cost = cost_of(open_store(store), key_for(session, tenant, agent))
    if as_data:
        click.echo(json_text(cost.as_json()))
    else:
        show(*_cost_parts(cost))


def _cost_parts(cost: Cost) -> "Iterator[RenderableType]":
    out, again = cost.sent.total.tokens_out, cost.reasks
    unknown = f"{cost.unknown} turns that failed, are under way, or of which nobody told the usage"
    yield facts(
        [
            ("session", as_name(cost.key.session)),
            ("turns", cost.turns),
            ("models", ", ".join(map(as_name, cost.models))),
            ("counted by", _counted_by(cost)),
            ("memory", f"{cost.snapshot} tokens out behind answers, {_share(cost.snapshot, out)} of all"),
            ("asked again", f"{again.tokens_in} tokens in, {again.tokens_out} out" if again.tokens_in else ""),
            ("not counted", unknown if cost.unknown else ""),
            ("damage", damage(cost.damaged)),
        ]
    )
    yield ""
    names = ("by ctxwrap", "everything, each time", "the last 20 messages")
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
