"""The command `chat`: each line goes through a wrapped client, and the answer is streamed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from ctxwrap import inspect
from ctxwrap.cli.output import STORE, command, printable
from ctxwrap.clients.sdk_call import turn_of
from ctxwrap.clients.wrap import wrap
from ctxwrap.session.lookup import key_for
from ctxwrap.settings import check_mode
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey, TurnRecord

AskModel = Callable[[str, str], Any]
"""Takes a text and a mode, returns a stream of chunks."""

_HELP = """\
/memory          show memory by tier
/pack            show what the last request contained, and what was left out
/mode MODE       set the mode of the next messages: enabled, disabled, readonly or shadow
/quit            leave; the session is kept"""


@command("chat")
@click.option("--session", default="chat", show_default=True, help="Session to continue or to start.")
@click.option("--model", help="Any litellm model, such as gpt-5 or anthropic/claude-sonnet-5; needs its API key.")
@click.option("--user", metavar="NAME", help="User whose core memory the session shares.")
@STORE
@click.option("--mode", default="enabled", show_default=True, help="enabled, disabled, readonly or shadow.")
def chat_command(session: str, model: str | None, user: str | None, store: str | None, mode: str) -> None:
    """Chat in the terminal through a wrapped client.

    Without --model it talks to the practice model: a few rules on this machine that follow the protocol and
    remember what you say. /help lists the commands of a chat.
    """
    place = open_store(store)
    key = key_for(session)
    check_mode(mode)
    with suppress(ImportError):  # line editing, where the platform has it
        import readline  # noqa: F401
    with _practice(place, session, user) if model is None else _litellm(model, place, session, user) as ask:
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
        """Run a command of the chat; return False to end it."""
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
            click.echo("nothing was sent yet")
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
    """Return the next line, or None at the end of the input."""
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
        click.echo("This is the practice model: a few rules on this machine, no intelligence, no network.")
        click.echo('Try "My name is Ada and I like tea", then /memory, then "What is my name?". /help, /quit.')
    else:
        click.echo(f"Chatting with {model}. /help lists the commands, /quit leaves.")
    click.echo(f"session {printable(key.session)!r} in {getattr(store, 'root', 'memory')}\n")


def _streamed(text: str) -> dict[str, Any]:
    """Return the arguments of a call; with usage, so that `ctxwrap cost` has numbers."""
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "stream": True, "stream_options": {"include_usage": True}}


@contextmanager
def _practice(store: Store, session: str, user: str | None) -> Iterator[AskModel]:
    from openai import OpenAI

    from ctxwrap.testing.practice import Provider

    with Provider() as provider, OpenAI(api_key="practice", base_url=provider.openai_url) as client:
        wrapped: Any = wrap(client, store=store, session=session, user=user)

        def ask(text: str, mode: str) -> Any:
            return wrapped.chat.completions.create(model="practice", context_mode=mode, **_streamed(text))

        yield ask


@contextmanager
def _litellm(model: str, store: Store, session: str, user: str | None) -> Iterator[AskModel]:
    from ctxwrap.clients.litellm import load_litellm

    litellm = wrap(load_litellm(), store=store, session=session, user=user)

    def ask(text: str, mode: str) -> Any:
        return litellm.completion(model=model, context_mode=mode, **_streamed(text))

    yield ask
