"""What takes long to load is loaded from `wrap()` on, and before a call takes its session's lock."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

import ctxwrap
from ctxwrap.clients import preparation
from ctxwrap.testing.practice import Provider
from ctxwrap.tokens.counting import _FILES, forget_counters, forget_encodings
from ctxwrap.types import SessionKey
from tests.clients.running import PATIENCE


@pytest.fixture
def encoding_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of an encoding, as a pipe: whoever reads it waits until the test writes."""
    ctxwrap.flush()  # the work of other tests must not read it
    pipe = tmp_path / _FILES["o200k_base"][0]
    os.mkfifo(pipe)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(preparation, "_loading", {})
    forget_counters()
    forget_encodings()
    yield pipe
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    writer = os.open(pipe, os.O_RDWR)
    pipe.unlink()
    os.close(writer)  # whoever still waits for the pipe goes on
    forget_counters()
    forget_encodings()


def test_loading_a_tokenizer_does_not_lock_the_session(provider: Provider, home: Path, encoding_file: Path) -> None:
    store = ctxwrap.open_store(home)
    client = ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=store, session="s")
    entered = threading.Event()

    def call() -> None:
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Hi."}])

    def look() -> None:
        with store.open(SessionKey("default", "default", "s")).locked():
            entered.set()

    calling, looking = threading.Thread(target=call), threading.Thread(target=look)
    calling.start()
    with encoding_file.open("wb"):  # as soon as it is open, the call waits for what it reads here
        looking.start()
        was_free = entered.wait(PATIENCE)
    calling.join()
    looking.join()
    assert was_free
    assert len(provider.seen) == 1


def test_wrap_starts_loading_the_tokenizer(provider: Provider, home: Path, encoding_file: Path) -> None:
    ctxwrap.wrap(openai.OpenAI(api_key="k", base_url=provider.openai_url), store=home, session="s")
    writing = threading.Thread(target=lambda: encoding_file.open("wb").close(), daemon=True)
    writing.start()  # which ends as soon as somebody reads
    writing.join(PATIENCE)
    assert not writing.is_alive()


FORKING = """
import os, sys, openai, ctxwrap
from ctxwrap.tokens import counter_for
ctxwrap.wrap(openai.OpenAI(api_key="k"), store="memory:", session="s")
child = os.fork()
if not child:
    os._exit(counter_for("gpt-4o").count("one two three"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_process_forked_while_the_tokenizer_loads_can_count_tokens() -> None:
    assert subprocess.run([sys.executable, "-c", FORKING], check=False, timeout=60).returncode == 3
