"""Messages, events and turns of a log on a screen, and the command `tail`."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import Column, as_name, as_time, facts, heading, indented, json_text, show, table
from ctxwrap.inspect import Numbered, StreamFollower, TurnDetails
from ctxwrap.inspect.streams import calls_in, check_known, control_in, said_in, text_in
from ctxwrap.inspect.turns import Stages
from ctxwrap.pack.receipt import EVENT_CLASSES, STAGES, items_in
from ctxwrap.session.lookup import key_for
from ctxwrap.stores import open_store
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

    Parts = Iterator[RenderableType]

_PACK = (
    Column("sent"),
    Column("tokens", right=True),
    Column("what"),
    Column("from", folds=True),
    Column("why", folds=True, needs=60),
)
_OPERATIONS = (
    Column("operation"),
    Column("item", folds=True),
    Column("tier"),
    Column("why", folds=True, needs=80),
    Column("content", folds=True),
)
_MOVES = (
    Column("moved", folds=True),
    Column("from"),
    Column("to"),
    Column("round", right=True),
    Column("why", folds=True, needs=60),
)


def turn_parts(about: TurnDetails) -> "Parts":
    """Everything about a turn."""
    info, begun, ended = about.info, _first(about.events, "start"), _first(reversed(about.events), "done")
    yield facts(
        [
            ("turn", f"{info.number} ({as_name(info.id)})"),
            ("status", f"{info.status}{f' ({info.reason})' if info.reason else ''}"),
            ("mode", info.mode),
            ("round", info.round),
            ("started (UTC)", as_time(info.started_at)),
            ("ended (UTC)", as_time(text_in(control_in(ended), "time"))),
            ("model", info.model),
            ("wire", f"{text_in(begun, 'wire')}{', streamed' if begun.get('stream') is True else ''}"),
            ("runtime", _flat(begun.get("runtime"))),
            ("usage", _flat(ended.get("usage"))),
            ("response", text_in(ended, "response_id")),
            ("damage", damage(about.damaged)),
        ]
    )
    for message in about.messages:
        yield ""
        yield from message_parts(message)
    for event in about.events:
        yield from _EVENTS.get(text_in(event, "type"), _other)(event)


def message_parts(message: Record, number: int | None = None, limit: int | None = None) -> "Parts":
    """A message, or so many characters of it."""
    control = control_in(message)
    about = (
        as_time(text_in(control, "time")),
        f"round {_text(control['round'])}" if "round" in control else "",
        " ".join(filter(None, (text_in(control, "status"), text_in(control, "reason")))),
        f"branches off after {as_name(text_in(control, 'parent'))}" if "parent" in control else "",
        f"takes the place of {as_name(text_in(control, 'supersedes'))}" if "supersedes" in control else "",
        f"answers {text_in(message, 'tool_call_id')}" if message.get("tool_call_id") else "",
        text_in(control, "fault"),
    )
    who = f"{_text(message.get('role'))} {_text(message.get('name'))}".strip()
    yield heading(", ".join(filter(None, (who, *about))), mark=f"#{number or count_in(control, 'seq')}")
    text = "\n".join(filter(None, (said_in(message), *_other_contents(message))))
    if text:
        yield indented(_cut(text, limit))


def event_parts(event: Record, number: int, limit: int) -> "Parts":
    """An event, as far as so many characters go."""
    control = control_in(event)
    turn = f"turn {as_name(text_in(control, 'turn'))}" if "turn" in control else ""
    about = _text(event.get("type")), as_time(text_in(control, "time")), turn
    yield heading(", ".join(filter(None, about)), mark=f"#{number}")
    yield indented(_cut(_rest(event, "type", "run"), limit))


def damage(lines: int) -> str:
    """What to say of so many damaged lines."""
    if not lines:
        return ""
    return f"{lines} line{'s' if lines > 1 else ''} of the log cannot be trusted; what they said may be missing here"


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} characters more, which --json has)"


def _other_contents(message: Record) -> Iterator[str]:
    """What a message holds beside text."""
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            yield f"[{_text(kind) or 'something'}]"
    for call in calls_in(message):
        yield f"calls {_text(call.get('name'))}({_text(call.get('arguments'))}) as {_text(call.get('id'))}"


def _first(events: Iterable[Record], kind: str) -> Record:
    return next((event for event in events if event.get("type") == kind), {})


def _start(event: Record) -> "Parts":
    try:
        items = items_in(event)
    except (AttributeError, LookupError, TypeError, ValueError):  # a log may come from anybody
        items = ()
    rows = [
        ("yes" if each.included is True else "no", each.tokens, each.kind, each.source, each.reason) for each in items
    ]
    if rows:
        yield ""
        yield table(_PACK, rows)


def _repack(event: Record) -> "Parts":
    yield ""
    yield heading("the provider called that too long; what was sent in its place:")
    yield from _start(event)


def _evolution(event: Record) -> "Parts":
    rows = [
        tuple(move.get(name) for name in ("id", "from_", "to", "round", "reason"))
        for move in _objects(event.get("moves"))
    ]
    if rows:
        yield ""
        yield table(_MOVES, rows)


def _recall(event: Record) -> "Parts":
    yield ""
    yield heading("recalled from swap")
    yield from _operations(event)


def _observation(event: Record) -> "Parts":
    yield ""
    yield heading("seen without a snapshot")
    yield from _operations(event)


def _snapshot(event: Record) -> "Parts":
    yield ""
    yield heading(f"snapshot: {text_in(event, 'status')}")
    trailer, operations = text_in(event, "trailer"), event.get("operations")
    yield facts(
        [
            ("repairs", _flat(event.get("repairs"))),
            ("violations", _flat(event.get("violations"))),
            ("active task", text_in(event, "active_task")),
            ("capabilities", _flat(event.get("capabilities"))),
            ("trailer", f"{len(trailer)} characters, which --json has" if trailer else ""),
            ("operations", "it was not applied" if operations is None else "" if operations else "none"),
        ]
    )
    yield from _operations(event)


def _operations(event: Record) -> "Parts":
    rows = [
        (*(each.get(name) for name in ("kind", "id", "tier", "reason")), _content(each.get("item")))
        for each in _objects(event.get("operations"))
    ]
    if rows:
        yield table(_OPERATIONS, rows)


def _content(item: Any) -> object:
    return item.get("content") if isinstance(item, dict) else None


def _reask(event: Record) -> "Parts":
    yield ""
    yield heading(f"asked again, {_text(event.get('attempt'))}: {text_in(event, 'status')}")
    said = [(name, _flat(event.get(name))) for name in ("error", "violations", "usage")]
    yield facts(said)
    if text := text_in(event, "text"):
        yield indented(text)


def _working_set(event: Record) -> "Parts":
    """One line, since there may be many."""
    became = "granted" if event.get("granted") is True else "refused"
    asked = f"{text_in(event, 'by')}: {text_in(event, 'action')} {text_in(event, 'path')}"
    yield indented(f"{asked}: {became}, {text_in(event, 'reason')}")


def _choice(event: Record) -> "Parts":
    yield ""
    yield heading(f"choice {_text(event.get('index'))}, which is no part of the conversation")
    yield indented("\n".join(filter(None, (said_in(event), *_other_contents(event)))))


def _other(event: Record) -> "Parts":
    yield ""
    yield heading(text_in(event, "type") or "an event without a type")
    yield indented(_rest(event, "type", "run"))


def _stage(event: Record) -> "Parts":
    """One line, since every stage of a call leaves one."""
    told = (text_in(event, "subject"), _flat(event.get("data")))
    yield indented(f"{text_in(event, 'type')}: {', '.join(filter(None, told))}")


def _nothing(event: Record) -> "Parts":
    yield from ()


_EVENTS: dict[str, Callable[[Record], "Parts"]] = {
    "start": _start,
    "repack": _repack,
    "evolution": _evolution,
    "recall": _recall,
    "observation": _observation,
    "snapshot": _snapshot,
    "reask": _reask,
    "choice": _choice,
    "working_set": _working_set,
    **dict.fromkeys(EVENT_CLASSES, _stage),
    "done": _nothing,
}


def _rest(event: Record, *known: str) -> str:
    return json_text({name: value for name, value in event.items() if name not in ("ctx", *known)}, indent=None)


def _objects(value: Any) -> list[Record]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _flat(value: Any) -> str:
    """What a small value says, on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_flat(each)}" for name, each in value.items() if each not in (None, {}, []))
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value, indent=None)


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
    following = StreamFollower(place.open(key), stream)
    newest = following.new()
    if not newest:
        check_known(place, key)
    printed = _lines if as_data else _events if events else _messages

    told = Stages(key.session).among if stages else _without_stages
    newest = list(told(newest) if events else newest)
    printed(newest[max(0, len(newest) - count) :])
    if follows:
        follow_stream(following, lambda new: printed(told(new) if events else new), lambda: time.sleep(_PAUSE))


def _without_stages(records: Iterable[Numbered]) -> Iterator[Numbered]:
    return (each for each in records if each.record.get("type") not in STAGES)


def follow_stream(following: StreamFollower, printing: Printing, pause: Callable[[], None]) -> None:
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
