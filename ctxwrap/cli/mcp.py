"""The command `mcp`: serve memories on stdin and stdout, or over HTTP to tenants with tokens."""

import logging
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from ctxwrap.cli.output import STORE, TENANT, command, one_line
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.settings import Settings
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from ctxwrap.service.memories import Memories
    from ctxwrap.turn.summariser import Summariser


class _StderrHandler(logging.Handler):
    """Prints log records of other packages on stderr: stdout belongs to the protocol."""

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("ctxwrap"):
            click.echo(one_line(f"{record.name}: {record.getMessage()}"), err=True)


@command("mcp")
@STORE
@TENANT
@click.option("--vault", default="default", show_default=True, help="Vault for calls that name none.")
@click.option("--memory", default="", metavar="ID", help="Memory for calls that name none.")
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead of stdin and stdout.")
@click.option(
    "--token-file", metavar="FILE", help="Lines token=tenant. [default: CTXWRAP_MCP_TOKENS, else a new token]"
)
@click.option(
    "--user", metavar="'NAME <ADDRESS>'", envvar="CTXWRAP_MCP_USER", help="User of --tenant, returned by get_user."
)
@click.option("--for-user", metavar="NAME", help="Serve only memories of this user, and of nobody; without --http.")
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="NAME", help="Host name that clients use.")
@click.option("--create/--no-create", default=True, help="Whether agents may create memories and vaults.")
@click.option("--prompts", metavar="DIR", help="Directory of prompts that override the built-in ones.")
@click.option("--model", metavar="NAME", help="litellm model that writes summaries agents do not provide.")
def mcp_command(
    store: str | None,
    tenant: str,
    vault: str,
    memory: str,
    http: str | None,
    token_file: str | None,
    allow_hosts: tuple[str, ...],
    create: bool,
    prompts: str | None,
    model: str | None,
    user: str | None,
    for_user: str | None,
) -> None:
    """Serve memories to agents over the Model Context Protocol.

    Without --http it serves the program that started it, on stdin and stdout. With --http every request needs a bearer
    token, which determines the tenant; without a token file or CTXWRAP_MCP_TOKENS, a token for --tenant is created and
    printed once.
    """
    _check_extra()
    logging.basicConfig(level=logging.WARNING, handlers=[_StderrHandler()])
    check_id("tenant", tenant)
    from ctxwrap.service.mcp.auth import parse_profile, read_access

    users = {tenant: parse_profile(user, "--user")} if user else {}
    if http is None:
        if token_file or allow_hosts:
            raise SettingsError("--token-file and --allow-host need --http")
        from ctxwrap.service.mcp.server import run_on_stdio

        options: dict[str, Any] = {"create": create, "prompts": prompts, "model": model, "for_user": for_user}
        run_on_stdio(_servers(store, vault, memory, users, **options)(tenant))
    elif for_user is not None:
        raise SettingsError("--for-user serves one program: leave out --http")
    else:
        access = read_access(token_file)
        users |= access.users
        serving = _servers(store, vault, memory, users, create=create, prompts=prompts, model=model)
        _serve_http(http, tenant, serving, access.tokens, allow_hosts)


def _check_extra() -> None:
    try:
        for name in ("mcp.server.mcpserver", "uvicorn"):
            import_module(name)
    except ImportError as error:
        raise SettingsError(f"`ctxwrap mcp` needs the extra mcp: pip install 'ctxwrap[mcp]' ({error})") from error


def _servers(
    store: str | None,
    vault: str,
    memory: str,
    users: Mapping[str, Mapping[str, str]],
    *,
    create: bool,
    prompts: str | None,
    model: str | None,
    for_user: str | None = None,
) -> "Callable[[str], MCPServer]":
    """Return a function that creates the server of a tenant."""
    from ctxwrap.service.mcp.server import build_server_for
    from ctxwrap.service.memories import Memories

    place, settings = open_store(store), Settings(prompts_dir=prompts) if prompts else None
    writer = _writer(model) if model else None

    def serving(tenant: str) -> "MCPServer":
        user = users.get(tenant)
        memories = Memories(
            place, tenant=tenant, vault=vault, settings=settings, user=user, writer=writer, for_user=for_user
        )
        if memory:
            _ensure(memories, memory, create=create)
        return build_server_for(memories, memory=memory, allow_create=create)

    return serving


def _writer(model: str) -> "Summariser":
    from ctxwrap.clients.litellm import load_litellm
    from ctxwrap.turn.summariser import Summariser

    return Summariser(load_litellm(), model=model)


def _ensure(memories: "Memories", memory: str, *, create: bool) -> None:
    """Create the default memory if it does not exist: agents first read its context."""
    try:
        memories.get_memory(memory)
    except NotFound:
        if not create:
            raise
        memories.create_memory(memory[:50], memory_id=memory)


def _serve_http(
    text: str,
    tenant: str,
    serving: "Callable[[str], MCPServer]",
    tokens: Mapping[str, str],
    allow_hosts: tuple[str, ...],
) -> None:
    from ctxwrap.service.mcp.auth import Tokens
    from ctxwrap.service.mcp.http import PATH, AuthenticatedApp, serve
    from ctxwrap.service.web import Address, allowed_hosts, bind, is_loopback, parse_address

    address = parse_address(text)
    loopback = is_loopback(address.host)
    if not loopback and not (tokens and allow_hosts):
        raise SettingsError(
            f"{address.host} can be reached from other machines: set --token-file and --allow-host, or listen on "
            "127.0.0.1"
        )
    with bind(address) as listening:
        address = Address(address.host, listening.getsockname()[1])
        hosts = allowed_hosts(address, allow_hosts, loopback=loopback)
        click.echo(f"listening on http://{address}{PATH}", err=True)
        serve(AuthenticatedApp(serving, Tokens(tokens or _new_tokens(tenant)), hosts), listening)


def _new_tokens(tenant: str) -> dict[str, str]:
    """Create a token for this run and print it."""
    from ctxwrap.service.mcp.auth import new_token

    token = new_token()
    click.echo(one_line(f"token for tenant {tenant!r}: {token}"), err=True)
    sys.stderr.flush()
    return {token: tenant}
