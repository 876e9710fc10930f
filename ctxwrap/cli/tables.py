"""What a screen of any width, or a pipe, gets to see: tables, lists of facts, and texts under a heading.

Every text is made printable here, so that a command cannot forget it; none of it is markup.
"""

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ctxwrap.cli.text import one_line, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

_PIPE = 120
"""Characters in a line where there is no terminal to ask."""

_LEAST = 24


class Column(NamedTuple):
    name: str
    right: bool = False
    fills: bool = False
    """It takes the room that the others leave, and is cut where that ends."""
    folds: bool = False
    """It goes on in the next line where its room ends."""
    needs: int = 0
    """It is left out of lines that are shorter than that."""


def width() -> int:
    return max(_LEAST, shutil.get_terminal_size((_PIPE, 0)).columns)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> "RenderableType":
    """Rows under a heading; None is an empty cell."""
    from rich.table import Table

    shown = [at for at, column in enumerate(columns) if column.needs <= width()]
    fills = any(columns[at].fills for at in shown)
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=fills)
    for column in (columns[at] for at in shown):
        drawn.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
            ratio=1 if column.fills else None,
        )
    for row in rows:
        drawn.add_row(*(_cell(row[at]) for at in shown))
    return drawn


def facts(named: Iterable[tuple[str, object]]) -> "RenderableType":
    """Names and values, one to a line; those that are empty are left out."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    for name, value in named:
        if value not in (None, ""):
            drawn.add_row(_cell(name), _cell(value))
    return drawn


def heading(text: str, mark: str = "") -> "RenderableType":
    """A line above others. Behind a mark it may go on below, but never where the mark stands."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, 1, 0, 0))
    drawn.add_column(no_wrap=True, overflow="ellipsis")
    if mark:
        drawn.add_column(overflow="fold")
    drawn.add_row(*([_cell(mark)] if mark else []), _cell(text), style="bold")
    return drawn


def indented(text: str, by: int = 2) -> "RenderableType":
    """A text in lines of its own, of which none can pass for a heading or a row."""
    from rich.padding import Padding
    from rich.text import Text

    lines = "\n".join(printable(text).expandtabs(4).splitlines())
    return Padding(Text(lines, overflow="fold"), (0, 0, 0, by))


def show(*parts: "RenderableType") -> None:
    """Print the parts one below the other, without a single control code if nobody looks at it."""
    from rich.console import Console

    page = io.StringIO()
    options: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    console = Console(file=page, width=width(), force_terminal=sys.stdout.isatty(), **options)
    for part in parts:
        console.print(part)
    click.echo("\n".join(line.rstrip() for line in page.getvalue().splitlines()))


def _cell(value: object) -> "RenderableType":
    from rich.text import Text

    return Text("" if value is None else one_line(str(value)))
