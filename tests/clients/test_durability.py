"""What a power cut can cost: how often a turn waits for the disk, and what happens when the disk does not take it."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.testing.practice import Provider
from tests.support import Told, messages, said

LONG = " ".join(f"word-{number}" for number in range(1000))


class Medium:
    """Counts how often something waits for the disk, and fails from the `broken_from`th time on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        self.broken_from: int | None = None
        monkeypatch.setattr(os, "fdatasync", self._counted(os.fdatasync))

    def _counted(self, sync: Any) -> Any:
        def counted(handle: int) -> None:
            self.syncs += 1
            if self.broken_from is not None and self.syncs >= self.broken_from:
                raise OSError(errno.EIO, "the disk is gone")
            sync(handle)

        return counted


@pytest.fixture
def medium(monkeypatch: pytest.MonkeyPatch) -> Medium:
    return Medium(monkeypatch)


def ask(provider: Provider, home: Path, text: str = "hello", *, stream: bool = False, **settings: Any) -> Any:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, store=home, session="s", **settings)
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], stream=stream)
    if stream:
        list(reply)
    return reply


@pytest.mark.parametrize(("durability", "syncs"), [("os", 0), ("turn", 2), ("always", 2)])
def test_turn_syncs_the_disk_at_its_start_and_end(
    provider: Provider, home: Path, medium: Medium, durability: str, syncs: int
) -> None:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(bare, store=home, session="s", durability=durability, context_document=False)
    counts = []
    for number in range(3):
        before = medium.syncs
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"Question {number}"}])
        counts.append(medium.syncs - before)
    assert counts[1:] == [syncs, syncs]
    assert counts[0] == syncs + 3 * (syncs > 0), "the first turn also waits for the session's new files"


@pytest.mark.parametrize(("durability", "between"), [("turn", False), ("always", True)])
def test_only_durability_always_syncs_streamed_text(
    provider: Provider, home: Path, medium: Medium, durability: str, between: bool
) -> None:
    provider.answer = Told(LONG)
    ask(provider, home, durability=durability, stream=True)
    assert (medium.syncs > 5) == between


def test_strict_call_sends_nothing_when_the_disk_sync_fails(provider: Provider, home: Path, medium: Medium) -> None:
    medium.broken_from = 1
    with pytest.raises(ctxwrap.StoreUnavailable, match="the disk is gone"):
        ask(provider, home, durability="turn", strict=True)
    assert provider.seen == []
    medium.broken_from = None
    ask(provider, home, "hello", durability="turn", strict=True)
    assert said(home, "s")[-1] == ("assistant", "Hello, world.")


def test_call_continues_without_the_disk_and_reports_not_saved(provider: Provider, home: Path, medium: Medium) -> None:
    medium.broken_from = 1
    reply = ask(provider, home, durability="turn")
    assert reply.choices[0].message.content == "Hello, world."
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.report.not_saved == ("request", "reply")
    assert "the disk is gone" in turn.report.error


def test_reply_with_a_failed_disk_sync_is_reported_as_not_saved(provider: Provider, home: Path, medium: Medium) -> None:
    medium.broken_from = 4
    reply = ask(provider, home, durability="turn")
    turn = ctxwrap.turn_of(reply)
    assert turn is not None
    assert turn.report.not_saved == ("reply",)
    medium.broken_from = None
    ask(provider, home, "once more", durability="turn")
    assert [message["ctx"]["seq"] for message in messages(home, "s")] == [*range(1, len(messages(home, "s")) + 1)]


def test_an_unknown_durability_is_refused() -> None:
    with pytest.raises(ctxwrap.SettingsError, match="unknown durability 'sometimes'"):
        ctxwrap.Settings(durability="sometimes")  # type: ignore[arg-type]


def test_a_turn_of_a_running_chat_opens_no_file(provider: Provider, home: Path) -> None:
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")
    opened: list[str] = []
    is_watching = False

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if is_watching and event == "open" and str(arguments[0]).startswith(str(home)):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    for text in ("one", "two", "three"):
        is_watching = text == "three"
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    is_watching = False
    assert opened == []
