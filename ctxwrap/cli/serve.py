"""The command `serve`: a proxy for OpenAI's and Anthropic's APIs that adds context."""

import logging
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ctxwrap.cli.output import STORE, command
from ctxwrap.cli.ui import run_page
from ctxwrap.errors import SettingsError

_TABLES = {"upstreams": "upstream", "keys": "key"}


def _read_config(context: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Let a TOML file give the defaults of the options: what the command line and the environment do not say."""
    if path is None:
        return None
    try:
        given = tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}") from error
    known = {parameter.name for parameter in context.command.params} - {"config", "new_token"}
    defaults: dict[str, Any] = {}
    for name, value in given.items():
        option = _TABLES.get(name, name.replace("-", "_"))
        if option not in known and name != "settings":
            raise click.BadParameter(f"{path} has {name!r}, which is no option of ctxwrap serve")
        if name in _TABLES:
            value = [f"{each}={text}" for each, text in value.items()]
        defaults[option] = value
    context.obj = defaults.pop("settings", {})
    context.default_map = defaults
    return path


@command("serve")
@STORE
@click.option(
    "--config",
    metavar="FILE",
    envvar="CTXWRAP_SERVE_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file with these options, and [settings].",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:8787",
    show_default=True,
    envvar="CTXWRAP_SERVE_LISTEN",
    help="Where to serve.",
)
@click.option(
    "--upstream",
    multiple=True,
    metavar="NAME=URL",
    envvar="CTXWRAP_SERVE_UPSTREAMS",
    help="Provider, with the URL in place of /v1; NAME:anthropic=URL says its API. [default: openai, anthropic]",
)
@click.option(
    "--key",
    multiple=True,
    metavar="NAME=VARIABLE",
    envvar="CTXWRAP_SERVE_KEYS",
    help="Variable with the server's own key for an upstream; without one, clients send theirs.",
)
@click.option(
    "--token-file", metavar="FILE", envvar="CTXWRAP_SERVE_TOKEN_FILE", help="Tokens that clients need, as hashes."
)
@click.option("--tokens", metavar="LINES", envvar="CTXWRAP_SERVE_TOKENS", default="", help="Lines of a token file.")
@click.option("--new-token", metavar="'TENANT [USER ...]'", help="Print a new token and its line, and exit.")
@click.option(
    "--session",
    default="auto",
    show_default=True,
    metavar="RULE",
    envvar="CTXWRAP_SERVE_SESSION",
    help="Session of calls that name none: auto, user, token, none, or =NAME.",
)
@click.option("--tenant", default="default", show_default=True, help="Tenant of calls without a token.")
@click.option("--mode", envvar="CTXWRAP_MODE", default="enabled", show_default=True, help="Mode of calls.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, envvar="CTXWRAP_SERVE_WORKERS")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Host name that clients without tokens use.")
@click.option("--max-body", type=click.IntRange(1), default=32 << 20, show_default=True, help="Bytes of a request.")
@click.option("--max-memory", type=click.IntRange(1), default=512 << 20, show_default=True, help="Bytes of all.")
@click.option("--max-requests", type=click.IntRange(1), default=1000, show_default=True, help="At once, per worker.")
@click.option("--timeout", type=click.FloatRange(0.001), default=1800, show_default=True, help="Seconds of a request.")
@click.option(
    "--drain", type=click.FloatRange(1), default=30, show_default=True, help="Seconds to finish when stopped."
)
@click.option("--ui", is_flag=True, help="Also serve the page of `ctxwrap ui`, on a port of its own on 127.0.0.1.")
@click.pass_context
def serve_command(context: click.Context, /, new_token: str | None, **options: Any) -> None:
    """Serve OpenAI's and Anthropic's APIs with context, for tools that take a URL.

    Point a tool's base URL to http://127.0.0.1:8787/v1 (OpenAI) or http://127.0.0.1:8787 (Anthropic). Its own key goes
    to the provider, unless --key gives the server one.
    """
    _check_extra()
    if new_token is not None:
        _print_token(new_token)
        return
    logging.basicConfig(level=logging.WARNING)
    _serve(context.obj or {}, **options)


def _check_extra() -> None:
    try:
        for name in ("httpx", "starlette", "uvicorn"):
            import_module(name)
    except ImportError as error:
        raise SettingsError(f"`ctxwrap serve` needs the extra serve: pip install 'ctxwrap[serve]' ({error})") from error


def _print_token(given: str) -> None:
    from ctxwrap.service.serve.access import new_token_line

    tenant, *users = given.split() or [""]
    token, line = new_token_line(tenant, users)
    click.echo(f"token, shown once:  {token}\nline for the tokens: {line}")


def _serve(settings: dict[str, Any], *, listen: str, tokens: str, token_file: str | None, **options: Any) -> None:
    from ctxwrap.service.serve.access import Grants
    from ctxwrap.service.serve.config import DEFAULT_UPSTREAMS, Limits, ServeConfig, parse_upstreams
    from ctxwrap.service.serve.worker import serve
    from ctxwrap.service.web import Address, allowed_hosts, bind, is_loopback, parse_address
    from ctxwrap.settings import settings_from
    from ctxwrap.stores import open_store

    address = parse_address(listen)
    loopback = is_loopback(address.host)
    if not loopback and Grants(token_file, tokens).is_open:
        raise SettingsError(
            f"{address.host} can be reached from other machines: give out tokens (--new-token, --token-file), or "
            "listen on 127.0.0.1"
        )
    settings = {"context_mode": options["mode"], **settings}
    settings_from(**settings)
    with bind(address) as listening:
        address = Address(address.host, listening.getsockname()[1])
        config = ServeConfig(
            upstreams=parse_upstreams(options["upstream"] or DEFAULT_UPSTREAMS, options["key"]),
            store=options["store"],
            tenant=options["tenant"],
            session=options["session"],
            token_file=token_file,
            tokens=tokens,
            hosts=allowed_hosts(address, options["allow_host"], loopback=loopback),
            limits=Limits(options["max_body"], options["max_memory"], options["max_requests"], options["timeout"]),
            settings=settings,
            workers=options["workers"],
            drain=options["drain"],
        )
        click.echo(f"listening on http://{address}", err=True)
        if options["ui"]:
            click.echo(f"page: {run_page(open_store(options['store']))}", err=True)
        serve(config, listening)
