"""Callers send their list or their newest message, and their processes begin anew: the conversation is the same."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.pack.builder import PackSources
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.memory import MemoryStore
from ctxwrap.testing.practice import Provider
from ctxwrap.testing.practice.answer import Answer, ToolCall
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, SessionKey
from tests.providers.replies import SPEAKERS
from tests.support import Told, examples

KEY = SessionKey("t", "a", "s")
NOW = datetime(2026, 2, 20, 18, 30, tzinfo=UTC)
ROOMY = Settings(budget=10**6, history_tokens=10**6, budget_messages=0)
WORDS = ("Hello", "yes", "ok", "more")

Line = tuple[str, str]


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def calling(id: str) -> Body:
    call = {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(id: str, text: str) -> Body:
    return {"role": "tool", "tool_call_id": id, "content": text}


def lines(messages: Sequence[Body]) -> list[Line]:
    """What a conversation says, without the system prompt and what ctxwrap adds to it."""
    said = [(str(each["role"]), str(each["content"] or "")) for each in messages if each["role"] != "system"]
    return [(role, text.partition("\n\n<ctxwrap-")[0]) for role, text in said]


class Chat:
    """A session that is called without a provider; it tells the conversation of each request."""

    def __init__(self, settings: Settings = ROOMY) -> None:
        self.log, self.settings, self.turns = MemoryStore().open(KEY), settings, 0
        self.begin_anew()

    def begin_anew(self) -> None:
        """Let another process go on."""
        self.session = Session(KEY, self.log, self.settings)

    def opened(self, messages: Sequence[Body]) -> Turn:
        body = {"model": "gpt-4o", "messages": list(messages)}
        request = CHAT.read(body)
        opening = self.session.open_turn(request, NOW)
        sources = PackSources(retrieve=self.session.retrieve)
        return Turn(f"t{self.turns}", KEY, CHAT, body, request, "enabled", opening, self.settings, sources)

    def sent(self, messages: Sequence[Body]) -> list[Line]:
        """The conversation of a request that is not made."""
        with self.session.locked():
            return lines(self.opened(messages).body["messages"])

    def ask(self, messages: Sequence[Body], answer: Answer | None = None) -> list[Line]:
        """One call; without an answer it fails."""
        self.turns += 1
        with self.session.locked():
            turn = self.opened(messages)
            self.session.append(turn.id, *turn.opening_records(), NOW, part="o")
            if answer is not None:
                turn.reader.whole(SPEAKERS[0].whole(answer))
            end = turn.closing_records(self.session.memory, self.session.next_message, "" if answer else "dropped")
            self.session.append(turn.id, *end, NOW, part="c")
        return lines(turn.body["messages"])


class Caller:
    """A program around a chat; `sends` says what of its list goes with a call, and whether that outlives it."""

    def __init__(self, sends: str) -> None:
        self.chat, self.sends = Chat(), sends
        self.list: list[Body] = []
        self.base: list[Line] = []
        """What was said before the list began."""
        self.failed: list[Line] = []
        """What got no answer before it began."""
        self.new = 0
        self.system: list[Body] = []

    @property
    def expected(self) -> list[Line]:
        return [*self.base, *lines(self.list)]

    def call(self, answer: Body | None) -> list[Line]:
        sent = self.list[self.new :] if self.sends == "newest" else self.list
        reply = answer and _as_answer(answer)
        request = self.chat.ask([*self.system, *sent], reply)
        assert request == self.expected
        if answer:
            self.list.append(answer)
            self.new = len(self.list)
        return request

    def restart(self) -> None:
        """The process ends, and its list with it unless that is kept; nobody will have the result of an open call."""
        self.chat.begin_anew()
        if self.sends == "kept list":
            return
        if self.list:
            last = self.list[-1]
            self.failed = lines([last]) if last["role"] == "user" else []
            self.base += lines(self.list[:-1] if "tool_calls" in last else self.list)
        self.list, self.new = [], 0

    def say(self, text: str, answer: Body | None) -> list[Line]:
        if self.failed == [("user", text)] and not self.list:  # the call is tried again
            self.base.pop()
        self.failed = []
        if self.list[-1:] != [user(text)]:
            self.list.append(user(text))
        return self.call(answer)


def _as_answer(message: Body) -> Answer:
    calls = tuple(ToolCall(call["id"], "f") for call in message.get("tool_calls") or ())
    return Answer(message["content"] or "", tool_calls=calls)


class Step(NamedTuple):
    kind: str
    text: str = ""
    answer: str = ""
    back: int = 0

    def taken_by(self, caller: Caller) -> list[Line]:
        match self.kind:
            case "restart":
                caller.restart()
                return []
            case "system":
                caller.system = [{"role": "system", "content": self.text}]
                return []
            case "fail":
                caller.say(self.text, None)
                return caller.call(assistant(self.answer))
            case "die":
                caller.say(self.text, None)
                caller.restart()
                return []
            case "tool" | "die in tool":
                return self._use_tool(caller)
            case "edit" | "again":
                return self._change(caller)
            case _:
                return caller.say(self.text, assistant(self.answer))

    def _use_tool(self, caller: Caller) -> list[Line]:
        caller.say(self.text, calling("c1"))
        if self.kind == "die in tool":
            caller.restart()
            return []
        caller.list.append(result("c1", self.answer))
        return caller.call(assistant(self.answer))

    def _change(self, caller: Caller) -> list[Line]:
        """Say something else in the place of an earlier message, or get another answer to it."""
        asked = [at for at, message in enumerate(caller.list) if message["role"] == "user"][1:]
        if not asked:
            return caller.say(self.text, assistant(self.answer))
        at = asked[-1 - self.back % len(asked)]
        caller.list[at:] = [user(self.text) if self.kind == "edit" else caller.list[at]]
        return caller.call(assistant(f"{self.answer}!" if self.back % 2 else self.answer))


def steps(*kinds: str) -> st.SearchStrategy[list[Step]]:
    words = st.sampled_from(WORDS)
    return st.lists(st.builds(Step, st.sampled_from(kinds), words, words, st.integers(0, 3)), max_size=14)


@examples(120)
@given(steps("say", "say", "tool", "restart", "fail", "die", "die in tool", "system"))
def test_full_list_and_newest_message_callers_send_the_same_request(script: list[Step]) -> None:
    own, newest = Caller("list"), Caller("newest")
    for step in script:
        assert step.taken_by(own) == step.taken_by(newest)
    said = [[record["content"] for record in caller.chat.log.read("messages")[0]] for caller in (own, newest)]
    assert said[0] == said[1], "and the log is the same"


@given(steps("say", "say", "tool", "restart", "fail", "die", "system"))
def test_restarted_process_sends_the_same_request_for_the_same_list(script: list[Step]) -> None:
    kept, newest = Caller("kept list"), Caller("newest")
    for step in script:
        assert step.taken_by(kept) == step.taken_by(newest)


@examples(120)
@given(steps("say", "say", "tool", "restart", "edit", "again", "fail", "die in tool"))
def test_edited_list_becomes_a_branch_after_the_unchanged_messages(script: list[Step]) -> None:
    caller = Caller("list")
    for step in script:
        step.taken_by(caller)
        assert caller.chat.sent([user("And?")]) == [*caller.expected, ("user", "And?")]


def told(*texts: str) -> list[Body]:
    return [assistant(text) if at % 2 else user(text) for at, text in enumerate(texts)]


def chat_of(*texts: str, settings: Settings = ROOMY) -> Chat:
    chat = Chat(settings)
    for at in range(0, len(texts), 2):
        chat.ask([user(texts[at])], Answer(texts[at + 1]))
    chat.begin_anew()
    return chat


def test_partial_list_follows_the_older_log_messages() -> None:
    chat = chat_of("Lisbon", "fine", "900 euros", "noted")
    assert chat.sent(told("900 euros", "noted", "Where were we?")) == lines(
        told("Lisbon", "fine", "900 euros", "noted", "Where were we?")
    )


def test_caller_greeting_does_not_start_another_history() -> None:
    chat = chat_of("Lisbon", "fine")
    greeting = [assistant("How can I help?"), user("Where were we?")]
    whole = [*told("Lisbon", "fine"), *greeting]
    assert chat.ask(greeting, Answer("In Lisbon.")) == lines(whole)
    onward = [assistant("In Lisbon."), user("And then?")]
    assert chat.sent([*greeting, *onward]) == lines([*whole, *onward])


def test_caller_summary_replaces_older_messages() -> None:
    chat = chat_of("Lisbon", "fine", "900 euros", "noted")
    mine = told("We spoke of Lisbon.", "Yes.", "900 euros", "noted", "And?")
    assert chat.sent(mine) == lines(mine)


def test_reply_edited_by_the_caller_keeps_older_messages() -> None:
    chat = chat_of("Lisbon", "fine")
    chat.ask([user("Hello")], Answer("Hi"))
    chat.ask(told("Hello", "Hi", "900 euros"), Answer("noted"))
    mine = told("Hello", "Good morning", "900 euros", "noted", "And?")
    assert chat.sent(mine) == lines([*told("Lisbon", "fine"), *mine])


@pytest.mark.parametrize("adds", [True, False])
def test_caller_history_setting_adds_no_log_messages(adds: bool) -> None:
    chat = chat_of("Lisbon", "fine", settings=Settings(history="log" if adds else "caller"))
    chat.ask([user("Hello")], Answer("Hi"))
    mine = told("Hello", "Hi", "And?")
    assert chat.sent(mine) == lines([*(told("Lisbon", "fine") if adds else []), *mine])


@pytest.mark.parametrize("limits", [{"history_tokens": 1000, "budget_messages": 0}, {}], ids=["tokens", "defaults"])
def test_log_and_caller_list_are_cut_by_the_same_rule(limits: dict[str, int]) -> None:
    """Who sends a list gets the request of who sends the newest message, also where not all of it has room."""
    long = "word " * 300
    own, newest = (
        chat_of(*(f"{long}{at}" for at in range(6)), settings=Settings(budget=20_000, **limits)) for _ in range(2)
    )
    mine: list[Body] = []
    for at in range(24):
        mine.append(user(f"{long} mine {at}"))
        sent = own.ask(mine, Answer("ok"))
        assert sent == newest.ask(mine[-1:], Answer("ok"))
        whole = [*lines(told(*(f"{long}{at}" for at in range(6)))), *lines(mine)]
        assert sent == whole[-len(sent) :], "the newest, in one piece"
        words = sum(len(text.split()) for _, text in sent[:-1])
        assert words <= limits.get("history_tokens", 20 * 301)
        mine.append(assistant("ok"))
    assert 1 < len(sent) < len(mine), "the caller's own list is cut as well"


@pytest.mark.parametrize("words", [500, 3000, 8000])
def test_previous_exchange_is_sent_whatever_its_length(words: int) -> None:
    chat = Chat(Settings())
    mine = told("word " * words, "ok", "What does it say?")
    chat.ask(mine[:1], Answer("ok"))
    assert chat.sent(mine) == chat.sent(mine[-1:]) == lines(mine)


@pytest.mark.parametrize("words", [5, 60, 130])
def test_newest_exchanges_are_sent_whatever_the_memory_size(words: int) -> None:
    """A question such as "And why?" refers to them, so neither memory nor what is found takes their room."""
    chat, said = Chat(Settings()), list[Line]()
    for at in range(40):
        text = f"I like number {at} of the list. " + "word " * words
        item = {"id": f"c-{at}", "type": "fact", "decay": 0.1, "content": f"The user likes number {at} of the list."}
        state = {"memory": {"core": [item], "working": [], "ephemeral": []}}
        sent = chat.ask([user(text)], Answer(f"Answer {at}.\n\n{SEPARATOR}\n{json.dumps(state)}"))
        assert sent[-1 - min(4, len(said)) :] == [*said[-4:], ("user", text)]
        said += [("user", text), ("assistant", f"Answer {at}.")]
    assert len(chat.session.memory.items) > 20


def test_small_budget_cuts_log_and_list_together() -> None:
    chat = chat_of(*(f"word {at} " * 40 for at in range(12)), settings=Settings(budget=3000))
    mine: list[Body] = []
    sizes = list[int]()
    for at in range(30):
        mine.append(user(f"mine {at} " * 40))
        sent = chat.ask(mine, Answer("ok"))
        whole = [*lines(told(*(f"word {at} " * 40 for at in range(12)))), *lines(mine)]
        assert sent == whole[-len(sent) :]
        assert sent[0][0] == "user"
        sizes.append(len(sent) - len(mine))
        mine.append(assistant("ok"))
    assert sizes[0] > 0 > sizes[-1]


def test_new_openai_list_is_preceded_by_the_log(provider: Provider, home: Path) -> None:
    provider.answer = Told("ok")
    for texts in (("Hello", "We plan the Lisbon trip"), ("Hello", "Where were we?", "And then?")):
        bare = openai.OpenAI(api_key="k", base_url=provider.openai_url)
        client, mine = ctxwrap.wrap(bare, store=home, session="s"), list[Any]()
        for text in texts:
            mine.append(user(text))
            client.chat.completions.create(model="gpt-4o", messages=mine)
            mine.append(assistant("ok"))
    said = ("Hello", "ok", "We plan the Lisbon trip", "ok", "Hello", "ok", "Where were we?", "ok", "And then?")
    assert lines(provider.seen[-1].json["messages"]) == lines(told(*said))


def test_new_anthropic_list_is_preceded_by_the_log(provider: Provider, home: Path) -> None:
    provider.answer = Told("ok")
    for texts in (("Hello", "We plan the Lisbon trip"), ("Hello", "Where were we?", "And then?")):
        bare = anthropic.Anthropic(api_key="k", base_url=provider.anthropic_url)
        client, mine = ctxwrap.wrap(bare, store=home, session="s"), list[Any]()
        for text in texts:
            mine.append(user(text))
            client.messages.create(model="m", max_tokens=50, messages=mine)
            mine.append(assistant("ok"))
    sent = provider.seen[-1].json["messages"]
    contents = [each["content"] for each in sent]
    said = [text if isinstance(text, str) else text[0]["text"] for text in contents]
    assert [each["role"] for each in sent] == ["user", "assistant"] * 4 + ["user"]
    assert said == ["Hello", "ok", "We plan the Lisbon trip", "ok", "Hello", "ok", "Where were we?", "ok", "And then?"]
