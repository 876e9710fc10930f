"""The command `ctxwrap`."""

from typing import IO, Any

import click

from ctxwrap import __version__
from ctxwrap.cli.output import AGENT, AS_JSON, STORE, TENANT, friendly_errors, of_a_session
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

    with friendly_errors():
        run_chat(session=session, model=model, store=store, mode=mode)


@main.command()
@click.option("--model", required=True, metavar="NAME", help="Any litellm model, or one of the server at --base-url.")
@click.option("--base-url", metavar="URL", help="A server of your own; it gets no key unless --api-key-env names one.")
@click.option("--api-key-env", metavar="VAR", help="The variable that holds the key. [default: as litellm finds it]")
@click.option("--snapshot", type=click.Choice(["delta", "full"]), default="delta", show_default=True)
@click.option("--yes", is_flag=True, help="Do not ask before it begins.")
@AS_JSON
def check(as_json: bool, **how: Any) -> None:
    """Check whether ctxwrap works with a model: twenty short turns, paid for like any others.

    What is said stays in this process's memory. Exit code 0: it works; 1: it does not; 2: it could not be tried.
    """
    from ctxwrap.cli.check import run_check

    run_check(as_json=as_json, **how)


@main.command()
@of_a_session
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with swap.")
@click.option("--at", "round", type=int, metavar="ROUND", help="As it was at the end of that round.")
@click.option("--plot", metavar="FILE.svg", help="Draw how each item faded, over all rounds, into that file.")
@click.option("--pin", metavar="ID", help="Keep that item: it neither fades nor leaves.")
@click.option("--unpin", metavar="ID", help="Let that item age again.")
def memory(as_json: bool, **what: Any) -> None:
    """Show what SESSION remembers, by tier."""
    from ctxwrap.cli.memory import show_memory

    with friendly_errors():
        show_memory(as_json=as_json, **what)


@main.command()
@TENANT
@AGENT
@click.option("--all", "everybody", is_flag=True, help="Those of every tenant and agent.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The newest N only; 100 in a table.")
@STORE
@AS_JSON
def sessions(as_json: bool, **which: Any) -> None:
    """List the sessions there are, the newest first."""
    from ctxwrap.cli.sessions import list_sessions

    with friendly_errors():
        list_sessions(as_data=as_json, **which)


@main.command()
@of_a_session
@click.option("--turn", metavar="N", help="Everything about one turn, by its number or id.")
@AS_JSON
def show(as_json: bool, **which: Any) -> None:
    """Show SESSION at a glance: what it is, what it holds, and its turns."""
    from ctxwrap.cli.sessions import show_session

    with friendly_errors():
        show_session(as_data=as_json, **which)


@main.command()
@of_a_session
@AS_JSON
def cost(as_json: bool, **which: Any) -> None:
    """Show what SESSION cost in tokens, beside what other ways to send the same conversation would have taken."""
    from ctxwrap.cli.pack import show_cost

    with friendly_errors():
        show_cost(as_data=as_json, **which)


@main.command()
@of_a_session
@click.option("-n", "count", type=click.IntRange(min=0), default=10, show_default=True, help="How many.")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with what is appended, until Ctrl-C.")
@click.option("--events", is_flag=True, help="Events instead of messages.")
@click.option("--stages", is_flag=True, help="Events, also those of the stages of a call.")
@click.option("--json", "as_json", is_flag=True, help="Print each as a line of JSON.")
def tail(as_json: bool, **which: Any) -> None:
    """Print the newest messages of SESSION."""
    from ctxwrap.cli.turns import show_tail

    with friendly_errors():
        show_tail(as_data=as_json, **which)


_SURE = click.option("--yes", is_flag=True, help="Do not ask.")


@main.command()
@of_a_session
@_SURE
@click.option("--item", metavar="ID", help="The memory item of this id.")
@click.option("--query", metavar="TEXT", help="Every memory item that holds all of these words.")
def forget(session: str, item: str | None, query: str | None, yes: bool, **place: Any) -> None:
    """Forget memory items of SESSION for good.

    What they said is removed from its files, also from what children were handed and gave back; with --query, so is
    every line of theirs that holds these words. The messages in which it was said are not (see purge).
    """
    from ctxwrap.cli.cleanup import run_forget

    if (item is None) == (query is None):
        raise click.UsageError("name either --item or --query")
    with friendly_errors():
        run_forget(session, item, query, place, sure=yes)  # type: ignore[arg-type]  # the options above


@main.command()
@of_a_session
@_SURE
@click.option("--message", metavar="N", help="The number of the message in the session, or its id.")
@click.option("--child", metavar="NAME", help="All that this child was handed and gave back, instead of a message.")
def purge(session: str, message: str | None, child: str | None, yes: bool, **place: Any) -> None:
    """Purge a message of SESSION, what memory made of it and what children hold of it, for good; or a child's contents.

    A tombstone keeps its place, so that the conversation goes on. Other messages that quote it are not touched.
    """
    from ctxwrap.cli.cleanup import run_purge

    if (message is None) == (child is None):
        raise click.UsageError("name either --message or --child")
    with friendly_errors():
        run_purge(session, message, child, place, sure=yes)  # type: ignore[arg-type]  # the options above


@main.command()
@of_a_session
@click.option("--yes", is_flag=True, help="Remove it; without this, it is only shown.")
@AS_JSON
def gc(session: str, yes: bool, as_json: bool, **place: Any) -> None:
    """Show what of SESSION's derived files is of no use, and why.

    What it says goes by the session's context/gc.policy. Messages, events, what they refer to, children and your own
    files are never among it.
    """
    from ctxwrap.cli.cleanup import run_gc

    with friendly_errors():
        run_gc(session, place, sure=yes, as_json=as_json)  # type: ignore[arg-type]  # the options above


@main.command()
@of_a_session
@click.option("--query", metavar="TEXT", help="What holds these words, the best match first.")
@click.option("--id", metavar="ID", help="Bring this one back: print its messages, or let memory have the item again.")
@AS_JSON
def swap(session: str, query: str | None, id: str | None, as_json: bool, **place: Any) -> None:
    """List what left the prompt window of SESSION, the newest first."""
    from ctxwrap.cli.missing import run_swap

    if query is not None and id is not None:
        raise click.UsageError("name either --query or --id")
    with friendly_errors():
        run_swap(session, place, query=query, id=id, as_json=as_json)  # type: ignore[arg-type]  # the options above


@main.command()
@of_a_session
@AS_JSON
def verify(session: str, as_json: bool, **place: Any) -> None:
    """Check that SESSION is whole; nothing is changed.

    Every line and its checksum, what records refer to, large contents, and whether what was made of the log is
    what the log says. Damage ends it with exit code 1, the first bad record named first.
    """
    from ctxwrap.cli.maintenance import run_verify

    with friendly_errors():
        run_verify(session, place, as_json=as_json)


@main.command()
@of_a_session
@AS_JSON
def rebuild(session: str, as_json: bool, **place: Any) -> None:
    """Make what follows from SESSION's log anew.

    Summary, facts, swap, dedup and the like; the log, large contents, pins, budget and policy stay.
    """
    from ctxwrap.cli.maintenance import run_rebuild

    with friendly_errors():
        run_rebuild(session, place, as_json=as_json)


@main.command()
@of_a_session
@click.option("-o", "--output", "file", metavar="FILE", help="The file to write; an envelope may go to the terminal.")
@click.option("--force", is_flag=True, help="Overwrite FILE, and export what is left of a damaged session.")
@click.option("--envelope", is_flag=True, help="What was sent and why, as records of Agent Context.")
@click.option("--turn", metavar="N", help="Only one turn's envelope, by its number or id.")
@click.option("--target", metavar="NAME", help="Who is to see the envelope. [default: evidence_export]")
@AS_JSON
def export(session: str, file: str | None, envelope: bool, turn: str | None, target: str | None, **how: Any) -> None:
    """Write SESSION to one file, which `ctxwrap import` reads.

    An archive holds everything that was said, in the clear: keep it as you keep the session. An envelope tells what
    was sent, what was left out and why; it holds only those texts that its target may see.
    """
    if not envelope and (turn or target):
        raise click.UsageError("--turn and --target are for an --envelope")
    if not envelope and file is None:
        raise click.UsageError("name the archive to write with -o FILE")
    from ctxwrap.cli.maintenance import tell_if_encrypted

    with friendly_errors():
        if envelope:
            from ctxwrap.cli.transfer import run_export_envelope

            run_export_envelope(session, file, turn=turn, target=target, **how)
        else:
            from ctxwrap.cli.transfer import run_export

            force, as_json = how.pop("force"), how.pop("as_json")
            run_export(session, file or "", how, force=force, as_json=as_json)
        tell_if_encrypted(how["store"])


@main.command("import")
@click.argument("file")
@click.option("--session", metavar="NAME", help="What it is to be called here. [default: its own name]")
@STORE
@TENANT
@AGENT
@click.option(
    "--max-bytes", type=click.IntRange(min=1), help="Refuse an archive that holds more than that. [default: 128 MB]"
)
@click.option("--trust", is_flag=True, help="Bring its pinned texts, budget and policy as well: an operator's word.")
@AS_JSON
def import_(file: str, session: str | None, **how: Any) -> None:
    """Bring a session from an archive FILE into the store, or the evidence in an envelope.

    Everything is checked before anything is written, and no session that is there is touched.
    """
    from ctxwrap.cli.transfer import is_envelope, run_import, run_import_envelope

    with friendly_errors():
        run = run_import_envelope if is_envelope(file) else run_import
        options = {name: how.pop(name) for name in ("max_bytes", "trust", "as_json")}
        run(file, session, how, **options)


@main.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--session", metavar="NAME", help="Only this one. [default: every session of everybody]")
@TENANT
@AGENT
@AS_JSON
def copy(as_json: bool, **which: Any) -> None:
    """Copy sessions from the store FROM to the store TO, under the same names.

    Every record is read again and compared. A copy that was interrupted goes on where it stopped, and one of a session
    that has grown since catches up.
    """
    from ctxwrap.cli.transfer import run_copy

    with friendly_errors():
        run_copy(as_json=as_json, **which)


@main.command()
def key() -> None:
    """Print a new key for CTXWRAP_KEY, under which sessions are encrypted."""
    from ctxwrap.cli.maintenance import show_new_key

    show_new_key()


@main.command()
@click.argument("session", required=False)
@click.option("--all", "everybody", is_flag=True, help="Every session of every tenant and agent.")
@STORE
@TENANT
@AGENT
def rekey(session: str | None, everybody: bool, **place: Any) -> None:
    """Put SESSION under the first of the keys in CTXWRAP_KEY, which names its old key, too.

    Only the session's own key is wrapped anew; nothing else is written.
    """
    from ctxwrap.cli.maintenance import run_rekey

    if (session is None) != everybody:
        raise click.UsageError("name either a session or --all")
    with friendly_errors():
        run_rekey(session, **place)


@main.command()
@click.argument("session", required=False)
@click.option("--all", "everybody", is_flag=True, help="Every session of every tenant and agent.")
@STORE
@TENANT
@AGENT
def upgrade(session: str | None, everybody: bool, **place: Any) -> None:
    """Bring SESSION, as an older version wrote it, to the present format."""
    from ctxwrap.cli.maintenance import run_upgrade

    if (session is None) != everybody:
        raise click.UsageError("name either a session or --all")
    with friendly_errors():
        run_upgrade(session, **place)


@main.command()
@of_a_session
@click.argument("name")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--remove", "removes", is_flag=True, help="Take it away instead.")
def put(session: str, name: str, file: IO[bytes], removes: bool, **place: Any) -> None:
    """Put FILE, or what comes in, into SESSION's context/ as NAME: pinned/rules.md, budget or gc.policy.

    In a session that is encrypted there is no other way: what somebody puts there in the clear is not read.
    """
    from ctxwrap.cli.maintenance import run_put

    with friendly_errors():
        run_put(session, name, None if removes else file, **place)


@main.command()
@of_a_session
@click.option("--turn", metavar="N", help="The pack of one turn, by its number or id. [default: the newest]")
@click.option("--md", "form", flag_value="md", help="Every block as it was sent, as Markdown.")
@click.option("--json", "form", flag_value="json", help="As JSON.")
@click.option("--report", "form", flag_value="report", help="The boot header and the assembly report.")
def pack(form: str | None, **which: Any) -> None:
    """Show what a call of SESSION sent to the model, what was left out, and why."""
    from ctxwrap.cli.pack import show_pack

    with friendly_errors():
        show_pack(form=form or "", **which)


@main.command()
@of_a_session
@click.option("--all", "everything", is_flag=True, help="Also what was settled, declined or has expired.")
@click.option("--resolve", metavar="ID", help="Say that this one is settled.")
@click.option("--decline", metavar="ID", help="Say that nobody is going to answer this one.")
@click.option("--note", default="", help="How it was settled, or why not.")
@AS_JSON
def missing(session: str, resolve: str | None, decline: str | None, **how: Any) -> None:
    """List what the model of SESSION should have and has not: files, texts without room, open questions."""
    from ctxwrap.cli.missing import run_missing

    if resolve is not None and decline is not None:
        raise click.UsageError("name either --resolve or --decline")
    with friendly_errors():
        run_missing(session, resolve=resolve, decline=decline, **how)


@main.command()
@of_a_session
@click.argument("before", metavar="N")
@click.argument("after", metavar="M")
@AS_JSON
def diff(as_json: bool, **which: Any) -> None:
    """Show how what turn M of SESSION sent differs from what turn N sent, and what became of memory between them."""
    from ctxwrap.cli.transfer import show_diff

    with friendly_errors():
        show_diff(as_data=as_json, **which)


@main.command()
@click.argument("name", required=False)
@click.option("--check", metavar="FILE", help="Validate a file of JSON or JSON lines; exit code 1 if it is not valid.")
def schema(name: str | None, check: str | None) -> None:
    """Print the JSON Schema NAME (snapshot, evidence, or a record of Agent Context such as context_item), or all."""
    from ctxwrap.cli.transfer import check_schema, show_schema

    if check and not name:
        raise click.UsageError("--check needs the NAME of a schema")
    with friendly_errors():
        if name and check:
            check_schema(name, check)
        else:
            show_schema(name)


@main.command()
@click.argument("path", required=False)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["session", "envelope", "manifest", "report", "reply", "disabled-reply", "context", "summary"]),
    help="What it is. [default: by what stands in it]",
)
@click.option("--strict", is_flag=True, help="Count what SHOULD be as well.")
@click.option("--list", "lists", is_flag=True, help="List all checks.")
@AS_JSON
def conform(path: str | None, lists: bool, as_json: bool, **how: Any) -> None:
    """Check PATH against the five documents, whoever wrote it; - is stdin.

    A session folder, records of Agent Context, a working-set manifest, an assembly report, a model's reply, a context
    document or a summary. Exit code 0: no MUST is broken; 1: one is; 2: it cannot be checked.
    """
    from ctxwrap.cli.check import list_checks, run_conform

    if lists:
        list_checks(as_json=as_json)
    elif path is None:
        raise click.UsageError("name a PATH, or --list")
    else:
        run_conform(path, as_json=as_json, **how)


@main.command()
@STORE
@TENANT
@click.option("--vault", default="default", show_default=True, help="The vault that is meant if a call names none.")
@click.option("--memory", default="", metavar="ID", help="The memory that is meant if a call names none.")
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead of stdin and stdout.")
@click.option(
    "--token-file", metavar="FILE", help="Lines token=tenant. [default: CTXWRAP_MCP_TOKENS, else a new token]"
)
@click.option(
    "--user", metavar="'NAME <ADDRESS>'", envvar="CTXWRAP_MCP_USER", help="Who --tenant is; get_user tells it."
)
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="NAME", help="A name that clients call it by.")
@click.option("--create/--no-create", default=True, help="Whether agents may create memories and vaults.")
@click.option("--prompts", metavar="DIR", help="A directory of prompts that come before the built-in ones.")
@click.option("--model", metavar="NAME", help="A model of litellm's that writes summaries agents do not give.")
def mcp(**how: Any) -> None:
    """Serve memories to agents over the Model Context Protocol.

    Without --http it serves the program that started it, on stdin and stdout. With --http every request needs a bearer
    token, which says whose memories it is about; without a token file or CTXWRAP_MCP_TOKENS one is made for --tenant
    and printed once.
    """
    from ctxwrap.cli.mcp import run_mcp

    with friendly_errors():
        run_mcp(**how)


main.add_command(workingset)
