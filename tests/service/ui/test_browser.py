"""The page in Chromium: every view, hostile texts, live turns, keys, narrow screens and accessibility."""

import shutil
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.cli.ui import start_ui
from ctxwrap.service.ui import views
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Answer, Provider
from ctxwrap.types import SessionKey

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the browser tests need axe-core")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need Chromium: apt-get install chromium")

KEY = SessionKey("default", "default", "demo")
TABS = ("turns", "memory", "cache", "compare", "missing", "preview")
HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'> \x1b[31mred\x1b[0m \u202egnp.exe"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


class Reader:
    """A page of the store, with what the browser complained about."""

    def __init__(self, chromium: Any, store: Store, **context: Any) -> None:
        self._server, address = start_ui(store)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        self._context = chromium.new_context(**context)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.shows("sessions")

    def shows(self, view: str) -> None:
        self.page.wait_for_selector(f"main[data-view={view}]:not([aria-busy])")

    def opens(self, *path: str, view: str) -> None:
        self.page.evaluate("hash => { location.hash = hash }", "#/s/default/default/" + "/".join(path))
        self.shows(view)

    def close(self) -> None:
        self._context.close()
        self._server.stop()
        self._thread.join()


@pytest.fixture
def reader(chromium: Any, demo_store: Store) -> Iterator[Reader]:
    reader = Reader(chromium, demo_store)
    yield reader
    reader.close()
    assert reader.complaints == []


def test_every_view_opens_from_the_list_of_sessions(reader: Reader) -> None:
    page = reader.page
    page.click("text=demo")
    reader.shows("turns")
    for view in TABS:
        page.click(f"#tabs a:has-text('{view.capitalize()}')")
        reader.shows(view)
        assert page.locator("main h1").count() == 1
        assert page.locator(".error").count() == 0


def test_numbers_of_a_turn_are_those_of_the_api(reader: Reader, demo_store: Store) -> None:
    turn = views.turns_view(demo_store, KEY)["turns"][0]
    reader.opens("demo", "turn", turn["id"], view="turn")
    items = views.turn_view(demo_store, KEY, turn["id"])["pack"]["items"]
    used = sum(item["tokens"] for item in items if item["included"])
    assert reader.page.inner_text("#used") == f"{used:,} tokens"
    assert reader.page.locator(".pack tbody tr").count() == len(items)


def test_slider_shows_memory_as_of_a_round(reader: Reader, demo_store: Store) -> None:
    reader.opens("demo", "memory", view="memory")
    page = reader.page
    page.wait_for_selector(".line")
    page.fill("#round", "2")
    page.wait_for_selector("output:has-text('round 2')")
    core = views.memory_view(demo_store, KEY, 2)["memory"]["core"]
    page.wait_for_selector(f"h2:has-text('core ({len(core)})')")
    assert [page.locator("td", has_text=item["content"]).count() for item in core] == [1] * len(core)


def test_source_of_an_item_leads_to_its_message(reader: Reader) -> None:
    reader.opens("demo", "memory", view="memory")
    reader.page.click("tr:has-text('allergic') a")
    reader.shows("turn")
    assert "My sister Ruth is allergic to peanuts." in reader.page.inner_text(".talk")


def test_preview_follows_message_and_budget(reader: Reader) -> None:
    reader.opens("demo", "preview", view="preview")
    page = reader.page
    page.fill("#said", "Where do I live?")
    page.wait_for_selector("#used")
    page.fill("#budget", "2000")
    page.wait_for_selector(".pack:has-text('of 2,000')")


def test_rows_of_a_long_list_exist_only_in_view(chromium: Any, demo_store: Store) -> None:
    reader = Reader(chromium, demo_store, viewport={"width": 800, "height": 420})
    page = reader.page
    reader.opens("demo", view="turns")
    page.wait_for_selector(".turn")
    assert page.locator(".virtual li").count() < 20
    assert page.locator(".turn:has-text('I live in Lisbon')").count() == 0
    page.evaluate("document.querySelector('.virtual').scrollTop = 1e6")
    page.wait_for_selector(".turn:has-text('I live in Lisbon')")
    assert page.locator(".virtual li").count() < 20
    reader.close()


def test_keys_move_through_the_page(reader: Reader) -> None:
    page = reader.page
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    reader.shows("turns")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('li').dataset.at") == "1"
    page.keyboard.press("Enter")
    reader.shows("turn")
    page.keyboard.press("m")
    reader.shows("memory")
    page.keyboard.press("u")
    reader.shows("sessions")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")


def test_new_turn_appears_and_hostile_texts_are_inert(chromium: Any, tmp_path: Any) -> None:
    store = open_store(str(tmp_path / "home"))
    with Provider(lambda ask: Answer(HOSTILE)) as provider:
        client = ctxwrap.wrap(openai.OpenAI(api_key="x", base_url=provider.openai_url), store=store, session=HOSTILE)
        ask = {"model": "gpt-4o", "messages": [{"role": "user", "content": HOSTILE}]}
        client.chat.completions.create(**ask)
        reader = Reader(chromium, store)
        page = reader.page
        page.click("main tbody a")
        reader.shows("turns")
        page.wait_for_selector("#live:has-text('round 1')")
        assert page.locator(".turn").count() == 1
        client.chat.completions.create(**ask)
        page.wait_for_selector(".turn >> nth=1")
        page.click(".turn >> nth=0")
        reader.shows("turn")
        for tab in TABS:
            page.click(f"#tabs a:has-text('{tab.capitalize()}')")
            reader.shows(tab)
        page.go_back()
        assert page.evaluate("window.pwned") is None
        assert page.locator("main script, main img").count() == 0
        reader.opens(*(HOSTILE.replace("/", "%2F").replace("#", "%23"),), view="turns")
        shown = page.inner_text("main")
        assert "<script>window.pwned" in shown
        assert "⟨U+001B⟩[31m" in shown
        assert "⟨U+202E⟩gnp.exe" in shown
        reader.close()
    assert reader.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_serious_accessibility_fault(chromium: Any, demo_store: Store, scheme: str) -> None:
    reader = Reader(chromium, demo_store, color_scheme=scheme, viewport={"width": 360, "height": 740})
    turn = views.turns_view(demo_store, KEY)["turns"][0]["id"]
    faults = []
    for path in ("", *TABS, f"turn/{turn}"):
        view = path.partition("/")[0] or "turns"
        reader.opens("demo", *filter(None, path.split("/")), view=view)
        found = axe.Axe().run(reader.page).response["violations"]
        faults += [(view, each["id"]) for each in found if each["impact"] in ("serious", "critical")]
        assert reader.page.evaluate("document.documentElement.scrollWidth") <= 360, view
    reader.close()
    assert faults == []
