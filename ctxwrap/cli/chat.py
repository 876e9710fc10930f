"""The command `chat`: each line goes through a wrapped client, and the answer is streamed."""

import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from select import select
from typing import Any

import click

from ctxwrap import inspect
from ctxwrap.cli.output import STORE, Column, command, printable, show, table
from ctxwrap.clients.sdk_call import turn_of
from ctxwrap.clients.wrap import wrap
from ctxwrap.errors import NotFound
from ctxwrap.service.handle import open_session
from ctxwrap.session.lookup import holds_anything, key_for
from ctxwrap.settings import check_mode
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey, TurnRecord

AskModel = Callable[[str, str], Any]
"""Takes a text and a mode, returns a stream of chunks."""

_PACK = (
    Column("sent"),
    Column("tokens", right=True),
    Column("what"),
    Column("from", folds=True),
    Column("why", folds=True),
)

_PASTED = 0.02
"""Seconds in which the next line of a pasted text arrives."""

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
@click.option("--ui", "shows_page", is_flag=True, help="Also serve the page of `ctxwrap ui`, and open it.")
def chat_command(
    session: str, model: str | None, user: str | None, store: str | None, mode: str, shows_page: bool
) -> None:
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
        if shows_page:
            _open_page(place, key)
        Chat(ask, place, key, mode, user).run()


class Chat:
    def __init__(self, ask: AskModel, store: Store, key: SessionKey, mode: str, user: str | None = None) -> None:
        self._ask = ask
        self._user = user
        self._store = store
        self._key = key
        self._mode = mode
        self._turn: TurnRecord | None = None

    def run(self) -> None:
        while (line := typed_message()) is not None:
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
        groups = dict(state["memory"])
        if self._user is not None:
            with suppress(NotFound):  # nothing is known yet
                owned = open_session(user=self._user, store=self._store).memory()["memory"]["core"]
                groups = {f"core of user {printable(self._user)}": owned, **groups}
        for tier, items in groups.items():
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
        rows = ((each.included, each.tokens, each.kind, each.source, each.reason) for each in self._turn.pack)
        show(table(_PACK, (("yes" if sent else "no", *rest) for sent, *rest in rows)))

    def _change_mode(self, mode: str) -> None:
        try:
            self._mode = check_mode(mode)
            click.echo(f"mode is {mode}")
        except ValueError as error:
            click.echo(str(error))


def typed_message() -> str | None:
    """Return the next message, or None at the end of the input or after two Ctrl-C in a row.

    Lines that are pasted together are one message. Ctrl-C drops a half-typed line.
    """
    for _ in range(2):
        try:
            line = input("you> ")
            while sys.stdin.isatty() and select([sys.stdin], [], [], _PASTED)[0]:
                line += f"\n{input()}"
        except KeyboardInterrupt:
            click.echo("\n(Ctrl-C again, or /quit, leaves)")
            continue
        except EOFError:
            click.echo()
            return None
        if not sys.stdin.isatty():
            click.echo(line)
        return line.strip()
    return None


def _visible(chunk: Any) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def _greet(model: str | None, key: SessionKey, store: Store) -> None:
    if model is None:
        click.echo("This is the practice model: a few rules on this machine, no intelligence, no network.")
        click.echo('Try "My name is Ada and I like tea", then /memory, then "What is my name?". /help, /quit.')
    else:
        click.echo(f"Chatting with {model}. /help lists the commands, /quit leaves.")
    known = open_session(key.session, store=store)
    rounds = known.details().info.rounds if holds_anything(store.open(key)) else 0
    what = f"continues after round {rounds} of session" if rounds else "session"
    click.echo(f"{what} {printable(key.session)!r} in {getattr(store, 'root', 'memory')}\n")


def _open_page(store: Store, key: SessionKey) -> None:
    from ctxwrap.cli.ui import address_of, run_page

    address = address_of(run_page(store), key)
    click.echo(f"page: {address}\n")
    if sys.stdout.isatty():
        webbrowser.open(address)


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
