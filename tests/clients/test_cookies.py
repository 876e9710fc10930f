"""Cookies of responses are kept and sent as by the HTTP client itself, though most responses are not searched."""

import asyncio
import gc
from collections.abc import Callable
from http.cookiejar import CookieJar
from typing import Any

import pytest

import ctxwrap
from ctxwrap.clients.http import client_behind

openai = pytest.importorskip("openai")

REPLY = {
    "id": "r",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}],
}
every_way = pytest.mark.parametrize("is_async", [False, True])
every_library = pytest.mark.parametrize("library", ["httpx", "httpx2"])


class Server:
    """Answers calls, with the given headers, and records the cookies that they send."""

    def __init__(self, library: str, *headers: list[tuple[str, str]]) -> None:
        self.library = pytest.importorskip(library)
        self.headers = iter(headers)
        self.received: list[str | None] = []

    def answer(self, request: Any) -> Any:
        self.received.append(request.headers.get("cookie"))
        headers = next(self.headers, [])
        status = 307 if any(name == "location" for name, _ in headers) else 200
        return self.library.Response(status, headers=headers, json=REPLY)

    def http_client(self, is_async: bool, **options: Any) -> Any:
        kind = self.library.AsyncClient if is_async else self.library.Client
        return kind(transport=self.library.MockTransport(self.answer), **options)


def ask(http: Any, is_async: bool, times: int = 3, *, wrapped: bool = True) -> None:
    own = (openai.AsyncOpenAI if is_async else openai.OpenAI)(
        api_key="x", base_url="http://a.test/v1", http_client=http
    )
    client = ctxwrap.wrap(own, store="memory:", session="s", max_reasks=0) if wrapped else own

    def call() -> Any:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}])

    async def calls() -> None:
        for _ in range(times):
            await call()

    if is_async:
        asyncio.run(calls())
    else:
        for _ in range(times):
            call()


SETS = [
    [[("Set-Cookie", "a=1; Path=/")]],
    [[], [("set-cookie", "a=1; Path=/"), ("SET-COOKIE", "b=2; Path=/v1")]],
    [[("Set-Cookie", "a=1; Path=/")], [("Set-Cookie", "a=; Max-Age=0; Path=/")]],
    [[("Set-Cookie", "a=1; Domain=b.test")]],
    [[("Set-Cookie2", 'a="1"; Version="1"')]],
    [[("location", "http://a.test/v1/other"), ("Set-Cookie", "a=1; Path=/")]],
]


@every_way
@every_library
@pytest.mark.parametrize("headers", SETS)
def test_cookies_are_those_of_the_bare_client(library: str, is_async: bool, headers: Any) -> None:
    seen = []
    for wrapped in (False, True):
        server = Server(library, *headers)
        http = server.http_client(is_async, cookies={"own": "0"}, follow_redirects=True)
        ask(http, is_async, wrapped=wrapped)
        assert type(http.cookies) is server.library.Cookies
        seen.append((server.received, sorted((each.name, each.value, each.path) for each in http.cookies.jar)))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) >= 3


@every_way
def test_only_responses_with_cookies_are_searched(is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    make_cookies = CookieJar.make_cookies
    monkeypatch.setattr(CookieJar, "make_cookies", lambda *given: searched.append(1) or make_cookies(*given))
    server = Server("httpx", [], [("Set-Cookie", "a=1; Path=/")])
    ask(server.http_client(is_async), is_async)
    assert (len(searched), server.received) == (1, [None, None, "a=1"])


def test_a_jar_of_the_caller_is_always_asked() -> None:
    class Jar(CookieJar):
        asked = 0

        def extract_cookies(self, *given: Any) -> None:
            self.asked += 1
            super().extract_cookies(*given)

    jar = Jar()
    ask(Server("httpx").http_client(False, cookies=jar), False)
    assert jar.asked == 3


def test_a_client_class_of_the_caller_sends_by_itself() -> None:
    httpx = pytest.importorskip("httpx")
    senders = []

    class Client(httpx.Client):  # type: ignore[misc, name-defined]
        def send(self, *given: Any, **options: Any) -> Any:
            senders.append(self)
            return super().send(*given, **options)

    client = Client(transport=httpx.MockTransport(Server("httpx").answer))
    ask(client, False)
    assert all(each is client for each in senders)
    assert len(senders) == 3


@pytest.mark.parametrize("where", ["instance", "class"])
def test_a_send_that_was_patched_is_used(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    http = Server("httpx").http_client(False)
    original: Callable[..., Any] = http.send if where == "instance" else type(http).send
    count = 0

    def send(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return original(*given, **options)

    ask(http, False, 1)
    monkeypatch.setattr(http if where == "instance" else type(http), "send", send)
    ask(http, False, 2)
    assert count == 2


def test_calls_share_the_state_of_the_callers_client() -> None:
    own = openai.OpenAI(api_key="x")
    http = own._client
    wrapped = ctxwrap.wrap(own, store="memory:", session="s", max_reasks=0)
    server = Server("httpx")
    http._transport, http._mounts = server.library.MockTransport(server.answer), {}
    wrapped.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello."}])
    gc.collect()
    assert client_behind(wrapped._client) is http
    assert not http.is_closed
    wrapped.close()
    assert http.is_closed
    with pytest.raises(openai.APIConnectionError):
        wrapped.with_options(max_retries=0).chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hello."}]
        )
