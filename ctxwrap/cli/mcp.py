"""Serving the memories: to one agent on stdin and stdout, or to tenants with tokens over HTTP."""

import logging
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

from ctxwrap.cli.output import one_line
from ctxwrap.errors import NotFound, SettingsError
from ctxwrap.settings import Settings
from ctxwrap.stores import open_store
from ctxwrap.stores.names import check_id

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from ctxwrap.service.memories import Memories
    from ctxwrap.turn.summariser import Summariser


class _Lines(logging.Handler):
    """What others than ctxwrap log, on stderr: stdout is the protocol's."""

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith("ctxwrap"):
            click.echo(one_line(f"{record.name}: {record.getMessage()}"), err=True)


def run_mcp(
    *,
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
) -> None:
    _check_extra()
    logging.basicConfig(level=logging.WARNING, handlers=[_Lines()])
    check_id("tenant", tenant)
    from ctxwrap.service.mcp.auth import access_of, profile_of

    users = {tenant: profile_of(user, "--user")} if user else {}
    if http is None:
        if token_file or allow_hosts:
            raise SettingsError("--token-file and --allow-host are for --http: on stdio whoever started it is served")
        from ctxwrap.service.mcp.server import run_on_stdio

        run_on_stdio(_servers(store, vault, memory, users, create=create, prompts=prompts, model=model)(tenant))
    else:
        access = access_of(token_file)
        users |= access.users
        serving = _servers(store, vault, memory, users, create=create, prompts=prompts, model=model)
        _serve_http(http, tenant, serving, access.tokens, allow_hosts)


def _check_extra() -> None:
    try:
        for name in ("mcp.server.mcpserver", "uvicorn"):
            import_module(name)
    except ImportError as error:
        raise SettingsError(f"this needs the extra mcp: pip install 'ctxwrap[mcp]' ({error})") from error


def _servers(
    store: str | None,
    vault: str,
    memory: str,
    users: Mapping[str, Mapping[str, str]],
    *,
    create: bool,
    prompts: str | None,
    model: str | None,
) -> "Callable[[str], MCPServer]":
    """What makes the server of a tenant."""
    from ctxwrap.service.mcp.server import server_for
    from ctxwrap.service.memories import Memories

    place, settings = open_store(store), Settings(prompts_dir=prompts) if prompts else None
    writer = _writer(model) if model else None

    def serving(tenant: str) -> "MCPServer":
        user = users.get(tenant)
        memories = Memories(place, tenant=tenant, vault=vault, settings=settings, user=user, writer=writer)
        if memory:
            _have(memories, memory, create=create)
        return server_for(memories, memory=memory, allow_create=create)

    return serving


def _writer(model: str) -> "Summariser":
    from ctxwrap.clients.litellm import load_litellm
    from ctxwrap.turn.summariser import Summariser

    return Summariser(load_litellm(), model=model)


def _have(memories: "Memories", memory: str, *, create: bool) -> None:
    """The default memory is there from the start: agents begin by reading its context."""
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
    from ctxwrap.service.mcp.http import (
        PATH,
        Address,
        AuthenticatedApp,
        address_of,
        bound,
        hosts_of,
        is_loopback,
        serve,
    )

    address = address_of(text)
    loopback = is_loopback(address.host)
    if not loopback and not (tokens and allow_hosts):
        raise SettingsError(
            f"{address.host} can be reached from other machines: name a --token-file, and with --allow-host the name"
            " it is called by; or listen on 127.0.0.1"
        )
    with bound(address) as listening:
        address = Address(address.host, listening.getsockname()[1])
        hosts = hosts_of(address, allow_hosts, loopback=loopback)
        click.echo(f"listening on http://{address}{PATH}", err=True)
        serve(AuthenticatedApp(serving, Tokens(tokens or _made_up(tenant)), hosts), listening)


def _made_up(tenant: str) -> dict[str, str]:
    """A token for this run: it is told here, and nowhere else."""
    from ctxwrap.service.mcp.auth import new_token

    token = new_token()
    click.echo(one_line(f"token for tenant {tenant!r}: {token}"), err=True)
    sys.stderr.flush()
    return {token: tenant}
