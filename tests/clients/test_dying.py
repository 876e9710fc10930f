"""A process that dies in the middle of a turn: what it said is kept, and the next one closes the turn."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

import ctxwrap
from ctxwrap.stores.files.format import FORMAT
from ctxwrap.testing.practice import Answer, Provider
from tests.clients.running import PATIENCE
from tests.support import Told, events, messages, said

LONG = " ".join(f"word-{number}" for number in range(1000))

DIES = """
import os, signal, sys
import openai
import ctxwrap

home, url, pieces, durability = sys.argv[1:]
client = openai.OpenAI(api_key="k", base_url=url)
client = ctxwrap.wrap(client, store=home, session="s", durability=durability)
stream = client.chat.completions.create(model="m", stream=True, messages=[{"role": "user", "content": "Tell me all."}])
for number, chunk in enumerate(stream):
    if number == int(pieces):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def died(provider: Provider, home: Path, *, pieces: int, durability: str = "os") -> None:
    provider.answer = Told(LONG)
    command = [sys.executable, "-c", DIES, str(home), provider.openai_url, str(pieces), durability]
    assert subprocess.run(command, timeout=6 * PATIENCE).returncode == -signal.SIGKILL


def ask(provider: Provider, home: Path, text: str) -> Any:
    provider.answer = Told()
    client = openai.OpenAI(api_key="k", base_url=provider.openai_url)
    client = ctxwrap.wrap(client, store=home, session="s")
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


@pytest.mark.parametrize("durability", ["os", "turn", "always"])
def test_partial_reply_of_a_dead_process_is_kept(provider: Provider, home: Path, durability: str) -> None:
    died(provider, home, pieces=700, durability=durability)
    assert said(home, "s") == [("user", "Tell me all.")]
    ask(provider, home, "Go on.")
    (question, partial, onward, _) = messages(home, "s")
    assert (question["content"], onward["content"]) == ("Tell me all.", "Go on.")
    assert LONG.startswith(partial["content"])
    assert len(partial["content"].split()) >= 500
    assert (partial["ctx"]["status"], partial["ctx"]["reason"]) == ("aborted", "process_died")
    first, second = (event for event in events(home, "s") if event["type"] == "done")
    assert (first["status"], first["reason"], second["status"]) == ("cancelled", "process_died", "ok")
    assert first["run"] == next(event["run"] for event in events(home, "s") if event["type"] == "start")


def test_dead_turn_without_text_is_closed_without_a_reply(provider: Provider, home: Path) -> None:
    died(provider, home, pieces=1)
    ask(provider, home, "Go on.")
    assert [role for role, _ in said(home, "s")] == ["user", "user", "assistant"]
    assert [event["reason"] for event in events(home, "s") if event["type"] == "done"] == ["process_died", "stop"]


def test_a_dead_turn_is_closed_once(provider: Provider, home: Path) -> None:
    died(provider, home, pieces=700)
    for text in ("one", "two"):
        ask(provider, home, text)
    assert [event["reason"] for event in events(home, "s") if event["type"] == "done"].count("process_died") == 1
    assert [message["ctx"].get("status") for message in messages(home, "s")].count("aborted") == 1


def test_open_turn_of_a_live_process_is_not_closed(provider: Provider, home: Path) -> None:
    provider.answer = Told(LONG)
    client = ctxwrap.wrap(
        openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s", on_busy="interleave"
    )
    stream = client.chat.completions.create(
        model="m", stream=True, messages=[{"role": "user", "content": "Tell me all."}]
    )
    next(stream)
    code = (
        "import sys, openai, ctxwrap; home, url = sys.argv[1:];"
        "bare = openai.OpenAI(api_key='k', base_url=url);"
        "client = ctxwrap.wrap(bare, store=home, session='s', on_busy='interleave');"
        "client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'from outside'}])"
    )
    subprocess.run([sys.executable, "-c", code, str(home), provider.openai_url], check=True, timeout=6 * PATIENCE)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) in LONG
    assert [event["status"] for event in events(home, "s") if event["type"] == "done"] == ["ok", "ok"]


def test_state_files_are_written_beside_the_log(provider: Provider, home: Path) -> None:
    directory = home / "home/default/agent/default/session/s"
    died(provider, home, pieces=1)
    ask(provider, home, "Go on.")
    ctxwrap.flush()
    assert (directory / "state").read_text() == "done\n"
    assert (directory / "latest.md").read_text() == "Hello, world.\n"
    assert (directory / "cwd").read_text() == f"{os.getcwd()}\n"
    times = [(directory / name).read_text().strip() for name in ("created_at", "updated_at")]
    assert times == sorted(times)
    assert json.loads((directory / "meta.json").read_text()) == {
        "tenant": "default",
        "agent": "default",
        "session": "s",
        "format": FORMAT,
    }


def test_long_reply_is_logged_while_it_streams(provider: Provider, home: Path) -> None:
    provider.answer = lambda request: Answer(LONG)
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")
    stream = client.chat.completions.create(model="m", stream=True, messages=[{"role": "user", "content": "all"}])
    for _ in range(450):
        next(stream)
    deltas = [event["text"] for event in events(home, "s") if event["type"] == "delta"]
    assert len(deltas) >= 2
    assert LONG.startswith("".join(deltas))
    list(stream)
    assert said(home, "s")[-1] == ("assistant", LONG)
