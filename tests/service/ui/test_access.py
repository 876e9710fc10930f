"""Who gets the page: one browser with the token, under the page's own address."""

import pytest
from starlette.testclient import TestClient

from ctxwrap.service.ui.app import VIEWS, LocalAccess, ui_app
from ctxwrap.stores.base import Store

HOST = "127.0.0.1:8123"


@pytest.fixture
def app(demo_store: Store) -> LocalAccess:
    return LocalAccess(ui_app(demo_store), "the-token", frozenset({HOST}))


def browser(app: LocalAccess) -> TestClient:
    return TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)


def test_token_admits_one_browser_once(app: LocalAccess) -> None:
    first, second = browser(app), browser(app)
    assert first.get("/").status_code == 403
    admitted = first.get("/?token=the-token")
    assert (admitted.status_code, admitted.headers["location"]) == (303, "/")
    assert "httponly" in admitted.headers["set-cookie"].lower()
    assert "samesite=strict" in admitted.headers["set-cookie"].lower()
    assert first.get("/").status_code == 200
    assert second.get("/?token=the-token").status_code == 403


@pytest.mark.parametrize("view", [*VIEWS, "live"])
def test_data_needs_the_cookie(app: LocalAccess, view: str) -> None:
    assert browser(app).get(f"/api/{view}?session=demo").status_code == 403


def test_other_hosts_and_sites_are_refused(app: LocalAccess) -> None:
    client = browser(app)
    client.get("/?token=the-token")
    assert client.get("/api/sessions", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/api/sessions", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/api/sessions", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/sessions", "/api/turns?session=none", "/api/none", "/none"])
def test_every_response_has_a_strict_policy(app: LocalAccess, path: str) -> None:
    client = browser(app)
    client.get("/?token=the-token")
    headers = client.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/..%2fapp.py", "/%2e%2e/app.py", "/page/index.html", "/app.py"])
def test_only_the_files_of_the_page_are_served(app: LocalAccess, path: str) -> None:
    client = browser(app)
    client.get("/?token=the-token")
    assert client.get(path).status_code == 404


def test_page_cannot_write(app: LocalAccess) -> None:
    client = browser(app)
    client.get("/?token=the-token")
    for view in VIEWS:
        assert client.post(f"/api/{view}?session=demo").status_code == 405


def test_errors_are_readable(app: LocalAccess) -> None:
    client = browser(app)
    client.get("/?token=the-token")
    assert "no session 'nobody'" in client.get("/api/turns?session=nobody").json()["error"]
    assert client.get("/api/turn?session=demo&turn=none").status_code == 404
    assert client.post("/api/preview", content=b"[" * 100_000).status_code == 400
    assert client.post("/api/preview", json={"session": "demo", "message": " "}).status_code == 400
    assert client.get("/api/live?session=").status_code == 400
