"""Shared by commands: options, friendly errors, tables, progress bars and terminal text."""

import io
import json
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ctxwrap.errors import CtxwrapError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID


_LONG = 0.5
"""What takes no more seconds than that needs no bar."""


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """What to tell how much of how much is done; the bar goes when the work is done."""
    bar = _Bar(title)
    try:
        yield bar.show if sys.stderr.isatty() else lambda done, total: None
    finally:
        bar.stop()


class _Bar:
    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def show(self, done: int, total: int) -> None:
        if self._shown is None and monotonic() - self._begun >= _LONG:
            self._start()
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=done, total=total)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(stderr=True), transient=True)
        progress.start()
        self._shown = progress, progress.add_task(self._title)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` without the characters that move a cursor, colour a screen, turn the direction of writing, or are none."""
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """`text`, printable, with every run of white space as one space."""
    return " ".join(printable(text).split())


def as_name(text: str) -> str:
    """An id as it is or, if it could be taken for another one on a screen, as Python writes it."""
    is_plain = text.isprintable() and text == one_line(text) and not text.startswith(("'", '"'))
    return text if text and is_plain else repr(text)


def as_time(text: str) -> str:
    """A moment of a log, to the second."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$", r"\1 \2", text)


def as_size(count: int | None) -> str:
    """Bytes in three digits or so."""
    if count is None:
        return ""
    size, units = float(count), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)):
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """In ASCII, so that nothing gets lost and nothing steers a terminal."""
    return json.dumps(value, indent=indent, default=str).replace("\x7f", "\\u007f")


Command = Callable[..., Any]

STORE = click.option("--store", help="Where sessions are kept. [default: CTXWRAP_HOME, else the user's data directory]")
TENANT = click.option("--tenant", default="default", show_default=True, help="Whose session it is.")
AGENT = click.option("--agent", default="default", show_default=True, help="The agent that had it.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


def of_a_session(command: Command) -> Command:
    """The argument SESSION and the options that say whose and where it is: session, store, tenant, agent."""
    for option in (AGENT, TENANT, STORE, click.argument("session")):
        command = option(command)
    return command


class _Remarks(logging.Handler):
    """What ctxwrap has to say while a command runs: no traceback, and nothing that steers a terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(one_line(record.getMessage()), err=True)


@contextmanager
def friendly_errors() -> Iterator[None]:
    """ctxwrap's own errors as messages, and its warnings as lines of text."""
    logger, remarks = logging.getLogger("ctxwrap"), _Remarks(logging.WARNING)
    logger.addHandler(remarks)
    try:
        yield
    except CtxwrapError as error:
        raise click.ClickException(printable(str(error))) from error
    finally:
        logger.removeHandler(remarks)


@contextmanager
def quietly() -> Iterator[None]:
    """Without the log's own words on what is damaged: the command says it in better ones."""
    logger = logging.getLogger("ctxwrap")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


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
