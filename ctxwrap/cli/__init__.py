"""The command `ctxwrap`: a group whose commands are imported when they run."""

from importlib import import_module

import click

from ctxwrap import __version__

COMMANDS = {
    "chat": ("chat", "Chat in the terminal through a wrapped client."),
    "check": ("check", "Check in twenty short turns whether ctxwrap works with a model."),
    "conform": ("check", "Check PATH against the five specifications; - reads stdin."),
    "copy": ("transfer", "Copy sessions from store FROM to store TO, under the same names."),
    "cost": ("pack", "Show the tokens and cost of SESSION, compared with other ways to send it."),
    "demo": ("demo", "Create a session of thirty turns to look at."),
    "diff": ("transfer", "Compare the packs of turns N and M of SESSION, and memory between them."),
    "export": (
        "transfer",
        "Write SESSION, or everything of a user, to one file, which `ctxwrap import` reads.",
    ),
    "forget": ("cleanup", "Delete memory items of SESSION, or of a user or a team, permanently."),
    "gc": ("cleanup", "List derived files of SESSION that are no longer needed, and why."),
    "import": ("transfer", "Import a session from an archive FILE, or the evidence of an envelope."),
    "key": ("maintenance", "Print a new encryption key for CTXWRAP_KEY."),
    "mcp": ("mcp", "Serve memories to agents over the Model Context Protocol."),
    "memory": ("memory", "List the memory of SESSION, or of a user or a team, by tier."),
    "missing": ("missing", "List missing context of SESSION: files, omitted texts, open questions."),
    "pack": ("pack", "Show what a request of SESSION contained, what was left out, and why."),
    "practice": ("demo", "Serve the practice model under the APIs of OpenAI and Anthropic."),
    "purge": (
        "cleanup",
        "Delete a message of SESSION, the texts of a child, or everything of a user, permanently.",
    ),
    "put": ("maintenance", "Put FILE or stdin into the context/ of SESSION as NAME."),
    "rebuild": ("maintenance", "Rebuild the derived files of SESSION from its log."),
    "rekey": ("maintenance", "Encrypt the key of SESSION with the first key in CTXWRAP_KEY."),
    "schema": ("transfer", "Print the JSON Schema NAME, or all of them."),
    "serve": ("serve", "Serve OpenAI's and Anthropic's APIs with context, for tools that take a URL."),
    "sessions": ("sessions", "List sessions, newest first."),
    "show": ("sessions", "Show SESSION: its state, memory, summary and turns."),
    "swap": ("missing", "List what left the prompt of SESSION, newest first."),
    "tail": ("turns", "Print the newest messages of SESSION."),
    "ui": ("ui", "Show sessions, turns, packs and memory in a page on this machine."),
    "upgrade": ("maintenance", "Convert SESSION from the format of an older version."),
    "users": ("users", "List the users of a tenant, or its teams."),
    "verify": ("maintenance", "Check SESSION for damage; change nothing."),
    "workingset": ("workingset", "Edit and check the files of a working-set.yml."),
}
"""The module of each command, and the first line of its help."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ctxwrap")
def main() -> None:
    """Persistent history and memory for LLM clients.

    In a program, replace an OpenAI, Anthropic or litellm client by ctxwrap.wrap(client). To try it here, run
    `ctxwrap chat`: it talks to a built-in practice model, with no key and no network.
    """
