"""What a session remembers, now or in an earlier round: as a list, as JSON, as a plot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ctxwrap import pinning
from ctxwrap.cli.plot import plotted
from ctxwrap.cli.text import json_text, one_line, printable
from ctxwrap.inspection import curves_of, details_of
from ctxwrap.memory.items import TIERS
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id
from ctxwrap.types import SessionKey

_WIDEST = 24
"""Of the ids in a list; a longer one pushes its line to the right."""


def show_memory(
    *,
    session: str,
    tenant: str,
    agent: str,
    store: str | None,
    round: int | None,
    as_json: bool,
    plot: str | None,
    pin: str | None = None,
    unpin: str | None = None,
) -> None:
    place = open_store(store)
    key = SessionKey(check_id("tenant", tenant), check_id("agent", agent), check_id("session", session))
    for change, id in ((pinning.pin, pin), (pinning.unpin, unpin)):
        if id is not None:
            change(session, id, store=place, tenant=tenant, agent=agent)
    details = details_of(place, key, round)
    for line in [json_text(details)] if as_json else _listing(key, details):
        click.echo(printable(line))
    if plot is not None:
        _write(Path(plot), plotted(curves_of(place, key), f"What session {session} remembers"))


def _listing(key: SessionKey, details: dict[str, Any]) -> Iterator[str]:
    tiers = details["memory"]
    ids = [one_line(item["id"]) for tier in TIERS for item in tiers[tier]]
    width = min(_WIDEST, max(map(len, ["id", *ids])))
    yield f"session {key.session!r} at the end of round {details['round']}"
    yield f"  {'id':{width}}  decay  round  touches  {'origin':9}  content"
    for tier in TIERS:
        yield tier
        for item in sorted(tiers[tier], key=lambda item: item["decay"]):
            yield _row(item, width)
        if not tiers[tier]:
            yield "  (empty)"
    swapped = len(details["swap"])
    yield f"in swap: {swapped}{' (kept, not shown to the model; --json lists them)' if swapped else ''}"
    if details["active_task"]:
        yield f"active task: {one_line(details['active_task'])}"


def _row(item: dict[str, Any], width: int) -> str:
    numbers = f"{item['decay']:5.2f}  {item['round']:5}  {item['touches']:7g}"
    mark = "(pinned) " if item["pinned"] else ""
    return f"  {one_line(item['id']):{width}}  {numbers}  {item['origin']:9}  {mark}{one_line(item['content'])}"


def _write(path: Path, drawing: str) -> None:
    try:
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    click.echo(f"the plot is in {printable(str(path))}", err=True)
