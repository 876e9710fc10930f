"""Ctrl-C while the end of a turn is written: the answer is in the log, and nothing stays open or locked."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.stores.files import handles as files
from ctxwrap.stores.files.journal import Journal
from ctxwrap.testing.practice import Provider
from tests.support import events, said


def by_signal() -> None:
    """As the terminal does it: the main thread is told, wherever it is."""
    os.kill(os.getpid(), signal.SIGINT)


def here() -> None:
    """Between two steps of the writing itself."""
    raise KeyboardInterrupt


def interrupting(monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[], None], times: int) -> None:
    """Let the next writings of an answer be interrupted."""
    append, left = Journal.append, [interrupt] * times

    def interrupted(journal: Journal, records: Sequence[Any], **how: Any) -> Any:
        if left and any(record.get("role") == "assistant" for record in records):
            left.pop()()
        return append(journal, records, **how)

    monkeypatch.setattr(Journal, "append", interrupted)


def whole(client: Any) -> None:
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello?"}])


def stream(client: Any) -> None:
    list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello?"}], stream=True))


def closed(client: Any) -> None:
    reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hello?"}], stream=True)
    for chunk in reply:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    reply.close()


def open_handles() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


def locks_in(home: Path) -> set[str]:
    """The files that are in use: locks that are held, and what somebody forgot to give back."""
    used = files._open - set(files._idle.values())
    return {file.path for file in used if Path(file.path).is_relative_to(home)}


def file_in(home: Path, name: str) -> Path:
    ctxwrap.flush()
    return next(home.glob(f"home/*/agent/*/session/*/{name}"))


@pytest.mark.parametrize(("interrupt", "times"), [(by_signal, 1), (here, 1), (here, 2)])
@pytest.mark.parametrize("call", [whole, stream, closed])
def test_keyboard_interrupt_keeps_the_delivered_text_in_the_log(
    provider: Provider,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: Callable[[Any], None],
    interrupt: Callable[[], None],
    times: int,
) -> None:
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")
    whole(client)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in a job of the background
    ctxwrap.flush()
    handles, held = open_handles(), locks_in(home)
    interrupting(monkeypatch, interrupt, times)
    try:
        with pytest.raises(KeyboardInterrupt):
            call(client)
    finally:
        signal.signal(signal.SIGINT, before)
    if times == 1:
        assert said(home, "s")[-1][0] == "assistant", "at once"
        assert file_in(home, "state").read_text().strip() == ("cancelled" if call is closed else "done")
    whole(client)
    assert [role for role, _ in said(home, "s")] == ["user", "assistant"] * 3
    assert len([event for event in events(home, "s") if event["type"] == "done"]) == 3
    assert file_in(home, "state").read_text().strip() == "done"
    assert file_in(home, "context/summary.md").is_file()
    assert not ctxwrap.verify("s", store=home).findings
    assert locks_in(home) == held
    assert open_handles() <= handles + 1, "but for a connection to the provider"
