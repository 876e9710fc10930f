"""What many commands have in common: which session, where it is kept, and errors in one sentence."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from ctxwrap.cli.text import one_line, printable
from ctxwrap.errors import CtxwrapError

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
def in_one_sentence() -> Iterator[None]:
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
