"""The command `ui`: serve the read-only page on loopback."""

import secrets
import socket
import sys
import threading
import webbrowser
from importlib import import_module
from urllib.parse import quote

import click

from ctxwrap.cli.output import AGENT, STORE, TENANT, command
from ctxwrap.errors import SettingsError
from ctxwrap.session.lookup import key_for
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey

_LOOPBACK = "127.0.0.1"


@command("ui")
@click.argument("session", required=False)
@TENANT
@AGENT
@STORE
@click.option("--port", default=0, help="Port on 127.0.0.1. [default: a free one]")
@click.option("--open/--no-open", "opens", default=None, help="Open a browser. [default: if there is a terminal]")
def ui_command(session: str | None, tenant: str, agent: str, store: str | None, port: int, opens: bool | None) -> None:
    """Show sessions, turns, packs and memory in a page on this machine.

    The page is read-only and live. Its address has a token that admits one browser; stop the server with Ctrl-C.
    """
    server, address = start_ui(open_store(store), port)
    if session:
        address = address_of(address, key_for(session, tenant, agent))
    click.echo(f"ctxwrap ui: {address}")
    if opens if opens is not None else sys.stdout.isatty():
        webbrowser.open(address)
    server.run()


def address_of(page: str, key: SessionKey) -> str:
    """Return the address of a session on the page."""
    return f"{page}#/s/{'/'.join(quote(name, '') for name in key)}"


def start_ui(store: Store, port: int = 0) -> "tuple[_Server, str]":
    """Return a server that listens, and the address of its page with a token that works once."""
    check_extra()
    from ctxwrap.service.ui.app import LocalAccess, ui_app

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_LOOPBACK, port))
    except OSError as error:
        raise SettingsError(f"cannot listen on {_LOOPBACK}:{port}: {error.strerror}; choose another --port") from None
    listener.listen()
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = LocalAccess(ui_app(store), token, frozenset({f"{_LOOPBACK}:{port}", f"localhost:{port}"}))
    return _Server(app, listener), f"http://{_LOOPBACK}:{port}/?token={token}"


def run_page(store: Store) -> str:
    """Serve the page in a thread, as long as the process runs; return its address."""
    server, address = start_ui(store)
    threading.Thread(target=server.run, name="ctxwrap-ui", daemon=True).start()
    return address


class _Server:
    def __init__(self, app: object, listener: socket.socket) -> None:
        import uvicorn

        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)  # type: ignore[arg-type]
        self._server = uvicorn.Server(config)
        self._listener = listener

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True


def check_extra() -> None:
    for name in ("starlette", "uvicorn"):
        try:
            import_module(name)
        except ImportError as error:
            raise SettingsError("the page needs an extra: pip install 'ctxwrap[ui]'") from error
