"""The commands `demo` and `practice`: a session that has everything, and the practice provider for own scripts."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ctxwrap.cli.output import STORE, command, progress_bar
from ctxwrap.clients.wrap import wrap
from ctxwrap.errors import SettingsError
from ctxwrap.service.handle import SessionHandle, open_session
from ctxwrap.session.lookup import holds_anything
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Provider
from ctxwrap.testing.practice.model import PracticeModel
from ctxwrap.turn.document_updates import flush

_MODEL = "gpt-4o"

_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather in a place.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
        },
    }
]

_MANIFEST = """\
protocol: CONTEXT-ASSEMBLY/0.1
budget:
  max_tokens: 8000
  reserved_for_response: 1000
files:
  - {path: house-rules.md, priority: 1.0, role: system, truncate_strategy: never}
  - {path: itinerary.md, priority: 0.8, role: context, truncate_strategy: end, max_lines: 40}
"""

FILES = {
    "working-set.yml": _MANIFEST,
    "house-rules.md": "Answer briefly. Never promise a price that nobody confirmed.\n",
    "itinerary.md": "".join(
        f"Day {day}: drive {40 + day} km, lunch at stop {day}, one museum.\n" for day in range(1, 90)
    ),
}

_FIRST = (
    "Hello, my name is Ada and I live in Lisbon.",
    "My sister Ruth is allergic to peanuts.",
    "I prefer short answers.",
    "I like tea and I work as a bookbinder.",
    "Remind me to call Tom on Friday.",
    "My favourite hotel is the Larkspur.",
)
_VIOLATIONS = (
    (PracticeModel(damaged=1.0, seed=3), "My shoe size is 38."),
    (PracticeModel(missing=1.0), "My teacher is called Benedita."),
    (PracticeModel(forged=1.0), "My brother is called Otto."),
)
"""Models whose snapshot is damaged, missing, or changes the runtime fields."""

_LATER = (
    "My daughter is called Mia.",
    "My favourite city is Porto.",
    "Remind me to book two seats by the window.",
    "My bank is called Meridian.",
    "I called Tom.",
    "My boat is called Vireo.",
    "What do you know about Ruth?",
    "I moved to Porto.",
    "Where do I live?",
    "I prefer museums to beaches.",
    "My door code is on the fridge.",
)


@command("demo")
@click.option("--session", default="demo", show_default=True, help="Name of the session to create.")
@STORE
def demo_command(session: str, store: str | None) -> None:
    """Create a session of thirty turns to look at.

    It has a tool, files, a branch, a damaged snapshot and a purge. The practice model answers: it needs no key and no
    network. Look at the session with `ctxwrap ui`.
    """
    place = open_store(store)
    key = open_session(session, store=place).key
    if holds_anything(place.open(key)):
        raise SettingsError(f"session {session!r} exists: choose another name with --session, or look at it")
    steps = 30
    with progress_bar("creating the session") as show, tempfile.TemporaryDirectory() as files:
        for name, text in FILES.items():
            Path(files, name).write_text(text)
        for done, _ in enumerate(make_session(place, session, str(Path(files, "working-set.yml"))), 1):
            show(min(done, steps), steps)
    click.echo(f"session {session!r} has {len(open_session(session, store=place).turns())} turns. Look at it with:")
    where = f" --store {store}" if store else ""
    for line in (
        f"ui {session}",
        f"show {session}",
        f"memory {session}",
        f"pack {session} --turn 30",
        f"diff {session} 7 8",
    ):
        click.echo(f"  ctxwrap {line}{where}")


def make_session(store: Store, session: str, manifest: str) -> Iterator[None]:
    """Run the demo's turns; yields after each."""
    from openai import OpenAI

    with Provider() as provider, OpenAI(api_key="practice", base_url=provider.openai_url) as client:
        plain: Any = wrap(client, store=store, session=session)
        with_files: Any = wrap(client, store=store, session=session, working_set=manifest)

        def ask(*messages: dict[str, Any], client: Any = plain, **options: Any) -> Any:
            return client.chat.completions.create(model=_MODEL, messages=list(messages), **options)

        for text in _FIRST:
            ask(_user(text))
            yield
        for model, text in _VIOLATIONS:
            provider.answer = model
            ask(_user(text))
            yield
        provider.answer = PracticeModel()
        for mode in ("disabled", "readonly", "shadow"):
            ask(_user(f"This turn runs in mode {mode}."), context_mode=mode)
            yield
        list(ask(_user("I like long train journeys."), stream=True))
        yield
        yield from _branch(ask)
        for text in _LATER:
            ask(_user(text))
            yield
        _purge(open_session(session, store=store))
        yield from _use_tool(ask)
        ask(_user("What is my favourite hotel?"), client=with_files)
        yield
    flush()


def _purge(handle: SessionHandle) -> None:
    for each in [each for each in handle.messages() if "door code" in str(each.record.get("content"))]:
        handle.purge(message=each.number)


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _use_tool(ask: Any) -> Iterator[None]:
    asked = _user("Use the weather tool for Lisbon.")
    call = ask(asked, tools=_TOOLS).choices[0].message
    yield
    results = [
        {"role": "tool", "tool_call_id": each.id, "content": '{"sky": "clear", "degrees": 21}'}
        for each in call.tool_calls or ()
    ]
    ask(asked, call.model_dump(exclude_none=True), *results, tools=_TOOLS)
    yield


def _branch(ask: Any) -> Iterator[None]:
    """The caller edits a message and sends the conversation again."""
    first = _user("Which museum should we see?")
    answer = ask(first).choices[0].message
    yield
    reply = {"role": "assistant", "content": answer.content}
    ask(first, reply, _user("We have one hour."))
    yield
    ask(first, reply, _user("We have a whole day."))
    yield


@command("practice")
@click.option("--port", default=0, help="Port on 127.0.0.1. [default: a free one]")
@click.option("--habit", help="Way in which the model writes snapshots; see ctxwrap.testing.habits.")
def practice_command(port: int, habit: str | None) -> None:
    """Serve the practice model under the APIs of OpenAI and Anthropic.

    For your own scripts: it prints the variables to set, and runs until Ctrl-C.
    """
    with Provider(habit=habit, port=port, record=False) as provider:
        click.echo("export OPENAI_API_KEY=practice ANTHROPIC_API_KEY=practice")
        click.echo(f"export OPENAI_BASE_URL={provider.openai_url}")
        click.echo(f"export ANTHROPIC_BASE_URL={provider.anthropic_url}")
        click.echo("The practice provider runs until Ctrl-C.", err=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
