"""The data of the page is what the Python API says."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.inspect import turns_before
from ctxwrap.service.ui import views
from ctxwrap.stores import open_store
from ctxwrap.stores.base import Store
from ctxwrap.testing import ScriptedProvider
from ctxwrap.testing.practice import PracticeModel, Provider
from ctxwrap.types import SessionKey

KEY = SessionKey("default", "default", "demo")


@pytest.fixture
def handle(demo_store: Store) -> ctxwrap.SessionHandle:
    return ctxwrap.open_session("demo", store=demo_store)


def test_turns_are_those_of_the_api_newest_first(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    rows = views.turns_view(demo_store, KEY)["turns"]
    for row, info in zip(rows[::-1], handle.turns(), strict=True):
        known = asdict(info) | {"number": 0}
        assert {name: row[name] for name in known} == known


@pytest.mark.parametrize("count", [4, 7, 10, 50])
def test_pages_of_turns_have_every_turn_once(demo_store: Store, handle: ctxwrap.SessionHandle, count: int) -> None:
    found, before = list[str](), None
    while before != 0:
        page = turns_before(demo_store, KEY, before, count)
        found[:0] = [turn.info.id for turn in page.turns]
        for turn in page.turns:
            whole = handle.turn(turn.info.id)
            assert (turn.messages, len(turn.events)) == (whole.messages, len(whole.events))
        before = page.before
    assert found == [info.id for info in handle.turns()]


def test_turn_has_the_pack_of_the_api(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    for info in handle.turns():
        shown = views.turn_view(demo_store, KEY, info.id)["pack"]
        pack = handle.pack(info.id)
        assert [item["tokens"] for item in shown["items"]] == [item.tokens for item in pack.items]
        assert [block["text"] for block in shown["blocks"]] == [block.text for block in pack.blocks]


def test_memory_of_every_round_is_that_of_the_api(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    newest = views.memory_view(demo_store, KEY)["newest"]
    for round in range(1, newest + 1):
        assert views.memory_view(demo_store, KEY, round)["memory"] == handle.memory(round)["memory"]


def test_changes_name_the_fields_that_differ(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    moved = next(info for info in handle.turns() if info.said == "I moved to Porto.")
    changes = views.turn_view(demo_store, KEY, moved.id)["changes"]
    (change,) = [change for change in changes if change["id"] == "core-home"]
    assert {"name": "content", "before": "The user lives in Lisbon.", "after": "The user lives in Porto."} in change[
        "fields"
    ]


def test_damaged_snapshot_is_marked_where_its_json_ends(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    faults = [
        snapshot
        for info in handle.turns()
        for snapshot in views.turn_view(demo_store, KEY, info.id)["snapshots"]
        if snapshot["fault"] is not None
    ]
    assert [snapshot["status"] for snapshot in faults] == ["repaired"]
    assert 0 < faults[0]["fault"] <= len(faults[0]["trailer"])


def test_first_difference_of_a_request_is_named(demo_store: Store) -> None:
    rows = views.turns_view(demo_store, KEY)["turns"]
    assert "first message" in {row["changed"] for row in rows}
    assert all(not row["changed"] for row in rows if row["mode"] == "disabled")


def test_session_has_the_user_of_its_calls(provider: Provider, home: Path) -> None:
    client: Any = ctxwrap.wrap(
        openai.OpenAI(api_key="x", base_url=provider.openai_url), store=str(home), session="s", user="ada"
    )
    provider.answer = PracticeModel()
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "My name is Ada."}])
    store, key = open_store(str(home)), SessionKey("default", "default", "s")
    assert views.turns_view(store, key)["owners"] == {"user": "ada"}
    (item,) = views.memory_view(store, key)["owned"]["user ada"]
    assert item["content"] == "The user's name is Ada."


def test_preview_keeps_to_the_budget_and_writes_nothing(demo_store: Store, handle: ctxwrap.SessionHandle) -> None:
    before = len(handle.events())
    small, large = (views.preview_view(demo_store, KEY, "Where do I live?", "gpt-4o", size) for size in (1500, 32_000))
    used = [sum(item["tokens"] for item in view["items"] if item["included"]) for view in (small, large)]
    assert used[0] <= 1500 < 32_000
    assert used[0] <= used[1] <= 32_000
    assert len(handle.events()) == before


def test_list_of_sessions_has_the_user_and_the_tokens_of_all_turns(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    with ScriptedProvider(["One.", "Two."]) as provider:
        client = ctxwrap.wrap(openai.OpenAI(base_url=provider.url, api_key="k"), store=store, session="s", user="ada")
        usages = [
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}]).usage
            for text in ("First.", "Second.")
        ]
    ctxwrap.flush()
    (row,) = views.sessions_view(store, "s")["sessions"]
    assert row["user"] == "ada"
    assert row["tokens_in"] == sum(usage.prompt_tokens for usage in usages if usage)
    assert row["tokens_out"] == sum(usage.completion_tokens for usage in usages if usage)


def test_search_finds_sessions_by_parts_of_their_names(demo_store: Store) -> None:
    assert views.sessions_view(demo_store, "DEM def")["total"] == 1
    assert views.sessions_view(demo_store, "another")["total"] == 0
