"""The server of the page: static files, JSON views, and live updates, for one reader with a token."""

import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from http.cookies import SimpleCookie
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctxwrap.errors import CtxwrapError, NotFound
from ctxwrap.service.ui import views
from ctxwrap.session.lookup import key_for
from ctxwrap.session.session import Session
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey

_PAGE = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.js": ("app.js", "text/javascript; charset=utf-8"),
    "views.js": ("views.js", "text/javascript; charset=utf-8"),
    "dom.js": ("dom.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
}

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

_COOKIE = "ctxwrap-ui"
_LARGEST_BODY = 256 * 1024
_LOOK = 0.3
"""Seconds between looks for new turns of a session that a page shows."""

_USED = "This address is not valid, or was used before. Run `ctxwrap ui` again for a new one.\n"

View = Callable[[Store, Mapping[str, str]], dict[str, Any]]


def _key(query: Mapping[str, str]) -> SessionKey:
    return key_for(query.get("session", ""), query.get("tenant", "default"), query.get("agent", "default"))


def _number(query: Mapping[str, str], name: str) -> int | None:
    value = query.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 16 else None


VIEWS: dict[str, View] = {
    "sessions": lambda store, query: views.sessions_view(store, query.get("search", ""), _number(query, "offset") or 0),
    "turns": lambda store, query: views.turns_view(store, _key(query), _number(query, "before")),
    "turn": lambda store, query: views.turn_view(store, _key(query), query.get("turn", ""), _number(query, "event")),
    "memory": lambda store, query: views.memory_view(store, _key(query), _number(query, "round")),
    "curves": lambda store, query: views.curves_view(store, _key(query)),
    "compare": lambda store, query: views.compare_view(
        store, _key(query), query.get("before", ""), query.get("after", "")
    ),
    "missing": lambda store, query: views.missing_view(store, _key(query)),
    "cost": lambda store, query: views.cost_view(store, _key(query)),
}


def ui_app(store: Store) -> Starlette:
    """The page and its data. It has no access control: wrap it in `LocalAccess`, or mount it behind your own."""

    async def data(request: Request) -> Response:
        view = VIEWS.get(request.path_params["view"])
        if view is None:
            return JSONResponse({"error": "there is no such view"}, 404)
        return await _answer(partial(view, store, dict(request.query_params)))

    async def preview(request: Request) -> Response:
        asked = await _body(request)
        return await _answer(lambda: _preview(store, asked))

    async def live(request: Request) -> Response:
        try:
            key = _key(dict(request.query_params))
            session = Session(key, store.open(key))
        except CtxwrapError as error:
            return JSONResponse({"error": str(error)}, 400, _HEADERS)
        return StreamingResponse(_changes(session, request), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", _file, methods=["GET"]),
            Route("/api/live", live, methods=["GET"]),
            Route("/api/preview", preview, methods=["POST"]),
            Route("/api/{view}", data, methods=["GET"]),
            Route("/{name}", _file, methods=["GET"]),
        ]
    )


async def _file(request: Request) -> Response:
    name, kind = _PAGE.get(request.path_params.get("name", ""), ("", ""))
    if not name:
        return PlainTextResponse("not found\n", 404)
    return Response(files(__package__).joinpath("page", name).read_bytes(), media_type=kind, headers=_HEADERS)


async def _answer(work: Callable[[], dict[str, Any]]) -> Response:
    try:
        found = await run_in_threadpool(work)
    except NotFound as error:
        return JSONResponse({"error": str(error)}, 404, _HEADERS)
    except (CtxwrapError, ValueError) as error:
        return JSONResponse({"error": str(error)}, 400, _HEADERS)
    text = json.dumps(found, default=str).encode("utf-8", "replace")
    return Response(text, media_type="application/json", headers=_HEADERS)


def _preview(store: Store, asked: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: value for name, value in asked.items() if isinstance(value, str)}
    budget = asked.get("budget")
    limit = budget if isinstance(budget, int) and budget > 0 else None
    return views.preview_view(store, _key(texts), texts.get("message", ""), texts.get("model", "gpt-4o"), limit)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object in a request; empty if it is too long or something else."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _LARGEST_BODY:
            return {}
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


async def _changes(session: Session, request: Request) -> AsyncIterator[str]:
    """One event whenever the session's log has grown."""
    known = None
    while not await request.is_disconnected():
        counts = await run_in_threadpool(_counts, session)
        if counts != known:
            yield f"data: {json.dumps(counts)}\n\n"
            known = counts
        await anyio.sleep(_LOOK)


def _counts(session: Session) -> dict[str, int]:
    session.refresh()
    return {"round": session.state.round, **session.state.sequence}


class LocalAccess:
    """Admits one browser: the token in the address is exchanged once for a cookie.

    Requests for other hosts, and from pages of other sites, are refused: a site cannot reach the page by a name that
    it points to this machine.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts
        self._token: str | None = token
        self._cookie = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send if refusal else _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This page is only served under its own address.\n", 421, _HEADERS)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("This page is not for other sites.\n", 403, _HEADERS)
        morsel = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
        if morsel is not None and secrets.compare_digest(morsel.value.encode(), self._cookie.encode()):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if self._token is None or not secrets.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse(_USED, 403, _HEADERS)
        self._token = None
        admitted = RedirectResponse(str(scope["path"]), 303, _HEADERS)
        admitted.set_cookie(_COOKIE, self._cookie, httponly=True, samesite="strict")
        return admitted


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in known)]
        await send(message)

    return sent
