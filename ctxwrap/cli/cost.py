"""What a session cost, beside what other ways to send it would have taken."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.tables import Column, facts, show, table
from ctxwrap.cli.text import as_name, json_text
from ctxwrap.cli.turns import damage
from ctxwrap.inspection import Cost, Way, cost_of
from ctxwrap.session.finding import key_for
from ctxwrap.stores import open_store

if TYPE_CHECKING:
    from rich.console import RenderableType

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
