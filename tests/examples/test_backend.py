"""The backend of the examples, run as its README says: two workers, real connections, files and PostgreSQL."""

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import httpx
import psycopg
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol.instructions import asks_for_trailer
from ctxwrap.testing.practice import Answer, Ask, Provider
from examples.backend.__main__ import serve
from examples.backend.passwords import hashed, is_right, users_in
from examples.backend.settings import from_environment
from examples.backend.signing import Signing
from tests.examples.serving import PASSWORD, PATIENCE, ROOT, SECRET, Backend, Person, environment, said_in, until
from tests.examples.sse import Event, text_of
from tests.stores.postgres_server import PostgresServer
from tests.support import trailer

TEXT = "One two three four five six."


class Talking(NamedTuple):
    """A backend and its model."""

    backend: Backend
    provider: Provider


class Held:
    """A model that stops in the middle of its answer until it is let go."""

    def __init__(self, at: int = 2) -> None:
        self._at = at
        self.came, self._go = threading.Event(), threading.Event()

    def __call__(self, ask: Ask) -> Answer:
        tail = trailer(ask) if asks_for_trailer(ask.system) else ""
        return Answer(TEXT + tail, pause=self._pause)

    def _pause(self, at: int) -> None:
        if at == self._at:
            self.came.set()
            self._go.wait(PATIENCE)

    def go_on(self) -> None:
        self._go.set()


@pytest.fixture
def held(provider: Provider) -> Iterator[Held]:
    model = Held()
    provider.answer = model
    yield model
    model.go_on()


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "sessions") if request.param == "files" else request.getfixturevalue("database")


@pytest.fixture
def serving(tmp_path: Path, provider: Provider) -> Callable[..., Backend]:
    """A backend, not started yet, whose model is the test's."""

    def made(place: str, **variables: str) -> Backend:
        return Backend(tmp_path / "backend", place, API_KEY="k", BASE_URL=provider.openai_url, **variables)

    return made


@pytest.fixture(scope="class", params=["files", "postgres"])
def talking(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """One backend for the tests of a class, each with a user of its own; a second message waits two seconds."""
    directory = tmp_path_factory.mktemp("talking")
    place = str(directory / "sessions")
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").create(f"t{secrets.token_hex(8)}")
    with (
        Provider() as provider,
        Backend(
            directory, place, names=("ada", "bob", "eve"), API_KEY="k", BASE_URL=provider.openai_url, BUSY_SECONDS="2"
        ) as backend,
    ):
        yield Talking(backend, provider)


@pytest.fixture(scope="module")
def practice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """One backend for all tests that only talk: with the practice model, as whoever tries it out has it."""
    directory = tmp_path_factory.mktemp("practice")
    with Backend(directory, str(directory / "sessions"), names=("ada", "bob", "eve", "zoe")) as backend:
        yield backend


def names_of(events: list[Event]) -> list[str]:
    """The kinds of events, pieces of text as one."""
    names = [event.name for event in events]
    return [name for at, name in enumerate(names) if name != "text" or names[at - 1] != "text"]


# who may come in


def signing(**variables: str) -> Signing:
    """Signs as the backend does: in the tests the secret is known."""
    return Signing(from_environment({"CHAT_SECRET": SECRET, **variables}))


def token_of(backend: Backend, name: str, until: float, secret: str = SECRET) -> str:
    return signing(CHAT_SECRET=secret, CHAT_USERS=str(backend.users)).signed(name, until)


def test_session_cookie_is_hidden_from_scripts_and_other_sites(practice: Backend) -> None:
    ada = Person(practice, "ada")
    assert ada.signed_in.status_code == 204
    cookie = ada.signed_in.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert ada.http.get("/history").json()["user"] == "ada"
    signed_out = ada.http.post("/sign-out")
    assert signed_out.status_code == 204
    assert ada.http.get("/history").status_code == 401


@pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("ada", ""), ("nobody", PASSWORD), ("", "")])
def test_a_wrong_password_and_an_unknown_name_are_refused_alike(practice: Backend, name: str, password: str) -> None:
    answer = httpx.post(f"{practice.url}/sign-in", json={"name": name, "password": password}, trust_env=False)
    assert (answer.status_code, answer.json()) == (401, {"detail": "Name or password is wrong."})
    assert "set-cookie" not in answer.headers


def test_only_a_valid_unexpired_cookie_is_accepted(practice: Backend) -> None:
    later, good = time.time() + 60, token_of(practice, "ada", time.time() + 60)
    name, expires, signature = good.split(".")
    refused = [
        "",
        "ada",
        "ada..",
        f"{name}.{expires}.",
        f"{name}.{int(expires) + 1}.{signature}",
        f"bob.{expires}.{signature}",
        f"{name}.{expires}.{signature[:-1]}{'0' if signature[-1] != '0' else '1'}",
        f"{name}.{expires}.{'é' * 64}",
        f"mallory.{expires}.{signature}",
        token_of(practice, "ada", time.time() - 1),
        token_of(practice, "ada", later, secret="another secret of just such length"),
    ]
    assert _asked_with(practice, good) == (200, 200)
    assert {token: _asked_with(practice, token) for token in refused} == dict.fromkeys(refused, (401, 401))


def _asked_with(backend: Backend, token: str) -> tuple[int, int]:
    headers = {"cookie": f"chat={token}".encode()}
    with httpx.Client(base_url=backend.url, headers=headers, timeout=PATIENCE, trust_env=False) as http:
        return http.get("/history").status_code, http.post("/chat", json={"text": "Hello."}).status_code


@pytest.mark.parametrize(
    ("path", "body"),
    [("/chat", {"text": "Hello."}), ("/sign-in", {"name": "ada", "password": PASSWORD}), ("/sign-out", None)],
)
def test_requests_from_another_origin_are_refused(practice: Backend, path: str, body: Any) -> None:
    ada = Person(practice, "ada")
    for origin in ("https://evil.example", "null", practice.url.replace("127.0.0.1", "localhost")):
        assert ada.http.post(path, json=body, headers={"origin": origin}).status_code == 403
    assert ada.http.post(path, json=body, headers={"origin": practice.url}).status_code in (200, 204)


def test_form_content_types_are_refused(practice: Backend) -> None:
    ada = Person(practice, "ada")
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = ada.http.post("/chat", content=b'{"text": "Hello."}', headers={"content-type": kind})
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"text": ""}, "text"),
        ({"text": "x" * 8001}, "text"),
        ({"text": 5}, "text"),
        ({}, "text"),
        ({"text": "Hello.", "contextMode": "on"}, "contextMode"),
        ({"text": "Hello.", "context_mode": "enabled"}, "context_mode"),
        ({"text": "Hello.", "session": "user-bob"}, "session"),
    ],
)
def test_invalid_message_is_refused_with_the_name_of_the_wrong_field(
    practice: Backend, body: dict[str, Any], word: str
) -> None:
    zoe = Person(practice, "zoe")
    answer = zoe.http.post("/chat", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{word}: ")
    assert zoe.http.get("/history").json()["messages"] == []


NO_MESSAGES = {
    "empty": b"",
    "cut": b"{",
    "list": b"[]",
    "no UTF-8": b"\xff",
    "half a character": b'{"text": "\\ud800"}',
    "deep": b'{"text": ' + b"[" * 60_000,
}


@pytest.mark.parametrize("body", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_malformed_body_is_refused(practice: Backend, body: bytes) -> None:
    for path in ("/chat", "/sign-in"):
        answer = Person(practice, "zoe").http.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        assert answer.json()["detail"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_password_check_accepts_only_the_hashed_password(password: str, other: str) -> None:
    users = users_in(f"# people\n\nada:{hashed(password, cost=(2, 8, 1))}\n")
    assert is_right(password, users, "ada")
    assert is_right(other, users, "ada") == (other == password)


def test_https_origin_makes_cookies_secure_and_is_the_only_accepted_origin(
    tmp_path: Path, serving: Callable[..., Backend]
) -> None:
    with serving(str(tmp_path / "sessions"), ORIGIN="https://chat.example") as backend:
        ada = Person(backend, "ada")
        cookie = ada.signed_in.headers["set-cookie"]
        assert cookie.startswith("__Host-chat=ada.")
        assert {"Secure", "Path=/", "HttpOnly"} <= set(cookie.split("; "))
        assert ada.http.post("/sign-out", headers={"origin": backend.url}).status_code == 403
        assert ada.http.post("/sign-out", headers={"origin": "https://chat.example"}).status_code == 204


@pytest.mark.parametrize("chunked", [False, True])
def test_oversized_body_is_refused_whole_or_chunked(practice: Backend, chunked: bool) -> None:
    body = b'{"text": "' + b"x" * 100_000 + b'"}'
    content: Any = iter([body[:50_000], body[50_000:]]) if chunked else body
    answer = Person(practice, "zoe").http.post("/chat", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413


# talking


def test_reply_streams_and_every_worker_shares_the_memory(practice: Backend) -> None:
    ada = Person(practice, "ada")
    events = ada.says("My name is Ada.")
    assert names_of(events) == ["accepted", "text", "done"]
    assert len(events) > 3, "it comes in pieces"
    assert text_of(events) == "Nice to meet you, Ada."
    for _ in range(6):  # connections of their own, which any worker may get
        assert text_of(Person(practice, "ada").says("What is my name?")) == "Your name is Ada."
    assert "Ada" not in text_of(ada.says("What is my name?", "disabled"))
    assert "Ada" not in text_of(ada.says("What is my name?", "shadow"))
    assert "Ada" in text_of(ada.says("What is my name?", "readonly"))
    assert "Ada" not in text_of(Person(practice, "bob").says("What is my name?"))


def test_history_is_paged_and_private_to_its_user(practice: Backend) -> None:
    eve = Person(practice, "eve")
    told = [f"I like fruit number {number}.\nAnd <b>newlines</b> \u2028 too." for number in range(5)]
    for text in told:
        assert names_of(eve.says(text))[-1] == "done"
    messages, before = [], ""
    while True:
        page = eve.http.get("/history", params={"limit": 3, **({"before": before} if before else {})}).json()
        messages += page["messages"]
        before = page["before"]
        if not before:
            break
    assert [message["text"] for message in reversed(messages) if message["role"] == "user"] == told
    assert [message["role"] for message in messages] == ["assistant", "user"] * 5
    assert eve.http.get("/history", params={"before": "nonsense"}).status_code == 422
    assert eve.http.get("/history", params={"limit": 51}).status_code == 422
    assert "fruit" not in Person(practice, "bob").http.get("/history").text


def test_user_sees_and_deletes_what_is_remembered(practice: Backend) -> None:
    ada, bob = Person(practice, "ada"), Person(practice, "bob")
    ada.says("My favourite colour is vermilion.")
    (item,) = [each for each in ada.http.get("/memory").json()["items"] if "vermilion" in each["text"]]
    assert "vermilion" not in bob.http.get("/memory").text
    assert bob.http.post("/forget", json={"id": item["id"]}).status_code == 404
    assert ada.http.post("/forget", json={"id": item["id"]}).status_code == 204
    assert "vermilion" not in ada.http.get("/memory").text
    assert ada.http.post("/forget", json={"id": item["id"]}).status_code == 404


def test_content_security_policy_allows_only_the_pages_own_script(practice: Backend) -> None:
    page = httpx.get(practice.url, trust_env=False)
    assert "innerHTML" not in page.text
    assert "script-src 'sha256-" in page.headers["content-security-policy"]
    assert "unsafe-eval" not in page.headers["content-security-policy"]
    assert "//" not in page.text, "nothing is fetched from anywhere"


def test_backend_reports_health_and_readiness(practice: Backend) -> None:
    assert httpx.get(f"{practice.url}/health", trust_env=False).json() == {"status": "alive"}
    assert (practice.ready().status_code, practice.ready().json()) == (200, {"status": "ready"})


# leaving, and coming at once


class TestLeavingAndComingAtOnce:
    def test_disconnected_user_keeps_the_partial_reply_and_can_continue(self, talking: Talking) -> None:
        backend, provider = talking
        held = provider.answer = Held()
        ada = Person(backend, "ada")
        with ada.hearing("Count to six.") as events:
            heard = [next(events)]
            said = said_in(backend.place, "ada")
            assert [message["content"] for message in said] == ["Count to six."], "it was accepted"
            heard += [next(events) for _ in range(2)]
        assert names_of(heard) == ["accepted", "text"]
        assert held.came.wait(PATIENCE)
        provider.answer = lambda ask: Answer("Seven.")
        assert text_of(ada.says("And then?")) == "Seven."
        held.go_on()
        said = said_in(backend.place, "ada")
        assert [message["content"] for message in said] == ["Count to six.", text_of(heard), "And then?", "Seven."]
        assert said[1]["ctx"]["status"] == "aborted"
        assert said[3]["ctx"]["status"] == "complete"

    def test_second_concurrent_message_waits_within_a_time_limit(self, talking: Talking) -> None:
        backend, provider = talking
        held = provider.answer = Held()
        with ThreadPoolExecutor() as pool, Person(backend, "bob").hearing("First.") as first:
            assert next(first).name == "accepted"
            assert held.came.wait(PATIENCE)
            (refused,) = Person(backend, "bob").says("Too soon.")
            assert (refused.name, refused.data["code"]) == ("error", "busy")
            waiting = pool.submit(Person(backend, "bob").says, "Second.")
            held.go_on()
            assert text_of(first) == TEXT
            assert text_of(waiting.result(PATIENCE)) == TEXT
        said = [message["content"] for message in said_in(backend.place, "bob")]
        assert said == ["First.", TEXT, "Second.", TEXT]

    def test_disconnected_users_leave_no_open_resources(self, talking: Talking) -> None:
        backend, provider = talking
        eve = Person(backend, "eve")
        open_before = 0
        for number in range(40):
            held = provider.answer = Held()
            with eve.hearing(f"Count, {number}.") as events:
                assert names_of([next(events) for _ in range(3)]) == ["accepted", "text"]
            held.go_on()
            if number == 19:
                open_before = backend.descriptors()
        until(lambda: backend.descriptors() <= open_before + 4, "connections and files are let go of")
        provider.answer = lambda ask: Answer("Fine.")
        assert names_of(eve.says("And now?"))[-1] == "done"
        if backend.place.startswith("postgresql:"):
            assert leases_in(backend.place) == 0


def leases_in(database: str) -> int:
    with psycopg.connect(database) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM ctxwrap_leases WHERE expires > clock_timestamp()")
        return int(count)


# the end


def test_backend_shutdown_drains_streams_and_reports_not_ready(
    place: str, held: Held, serving: Callable[..., Backend]
) -> None:
    with serving(place, DRAIN_SECONDS="2") as backend:
        with Person(backend, "ada").hearing("Count to six.") as events:
            assert next(events).name == "accepted"
            backend.terminate()
            until(lambda: backend.ready().status_code == 503, "it is not ready any more")
            assert backend.ready().json() == {"status": "shutting down"}
            until(lambda: "Waiting for connections to close" in backend.log, "it waits for the stream")
            held.go_on()
            rest = list(events)
        assert text_of(rest) == TEXT
        assert rest[-1].name == "done"
        assert backend.exit_code() == 0, backend.log
        assert "Traceback" not in backend.log
        assert said_in(place, "ada")[-1]["ctx"]["status"] == "complete"
        assert_left_nothing(backend)


def test_shutdown_timeout_cuts_a_stream_and_saves_its_partial_text(
    place: str, held: Held, serving: Callable[..., Backend]
) -> None:
    with serving(place, SHUTDOWN_SECONDS="1") as backend:
        with Person(backend, "ada").hearing("Count to six.") as events:
            heard = [next(events) for _ in range(3)]
            backend.terminate()
            assert backend.exit_code() == 0, backend.log
        said = said_in(place, "ada")
        assert [message["content"] for message in said] == ["Count to six.", text_of(heard)]
        assert said[-1]["ctx"]["status"] == "aborted"
        assert_left_nothing(backend)


def assert_left_nothing(backend: Backend) -> None:
    if backend.place.startswith("postgresql:"):
        assert leases_in(backend.place) == 0
        with psycopg.connect(backend.place) as connection:
            assert connection.execute("SELECT * FROM ctxwrap_writers").fetchall() == []


def test_store_outage_gives_users_a_readable_error_until_it_recovers(
    postgres: PostgresServer, database: str, held: Held, provider: Provider, serving: Callable[..., Backend]
) -> None:
    with serving(database) as backend, ThreadPoolExecutor() as pool:
        ada, bob = Person(backend, "ada"), Person(backend, "bob")
        with bob.hearing("Count to six.") as events:
            assert next(events).name == "accepted"
            assert held.came.wait(PATIENCE)
            postgres.crash()
            try:
                held.go_on()
                unsaved = pool.submit(list, events)
                refused, history = (
                    pool.submit(ada.says, "Hello."),
                    pool.submit(Person(backend, "ada").http.get, "/history"),
                )
                until(lambda: backend.ready().status_code == 503, "it is not ready without its store")
                assert backend.ready().json()["status"].startswith("the store ")
                assert httpx.get(f"{backend.url}/health", trust_env=False).status_code == 200
                (error,) = refused.result(PATIENCE)
                assert (error.name, error.data["code"]) == ("error", "store")
                assert "postgres" not in error.data["message"].lower()
                assert history.result(PATIENCE).status_code == 503
                assert unsaved.result(PATIENCE)[-1].data["code"] == "not_saved"
            finally:
                postgres.start()
        until(lambda: backend.ready().status_code == 200, "it is ready again")
        assert names_of(ada.says("Hello."))[-1] == "done"
        assert names_of(bob.says("And then?"))[-1] == "done"
        assert [message["content"] for message in said_in(database, "ada")] == ["Hello.", TEXT]
        assert TEXT in [message["content"] for message in said_in(database, "bob")]


# settings


WRONG_SETTINGS: list[tuple[dict[str, str], str]] = [
    ({"PORT": "many"}, "CHAT_PORT: "),
    ({"PROT": "80"}, "CHAT_PROT: "),
    ({"WORKERS": "0"}, "CHAT_WORKERS: "),
    ({"SECRET": "hunter2"}, "CHAT_SECRET: "),
    ({"API_KEY": "sk-1"}, "CHAT_SECRET: "),
    ({"API_KEY": "sk-1", "SECRET": SECRET}, "CHAT_USERS: "),
    ({"USERS": "/nowhere"}, "CHAT_USERS: "),
    ({"USERS": "/dev/null"}, "CHAT_USERS: "),
    ({"ORIGIN": "chat.example"}, "CHAT_ORIGIN: "),
]


@pytest.mark.parametrize(("variables", "told"), WRONG_SETTINGS)
def test_invalid_setting_is_named_without_its_value(
    variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn, "run", lambda *_, **__: pytest.fail("it serves"))
    with patch.dict(os.environ, environment(**variables), clear=True), pytest.raises(SystemExit) as ended:
        serve()
    assert str(ended.value).startswith(told)
    assert not any(secret in str(ended.value) for secret in ("hunter2", "sk-1", SECRET))


def test_invalid_setting_ends_the_process_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "backend"],
        cwd=ROOT / "examples",
        env=environment(SECRET="hunter2"),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("CHAT_SECRET: ")
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
