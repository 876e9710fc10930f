"""Messages, events and turns of a log as text, and the command `tail`."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import (
    Column,
    as_name,
    as_time,
    facts,
    heading,
    indented,
    json_text,
    session_command,
    show,
    table,
)
from ctxwrap.inspect import Numbered, StreamFollower, TurnDetails
from ctxwrap.inspect.streams import calls_in, control_in, said_in, text_in
from ctxwrap.inspect.turns import Stages
from ctxwrap.pack.receipt import EVENT_CLASSES, STAGES, items_in
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import Record

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctxwrap.service.handle import SessionHandle

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
    """Return everything about a turn."""
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
    """Return a message, cut to `limit` characters."""
    control = control_in(message)
    about = (
        as_time(text_in(control, "time")),
        f"round {_text(control['round'])}" if "round" in control else "",
        " ".join(filter(None, (text_in(control, "status"), text_in(control, "reason")))),
        f"branches off after {as_name(text_in(control, 'parent'))}" if "parent" in control else "",
        f"replaces {as_name(text_in(control, 'supersedes'))}" if "supersedes" in control else "",
        f"answers {text_in(message, 'tool_call_id')}" if message.get("tool_call_id") else "",
        text_in(control, "fault"),
    )
    who = f"{_text(message.get('role'))} {_text(message.get('name'))}".strip()
    yield heading(", ".join(filter(None, (who, *about))), mark=f"#{number or count_in(control, 'seq')}")
    text = "\n".join(filter(None, (said_in(message), *_other_contents(message))))
    if text:
        yield indented(_cut(text, limit))


def event_parts(event: Record, number: int, limit: int) -> "Parts":
    """Return an event, cut to `limit` characters."""
    control = control_in(event)
    turn = f"turn {as_name(text_in(control, 'turn'))}" if "turn" in control else ""
    about = _text(event.get("type")), as_time(text_in(control, "time")), turn
    yield heading(", ".join(filter(None, about)), mark=f"#{number}")
    kind = text_in(event, "type")
    if kind in _EVENTS and kind != "done":
        yield from (part for part in _EVENTS[kind](event) if part != "")
    else:
        fields = {name: value for name, value in event.items() if name not in ("ctx", "type", "run")}
        yield facts((name, _cut(_flat(value), limit)) for name, value in fields.items())


def damage(lines: int) -> str:
    """Describe the number of damaged lines; nothing for none."""
    if not lines:
        return ""
    return f"{lines} line{'s' if lines > 1 else ''} of the log damaged; their contents may be missing here"


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters in --json)"


def _other_contents(message: Record) -> Iterator[str]:
    """Yield the parts of a message that are not text."""
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            yield f"[{_text(kind) or 'unknown part'}]"
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
    yield heading("the provider rejected that as too long; sent instead:")
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
    yield heading("extracted by rules, without a snapshot")
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
            ("trailer", f"{len(trailer)} characters, see --json" if trailer else ""),
            ("operations", "not applied" if operations is None else "" if operations else "none"),
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
    yield facts([(name, _flat(event.get(name))) for name in ("error", "violations", "usage")])
    if text := text_in(event, "text"):
        yield indented(text)


def _working_set(event: Record) -> "Parts":
    """One line, since there may be many."""
    outcome = "granted" if event.get("granted") is True else "refused"
    request = f"{text_in(event, 'by')}: {text_in(event, 'action')} {text_in(event, 'path')}"
    yield indented(f"{request}: {outcome}, {text_in(event, 'reason')}")


def _choice(event: Record) -> "Parts":
    yield ""
    yield heading(f"choice {_text(event.get('index'))}, not part of the conversation")
    yield indented("\n".join(filter(None, (said_in(event), *_other_contents(event)))))


def _other(event: Record) -> "Parts":
    yield ""
    yield heading(text_in(event, "type") or "event without a type")
    yield indented(_rest(event, "type", "run"))


def _stage(event: Record) -> "Parts":
    """One line, since every stage of a call writes one."""
    parts = (text_in(event, "subject"), _flat(event.get("data")))
    yield indented(f"{text_in(event, 'type')}: {', '.join(filter(None, parts))}")


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
    """Return a small value on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_flat(each)}" for name, each in value.items() if each not in (None, {}, []))
    if isinstance(value, list):
        return "; ".join(map(_flat, value))
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json_text(value, indent=None)


_LONG = 2000
"""Characters of one record that are shown."""

_PAUSE = 0.25
"""Seconds between two reads of a log that is followed."""

Printing = Callable[[Iterable[Numbered]], None]


@session_command("tail")
@click.option("-n", "count", type=click.IntRange(min=0), default=10, show_default=True, help="How many.")
@click.option("-f", "--follow", "follows", is_flag=True, help="Continue with new records until Ctrl-C.")
@click.option("--events", is_flag=True, help="Print events instead of messages.")
@click.option("--stages", is_flag=True, help="Print events, including those of the stages of a call.")
@click.option("--json", "as_json", is_flag=True, help="Print each record as a line of JSON.")
def tail_command(handle: "SessionHandle", count: int, follows: bool, events: bool, stages: bool, as_json: bool) -> None:
    """Print the newest messages of SESSION."""
    events = events or stages
    following = handle.follow("events" if events else "messages")
    chosen = (Stages(handle.key.session).among if stages else _without_stages) if events else iter
    printing = _print_json if as_json else _print_events if events else _print_messages
    newest = list(chosen(following.new()))
    printing(newest[max(0, len(newest) - count) :])
    if follows:
        follow_stream(following, lambda new: printing(chosen(new)), lambda: time.sleep(_PAUSE))


def _without_stages(records: Iterable[Numbered]) -> Iterator[Numbered]:
    return (each for each in records if each.record.get("type") not in STAGES)


def follow_stream(following: StreamFollower, printing: Printing, pause: Callable[[], None]) -> None:
    """Print new records, pause and repeat until interrupted."""
    try:
        while True:
            printing(following.new())
            pause()
    except KeyboardInterrupt:
        return


def _print_json(records: Iterable[Numbered]) -> None:
    for _, record in records:
        click.echo(json_text(record, indent=None))


def _print_messages(records: Iterable[Numbered]) -> None:
    for number, record in records:
        show(*message_parts(record, number, _LONG))


def _print_events(records: Iterable[Numbered]) -> None:
    for number, record in records:
        show(*event_parts(record, number, _LONG // 4))
