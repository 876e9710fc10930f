"""Redaction in calls: a secret that somebody said is in no file, no log line and no request."""

import asyncio
import json
import logging
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from click.testing import CliRunner
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxwrap
from ctxwrap.cli import main
from ctxwrap.clients.litellm import load_litellm
from ctxwrap.redaction import policy
from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.settings import Settings
from ctxwrap.testing.practice import Answer, Ask, Failure, Provider
from ctxwrap.turn.summariser import Summariser, wait_for_summaries
from tests.clients.running import PATIENCE, at_once, each, got
from tests.clients.test_failing_open import Fault, FaultyStore
from tests.redaction.planting import KEY, places_in, planted
from tests.support import events, item, messages, said, trailer

SECRETS = {
    "user": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "system": "operator@example.org",
    "tool": "sk-proj-abcDEF1234567890abcdWXYZ",
    "arguments": "4111111111111111",
    "large": "+49 30 901820-123",
    "file": "AKIAIOSFODNN7EXAMPLE",
    "pinned": "xoxb-123456789012-abcdefGHIJKL",
    "reply": "model@example.net",
    "memory": "5500-0000-0000-0004",
    "child": "glpat-x1y2z3A4b5C6d7E8f9G0",
    "summary": "hf_abcdefGHIJKL1234567890mnop",
    "error": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "name": "swordfish-protocol",
    "header": "sk-header-abc1234567890defgh",
    "environment": "sk-environ-abc1234567890defg",
}
LARGE = f"line of a tool's\n{'x ' * 20_000}\ncall {SECRETS['large']} then"


def also(text: str) -> str:
    return text.replace(SECRETS["name"], "[project]")


@pytest.fixture(autouse=True)
def _own_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies are heeded by the lines of a whole process; those of one test are not another's."""
    monkeypatch.setattr(policy, "_lines", type(policy._lines)())
    monkeypatch.setattr(logging.getLogger("ctxwrap"), "filters", [])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "desk"
    root.mkdir()
    (root / "notes.md").write_text(f"Deploy with {SECRETS['file']} and care.\n")
    (root / "working-set.yml").write_text(
        "protocol: CONTEXT-ASSEMBLY/0.1\nfiles:\n  - {path: notes.md, priority: 0.9}\n"
    )
    return root


class Model:
    """Says secrets of its own, in words, in memory and in a summary; or fails with one."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, ask: Ask) -> Answer | Failure:
        if self.fails:
            return Failure(400, f"bad key {SECRETS['error']}")
        if "You write the summary" in ask.system + ask.last_user:
            return Answer(f"They spoke of {SECRETS['summary']}.")
        if "ctxwrap" not in json.dumps(ask.body):
            return Answer("Plain.")
        remembered = f"pays with {SECRETS['memory']}"
        return Answer(f"Write to {SECRETS['reply']} soon.{trailer(ask, [item('w-1', remembered)])}")


class Client:
    """The same conversation over either SDK; `kind` also says whether it is awaited, and whether it streams."""

    runner: asyncio.Runner
    """The event loop of all that are awaited."""

    def __init__(self, kind: str, provider: Provider, **options: Any) -> None:
        self.family, *how = kind.split("-")
        self.is_async, self.streams = "async" in how, "stream" in how
        key = SECRETS["header"]
        if self.family == "openai":
            make: Any = openai.AsyncOpenAI if self.is_async else openai.OpenAI
            self.bare = make(api_key=key, base_url=provider.openai_url, max_retries=0)
        else:
            make = anthropic.AsyncAnthropic if self.is_async else anthropic.Anthropic
            self.bare = make(api_key=key, base_url=provider.anthropic_url, max_retries=0)
        self.client: Any = ctxwrap.wrap(self.bare, **options)

    def say(self, *spoken: dict[str, Any], **more: Any) -> str:
        """What the caller reads of the answer."""
        work = self._say(spoken, {**more, **({"stream": True} if self.streams else {})})
        return self.runner.run(work) if self.is_async else at_once(work)

    async def _say(self, spoken: Sequence[dict[str, Any]], more: dict[str, Any]) -> str:
        reply = await got(self._asked(spoken, {"extra_headers": {"x-secret": SECRETS["header"]}, **more}))
        if self.streams:
            return "".join([self._piece(event) async for event in each(reply)])
        return str(reply.choices[0].message.content if self.family == "openai" else reply.content[0].text)

    def _asked(self, spoken: Sequence[dict[str, Any]], more: dict[str, Any]) -> Any:
        system = f"Escalate to {SECRETS['system']}."
        if self.family == "openai":
            given = [{"role": "system", "content": system}, *spoken]
            return self.client.chat.completions.create(model="gpt-4o", messages=given, **more)
        make = self.client.messages.create
        return make(model="claude-opus-4-8", max_tokens=500, system=system, messages=list(spoken), **more)

    def _piece(self, event: Any) -> str:
        if self.family == "openai":
            return event.choices[0].delta.content or "" if event.choices else ""
        return event.delta.text if event.type == "content_block_delta" else ""

    def called(self, output: str) -> list[dict[str, Any]]:
        """A model's call of a tool, and what that gave."""
        if self.family == "openai":
            function = {"name": "pay", "arguments": json.dumps({"card": int(SECRETS["arguments"]), "n": 1})}
            call = {"id": "call_1", "type": "function", "function": function}
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_1", "content": output},
            ]
        use = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"card": int(SECRETS["arguments"]), "n": 1}}
        return [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": output}]},
        ]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def leaks(data: bytes, names: Any = SECRETS) -> set[str]:
    text = data.decode("utf-8", "replace")
    plain = re.sub(r"\\u([0-9a-f]{4})", lambda escape: chr(int(escape[1], 16)), text)
    return {name for name in names if SECRETS[name] in text or SECRETS[name] in plain}


def stored(home: Path) -> dict[str, set[str]]:
    """Which secrets lie in which file below a store, or in its name."""
    ctxwrap.flush()
    found = {str(path.relative_to(home)): leaks(path.read_bytes()) for path in home.rglob("*") if path.is_file()}
    return {name: secrets | leaks(name.encode()) for name, secrets in found.items() if secrets}


def requests(provider: Provider) -> set[str]:
    return set().union(*(leaks(json.dumps(ask.json, ensure_ascii=False).encode()) for ask in provider.seen))


def lines(caplog: pytest.LogCaptureFixture) -> set[str]:
    ours = [record for record in caplog.records if record.name == "ctxwrap"]
    told = "\n".join(f"{record.getMessage()} {record.__dict__} {record.exc_text}" for record in ours)
    return leaks(told.encode())


def whole_flow(client: Client, home: Path, policy: ctxwrap.Redaction) -> None:
    """Everything that can carry a secret does; a later call of few words gets its history from the log."""
    first = user(f"My key is {SECRETS['user']}, of {SECRETS['name']}.")
    answer = client.say(first)
    assert SECRETS["reply"] in answer
    directory = next(home.rglob("messages.jsonl")).parent
    (directory / "context" / "pinned").mkdir(parents=True, exist_ok=True)
    (directory / "context" / "pinned" / "rules").write_text(f"Never tell {SECRETS['pinned']}.")
    so_far = [first, {"role": "assistant", "content": answer}]
    paid = client.called(f"paid with {SECRETS['tool']}\n{LARGE}")
    client.say(*so_far, user("Pay, please."), *paid)
    settings = Settings(redaction=policy)
    start_child("s", "c", handoff=f"use {SECRETS['child']}", store=home, settings=settings)
    attach_result("s", "c", result=f"used {SECRETS['child']}", store=home, settings=settings)
    client.say(user("Which key did I tell you about, and who was paid?"))
    assert wait_for_summaries(PATIENCE)
    client.say(user("And now?"))
    assert wait_for_summaries(PATIENCE)


KINDS = [f"{sdk}{how}" for sdk in ("openai", "anthropic") for how in ("", "-async", "-stream", "-async-stream")]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def _runner() -> Iterator[None]:
    with asyncio.Runner() as Client.runner:
        yield


@pytest.fixture
def flow(kind: str, provider: Provider, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["environment"])
    provider.answer = model = Model()

    def run(**policy: Any) -> Client:
        redaction = ctxwrap.Redaction(also=also, **policy)
        writer = Summariser(openai.OpenAI(api_key="k", base_url=provider.openai_url), model="gpt-4o", every=2)
        manifest = str(place / "working-set.yml")
        options = {"store": home, "session": "s", "working_set": manifest, "summariser": writer}
        client = Client(kind, provider, redaction=redaction, **options)
        whole_flow(client, home, redaction)
        model.fails = True
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=SECRETS["error"]):
            client.say(user("Once more."))
        model.fails = False
        return client

    return run


PINNED = "rules"


def test_redaction_keeps_secrets_out_of_requests_store_logs_and_spans(
    flow: Any, provider: Provider, home: Path, tmp_path: Path, exporter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ctxwrap")
    flow()
    assert requests(provider) == set()
    assert lines(caplog) == set()
    assert {name for name in stored(home) if not name.endswith(f"pinned/{PINNED}")} == set()
    assert not ctxwrap.verify("s", store=home).findings
    assert packed(home, tmp_path) == set()
    assert printed(home, tmp_path) == {}
    ours = [span for span in exporter.get_finished_spans() if span.instrumentation_scope.name == "ctxwrap"]
    assert any("gen_ai.memory.records" in span.attributes for span in ours)
    assert leaks("\n".join(span.to_json() for span in ours).encode()) == set()


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Gets every span, with contents."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    exporter, tracing = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracing)
    yield exporter
    tracing.shutdown()


def packed(home: Path, tmp_path: Path) -> set[str]:
    """What an archive holds of secrets, but for what the operator put into it."""
    ctxwrap.export_session("s", tmp_path / "s.zip", store=home)
    with zipfile.ZipFile(tmp_path / "s.zip") as archive:
        names = [name for name in archive.namelist() if not name.endswith(f"pinned/{PINNED}")]
        assert any(name.endswith("messages.jsonl") for name in names)
        return set().union(*(leaks(name.encode()) | leaks(archive.read(name)) for name in names))


COMMANDS = (
    "sessions",
    "sessions --json",
    "show s",
    "show s --json",
    "show s --turn 1",
    "show s --turn 2 --json",
    "show s --turn 5 --json",
    "tail s -n 100",
    "tail s -n 100 --json",
    "tail s -n 100 --events --json",
    "memory s",
    "memory s --json",
    "pack s --turn 4",
    "pack s --turn 4 --md",
    "pack s --turn 2 --json",
    "pack s --turn 4 --report",
    "swap s --query key",
    "gc s --json",
    "verify s --json",
    "diff s 1 4",
    "diff s 2 4 --json",
    "export s --envelope",
    "export s --envelope --target model",
)


def printed(home: Path, tmp_path: Path) -> dict[str, set[str]]:
    """Which secrets commands tell."""
    plot = tmp_path / "plot.svg"
    told = {}
    for command in (*COMMANDS, f"memory s --plot {plot}"):
        done = CliRunner().invoke(main, [*command.split(), "--store", str(home)])
        assert done.exit_code == 0, (command, done.output)
        told[command] = leaks(done.output_bytes)
    told["plot"] = leaks(plot.read_bytes())
    return {command: secrets for command, secrets in told.items() if secrets}


both_ways = pytest.mark.parametrize("kind", ["openai", "anthropic-async-stream"])


@both_ways
def test_log_keep_leaves_secrets_in_the_message_log_only(
    flow: Any, provider: Provider, home: Path, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG, "ctxwrap")
    flow(log="keep")
    assert requests(provider) == set()
    assert lines(caplog) == set()
    kept = {Path(name).name: secrets for name, secrets in stored(home).items() if not name.endswith(PINNED)}
    assert kept == {"messages.jsonl": {"user", "system", "tool", "arguments", "large", "reply", "name"}}


@both_ways
def test_rebuild_and_purge_do_not_restore_redacted_secrets(flow: Any, home: Path) -> None:
    """Whoever rebuilds, exports or looks at the session knows nothing of the policy."""
    flow(log="keep")
    ctxwrap.rebuild("s", store=home)
    kept = {Path(name).name for name in stored(home)}
    assert kept == {"messages.jsonl", PINNED}
    assert not ctxwrap.verify("s", store=home).findings
    for number in range(1, len(messages(home, "s")) + 1):
        ctxwrap.purge("s", message=number, store=home)
    assert {Path(name).name for name in stored(home)} == {PINNED}


def test_redacted_log_recognises_a_resent_history(kind: str, provider: Provider, home: Path) -> None:
    """The log knows a message by what the caller sends, not by what it keeps of it."""
    provider.answer = Model()
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    spoken = list[dict[str, Any]]()
    for number in range(4):
        spoken.append(user(f"{number}: my key is {SECRETS['user']}"))
        spoken.append({"role": "assistant", "content": client.say(*spoken)})
    again = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    again.say(*spoken, user("Done?"))
    told = [text for role, text in said(home, "s") if role != "system"]
    asked = [f"{number}: my key is [redacted:key]" for number in range(4)]
    assert told[::2] == [*asked, "Done?"]
    assert set(told[1::2]) == {"Write to [redacted:email] soon."}
    assert [message["ctx"]["round"] for message in messages(home, "s") if message["role"] == "user"] == [1, 2, 3, 4, 5]


def test_events_record_redaction_policies_and_their_findings(provider: Provider, home: Path, place: Path) -> None:
    provider.answer = Model()
    policy = ctxwrap.Redaction(patterns=("keys", "emails"), also=also)
    manifest = str(place / "working-set.yml")
    client = Client("openai", provider, store=home, session="s", redaction=policy, working_set=manifest)
    client.say(user(f"{SECRETS['name']}: {SECRETS['user']}, {SECRETS['tool']}, {SECRETS['arguments']}"))
    start, done = (next(each for each in events(home, "s") if each["type"] == kind) for kind in ("start", "done"))
    told = {"policy": ["keys", "emails", "also"], "method": "replace", "state": "masked"}
    assert start["redaction"] == {**told, "found": {"email": 1, "also": 1, "key": 3}}
    assert done["redaction"] == {**told, "found": {"email": 1}}


def test_no_policy_means_no_redaction_and_no_redaction_events(provider: Provider, home: Path) -> None:
    provider.answer = Model()
    client = Client("openai", provider, store=home, session="s")
    client.say(user(f"My key is {SECRETS['user']}"))
    assert not any("redaction" in event for event in events(home, "s"))
    assert not any("said" in message or "digest" in message["ctx"] for message in messages(home, "s"))
    assert SECRETS["user"] in json.dumps(provider.seen[-1].json)


def test_request_false_sends_the_callers_messages_unredacted(kind: str, provider: Provider, home: Path) -> None:
    provider.answer = Model()
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction(request=False))
    client.say(user(f"My key is {SECRETS['user']}"))
    client.say(user("Which key?"))
    first, second = (leaks(json.dumps(ask.json).encode()) for ask in provider.seen)
    assert first == {"user", "system"}
    assert second == {"system"}
    assert stored(home) == {}


@pytest.mark.parametrize("mode", ["disabled", "shadow"])
def test_disabled_and_shadow_send_the_request_unredacted_and_redact_the_log(
    mode: str, kind: str, provider: Provider, home: Path
) -> None:
    provider.answer = Model()
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    client.say(user(f"My key is {SECRETS['user']}"), context_mode=mode)
    assert leaks(json.dumps(provider.seen[-1].json).encode()) == {"user", "system"}
    assert stored(home) == {}
    assert len(messages(home, "s")) == 3


def test_request_that_cannot_carry_context_is_redacted(provider: Provider, home: Path) -> None:
    client = Client("openai", provider, store=home, session="s", redaction=ctxwrap.Redaction()).client
    client.completions.create(model="m", prompt=["One.", f"My key is {SECRETS['user']}"])
    assert provider.seen[-1].json["prompt"] == ["One.", "My key is [redacted:key]"]
    assert stored(home) == {}


@pytest.mark.filterwarnings("ignore:this call names no session")
def test_call_without_a_session_is_redacted(kind: str, provider: Provider, home: Path) -> None:
    provider.answer = Model()
    client = Client(kind, provider, store=home, redaction=ctxwrap.Redaction())
    client.say(user(f"My key is {SECRETS['user']}"))
    assert "My key is [redacted:key]" in json.dumps(provider.seen[-1].json)
    assert requests(provider) == set()


def test_call_whose_session_cannot_be_opened_is_redacted(kind: str, provider: Provider, home: Path) -> None:
    provider.answer = Model()
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    home.write_text("no directory")
    client.say(user(f"My key is {SECRETS['user']}"))
    assert "My key is [redacted:key]" in json.dumps(provider.seen[-1].json)
    assert requests(provider) == set()


def test_failing_redaction_rule_replaces_the_whole_text(provider: Provider, home: Path, caplog: Any) -> None:
    def fail(text: str) -> str:
        raise ValueError(f"cannot read {text}")

    provider.answer = Model()
    client = Client("openai", provider, store=home, session="s", redaction=ctxwrap.Redaction(also=fail))
    client.say(user(f"My key is {SECRETS['user']}"))
    assert requests(provider) == set()
    assert stored(home) == {}
    assert lines(caplog) == set()
    assert ("user", "[redacted:error]") in said(home, "s")


def test_secrets_logged_before_the_policy_are_redacted_in_requests(kind: str, provider: Provider, home: Path) -> None:
    provider.answer = Model()
    Client(kind, provider, store=home, session="s").say(user(f"My key is {SECRETS['user']}, of the red house."))
    start_child("s", "c", handoff="go", store=home)
    attach_result("s", "c", result=f"used {SECRETS['child']}", store=home)
    before = len(provider.seen)
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    client.say(user("What was my key, of the red house?"))
    sent = json.dumps(provider.seen[before].json)
    assert "My key is [redacted:key]" in sent
    assert "pays with [redacted:card]" in sent
    assert "used [redacted:key]" in sent
    assert leaks(sent.encode()) == set()


def test_memory_items_are_read_from_the_redacted_reply(provider: Provider, home: Path) -> None:
    """An id is a text of the model's like any other; and what a turn tells of itself is no way round."""
    remembered = item(SECRETS["reply"], f"pays with {SECRETS['memory']}")
    provider.answer = lambda ask: Answer(f"Yes.{trailer(ask, [remembered])}")
    client = Client("openai", provider, store=home, session="s", redaction=ctxwrap.Redaction()).client
    turn = ctxwrap.turn_of(client.chat.completions.create(model="gpt-4o", messages=[user("Go.")]))
    assert turn is not None
    (operation,) = turn.operations
    assert operation.id == "[redacted:email]"
    assert operation.item is not None
    assert operation.item["content"] == "pays with [redacted:card]"
    assert leaks(repr(turn).encode()) == set()
    assert stored(home) == {}


def test_logged_summariser_error_contains_no_secret(provider: Provider, home: Path, caplog: Any) -> None:
    def fail(_: str) -> str:
        raise ValueError(f"no access with {SECRETS['error']}")

    policy, writer = ctxwrap.Redaction(), Summariser(fail, every=1)
    Client("openai", provider, store=home, session="s", redaction=policy, summariser=writer).say(user("Go."))
    assert wait_for_summaries(PATIENCE)
    assert "no access with [redacted:key]" in caplog.text
    assert lines(caplog) == set()


def test_logged_store_error_contains_no_secret(kind: str, provider: Provider, home: Path, caplog: Any) -> None:
    fault = Fault("end", OSError(f"cannot write {SECRETS['error']} of {SECRETS['user']}"))
    client = Client(
        kind, provider, store=FaultyStore(home, fault), session="s", derive="inline", redaction=ctxwrap.Redaction()
    )
    assert client.say(user(f"My key is {SECRETS['user']}")) == "Hello, world."
    assert "cannot write [redacted:key]" in caplog.text
    assert lines(caplog) == set()
    fault.mended = True
    client.say(user("And now?"))
    assert stored(home) == {}
    assert requests(provider) == set()


def test_preview_shows_the_redacted_request(provider: Provider, home: Path) -> None:
    client = Client("openai", provider, store=home, session="s", redaction=ctxwrap.Redaction()).client
    view = ctxwrap.preview(client, model="gpt-4o", messages=[user(f"My key is {SECRETS['user']}")])
    assert "My key is [redacted:key]" in json.dumps(view.body)
    assert leaks(f"{view.body} {view.as_markdown()}".encode()) == set()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("stream")])
def test_stream_reaches_the_caller_unredacted_and_the_log_redacted(kind: str, provider: Provider, home: Path) -> None:
    """An answer in flight is written down line by line, so that no part of a secret is without its rest."""
    words = "\n".join(f"{number} {SECRETS['reply']} and {SECRETS['tool']}." for number in range(120))
    provider.answer = lambda ask: Answer(f"{words}{trailer(ask)}")
    client = Client(kind, provider, store=home, session="s", redaction=ctxwrap.Redaction())
    assert client.say(user("Tell.")).strip() == words
    deltas = "".join(event["text"] for event in events(home, "s") if event["type"] == "delta")
    (_, kept) = said(home, "s")[-1]
    assert deltas.startswith("0 [redacted:email] and [redacted:key].\n1 ")
    assert kept.startswith(deltas)
    assert stored(home) == {}


def test_reask_request_is_redacted(provider: Provider, home: Path) -> None:
    provider.answer = lambda ask: Answer(
        f"Write to {SECRETS['reply']}.\n\n<<<CONTEXT>>>\n" + '{"note": "operator\\u0040example.org pays"}'
    )
    Client("openai", provider, store=home, session="s", redaction=ctxwrap.Redaction()).say(user("Go."))
    assert len(provider.seen) == 2
    assert requests(provider) == set()
    assert stored(home) == {}


def test_redaction_leaves_litellms_api_key_intact(provider: Provider, home: Path) -> None:
    provider.answer = Model()
    completion = ctxwrap.wrap(load_litellm(), store=home, redaction=ctxwrap.Redaction()).completion
    for options in ({"session": "s"}, {"context_mode": "enabled"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            completion(
                model="openai/gpt-4o",
                messages=[user(f"My key is {SECRETS['user']}")],
                api_key=SECRETS["header"],
                base_url=provider.openai_url,
                **options,
            )
        assert provider.seen[-1].headers["authorization"] == f"Bearer {SECRETS['header']}"
    assert requests(provider) == set()
    assert stored(home) == {}


SCHEMA = {"type": "object", "properties": {"to": {"type": "string", "enum": ["a"], "description": "d"}}}
CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief.", "name": "op"},
        {
            "role": "user",
            "name": "ada",
            "content": [
                {"type": "text", "text": "Look.", "note": {"deep": ["x"]}},
                {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
                {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Yes.",
            "odd": {"new": "field"},
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f", "arguments": {"to": "x", "in": {"y": ["z"]}}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "done"}]},
        {"role": "user", "content": "Thanks."},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}],
    "metadata": {"k": "v"},
    "user": "u",
    "extra_body": {"some": {"new": "parameter"}},
}
MESSAGES = {
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Look.", "note": {"deep": ["x"]}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": ""},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"to": "x", "in": {"y": ["z"]}, "type": "t"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "done"}]},
                {"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            ],
        },
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}],
    "metadata": {"user_id": "u"},
}


@pytest.mark.parametrize(
    ("kind", "body", "secret"), [("openai", CHAT, "user"), ("anthropic", MESSAGES, "reply")], ids=["chat", "messages"]
)
def test_secret_in_any_request_field_is_redacted(
    kind: str, body: dict[str, Any], secret: str, provider: Provider, home: Path, caplog: Any
) -> None:
    """The call may fail if the place means something, but nothing is told."""
    caplog.set_level(logging.DEBUG, "ctxwrap")
    client = Client(kind, provider, store=home, redaction=ctxwrap.Redaction()).client
    make = client.chat.completions.create if kind == "openai" else partial(client.messages.create, max_tokens=500)
    for number, place in enumerate(places_in(body)):
        if len(place) == 2 and place[-1] is KEY:
            continue  # the SDK takes no other arguments
        said = deepcopy(planted(body, place, SECRETS[secret]))
        for message in said["messages"]:
            for call in message.get("tool_calls") or () if isinstance(message, dict) else ():
                function = call.get("function", {})
                function |= {"arguments": json.dumps(function["arguments"])} if "arguments" in function else {}
        for _ in range(2):  # the second request is made of the log as well
            with suppress(openai.OpenAIError, anthropic.AnthropicError):
                make(model="gpt-4o", session=f"s{number}", **said)
        assert requests(provider) == set(), place
        provider.seen.clear()
    assert number > 40
    assert stored(home) == {}
    assert lines(caplog) == set()
