"""The end of a session: asked for by the user or the caller, written behind the answer, and not for ever."""

import asyncio
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from click.testing import CliRunner

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.errors import NotFound, SessionBusy, StoreUnavailable
from ctxwrap.testing.practice import Answer, Provider, ToolCall
from tests.support import Told, documents, events, lines, messages

END = "<END_SESSION>"


def chat(provider: Provider, home: Path, **options: Any) -> openai.OpenAI:
    bare = openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0)
    return ctxwrap.wrap(bare, store=home, session="s", **options)


def say(client: openai.OpenAI, *texts: Any, **options: Any) -> Any:
    told: Any = [{"role": "user", "content": text} for text in texts]
    return client.chat.completions.create(model="m", messages=told, **options)


def ends(home: Path, session: str = "s") -> list[str]:
    """What was written of ends and resumptions, in order."""
    told = [event for event in events(home, session) if event["type"].startswith("session_")]
    return [event["type"] + (f" by {event['by']}" if "by" in event else "") for event in told]


def state(home: Path, *command: str) -> Any:
    shown = CliRunner().invoke(main, [*command, "--store", str(home), "--json"])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    return told["sessions"][0]["state"] if "sessions" in told else told["state"]


@pytest.mark.parametrize("derive", ["inline", "behind"])
@pytest.mark.parametrize("stream", [False, True])
def test_end_marker_ends_the_session_after_its_turn(provider: Provider, home: Path, derive: str, stream: bool) -> None:
    client = chat(provider, home, derive=derive)
    reply = say(client, f"My name is Ada.\n{END}\n", stream=stream)
    shown = "".join(chunk.choices[0].delta.content or "" for chunk in reply) if stream else reply.choices[0].message
    assert (shown if stream else shown.content) == "Hello, world."
    ctxwrap.flush()
    assert ends(home) == ["session_end by user"]
    (document,) = documents(home, "s")
    assert document["covers"] == 2
    assert "Ada" in document["content"]
    assert END not in document["content"]
    assert [each["type"] for each in lines(home, "s", "events")][-2:] == ["document", "session_end"]
    assert messages(home, "s")[0]["content"] == f"My name is Ada.\n{END}\n", "the log keeps what was said"
    assert (state(home, "show", "s"), state(home, "sessions")) == ("ended", "ended")
    assert ctxwrap.verify("s", store=home).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "Bye.",
        f"Write {END} when you are done.",
        f"{END} Bye.",
        f"{END}\nWhat does this line mean?",
        f"> {END}",
        f"`{END}`",
        f"```\n{END}\n```",
        "<end_session>",
        f"{END}{END}",
        f"It says:\n{END}.",
    ],
)
def test_mention_of_the_end_marker_does_not_end_the_session(provider: Provider, home: Path, text: str) -> None:
    say(chat(provider, home, derive="inline"), text)
    assert ends(home) == []


def test_end_marker_counts_only_in_the_newest_user_message(provider: Provider, home: Path) -> None:
    provider.answer = Told(f"Fine.\n{END}")
    client = chat(provider, home, derive="inline")
    told: Any = [
        {"role": "system", "content": f"Rules.\n{END}"},
        {"role": "user", "content": f"Earlier.\n{END}"},
        {"role": "assistant", "content": "Good bye."},
        {"role": "user", "content": "One thing more."},
    ]
    client.chat.completions.create(model="m", messages=told)
    assert ends(home) == []


def test_end_marker_message_is_sent_unchanged(provider: Provider, home: Path) -> None:
    say(chat(provider, home), f"Thanks.\n{END}")
    assert f"Thanks.\n{END}" in provider.seen[0].json["messages"][-1]["content"]


def test_session_ends_after_the_final_reply_not_after_a_tool_call(provider: Provider, home: Path) -> None:
    client = chat(provider, home, derive="inline")
    provider.answer = lambda ask: Answer("", tool_calls=(ToolCall("c1", "save", "{}"),))
    say(client, END)
    assert ends(home) == []
    provider.answer = Told("Saved. Bye.")
    result: Any = [{"role": "tool", "tool_call_id": "c1", "content": f"saved\n{END}"}]
    client.chat.completions.create(model="m", messages=result)
    assert ends(home) == ["session_end by user"]


def test_end_marker_in_a_tool_result_does_not_end_the_session(provider: Provider, home: Path) -> None:
    bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url)
    client = ctxwrap.wrap(bare, store=home, session="s", derive="inline")
    told: Any = [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": f"text\n{END}"}]},
    ]
    client.messages.create(model="m", max_tokens=100, messages=told)
    assert ends(home) == []
    client.messages.create(model="m", max_tokens=100, messages=[{"role": "user", "content": END}])
    assert ends(home) == ["session_end by user"]


def test_interrupted_reply_does_not_end_the_session(provider: Provider, home: Path) -> None:
    provider.answer = Told("Good bye, and come again soon.", cut_after=1)
    with pytest.raises(httpx.RemoteProtocolError):
        list(say(chat(provider, home, derive="inline"), END, stream=True))
    assert ends(home) == []


@pytest.mark.parametrize(("mode", "count"), [("enabled", 1), ("readonly", 1), ("disabled", 0), ("shadow", 0)])
def test_end_marker_counts_only_in_enabled_and_readonly_modes(
    provider: Provider, home: Path, mode: str, count: int
) -> None:
    say(chat(provider, home, context_mode=mode, derive="inline"), END)
    assert len(ends(home)) == count


def test_session_end_writes_no_document_when_documents_are_off(provider: Provider, home: Path) -> None:
    say(chat(provider, home, context_document=False, derive="inline"), f"I am Ada.\n{END}")
    assert (ends(home), documents(home, "s")) == (["session_end by user"], [])


@pytest.mark.parametrize("derive", ["inline", "behind"])
def test_a_later_call_resumes_the_session(provider: Provider, home: Path, derive: str) -> None:
    client = chat(provider, home, derive=derive)
    say(client, f"My name is Ada.\n{END}")
    say(client, "One thing more.")
    ctxwrap.flush()
    assert ends(home) == ["session_end by user", "session_resume"]
    assert state(home, "show", "s") == state(home, "sessions") == "done"
    assert "My name is Ada." in str(provider.seen[-1].json["messages"]), "the conversation goes on"
    say(client, END)
    ctxwrap.flush()
    assert ends(home) == ["session_end by user", "session_resume", "session_end by user"]
    assert [each["covers"] for each in documents(home, "s")][-1] == 6


def test_a_caller_can_end_a_session(provider: Provider, home: Path) -> None:
    client = chat(provider, home)
    say(client, "My name is Ada.")
    ctxwrap.end_session("s", store=home)
    assert ends(home) == ["session_end by caller"]
    assert "Ada" in documents(home, "s")[-1]["content"]
    ctxwrap.end_session("s", store=home)
    assert ends(home) == ["session_end by caller"], "it has ended already"
    say(client, "Hello again.")
    ctxwrap.flush()
    assert ends(home) == ["session_end by caller", "session_resume"]


def test_an_async_program_ends_a_session_in_a_thread(provider: Provider, home: Path) -> None:
    async def main() -> None:
        bare = openai.AsyncOpenAI(api_key="k", base_url=provider.openai_url)
        client = ctxwrap.wrap(bare, store=home, session="s")
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        await asyncio.to_thread(ctxwrap.end_session, "s", store=home)
        await client.close()

    asyncio.run(main())
    assert ends(home) == ["session_end by caller"]


def test_a_session_of_another_tenant_is_unknown(provider: Provider, home: Path) -> None:
    say(chat(provider, home), "Hi")
    with pytest.raises(NotFound):
        ctxwrap.end_session("s", store=home, tenant="other")
    assert ends(home) == []


def test_a_session_with_a_turn_under_way_does_not_end(provider: Provider, home: Path) -> None:
    stream = say(chat(provider, home), "Hi", stream=True)
    next(stream)
    with pytest.raises(SessionBusy, match="turn in progress"):
        ctxwrap.end_session("s", store=home)
    list(stream)
    ctxwrap.end_session("s", store=home)
    assert ends(home) == ["session_end by caller"]


class TestDurability:
    """`durability="os"` waits for the disk nowhere but before a version of the context document, behind the answer."""

    @pytest.fixture
    def order(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> list[tuple[str, int]]:
        """Each sync of a log's stream: which stream, and how many versions of the document were written by then."""
        order: list[tuple[str, int]] = []
        sync = os.fdatasync

        def counted(handle: int) -> None:
            name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
            order.append((name, len(documents(home, "s"))))
            sync(handle)

        monkeypatch.setattr(os, "fdatasync", counted)
        return order

    def test_log_is_durable_before_a_document_version_is_written(
        self, provider: Provider, home: Path, order: list[tuple[str, int]]
    ) -> None:
        client = chat(provider, home, derive="inline")
        say(client, "My name is Ada.")
        say(client, "I live in Lisbon.")
        assert order == []
        say(client, "I prefer tea.")
        assert len(documents(home, "s")) == 1
        assert {("messages.jsonl", 0), ("events.jsonl", 0)} <= {*order}

    def test_calls_do_not_wait_for_the_disk(
        self, provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: list[int] = []
        sync = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", lambda handle: (threads.append(threading.get_ident()), sync(handle))[1])
        client = chat(provider, home)
        for _ in range(4):
            say(client, "My name is Ada.")
        assert threading.get_ident() not in threads
        ctxwrap.flush()
        assert threads

    def test_session_end_makes_the_whole_log_durable(
        self, provider: Provider, home: Path, order: list[tuple[str, int]]
    ) -> None:
        say(chat(provider, home), "My name is Ada.")
        ctxwrap.end_session("s", store=home)
        assert order[0][1] == 0
        assert {name for name, versions in order if versions == 0} >= {"messages.jsonl", "events.jsonl"}
        assert ("events.jsonl", 1) in order, "the version and the end are durable as well"

    def test_failed_disk_sync_writes_no_document_version(
        self, provider: Provider, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def failing(handle: int) -> None:
            raise OSError(errno.EIO, "the disk is gone")

        client = chat(provider, home, derive="inline")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", failing)
            for text in ("My name is Ada.", "I live in Lisbon.", f"I prefer tea.\n{END}"):
                assert say(client, text).choices[0].message.content == "Hello, world."
            assert (documents(home, "s"), ends(home)) == ([], [])
            assert "its end was not written" in caplog.text
            with pytest.raises(StoreUnavailable):
                ctxwrap.end_session("s", store=home)
        ctxwrap.end_session("s", store=home)
        assert ends(home) == ["session_end by caller"]
        assert "Ada" in documents(home, "s")[-1]["content"]
