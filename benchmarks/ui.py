"""The page of `ctxwrap ui`: CPU time of its views for a long session, and screenshots.

    python benchmarks/ui.py [--turns 10000]
    python benchmarks/ui.py --screenshots docs/images     (needs playwright and Chromium)

A row is the CPU time of the server's part of a view, opened once in a fresh process.
"""

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overhead import MOMENT, past

from ctxwrap.cli.demo import FILES, make_session
from ctxwrap.cli.ui import address_of, start_ui
from ctxwrap.service.ui import views
from ctxwrap.session.session import Session
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.types import SessionKey

KEY = SessionKey("default", "default", "demo")
SHOTS = {"turn": "turn/{turn}", "memory": "memory"}


def long_session(store: Store, turns: int) -> None:
    log = store.open(KEY)
    with log.locked():
        for turn, (messages, events) in enumerate(past(turns)):
            for records in (messages, events):
                for at, record in enumerate(records, turn * len(records) + 1):
                    record["ctx"].update(v=1, seq=at, turn=f"019{turn:018x}", time=MOMENT)
            for event in events:
                event["run"] = f"019{turn:018x}"
            log.append({"messages": messages, "events": events})
    session = Session(KEY, log, derives=False)
    with session.locked():
        pass
    session.catch_up()  # a checkpoint, as the work behind a turn writes it


def measure(turns: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        store = open_store(home)
        long_session(store, turns)
        print(f"| view of a session of {turns} turns | CPU ms |\n| --- | --- |")
        newest: dict[str, Any] = {}

        def opened() -> None:
            newest.update(views.turns_view(store, KEY)["turns"][0])

        steps: dict[str, Callable[[], object]] = {
            "sessions": lambda: views.sessions_view(store),
            "turns, first time": opened,
            "turns, again": opened,
            "one turn": lambda: views.turn_view(store, KEY, newest["id"], newest["event"]),
            "memory": lambda: views.memory_view(store, KEY),
            "cost": lambda: views.cost_view(store, KEY),
        }
        for name, work in steps.items():
            start = time.process_time()
            work()
            print(f"| {name} | {1e3 * (time.process_time() - start):.0f} |", flush=True)


def take_screenshots(directory: Path) -> None:
    from playwright.sync_api import sync_playwright

    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        for name, text in FILES.items():
            Path(home, name).write_text(text)
        store = open_store(str(Path(home, "store")))
        for _ in make_session(store, "demo", str(Path(home, "working-set.yml"))):
            pass
        turn = views.turns_view(store, KEY)["turns"][0]["id"]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, path in SHOTS.items():
                server, address = start_ui(store)
                threading.Thread(target=server.run, daemon=True).start()
                page = browser.new_page(viewport={"width": 1200, "height": 760})
                page.goto(address_of(address, KEY) + "/" + path.format(turn=turn))
                page.wait_for_selector(f"main[data-view={name}]:not([aria-busy])")
                page.wait_for_selector(".bar, .line")
                page.screenshot(path=directory / f"ui-{name}.png")
                server.stop()
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--screenshots", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    if options.screenshots:
        take_screenshots(options.screenshots)
    else:
        measure(options.turns)


if __name__ == "__main__":
    main()
