"""Shared by commands: options, one-line errors, tables, progress bars and safe terminal text."""

import io
import json
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ctxwrap.errors import CtxwrapError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID


_LONG = 0.5
"""Seconds before a progress bar appears."""


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the work done and the total; the bar disappears at the end."""
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
    """Return `text` without control characters, direction overrides and surrogates."""
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """Return `text`, printable, with every run of white space as one space."""
    return " ".join(printable(text).split())


def as_name(text: str) -> str:
    """Return an id as it is or, if it could look like another one on a screen, its repr."""
    is_plain = text.isprintable() and text == one_line(text) and not text.startswith(("'", '"'))
    return text if text and is_plain else repr(text)


def as_time(text: str) -> str:
    """Format a timestamp of the log, to the second."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$", r"\1 \2", text)


def as_size(count: int | None) -> str:
    """Format a number of bytes with a unit."""
    if count is None:
        return ""
    size, units = float(count), iter(("B", "kB", "MB", "GB"))
    unit = next(units)
    while size >= 1000 and (larger := next(units, None)):
        size, unit = size / 1000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Return JSON in ASCII, so that no text of a session can control the terminal."""
    return json.dumps(value, indent=indent, default=str).replace("\x7f", "\\u007f")


Function = Callable[..., Any]

STORE = click.option("--store", help="Store: a directory or URL. [default: CTXWRAP_HOME, else the user data directory]")
TENANT = click.option("--tenant", default="default", show_default=True, help="Tenant of the session.")
AGENT = click.option("--agent", default="default", show_default=True, help="Agent of the session.")
USER = click.option("--user", metavar="NAME", help="The log of this user instead of a session.")
TEAM = click.option("--team", metavar="NAME", help="The log of this team instead of a session.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
ALL = click.option("--all", "everybody", is_flag=True, help="Every session of every tenant and agent.")


def command(name: str) -> Callable[[Function], click.Command]:
    """Make a function a command that prints errors and warnings of ctxwrap as one line each."""

    def decorate(function: Function) -> click.Command:
        @wraps(function)
        def run(**options: Any) -> None:
            with friendly_errors():
                function(**options)

        return click.command(name)(run)

    return decorate


def session_command(name: str, *, owners: bool = False) -> Callable[[Function], click.Command]:
    """Make a function a command on a stored session, whose `SessionHandle` is its first argument.

    With `owners`, the command also takes the log of a user or a team.
    """

    def decorate(function: Function) -> click.Command:
        @wraps(function)
        def run(session: str | None, tenant: str, agent: str, store: str | None, **options: Any) -> None:
            from ctxwrap.service.handle import open_session

            named = {kind: options.pop(kind, None) for kind in ("user", "team")}
            if owners and [session, *named.values()].count(None) != len(named):
                raise click.UsageError("name either a SESSION, --user or --team")
            function(open_session(session, tenant=tenant, agent=agent, store=store, **named), **options)

        for option in (AGENT, TENANT, STORE, *((TEAM, USER) if owners else ())):
            run = option(run)
        return command(name)(click.argument("session", required=not owners)(run))

    return decorate


class _Remarks(logging.Handler):
    """Prints log records of ctxwrap as safe single lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(one_line(record.getMessage()), err=True)


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Print errors of ctxwrap without a traceback, and its warnings as lines of text."""
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
    """Silence ctxwrap's log: the command reports damage itself."""
    logger = logging.getLogger("ctxwrap")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


_PIPE = 120
"""Characters per line without a terminal."""

_LEAST = 24


class Column(NamedTuple):
    name: str
    right: bool = False
    fills: bool = False
    """Takes the remaining width; longer text is cut."""
    folds: bool = False
    """Longer text continues on the next line."""
    needs: int = 0
    """Least terminal width at which the column is shown."""


def width() -> int:
    return max(_LEAST, shutil.get_terminal_size((_PIPE, 0)).columns)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> "RenderableType":
    """Return rows below column names; None is an empty cell."""
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
    """Return names and values, one pair per line, without empty values."""
    from rich.table import Table

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    drawn.add_column(no_wrap=True, style="dim")
    drawn.add_column(overflow="fold")
    for name, value in named:
        if value not in (None, ""):
            drawn.add_row(_cell(name), _cell(value))
    return drawn


def heading(text: str, mark: str = "") -> "RenderableType":
    """Return a bold line; after a mark it may wrap, but never into the column of the mark."""
    from rich.table import Table

    drawn = Table.grid(padding=(0, 1, 0, 0))
    drawn.add_column(no_wrap=True, overflow="ellipsis")
    if mark:
        drawn.add_column(overflow="fold")
    drawn.add_row(*([_cell(mark)] if mark else []), _cell(text), style="bold")
    return drawn


def indented(text: str, by: int = 2) -> "RenderableType":
    """Return indented text, so that no line of it looks like a heading or a row."""
    from rich.padding import Padding
    from rich.text import Text

    lines = "\n".join(printable(text).expandtabs(4).splitlines())
    return Padding(Text(lines, overflow="fold"), (0, 0, 0, by))


def show(*parts: "RenderableType") -> None:
    """Print the parts one below the other; without control codes if stdout is not a terminal."""
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
