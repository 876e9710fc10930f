"""HTTP endpoints, authentication and error responses."""

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import ctxwrap

from .passwords import TooMany
from .settings import from_environment
from .signing import SECONDS
from .streaming import Answer, Said
from .worker import Worker, running

LARGEST_BODY = 64 * 1024
PAGE = (Path(__file__).parent / "page.html").read_text()
_SCRIPT = re.search("<script>(.*?)</script>", PAGE, re.DOTALL)
_SCRIPT_HASH = b64encode(sha256((_SCRIPT[1] if _SCRIPT else "").encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; script-src 'sha256-{_SCRIPT_HASH}'; style-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class SmallBodies:
    """Rejects a body as soon as it exceeds the limit, whatever its headers say."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LARGEST_BODY:
                raise HTTPException(413, "The request is too large.", {"Connection": "close"})
            return message

        await self._app(scope, counted, send)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Worker]]:
    async with running(from_environment()) as worker:
        yield {"worker": worker}


def this_worker(request: Request) -> Worker:
    worker: Worker = request.state.worker
    return worker


Here = Annotated[Worker, Depends(this_worker)]


def same_origin(request: Request, here: Here) -> None:
    """Reject POST requests from other sites; SameSite alone does not protect older browsers."""
    origin = request.headers.get("origin")
    if request.method == "POST" and origin not in (None, here.settings.origin or str(request.base_url).rstrip("/")):
        raise HTTPException(403, "Cross-site request refused.")


def signed_in(request: Request, here: Here) -> str:
    user = here.signing.user_in(request.cookies.get(here.signing.cookie, ""))
    if user is None:
        raise HTTPException(401, "Sign in first.")
    return user


User = Annotated[str, Depends(signed_in)]


def session_of(user: str) -> str:
    """Each user has one session, derived from the signed-in name and never from the request."""
    return f"user-{user}"


app = FastAPI(lifespan=lifespan, openapi_url=None, dependencies=[Depends(same_origin)])
app.add_middleware(SmallBodies)


@app.exception_handler(RequestValidationError)
async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    field = ".".join(map(str, first["loc"][1:])) or "body"
    return JSONResponse({"detail": f"{field}: {first['msg']}"}, 422)


@app.exception_handler(ctxwrap.StoreError)
async def store_away(request: Request, error: ctxwrap.StoreError) -> JSONResponse:
    return JSONResponse({"detail": "The service is temporarily unavailable."}, 503, {"Retry-After": "5"})


@app.get("/", response_class=HTMLResponse)
def page() -> HTMLResponse:
    return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})


class SignIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=32)
    password: str = Field(max_length=200)


@app.post("/sign-in", status_code=204)
async def sign_in(given: SignIn, here: Here, response: Response) -> None:
    try:
        is_right = await here.checks.is_right(given.password, here.signing.users, given.name)
    except TooMany:
        raise HTTPException(503, "Too many sign-in attempts. Try again in a moment.", {"Retry-After": "2"}) from None
    if not is_right:
        raise HTTPException(401, "Name or password is wrong.")
    response.set_cookie(
        here.signing.cookie,
        here.signing.signed(given.name),
        max_age=SECONDS,
        httponly=True,
        samesite="strict",
        secure=here.signing.is_https,
    )


@app.post("/sign-out", status_code=204)
def sign_out(here: Here, response: Response) -> None:
    response.delete_cookie(here.signing.cookie, httponly=True, samesite="strict", secure=here.signing.is_https)


async def answering(said: Said, user: User, here: Here) -> AsyncIterator[Answer]:
    """Provide the answer and close it when the response ends, also if the client disconnects."""
    answer = Answer(here.client, here.settings.model, session_of(user), said)
    with here.under_way.one():
        try:
            yield answer
        finally:
            await answer.close()


@app.post("/chat", response_class=EventSourceResponse)
async def chat(answer: Annotated[Answer, Depends(answering)]) -> AsyncIterator[ServerSentEvent]:
    async for each in answer.events():
        yield each


@app.get("/history")
def history(
    user: User,
    here: Here,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=50)] = 25,
    before: Annotated[str | None, Query(max_length=60)] = None,
) -> dict[str, Any]:
    """A page of messages, newest first, and the cursor to pass as `before` for the next page."""
    response.headers["Cache-Control"] = "no-store"
    try:
        found = here.memories.list_entries(session_of(user), limit, before, vault="default")
    except ctxwrap.NotFound:
        return {"user": user, "messages": [], "before": ""}
    except ctxwrap.InvalidInput:
        raise HTTPException(422, "before: not a cursor of your history") from None
    messages = [{"role": each.role, "text": each.rawEntry, "time": each.creationTime} for each in found.entries]
    return {"user": user, "messages": messages, "before": found.next_before}


@app.get("/memory")
def memory(user: User, here: Here, response: Response) -> dict[str, Any]:
    """What the model remembers about the user: the items of all tiers."""
    response.headers["Cache-Control"] = "no-store"
    try:
        tiers = here.session(session_of(user)).memory()["memory"]
    except ctxwrap.NotFound:
        return {"items": []}
    return {"items": [{"id": each["id"], "text": each["content"]} for tier in tiers.values() for each in tier]}


class Forget(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=200)


@app.post("/forget", status_code=204)
def forget(given: Forget, user: User, here: Here) -> None:
    """Delete an item from memory permanently: from requests, files and the log."""
    try:
        here.session(session_of(user)).forget(item=given.id)
    except ctxwrap.NotFound:
        raise HTTPException(404, "That is not remembered any more.") from None


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "alive"}


@app.get("/ready")
async def ready(here: Here, response: Response) -> dict[str, str]:
    obstacle = await here.readiness.obstacle()
    response.status_code = 503 if obstacle else 200
    return {"status": obstacle or "ready"}
