"""Adding a provider takes one module and one line: a made-up API works through `wrap` with nothing else."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, parse_block
from ctxwrap.providers import PROVIDERS, ProviderSpec
from ctxwrap.tokens import counter_for
from tests.providers.parley import PER_LINE
from tests.support import CANARY, assert_clean, events, item, messages

LINE = ProviderSpec("tests.providers.parley:PARLEY", "parley", "/lines", "lines")
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SEAL = "A1b2" * 100
HELLO = "Hello from Parley."


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    PROVIDERS.append(LINE)
    yield
    PROVIDERS.remove(LINE)


# --- the SDK of the made-up provider ---------------------------------------------------------------------


class ParleyError(Exception):
    def __init__(self, told: Any) -> None:
        super().__init__("the provider refused")
        self.told = told


class SyncAPIClient:
    __module__ = "parley"

    def __init__(self, http_client: httpx.Client) -> None:
        self._client, self._custom_headers = http_client, dict[str, str]()

    def copy(self, *, http_client: httpx.Client | None = None) -> "SyncAPIClient":
        return type(self)(http_client or self._client)

    def close(self) -> None:
        self._client.close()

    def post(
        self, path: str, *, body: Any = None, options: Any = None, cast_to: Any = None, stream: bool = False
    ) -> Any:
        request = self._client.build_request("POST", f"https://parley.test{path}", json=body)
        response = self._client.send(request, stream=stream)
        if response.is_error:
            raise ParleyError(json.loads(response.read()))
        return Stream(response) if stream else response.json() if cast_to else Answer(response.json())


class Answer(dict[str, Any]):
    """A dict that can be referred to weakly, like the models of SDKs."""


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response

    def __iter__(self) -> Iterator[Any]:
        for line in self.response.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


class Lines:
    __module__ = "parley"

    def __init__(self, client: SyncAPIClient) -> None:
        self._client = client

    def create(self, *, extra_headers: dict[str, str] | None = None, **body: Any) -> Any:
        return self._client.post(
            "/lines", body=body, options={"headers": extra_headers or {}}, stream=bool(body.get("live"))
        )


class ParleyClient(SyncAPIClient):
    __module__ = "parley"

    @cached_property
    def lines(self) -> Lines:
        return Lines(self)


class Service:
    """The made-up provider: says hello and, where it is asked to, writes a trailer behind that."""

    def __init__(self, capacity: int = 10**6, *, forgets_once: bool = False) -> None:
        self.requests: list[Any] = []
        self.capacity, self.forgets_once = capacity, forgets_once

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        offered = len(json.dumps(body)) // 4
        if offered > self.capacity:
            return httpx.Response(409, json={"fault": "out_of_breath", "capacity": self.capacity, "offered": offered})
        answer, end = HELLO + self._trailer(body), {"verdict": "said", "spent": {"heard": 40, "spoken": 4}}
        if not body.get("live"):
            return httpx.Response(200, json={"answer": answer, **end})
        pieces = [{"piece": answer[at : at + 5]} for at in range(0, len(answer), 5)]
        content = "".join(f"data: {json.dumps(event)}\n\n" for event in [*pieces, end])
        return httpx.Response(200, text=content, headers={"content-type": "text/event-stream"})

    def _trailer(self, body: Any) -> str:
        state = next(filter(None, (parse_block(line["words"]) for line in body["lines"])), None)
        if state is None or (self.forgets_once and len(self.requests) == 1):
            return ""
        assert asks_for_trailer(body["brief"])
        state["memory"] = {"core": [], "working": [item("w-1")], "ephemeral": []}
        return f"\n\n{SEPARATOR}\n{json.dumps(state)}"


def wrapped(service: Service, home: Path, **settings: Any) -> Any:
    client = ParleyClient(httpx.Client(transport=httpx.MockTransport(service)))
    return ctxwrap.wrap(client, session="s", store=home, **settings)


def human(words: str) -> dict[str, str]:
    return {"speaker": "human", "words": words}


def ask(client: Any, words: str = "Good morning.", **options: Any) -> Any:
    return client.lines.create(engine="parley-1", lines=[human(words)], **options)


# --- what works --------------------------------------------------------------------------------------------


def test_whole_replies_lose_their_trailer_and_requests_gain_history(home: Path) -> None:
    service = Service()
    client = wrapped(service, home)
    first, second = ask(client, "Good morning.", brief="Be kind."), ask(client, "And now?", brief="Be kind.")
    assert [first["answer"], second["answer"]] == [HELLO, HELLO]
    assert_clean(first, second)
    assert "Be kind." in service.requests[0]["brief"]
    lines = service.requests[1]["lines"]
    assert [line["speaker"] for line in lines] == ["human", "engine", "human"]
    assert [line["words"] for line in lines[:2]] == ["Good morning.", HELLO]
    assert lines[2]["words"].startswith("And now?")
    assert f"{CANARY} of w-1" in lines[2]["words"]
    assert [record["content"] for record in messages(home, "s")] == [
        "Be kind.",
        "Good morning.",
        HELLO,
        "And now?",
        HELLO,
    ]
    assert {event["wire"] for event in events(home, "s") if event["type"] == "start"} == {"parley_lines"}


def test_streams_lose_their_trailer(home: Path) -> None:
    stream = ask(wrapped(Service(), home), live=True)
    pieces = list(stream)
    assert "".join(event.get("piece", "") for event in pieces) == HELLO
    assert pieces[-1]["verdict"] == "said"
    assert_clean(pieces)
    turn = ctxwrap.turn_of(stream)
    assert turn is not None
    assert [turn.report.reading, turn.operations[0].id] == ["clean", "w-1"]


def test_keywords_of_a_call_name_its_session(home: Path) -> None:
    client = wrapped(Service(), home)
    ask(client, session="other")
    assert [record["content"] for record in messages(home, "other")] == ["Good morning.", HELLO]


def test_requests_are_counted_by_the_providers_rule(home: Path) -> None:
    client = wrapped(Service(), home)
    turn = ctxwrap.turn_of(ask(client, "One two three.", most_words=77))
    counter = counter_for("parley-1")
    assert turn is not None
    (request,) = [entry for entry in turn.pack if entry.kind == "request"]
    assert request.tokens == counter.at_most(PER_LINE + counter.count("One two three."))
    assert turn.report.budget["reply"] == 77


def test_reply_limits_leave_space_for_the_trailer(home: Path) -> None:
    service = Service()
    ask(wrapped(service, home, snapshot_reserve=500), most_words=77)
    assert service.requests[0]["most_words"] == 577


def test_redaction_finds_texts_and_leaves_structure(home: Path) -> None:
    service = Service()
    ask(
        wrapped(service, home, redaction=ctxwrap.Redaction()),
        f"It is {SECRET}.",
        brief=SECRET,
        visitor=SECRET,
        seal=SEAL,
    )
    (sent,) = service.requests
    assert SECRET not in json.dumps(sent)
    assert "It is [redacted" in sent["lines"][0]["words"]
    assert sent["visitor"].startswith("redacted_")
    assert sent["seal"] == SEAL
    assert SECRET not in "".join(path.read_text() for path in home.rglob("*") if path.is_file())


def test_a_request_that_is_too_long_is_sent_again_smaller(home: Path) -> None:
    service = Service()
    client = wrapped(service, home)
    for number in range(12):
        ask(client, f"Letter {number}: " + "and so on, " * 40)
    service.capacity = len(json.dumps(service.requests[-1])) // 4 - 300
    answer = ask(client, "What did the last letter say?")
    turn = ctxwrap.turn_of(answer)
    assert answer["answer"] == HELLO
    assert turn is not None
    assert turn.report.repacked
    assert len(service.requests[-1]["lines"]) < len(service.requests[-2]["lines"])


def test_a_missing_snapshot_is_asked_for_again(home: Path) -> None:
    service = Service(forgets_once=True)
    turn = ctxwrap.turn_of(ask(wrapped(service, home, on_missing="reask", snapshot_reserve=500)))
    assert turn is not None
    assert [turn.report.reasks, turn.report.reading] == [1, "repaired"]
    assert [line["speaker"] for line in service.requests[1]["lines"]] == ["human", "engine", "human"]
    assert service.requests[1]["most_words"] == 500


def test_a_cache_key_is_sent_where_settings_ask_for_it(home: Path) -> None:
    service = Service()
    ask(wrapped(service, home))
    ask(wrapped(service, home, cache_key=True))
    assert "shelf" not in service.requests[0]
    assert service.requests[1]["shelf"].startswith("ctxwrap-")


def test_preview_shows_the_request(home: Path) -> None:
    service = Service()
    view = ctxwrap.preview(wrapped(service, home), engine="parley-1", lines=[human("Good morning.")])
    assert view.body["lines"][0]["words"].startswith("Good morning.")
    assert asks_for_trailer(view.body["brief"])
    assert service.requests == []


def test_spans_name_the_provider(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    ask(wrapped(Service(), home))
    (span,) = [each for each in exporter.get_finished_spans() if each.name == "create_memory"]
    assert (span.attributes or {})["gen_ai.provider.name"] == "parley"


def test_usage_is_in_the_log_in_a_known_spelling(home: Path) -> None:
    ask(wrapped(Service(), home))
    (done,) = [event for event in events(home, "s") if event["type"] == "done"]
    assert done["usage"] == {"input_tokens": 40, "output_tokens": 4}
