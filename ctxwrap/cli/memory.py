"""The command `memory`: memory as a list, as JSON, or its decay as an SVG plot."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ctxwrap.cli.output import json_text, one_line, printable, session_command
from ctxwrap.inspect import Curve, Point
from ctxwrap.memory.items import LOCATIONS, TIERS
from ctxwrap.settings import MemoryRules
from ctxwrap.stores.names import owner_kind

if TYPE_CHECKING:
    from ctxwrap.service.handle import SessionHandle

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 1000, 64, 640, 84, 56
_LOWEST, _HIGHEST = 320, 720
_ROW = 18
_LABEL = 44
"""Characters of an item beside its curve; the tooltip has all of it."""

_NO_XML = dict.fromkeys((0xFFFE, 0xFFFF))

_LIGHT = {
    "paper": "#ffffff",
    "ink": "#24292f",
    "quiet": "#57606a",
    "faint": "#d0d7de",
    "core": "#0969da",
    "working": "#1a7f37",
    "ephemeral": "#bc4c00",
    "swap": "#818b98",
}
_DARK = {
    "paper": "#0d1117",
    "ink": "#e6edf3",
    "quiet": "#9198a1",
    "faint": "#3d444d",
    "core": "#58a6ff",
    "working": "#3fb950",
    "ephemeral": "#f0883e",
    "swap": "#8b949e",
}
_SHAPES = """\
text { font-family: system-ui, sans-serif; font-size: 12px }
text.name { font-size: 16px; font-weight: 600 }
path { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
path.faint { stroke-width: 1 }
path.swap { stroke-dasharray: 2 5 }
path.threshold { stroke-width: 1; stroke-dasharray: 8 6; opacity: 0.6 }
"""


class _Frame(NamedTuple):
    """Maps rounds and strengths to coordinates."""

    newest: int
    height: int

    @property
    def bottom(self) -> int:
        return _TOP + self.height

    def x(self, round: int) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (round - 1) / max(1, self.newest - 1)

    def y(self, strength: float) -> float:
        return self.bottom - self.height * strength

    def at(self, point: Point) -> str:
        return f"{self.x(point.round):.1f} {self.y(1 - point.decay):.1f}"


def plotted(curves: Sequence[Curve], title: str) -> str:
    """Return an SVG with a curve per item, coloured by tier; deterministic."""
    newest = max((curve.points[-1].round for curve in curves), default=1)
    frame = _Frame(newest, min(_HIGHEST, max(_LOWEST, _ROW * (len(curves) + 1))))
    size = f"{_WIDTH} {frame.bottom + _BOTTOM}"
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">',
        f"<title>{_safe(title)}</title>",
        f"<style>\n{_style()}</style>",
        '<rect class="paper" width="100%" height="100%" rx="8"/>',
        f'<text class="ink name" x="{_LEFT}" y="32">{_safe(title)}</text>',
        *_legend(),
        *_axes(frame),
        *_thresholds(frame),
        *_labels(curves, frame),
        *(_curve(curve, frame) for curve in curves),
        "</svg>\n",
    )
    return "\n".join(lines)


def _style() -> str:
    """Follow the viewer's colour scheme; viewers without one get the light colours."""
    return f"{_SHAPES}{_coloured(_LIGHT)}@media (prefers-color-scheme: dark) {{\n{_coloured(_DARK)}}}\n"


def _coloured(colours: dict[str, str]) -> str:
    fills = ("rect.paper", "text.ink", "text.quiet", "tspan.quiet", *(f"circle.{place}" for place in LOCATIONS))
    strokes = ("line.faint", "path.faint", *(f"path.{place}" for place in LOCATIONS))
    rules = [f"{shape} {{ fill: {colours[shape.partition('.')[2]]} }}\n" for shape in fills]
    rules += [f"{shape} {{ stroke: {colours[shape.partition('.')[2]]} }}\n" for shape in strokes]
    return "".join(rules)


def _legend() -> Iterator[str]:
    for x, place in zip(range(_LEFT, _RIGHT, 124), LOCATIONS, strict=False):
        sample = f'<path class="{place}" d="M{x} 56h26"/>'
        yield f'<g class="legend">{sample}<text class="ink" x="{x + 34}" y="60">{place}</text></g>'


def _axes(frame: _Frame) -> Iterator[str]:
    for quarter in range(5):
        y = frame.y(quarter / 4)
        yield f'<line class="faint" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="quiet" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{quarter / 4:g}</text>'
    for round in _ticks(frame.newest):
        x, y = frame.x(round), frame.bottom
        yield f'<line class="faint" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 5}"/>'
        yield f'<text class="quiet" x="{x:.1f}" y="{y + 20}" text-anchor="middle">{round}</text>'
    middle = frame.y(0.5)
    yield f'<text class="ink" x="{(_LEFT + _RIGHT) / 2}" y="{frame.bottom + 42}" text-anchor="middle">round</text>'
    yield f'<text class="ink" transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">strength</text>'


def _thresholds(frame: _Frame) -> Iterator[str]:
    """Draw the strengths below which items leave tiers that items can leave by age."""
    rules = MemoryRules()
    for tier in TIERS:
        if getattr(rules.least_stay, tier) < inf:
            y = frame.y(1 - getattr(rules.thresholds, tier))
            yield f'<path class="{tier} threshold" d="M{_LEFT} {y:.1f}H{_RIGHT}"><title>leaves {tier}</title></path>'


def _ticks(newest: int) -> list[int]:
    """Return the first round and at most ten more at regular steps."""
    step = next(
        step for power in range(20) for step in (10**power, 2 * 10**power, 5 * 10**power) if newest <= 10 * step
    )
    return sorted({1, *range(step, newest + 1, step)} - ({2} if step == 2 else set()))


def _curve(curve: Curve, frame: _Frame) -> str:
    drawn = [_stretch(stretch, frame) for stretch in _stretches(curve.points)]
    return f'<g class="curve"><title>{_safe(f"{curve.id}: {curve.content}")}</title>{"".join(drawn)}</g>'


def _stretches(points: Sequence[Point]) -> list[list[Point]]:
    """Split the points by tier; each piece but the first starts with the last point of the piece before."""
    stretches = [[points[0]]]
    for before, point in pairwise(points):
        if point.place != before.place:
            stretches.append([before])
        stretches[-1].append(point)
    return stretches


def _stretch(points: Sequence[Point], frame: _Frame) -> str:
    place = points[-1].place
    path = f'<path class="{place}" d="M{"L".join(map(frame.at, points))}"/>' if len(points) > 1 else ""
    x, y = frame.at(next(point for point in points if point.place == place)).split()
    return f'{path}<circle class="{place}" cx="{x}" cy="{y}" r="3.5"/>'


def _labels(curves: Sequence[Curve], frame: _Frame) -> Iterator[str]:
    """Label the ends of the curves, strongest first, as many as fit."""
    rows = frame.height // _ROW
    kept = sorted(curves, key=lambda curve: curve.points[-1].decay)[: rows - (len(curves) > rows)]
    heights = _apart([frame.y(1 - curve.points[-1].decay) for curve in kept], _TOP, frame.bottom)
    for curve, y in zip(kept, heights, strict=True):
        text = one_line(curve.content)
        short = one_line(curve.id)[:_LABEL]
        rest = _shortened(text, _LABEL - len(short))
        yield f'<path class="faint" d="M{frame.at(curve.points[-1])}L{_RIGHT + 16} {y:.1f}"/>'
        yield (
            f'<text class="ink" x="{_RIGHT + 20}" y="{y + 4:.1f}">{_safe(short)}'
            f'<tspan class="quiet" dx="6">{_safe(rest)}</tspan></text>'
        )
    if len(kept) < len(curves):
        more = len(curves) - len(kept)
        yield f'<text class="quiet" x="{_RIGHT + 20}" y="{frame.bottom + 20}">and {more} more</text>'


def _apart(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return the ascending heights, moved as little as needed to be one row apart."""
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, heights[-1] + _ROW if heights else top))
    limit = bottom
    for at in reversed(range(len(heights))):
        heights[at] = min(heights[at], limit)
        limit = heights[at] - _ROW
    return heights


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(0, length - 1)]}…"


def _safe(text: str) -> str:
    """Return `text` escaped for XML, without characters that XML forbids."""
    return escape(one_line(text).translate(_NO_XML))


_WIDEST = 24
"""Width of the id column; a longer id shifts its line to the right."""

_BAR = 10
"""Characters of a bar of full strength."""


@session_command("memory", owners=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, including swap.")
@click.option("--at", metavar="ROUND|DATE", help="Memory at the end of this round, or of this day (or moment) in UTC.")
@click.option("--plot", metavar="FILE.svg", help="Also plot the decay of each item over all rounds to this file.")
@click.option("--pin", metavar="ID", help="Pin this item: it does not decay and does not leave memory.")
@click.option("--unpin", metavar="ID", help="Let this item decay again.")
def memory_command(
    handle: "SessionHandle", at: str | None, as_json: bool, plot: str | None, pin: str | None, unpin: str | None
) -> None:
    """List the memory of SESSION, or of a user or a team, by tier."""
    if pin is not None:
        handle.pin(pin)
    if unpin is not None:
        handle.unpin(unpin)
    is_round = at is not None and at.lstrip("-").isdecimal()
    moment = _moment(at) if at is not None and not is_round else None
    details = handle.memory(int(at) if at is not None and is_round else None, at=moment)
    subject = f"{owner_kind(handle.key.agent) or 'session'} {handle.key.session!r}"
    for line in [json_text(details)] if as_json else _listing(subject, details):
        click.echo(printable(line))
    if plot is not None:
        _write(Path(plot), plotted(handle.memory_curves(), f"Memory of session {handle.key.session}"))


def _moment(text: str) -> datetime:
    """A date as its end, or a moment; in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"--at takes a round or a date such as 2026-03-31, not {text!r}") from None
    if len(text) <= len("2026-03-31"):
        moment += timedelta(days=1, microseconds=-1)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _listing(subject: str, details: dict[str, Any]) -> Iterator[str]:
    tiers = details["memory"]
    ids = [one_line(item["id"]) for tier in TIERS for item in tiers[tier]]
    width = min(_WIDEST, max(map(len, ["id", *ids])))
    yield f"{subject} at the end of round {details['round']}"
    yield f"  {'id':{width}}  {'strength':{_BAR}}  decay  round  touches  {'origin':9}  content"
    for tier in TIERS:
        yield tier
        for item in sorted(tiers[tier], key=lambda item: item["decay"]):
            yield _row(item, width)
        if not tiers[tier]:
            yield "  (empty)"
    replaced = [item for item in details["swap"] if item["successor"] and "until" in item]
    if replaced:
        yield "replaced"
    for item in replaced:
        yield f"  {one_line(item['id']):{width}}  until {item['until'][:10]}  {one_line(item['content'])}"
    swapped = len(details["swap"])
    yield f"in swap: {swapped}{' (not sent to the model; --json lists them)' if swapped else ''}"
    if details["active_task"]:
        yield f"active task: {one_line(details['active_task'])}"


def _row(item: dict[str, Any], width: int) -> str:
    filled = round(_BAR * (1 - item["decay"]))
    bar = "█" * filled + "░" * (_BAR - filled)
    numbers = f"{bar}  {item['decay']:5.2f}  {item['round']:5}  {item['touches']:7g}"
    mark = "(pinned) " if item["pinned"] else ""
    return f"  {one_line(item['id']):{width}}  {numbers}  {item['origin']:9}  {mark}{one_line(item['content'])}"


def _write(path: Path, drawing: str) -> None:
    try:
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    click.echo(f"wrote {printable(str(path))}", err=True)
