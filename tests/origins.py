"""Conversations over every API, whole and streamed, without a network, with a model that a test makes up."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from zlib import crc32

from ctxwrap.session.child_sessions import attach_result, start_child
from ctxwrap.session.lookup import key_for, open_existing
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice.answer import Answer
from ctxwrap.testing.practice.requests import Ask
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.sync import Call, begin
from ctxwrap.types import Body, TurnRecord
from tests.providers.replies import SPEAKERS, Speaker
from tests.support import state_shown

APIS = {speaker.api: speaker for speaker in SPEAKERS if speaker.api != "completions"}
KEY = key_for("s")

Said = list[Body]
Model = Callable[[Ask], dict[str, Any]]
"""What it changes of the state that it is shown; under `answer`, what it says."""


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def tool_used(api: str, output: str, id: str = "c-1") -> Said:
    """A call of a tool and what it gave."""
    if api == "responses":
        call = {"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"}
        return [call, {"type": "function_call_output", "call_id": id, "output": output}]
    if api == "messages":
        call = {"type": "tool_use", "id": id, "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": id, "content": output}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    call = {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": output},
    ]


def with_document(api: str, text: str, document: str) -> Body:
    """What a user says with a document beside it."""
    if api == "responses":
        parts: Said = [{"type": "input_file", "filename": "a.txt", "file_data": document}]
        return {"role": "user", "content": [*parts, {"type": "input_text", "text": text}]}
    source = {"type": "text", "media_type": "text/plain", "data": document}
    file = {"type": "file", "file": {"filename": "a.txt", "file_data": document}}
    parts = [{"type": "document", "source": source} if api == "messages" else file]
    return {"role": "user", "content": [*parts, {"type": "text", "text": text}]}


FETCHED: dict[str, dict[str, list[Body]]] = {
    "chat": {
        "annotations": [{"annotations": [{"type": "url_citation", "url_citation": {"url": "http://x", "title": "t"}}]}],
        "litellm": [{"provider_specific_fields": {"citations": [["http://x"]]}}],
        "executed": [{"executed_tools": [{"type": "search", "output": "o"}]}],
    },
    "responses": {
        "web search": [{"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search"}}],
        "file search": [{"type": "file_search_call", "id": "f", "status": "completed", "queries": [], "results": []}],
        "mcp": [{"type": "mcp_call", "id": "m", "server_label": "x", "name": "n", "arguments": "{}", "output": "o"}],
        "mcp tools": [{"type": "mcp_list_tools", "id": "m", "server_label": "x", "tools": []}],
        "code": [{"type": "code_interpreter_call", "id": "c", "status": "completed", "code": "1", "outputs": []}],
        "unheard of": [{"type": "oracle_call", "id": "o"}],
    },
    "messages": {
        "web search": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ],
        "web fetch": [{"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {"type": "web_fetch_result"}}],
        "mcp": [{"type": "mcp_tool_use", "id": "m", "name": "n", "server_name": "x", "input": {}}],
        "code": [{"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {}}],
        "citation": [{"type": "text", "text": "so", "citations": [{"type": "web_search_result_location"}]}],
        "unheard of": [{"type": "oracle_tool_result", "tool_use_id": "s"}],
    },
}
"""For each API what a reply shows of tools that the provider ran for it."""


def fetched_whole(api: str, payload: Body, shown: Sequence[Body]) -> Body:
    if api == "chat":
        payload["choices"][0]["message"] |= shown[0]
    else:
        name = "output" if api == "responses" else "content"
        payload[name] = [*shown, *payload[name]]
    return payload


def fetched_events(api: str, events: list[Body], shown: Sequence[Body]) -> list[Body]:
    """The same in a stream, before the text."""
    if api == "chat":
        chunk = {**events[0], "choices": [{"index": 0, "delta": dict(shown[0]), "finish_reason": None}]}
        return [*events[:1], chunk, *events[1:]]
    index, first = ("output_index", 2) if api == "responses" else ("index", 1)
    later = [{**event, index: event[index] + len(shown)} if index in event else event for event in events]
    if api == "responses":
        later[-1] = {**later[-1], "response": fetched_whole(api, dict(later[-1]["response"]), shown)}
        told = [({"type": f"response.output_item.{what}"}, "item") for what in ("added", "done")]
    else:
        told = [({"type": "content_block_start"}, "content_block"), ({"type": "content_block_stop"}, "")]
    new = [{**event, index: at, name: each} for at, each in enumerate(shown) for event, name in told]
    return [*later[:first], *new, *later[first:]]


class Chat:
    """One session; what was said is kept as a caller's own list would be."""

    def __init__(self, speaker: Speaker, *, streamed: bool = False, **settings: Any) -> None:
        self.speaker, self.api, self.streamed = speaker, speaker.api, streamed
        self.store = MemoryStore()
        self._context = ClientBinding(store=self.store, settings=Settings(**settings))
        self.list: Said = []
        self.seen = ""
        """All that the newest request showed."""

    def ask(
        self, *said: Body, model: Model, fetched: Sequence[Body] = (), mode: Mode = "enabled", resend: bool = False
    ) -> TurnRecord:
        self.list += said
        given = self.list if resend else list(said)
        body: Body = {"model": "m", "max_tokens": 900, "input" if self.api == "responses" else "messages": given}
        if self.api == "responses":
            body["max_output_tokens"] = body.pop("max_tokens")
        body = json.loads(json.dumps({**body, "stream": True} if self.streamed else body))
        call = begin(self._context, self.speaker.adapter, lambda: body, CallScope(KEY, mode), _nobody)
        assert isinstance(call, Call), call.record.report.error
        asked = Ask(self.api, call.body, "/", {})
        self.seen = "\n".join(asked.prompt)
        changes = dict(model(asked))
        text = changes.pop("answer", "Yes.")
        if mode == "enabled":
            shown = state_shown(asked)
            state = {**shown, "memory": {"core": [], "working": [], "ephemeral": []}, **changes}
            state = {name: value for name, value in state.items() if name not in ("unchanged", "dropped")}
            self._answer(call, f"{text}\n\n<<<CONTEXT>>>\n{json.dumps(state)}", fetched)
        else:
            self._answer(call, text, fetched)
        self.list.append(assistant(text))
        record = call.record
        assert (record.report.status, record.report.error) == ("complete", "")
        assert mode != "enabled" or record.report.reading == "clean"
        return record

    def _answer(self, call: Call, text: str, fetched: Sequence[Body]) -> None:
        answer = Answer(text)
        if not self.streamed:
            payload = self.speaker.whole(answer)
            call.reply(fetched_whole(self.api, payload, fetched) if fetched else payload)
            return
        events = self.speaker.events(answer)
        for event in fetched_events(self.api, events, fetched) if fetched else events:
            call.event(event)
        call.end()

    def child(self, name: str, result: str) -> None:
        start_child("s", name, handoff="Look.", store=self.store)
        attach_result("s", name, result=result, store=self.store)

    @property
    def items(self) -> list[tuple[str, str, str, str]]:
        """What is remembered: tier, origin, content, and all that an item says."""
        memory = open_existing(KEY, self.store).state.memory
        return [(each.tier, each.origin, each.content, json.dumps(each.shown(0.0))) for each in memory.items.values()]

    @property
    def core(self) -> list[tuple[str, str]]:
        return [(origin, content) for tier, origin, content, _ in self.items if tier == "core"]


def fact(content: str, id: str = "", **more: Any) -> dict[str, Any]:
    id = id or f"fact-{crc32(content.encode())}"
    return {"id": id, "type": "fact", "decay": 0.1, "round": 1, "tags": [], "content": content, **more}


def writing(*core: str, working: Iterable[str] = (), **more: Any) -> Model:
    """A model that remembers these, whatever it is shown."""
    memory = {"core": [fact(each) for each in core], "working": [fact(each) for each in working], "ephemeral": []}
    return lambda asked: {"memory": memory, **more}


def _nobody(body: Body) -> Body:
    raise AssertionError("nothing is asked for again")
