"""Ways to put a question to a model about a long conversation: ctxwrap, full resend, the last messages, mem0."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import openai
from conversations import Conversation, Question, Said
from end_to_end import Past

import ctxwrap
from ctxwrap.providers.anthropic import MESSAGES
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.files.store import FileStore
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.models import price_of
from ctxwrap.tokens.reported_usage import Usage, usage_in
from ctxwrap.types import Body, Message, SessionKey

SYSTEM = (
    "Answer the user's last message from what was said in this conversation, as briefly as the question allows. "
    "If it was not said, answer: I don't know. Now it is {now:%A, %d %B %Y, %H:%M}."
)
_SESSION = SessionKey("default", "default", "conversation")
_REPLY = 4096
"""The limit of a reply, which Anthropic requires."""
_RETRIES = 5


class Call(NamedTuple):
    """One request of any kind, and the usage that the provider reported."""

    body: Body
    usage: Usage

    @property
    def cost(self) -> float | None:
        """In US dollars; None if the price or the usage is unknown."""
        price, usage = price_of(str(self.body.get("model"))), self.usage
        if price is None or usage.tokens_in is None:
            return None
        cached, written = usage.cached or 0, usage.written or 0
        fresh = usage.tokens_in - cached - written
        taken = fresh * price.input + cached * price.cached + written * price.written
        return taken + (usage.tokens_out or 0) * price.output


class Model:
    """A model behind OpenAI's or Anthropic's API; `calls` has every request that its client sent."""

    def __init__(self, name: str, api: str, base_url: str | None, key: str, embedder: str = "") -> None:
        self.name, self.api, self.embedder, self.calls = name, api, embedder, list[Call]()
        module: Any = anthropic if api == "anthropic" else openai
        http = module.DefaultHttpxClient(event_hooks={"response": [self._record]})
        make = module.Anthropic if api == "anthropic" else module.OpenAI
        self.client: Any = make(base_url=base_url, api_key=key, http_client=http, max_retries=_RETRIES)
        self._measure, self._adapter = Measure(name), MESSAGES if api == "anthropic" else CHAT

    def _record(self, response: Any) -> None:
        response.read()
        if response.is_success:
            self.calls.append(Call(json.loads(response.request.content), usage_in(response.json().get("usage"))))

    def taken(self) -> list[Call]:
        """The calls since the last time."""
        taken, self.calls = self.calls, []
        return taken

    def tokens(self, body: Body) -> int:
        return self._measure.body(self._adapter.request_tokens, body)

    def answer(self, system: str, messages: Sequence[Body], client: Any = None) -> str:
        """The model's reply, through `client` if it is a wrapped one."""
        client = client or self.client
        if self.api == "anthropic":
            reply = client.messages.create(model=self.name, max_tokens=_REPLY, system=system, messages=list(messages))
            return "".join(block.text for block in reply.content if block.type == "text")
        head = {"role": "system", "content": system}
        reply = client.chat.completions.create(model=self.name, messages=[head, *messages])
        return reply.choices[0].message.content or ""


Ask = Callable[[], str]
"""Puts one question to the model; its time counts."""


class Way:
    """One way, for one conversation; what it sends in the constructor is counted as preparation."""

    shows_messages = True
    """Whether a request has messages as they were said, so that evidence can be found in it."""

    def __init__(self, model: Model, conversation: Conversation, folder: Path, setting: int) -> None:
        self.model, self.said = model, conversation.said

    def question(self, question: Question) -> Ask:
        raise NotImplementedError

    def close(self) -> None:
        """Called after the last question."""


class Resend(Way):
    """The last `setting` messages with the question, or all; each with its date and speaker."""

    def __init__(self, model: Model, conversation: Conversation, folder: Path, setting: int) -> None:
        super().__init__(model, conversation, folder, setting)
        kept = self.said[max(0, len(self.said) - setting + 1) :] if setting else self.said
        self._messages: list[Body] = [{"role": each.role, "content": dated(each)} for each in kept]
        if kept and model.api == "anthropic":  # whose cache has to be asked for
            part = {"type": "text", "text": dated(kept[-1]), "cache_control": {"type": "ephemeral"}}
            self._messages[-1]["content"] = [part]
        if kept and kept[0].role != "user":  # some APIs want the user to begin
            self._messages.insert(0, {"role": "user", "content": "(You begin.)"})

    def question(self, question: Question) -> Ask:
        messages = [*self._messages, {"role": "user", "content": question.text}]
        return lambda: self.model.answer(_system(question.asked_at), messages)


class Wrapped(Way):
    """A wrapped client with a budget of `setting` tokens, or the default; memory is empty, the log has all messages.

    Each question is asked in a copy of the session, so that no question sees another.
    """

    def __init__(self, model: Model, conversation: Conversation, folder: Path, setting: int) -> None:
        super().__init__(model, conversation, folder, setting)
        self._folder, self._asked, self._settings = folder, 0, {"budget": setting} if setting else {}
        shutil.rmtree(folder, ignore_errors=True)
        session = Session(_SESSION, FileStore(folder / "log").open(_SESSION), derives=False)
        past, turn = Past(session, model=model.name), list[Message]()
        for at, each in enumerate(self.said):
            turn.append(Message(each.role, each.text, name=each.name))
            if each.role == "assistant" and (at + 1 == len(self.said) or self.said[at + 1].role == "user"):
                past.write(turn, each.time)
                turn = []
        if turn:
            past.write(turn, self.said[-1].time)
        session.search("index", 1)
        session.catch_up()

    def question(self, question: Question) -> Ask:
        self._asked += 1
        store = self._folder / str(self._asked)
        shutil.copytree(self._folder / "log", store)
        settings = Settings(**self._settings, clock=question.asked_at)  # type: ignore[arg-type]
        client = ctxwrap.wrap(self.model.client, session=_SESSION.session, store=store, settings=settings)
        messages = [{"role": "user", "content": question.text}]
        return lambda: self.model.answer(_system(question.asked_at), messages, client)

    def close(self) -> None:
        ctxwrap.flush()
        shutil.rmtree(self._folder, ignore_errors=True)


class Mem0(Way):
    """mem0 as a library: it extracts memories from each day's messages, and a request has those that it finds.

    Its memories stay in `folder`, so that a second run need not pay for them again.
    """

    shows_messages = False

    def __init__(self, model: Model, conversation: Conversation, folder: Path, setting: int) -> None:
        super().__init__(model, conversation, folder, setting)
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder.parent / "mem0")}
        from mem0 import Memory  # type: ignore[import-not-found, unused-ignore]

        probe = model.client.embeddings.create(model=model.embedder, input=["size"], encoding_format="float")
        key = {"api_key": model.client.api_key}
        where = {"path": str(folder / "vectors"), "on_disk": True, "embedding_model_dims": len(probe.data[0].embedding)}
        is_new = not (folder / "whole").exists()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        self._memory = Memory.from_config(
            {
                "llm": {"provider": "openai", "config": {"model": model.name, **key}},
                "embedder": {"provider": "openai", "config": {"model": model.embedder, **key}},
                "vector_store": {"provider": "qdrant", "config": where},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.llm.client = self._memory.embedding_model.client = model.client
        if is_new:
            for messages in _by_day(self.said):
                said = [{"role": each.role, "content": dated(each)} for each in messages]
                self._memory.add(said, user_id=_SESSION.session)
            (folder / "whole").touch()

    def question(self, question: Question) -> Ask:
        def ask() -> str:
            found = self._memory.search(question.text, filters={"user_id": _SESSION.session})["results"]
            memories = "\n".join(f"- {each['memory']}" for each in found)
            system = f"{_system(question.asked_at)}\n\nWhat you remember of the conversation:\n{memories}"
            return self.model.answer(system, [{"role": "user", "content": question.text}])

        return ask

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()


def _by_day(said: Sequence[Said]) -> list[list[Said]]:
    days: dict[str, list[Said]] = {}
    for each in said:
        days.setdefault(f"{each.time:%Y-%m-%d}", []).append(each)
    return list(days.values())


def _system(now: datetime) -> str:
    return SYSTEM.format(now=now)


def dated(said: Said) -> str:
    return f"[{said.time:%Y-%m-%d %H:%M}] {said.name}{': ' if said.name else ''}{said.text}"


_WAYS: dict[str, type[Way]] = {"ctxwrap": Wrapped, "last": Resend, "everything": Resend, "mem0": Mem0}
_SPEC = re.compile(r"ctxwrap(?::[1-9]\d*)?|last:[1-9]\d*|everything|mem0")


def named(spec: str) -> Callable[[Model, Conversation, Path], Way]:
    """The way that `spec` names, such as `ctxwrap:4000`, `last:20`, `everything` or `mem0`. Raises ValueError."""
    if not _SPEC.fullmatch(spec):
        raise ValueError(f"{spec!r} is no way: use ctxwrap, ctxwrap:TOKENS, last:MESSAGES, everything or mem0")
    if spec == "mem0" and find_spec("mem0") is None:
        raise ValueError("mem0 is not installed: pip install mem0ai, or leave it out")
    name, _, number = spec.partition(":")
    return lambda model, conversation, folder: _WAYS[name](model, conversation, folder, int(number or 0))
