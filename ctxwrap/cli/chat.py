"""A chat in the terminal: what is typed goes through a wrapped client, what comes back streams out."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from ctxwrap import inspect
from ctxwrap.cli.output import printable
from ctxwrap.clients.results import turn_of
from ctxwrap.clients.wrap import wrap
from ctxwrap.settings import check_mode
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.stores.names import check_id
from ctxwrap.types import SessionKey, TurnRecord

AskModel = Callable[[str, str], Any]
"""What was typed and the mode in; a stream of chunks out."""

_HELP = """\
/memory          what is remembered, by tier
/pack            what the last call sent, and what it left out
/mode MODE       enabled, disabled, readonly or shadow, from the next message on
/quit            leave; the session stays"""


def run_chat(*, session: str, model: str | None, store: str | None, mode: str) -> None:
    place = open_store(store)
    key = SessionKey("default", "default", check_id("session", session))
    check_mode(mode)
    with suppress(ImportError):  # line editing, where the platform has it
        import readline  # noqa: F401
    with _practice(place, session) if model is None else _litellm(model, place, session) as ask:
        _greet(model, key, place)
        Chat(ask, place, key, mode).run()


class Chat:
    def __init__(self, ask: AskModel, store: Store, key: SessionKey, mode: str) -> None:
        self._ask = ask
        self._store = store
        self._key = key
        self._mode = mode
        self._turn: TurnRecord | None = None

    def run(self) -> None:
        while (line := _typed()) is not None:
            if line.startswith("/"):
                if not self._obey(line):
                    return
            elif line:
                self._talk(line)

    def _talk(self, text: str) -> None:
        try:
            stream = self._ask(text, self._mode)
            for chunk in stream:
                click.echo(printable(_visible(chunk)), nl=False)
            click.echo()
            self._turn = turn_of(stream)
        except KeyboardInterrupt:
            click.echo("\n(stopped)")
        except Exception as error:
            click.secho(f"\nno answer: {printable(str(error))}", fg="red", err=True)

    def _obey(self, line: str) -> bool:
        """Do what a command says; False for the one that ends the chat."""
        command, _, argument = line.partition(" ")
        if command in ("/quit", "/exit"):
            return False
        if command == "/memory":
            self._show_memory()
        elif command == "/pack":
            self._show_pack()
        elif command == "/mode":
            self._change_mode(argument.strip())
        else:
            click.echo(_HELP)
        return True

    def _show_memory(self) -> None:
        state = inspect.memory_of(self._store, self._key)
        for tier, items in state["memory"].items():
            click.secho(tier, bold=True)
            for item in items:
                click.echo(f"  {item['decay']:.2f}  {printable(item['id'])}  {printable(item['content'])}")
            if not items:
                click.echo("  (empty)")
        if state["active_task"]:
            click.echo(f"active task: {printable(state['active_task'])}")

    def _show_pack(self) -> None:
        if self._turn is None or not self._turn.pack:
            click.echo("nothing was packed yet")
            return
        click.echo(f"round {self._turn.round}, mode {self._turn.mode}")
        for item in self._turn.pack:
            sign = "+" if item.included else "-"
            click.echo(f"  {sign} {item.tokens:6} tokens  {item.kind:16} {item.source:16} {item.reason}")

    def _change_mode(self, mode: str) -> None:
        try:
            self._mode = check_mode(mode)
            click.echo(f"mode is {mode}")
        except ValueError as error:
            click.echo(str(error))


def _typed() -> str | None:
    """The next line, or None at the end of the input."""
    try:
        line = input("you> ")
    except (EOFError, KeyboardInterrupt):
        click.echo()
        return None
    if not sys.stdin.isatty():
        click.echo(line)
    return line.strip()


def _visible(chunk: Any) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def _greet(model: str | None, key: SessionKey, store: Store) -> None:
    if model is None:
        click.echo("You are talking to the practice model: a few rules on this machine, no intelligence, no network.")
        click.echo('Try "My name is Ada and I like tea", then /memory, then "What is my name?". /help, /quit.')
    else:
        click.echo(f"You are talking to {model}. /help lists the commands, /quit leaves.")
    click.echo(f"session {printable(key.session)!r} in {getattr(store, 'root', 'memory')}\n")


def _streamed(text: str) -> dict[str, Any]:
    """What a call is asked for; the usage, too, so that the log tells what the chat costs."""
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "stream": True, "stream_options": {"include_usage": True}}


@contextmanager
def _practice(store: Store, session: str) -> Iterator[AskModel]:
    from openai import OpenAI

    from ctxwrap.testing.practice import Provider

    with Provider() as provider, OpenAI(api_key="practice", base_url=provider.openai_url) as client:
        wrapped: Any = wrap(client, store=store, session=session)

        def ask(text: str, mode: str) -> Any:
            return wrapped.chat.completions.create(model="practice", context_mode=mode, **_streamed(text))

        yield ask


@contextmanager
def _litellm(model: str, store: Store, session: str) -> Iterator[AskModel]:
    from ctxwrap.clients.litellm import load_litellm

    litellm = wrap(load_litellm(), store=store, session=session)

    def ask(text: str, mode: str) -> Any:
        return litellm.completion(model=model, context_mode=mode, **_streamed(text))

    yield ask
