"""What a session cost: by the provider's counts or ours, beside what other ways would have sent, from every store."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.errors import NotFound
from ctxwrap.inspect import cost_of
from ctxwrap.inspect.cost import LAST
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.stores.base import Store
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Failure, PracticeModel, Provider, RecordedRequest
from ctxwrap.tokens import counter_for
from ctxwrap.tokens.models import price_of
from ctxwrap.tokens.reported_usage import Usage, usage_in
from ctxwrap.types import SessionKey
from tests.cli.test_sessions_command import data, shown
from tests.inspect.test_inspect import appended, note
from tests.support import PassingLog

KEY = SessionKey("default", "default", "s")
MODEL = "gpt-4o"
SYSTEM = {"role": "system", "content": "You are kind. " * 30}


class Talk:
    """A chat with the practice model, and all that was said in it."""

    def __init__(self, provider: Provider, store: Store, model: str = MODEL) -> None:
        provider.answer = PracticeModel()
        plain = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        self.client: Any = ctxwrap.wrap(plain, store=store, session="s")
        self.provider, self.model = provider, model
        self.said: list[dict[str, Any]] = []

    def say(self, text: str, **how: Any) -> None:
        self.said.append({"role": "user", "content": text})
        self.answer([self.said[-1]], **how)

    def answer(self, messages: list[dict[str, Any]], **how: Any) -> None:
        reply = self.client.chat.completions.create(model=self.model, messages=[SYSTEM, *messages], **how)
        if how.get("stream"):
            text = "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)
        else:
            text = reply.choices[0].message.content
        self.said.append({"role": "assistant", "content": text})

    def would_send(self, last: int | None = None) -> list[int]:
        """What each turn would take with all messages before its answer, or the last of them."""
        asked = [self.said[:at] for at in range(1, len(self.said), 2)]
        return [_size([SYSTEM, *(messages[-last:] if last else messages)]) for messages in asked]


def _size(messages: list[dict[str, Any]]) -> int:
    return CHAT.request_tokens({"model": MODEL, "messages": messages}, counter_for(MODEL))


def _sent(seen: RecordedRequest) -> int:
    return CHAT.request_tokens(seen.json, counter_for(MODEL))


@pytest.fixture(params=["files", "memory", "encrypted"])
def store(request: pytest.FixtureRequest, home: Path) -> Store:
    if request.param == "encrypted":
        return ctxwrap.open_store(home, key="2a" * 32)
    return FileStore(home) if request.param == "files" else MemoryStore()


@pytest.fixture
def talk(provider: Provider, store: Store) -> Talk:
    return Talk(provider, store)


def test_totals_come_from_the_provider_and_alternatives_cover_the_same_turns(talk: Talk, store: Store) -> None:
    for number in range(LAST // 2 + 3):
        talk.say(f"My favourite colour number {number} is blue.")
    cost, sent = cost_of(store, KEY), [_sent(seen) for seen in talk.provider.seen]
    assert (cost.turns, cost.reported, cost.unknown, cost.models) == (len(sent), len(sent), 0, (MODEL,))
    assert (cost.sent.total.tokens_in, cost.sent.last.tokens_in) == (sum(sent), sent[-1])
    for way, each in ((cost.everything, talk.would_send()), (cost.newest, talk.would_send(LAST))):
        assert (way.total.tokens_in, way.last.tokens_in) == (sum(each), each[-1])
        assert cost.average(way).tokens_in == round(sum(each) / len(each))
    assert cost.newest.total.tokens_in < cost.everything.total.tokens_in


def test_snapshot_cost_counts_the_trailers(talk: Talk, store: Store) -> None:
    talk.say("My name is Ada.")
    talk.say("I like tea.")
    cost, count = cost_of(store, KEY), counter_for(MODEL).count
    trailers = [event["trailer"] for event in store.open(KEY).read("events")[0] if event["type"] == "snapshot"]
    assert cost.snapshot == sum(map(count, trailers)) > 100
    answers = sum(count(message["content"]) for message in talk.said[1::2])
    assert answers <= cost.sent.total.tokens_out - cost.snapshot <= answers + 4
    assert (
        cost.everything.total.tokens_out == cost.newest.total.tokens_out == cost.sent.total.tokens_out - cost.snapshot
    )


def test_cached_tokens_are_reported_at_their_price(talk: Talk, store: Store) -> None:
    for number in range(12):
        talk.say(f"My favourite colour number {number} is blue. " + "So it is. " * 40)
    total, price = cost_of(store, KEY).sent.total, price_of(MODEL)
    assert price is not None
    assert 0 < total.cached < total.tokens_in
    fresh = (total.tokens_in - total.cached) * price.input + total.tokens_out * price.output
    assert total.money == pytest.approx(fresh + total.cached * price.cached)
    assert cost_of(store, KEY).everything.total.cached > 0


def test_own_token_counts_replace_a_missing_usage(talk: Talk, store: Store) -> None:
    talk.say("My name is Ada.", stream=True)
    talk.say("I like tea.")
    cost, sent = cost_of(store, KEY), sum(map(_sent, talk.provider.seen))
    assert (cost.turns, cost.reported) == (2, 1)
    assert cost.sent.total.tokens_in == pytest.approx(sent, rel=0.05)
    assert cost.sent.total.tokens_out > cost.snapshot > 100


def test_estimates_are_scaled_to_what_the_provider_counts(provider: Provider, store: Store) -> None:
    talk = Talk(provider, store, "nobody-knows-it")
    for number in range(5):
        talk.say(f"My favourite colour number {number} is blue. " + "So it is. " * 40)
    cost = cost_of(store, KEY)
    assert cost.sent.total.money is None
    assert cost.everything.total.tokens_in == pytest.approx(sum(talk.would_send()), rel=0.1)
    assert 0 < cost.snapshot < cost.sent.total.tokens_out


def test_cost_of_a_branch_follows_its_own_history(talk: Talk, store: Store) -> None:
    for text in ("My name is Ada.", "I like tea."):
        talk.say(text)
    talk.said[2:] = [{"role": "user", "content": "I like milk."}]
    talk.answer(list(talk.said))
    assert cost_of(store, KEY).everything.last.tokens_in == talk.would_send()[-1]


def test_turns_without_known_tokens_are_in_no_total(talk: Talk, store: Store) -> None:
    talk.say("My name is Ada.")
    before = cost_of(store, KEY)
    talk.say("I like tea.", stream=True, context_mode="disabled")
    talk.provider.answer = lambda ask: Failure(500)
    with pytest.raises(openai.InternalServerError):
        talk.answer([{"role": "user", "content": "Hello?"}])
    cost = cost_of(store, KEY)
    assert (cost.turns, cost.unknown) == (1, 2)
    assert cost.ways == before.ways


def test_cost_of_a_missing_session_is_an_error(store: Store) -> None:
    with pytest.raises(NotFound):
        cost_of(store, KEY)


def test_malformed_records_cost_nothing(store: Store) -> None:
    appended(store, KEY, "messages", note("hi"), {"role": 3, "content": [7], "ctx": {"tokens": {"x": "y"}}})
    odd = [
        {"type": kind, "run": "t", "ctx": {"turn": "t"}} for kind in ("start", "repack", "snapshot", "reask", "done")
    ]
    appended(store, KEY, "events", *odd, {"type": "done", "usage": 5, "run": "u", "ctx": {"turn": "u"}})
    cost = cost_of(store, KEY)
    assert (cost.turns, cost.unknown, cost.sent.total.tokens_in) == (0, 1, 0)


class CountedLog(PassingLog):
    """A log that counts how often a stream is read."""

    reads = 0

    def lines(self, *arguments: Any, **how: Any) -> Any:
        self.reads += 1
        return self.inner.lines(*arguments, **how)

    def read(self, *_: Any) -> Any:
        raise AssertionError("a stream is read another time")


def test_each_stream_is_read_once(talk: Talk, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.say("My name is Ada.")
    log = CountedLog(store.open(KEY))
    monkeypatch.setattr(store, "open", lambda key: log)
    assert cost_of(store, KEY).turns == 1
    assert log.reads == 2


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(9, 5, 4, None),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(9, 5, 4, None, 2),
        ),
        (
            {
                "input_tokens": 1,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 2,
                "output_tokens": 5,
            },
            Usage(7, 5, 4, 2),
        ),
        ({}, Usage(None, None, None, None)),
        ("?", Usage(None, None, None, None)),
    ],
)
def test_usage_of_every_api_is_read(told: Any, usage: Usage) -> None:
    assert usage_in(told) == usage


def test_prices_are_found_by_any_name_of_a_model() -> None:
    price = price_of(MODEL)
    assert price is not None
    assert price == price_of(f"openai/{MODEL}")
    assert 0 < price.cached < price.input < price.output
    assert price_of("nobody-knows-it") is None


def test_cost_command_prints_text_and_json(provider: Provider, home: Path) -> None:
    talk = Talk(provider, FileStore(home))
    talk.say("My name is Ada.")
    text = "\n".join(shown(home, "cost", "s"))
    told = data(home, "cost", "s")
    for way in ("sent", "everything", "last_20"):
        assert str(told[way]["total"]["tokens_in"]) in text
    assert "the provider" in text
    assert told["session"] == "s"
    assert told == json.loads(json.dumps(cost_of(FileStore(home), KEY).as_json()))
    assert shown(home, "cost", "s", columns=60)
