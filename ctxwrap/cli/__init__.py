"""The command `ctxwrap`."""

from typing import Any

import click

from ctxwrap import __version__
from ctxwrap.cli.options import STORE, in_one_sentence, of_a_session
from ctxwrap.cli.workingset import workingset


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ctxwrap")
def main() -> None:
    """Context middleware around LLM clients.

    In a program, replace an OpenAI, Anthropic or litellm client by ctxwrap.wrap(client). Here you can try what
    that does: `ctxwrap chat` talks to a built-in practice model, with no key and no network.
    """


@main.command()
@click.option("--session", default="chat", show_default=True, help="The session to go on with, or to begin.")
@click.option("--model", help="Any litellm model, such as gpt-5 or anthropic/claude-sonnet-5, with its key.")
@STORE
@click.option("--mode", default="enabled", show_default=True, help="enabled, disabled, readonly or shadow.")
def chat(session: str, model: str | None, store: str | None, mode: str) -> None:
    """Chat in the terminal through the wrapper.

    Without --model it talks to the practice model: a few rules on this machine that follow the protocol and
    remember what they are told. /help lists the commands of a chat.
    """
    from ctxwrap.cli.chat import run_chat

    with in_one_sentence():
        run_chat(session=session, model=model, store=store, mode=mode)


@main.command()
@of_a_session
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with swap.")
@click.option("--at", "round", type=int, metavar="ROUND", help="As it was at the end of that round.")
@click.option("--plot", metavar="FILE.svg", help="Draw how each item faded, over all rounds, into that file.")
def memory(
    session: str, as_json: bool, round: int | None, plot: str | None, store: str | None, tenant: str, agent: str
) -> None:
    """Show what SESSION remembers, by tier."""
    from ctxwrap.cli.memory import show_memory

    with in_one_sentence():
        show_memory(session=session, tenant=tenant, agent=agent, store=store, round=round, as_json=as_json, plot=plot)


_SURE = click.option("--yes", is_flag=True, help="Do not ask.")


@main.command()
@of_a_session
@_SURE
@click.option("--item", metavar="ID", help="The memory item of this id.")
@click.option("--query", metavar="TEXT", help="Every memory item that holds all of these words.")
def forget(session: str, item: str | None, query: str | None, yes: bool, **place: Any) -> None:
    """Forget memory items of SESSION for good.

    What they said is removed from its files; the messages in which it was said are not (see purge).
    """
    from ctxwrap.cli.forgetting import run_forget

    if (item is None) == (query is None):
        raise click.UsageError("name either --item or --query")
    with in_one_sentence():
        run_forget(session, item, query, place, sure=yes)  # type: ignore[arg-type]  # the options above


@main.command()
@of_a_session
@_SURE
@click.option("--message", metavar="N", required=True, help="The number of the message in the session, or its id.")
def purge(session: str, message: str, yes: bool, **place: Any) -> None:
    """Purge a message of SESSION, and what memory made of it, for good.

    A tombstone keeps its place, so that the conversation goes on. Other messages that quote it are not touched.
    """
    from ctxwrap.cli.forgetting import run_purge

    with in_one_sentence():
        run_purge(session, message, place, sure=yes)  # type: ignore[arg-type]  # the options above


main.add_command(workingset)
