"""The newest messages or events of a session, and on request those that follow."""

import time
from collections.abc import Callable, Iterable, Iterator

import click

from ctxwrap.cli.tables import show
from ctxwrap.cli.text import json_text
from ctxwrap.cli.turns import event_parts, message_parts
from ctxwrap.inspection import Following, Numbered
from ctxwrap.inspection.reading import check_known
from ctxwrap.inspection.stages import Stages
from ctxwrap.session.finding import key_for
from ctxwrap.stages.events import STAGES
from ctxwrap.stores import open_store

_LONG = 2000
"""So many characters of one record are shown."""

_PAUSE = 0.25
"""Seconds between two looks at a log that may have grown."""

Printing = Callable[[Iterable[Numbered]], None]


def show_tail(
    *,
    session: str,
    tenant: str,
    agent: str,
    store: str | None,
    count: int,
    follows: bool,
    events: bool,
    stages: bool,
    as_data: bool,
) -> None:
    place, key = open_store(store), key_for(session, tenant, agent)
    events = events or stages
    stream = "events" if events else "messages"
    following = Following(place.open(key), stream)
    newest = following.new()
    if not newest:
        check_known(place, key)
    printed = _lines if as_data else _events if events else _messages

    told = Stages(key.session).among if stages else _without_stages
    newest = list(told(newest) if events else newest)
    printed(newest[max(0, len(newest) - count) :])
    if follows:
        follow(following, lambda new: printed(told(new) if events else new), lambda: time.sleep(_PAUSE))


def _without_stages(records: Iterable[Numbered]) -> Iterator[Numbered]:
    return (each for each in records if each.record.get("type") not in STAGES)


def follow(following: Following, printing: Printing, pause: Callable[[], None]) -> None:
    """Print what is new, pause, and so on until somebody interrupts it."""
    try:
        while True:
            printing(following.new())
            pause()
    except KeyboardInterrupt:
        return


def _lines(records: Iterable[Numbered]) -> None:
    for _, record in records:
        click.echo(json_text(record, indent=None))


def _messages(records: Iterable[Numbered]) -> None:
    for number, record in records:
        show(*message_parts(record, number, _LONG))


def _events(records: Iterable[Numbered]) -> None:
    for number, record in records:
        show(*event_parts(record, number, _LONG // 4))
