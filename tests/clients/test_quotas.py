"""Quotas of wrapped chats: a call beyond one raises before anything is written or sent."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap import QuotaExceeded, Quotas
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.turn.binding import SessionCounts
from tests.support import examples, messages

Wrapped = Callable[..., Any]


@pytest.fixture
def wrapped(provider: Provider, home: Path) -> Wrapped:
    def wrapped(kind: Any = openai.OpenAI, **options: Any) -> Any:
        bare = kind(api_key="k", base_url=provider.openai_url, max_retries=0)
        return ctxwrap.wrap(bare, **{"store": home, "session": "s", **options})

    return wrapped


def ask(client: Any, text: Any = "Hi.", **options: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **options)


def tree(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and ".writers" not in path.parts}


@pytest.mark.parametrize(
    ("quotas", "text", "told"),
    [
        (Quotas(entries=5), "Hi.", "there are 4 entries, the limit is 5, and 2 more do not fit"),
        (Quotas(characters=40), "x" * 20, "the limit is 40, and 20 more do not fit"),
        (Quotas(entry_characters=19), "x" * 20, "has 20 characters, and the limit is 19: shorten it, or raise"),
        (Quotas(entry_characters=500), [{"type": "file", "file": {"file_data": "y" * 600}}], "the limit is 500"),
    ],
    ids=["entries", "characters", "entry", "parts"],
)
def test_call_beyond_a_quota_raises_and_writes_nothing(
    wrapped: Wrapped, provider: Provider, home: Path, quotas: Quotas, text: Any, told: str
) -> None:
    client = wrapped(quotas=quotas)
    for each in ("One.", "Two."):
        ask(client, each)
    before, sent = tree(home), len(provider.seen)
    for options in ({}, {"stream": True}, {"context_mode": "disabled"}, {"context_mode": "readonly"}):
        with pytest.raises(QuotaExceeded, match=told):
            ask(client, text, **options)
    assert tree(home) == before
    assert len(provider.seen) == sent


def test_resent_history_is_not_counted_twice(wrapped: Wrapped, home: Path) -> None:
    client, said = wrapped(quotas=Quotas(entries=6)), []
    for each in ("One.", "Two.", "Three."):
        said.append({"role": "user", "content": each})
        reply = client.chat.completions.create(model="m", messages=[{"role": "system", "content": "Be kind."}, *said])
        said.append({"role": "assistant", "content": reply.choices[0].message.content})
    assert len(messages(home, "s")) == 7
    with pytest.raises(QuotaExceeded, match="begin another session"):
        ask(client)


def test_last_reply_may_exceed_the_character_quota(wrapped: Wrapped, home: Path) -> None:
    client = wrapped(quotas=Quotas(characters=5))
    assert ask(client).choices[0].message.content == "Hello, world."
    assert [message["content"] for message in messages(home, "s")] == ["Hi.", "Hello, world."]
    with pytest.raises(QuotaExceeded):
        ask(client)


def test_new_client_counts_the_sessions_existing_entries(wrapped: Wrapped) -> None:
    ask(wrapped())
    with pytest.raises(QuotaExceeded):
        ask(wrapped(quotas=Quotas(entries=3)))
    ask(wrapped(quotas=Quotas(entries=4)))


def test_refused_first_call_creates_no_session(wrapped: Wrapped, provider: Provider, home: Path) -> None:
    with pytest.raises(QuotaExceeded):
        ask(wrapped(quotas=Quotas(entry_characters=2)))
    assert not list(home.rglob("meta.json"))
    assert not provider.seen


@pytest.mark.parametrize("place", ["files", "memory"])
def test_number_of_sessions_per_tenant_is_limited(wrapped: Wrapped, home: Path, place: str) -> None:
    store = home if place == "files" else MemoryStore()
    client = wrapped(quotas=Quotas(memories=2), store=store, tenant="acme")
    ask(client, session="a")
    with ctxwrap.using(session="b", agent="another"):
        ask(client)
    with pytest.raises(QuotaExceeded, match="the tenant has 2 memories, and the limit is 2: use one of them"):
        ask(client, session="c")
    ask(client, session="a")
    with ctxwrap.using(session="c", tenant="other"):
        ask(client)
    with pytest.raises(QuotaExceeded):
        ask(wrapped(quotas=Quotas(memories=2), store=store, tenant="acme"), session="c")
    assert not list(home.rglob("acme/agent/default/session/c"))


def test_session_count_does_not_scan_the_store_on_each_call(wrapped: Wrapped) -> None:
    class Counting(MemoryStore):
        scans = 0

        def sessions(self, tenant: str, agent: str) -> Any:
            self.scans += 1
            return super().sessions(tenant, agent)

    store = Counting()
    client = wrapped(quotas=Quotas(memories=30), store=store)
    for number in range(30):
        ask(client, session=f"s{number}", context_mode="disabled")
    for number in range(30):
        with pytest.raises(QuotaExceeded):
            ask(client, session=f"t{number}")
    assert store.scans <= 1


def test_quotas_apply_to_async_calls_and_other_clients(wrapped: Wrapped, provider: Provider, home: Path) -> None:
    client = wrapped(openai.AsyncOpenAI, quotas=Quotas(entries=1))
    with pytest.raises(QuotaExceeded):
        asyncio.run(ask(client))
    bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url, max_retries=0)
    other = ctxwrap.wrap(bare, store=home, session="s", quotas=Quotas(entries=1))
    with pytest.raises(QuotaExceeded):
        other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi."}])
    assert not provider.seen


def test_invalid_quotas_raise_a_settings_error() -> None:
    bare = openai.OpenAI(api_key="k")
    with pytest.raises(ctxwrap.SettingsError, match=r"quotas must be Quotas\(...\)"):
        ctxwrap.wrap(bare, store=MemoryStore(), quotas={"entries": 1})
    with pytest.raises(ctxwrap.SettingsError, match=r"quotas\.entries must be a whole number"):
        ctxwrap.wrap(bare, store=MemoryStore(), quotas=Quotas(entries=-1))


@examples(50)
@given(st.lists(st.sampled_from(["begin", "elsewhere", "delete", "later"]), max_size=40))
def test_session_count_is_exact_in_one_process_and_refreshes_within_a_minute(steps: list[str]) -> None:
    there, now = 0, 0.0
    counts, quotas = SessionCounts(lambda _: there, lambda: now), Quotas(memories=5)
    alone = True
    for step in steps:
        if step == "begin":
            room = there < 5
            try:
                counts.add("acme", quotas)
            except QuotaExceeded:
                assert not alone or not room
            else:
                assert not alone or room
                there += 1
        elif step == "later":
            now, alone = now + 61, True
        else:
            there, alone = max(0, there + (1 if step == "elsewhere" else -1)), False
