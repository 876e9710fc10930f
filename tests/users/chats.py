"""Chats of users with a scripted model, and a look at what the model was shown and what is stored."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openai import OpenAI

import ctxwrap
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_trailer, parse_block
from ctxwrap.stores.base import Store
from ctxwrap.testing.practice import Answer, Ask, Provider
from tests.support import state_shown


def core(id: str, content: str, type: str = "fact") -> dict[str, Any]:
    return {"id": id, "type": type, "decay": 0.1, "round": 1, "tags": [], "content": content}


class Script:
    """A model that answers each user's message by what a test scripted for it, else with an empty snapshot."""

    def __init__(self) -> None:
        self.replies: dict[str, dict[str, Any]] = {}
        self.shown: dict[str, dict[str, str]] = {}
        """By the user's message: the contents of all memory items that the model saw, by id."""
        self.requests: dict[str, str] = {}

    def on(
        self,
        said: str,
        core: Sequence[dict[str, Any]] = (),
        working: Sequence[dict[str, Any]] = (),
        dropped: Sequence[str] = (),
    ) -> None:
        self.replies[said] = {"core": list(core), "working": list(working), "dropped": list(dropped)}

    def __call__(self, ask: Ask) -> Answer:
        text = next(text for role, text in reversed(ask.messages) if role == "user")
        said = text.partition("\n")[0]
        self.shown[said] = items_shown(ask)
        self.requests[said] = json.dumps(ask.body, ensure_ascii=False)
        if not asks_for_trailer(ask.system):
            return Answer("Noted.")
        told = self.replies.get(said, {"core": [], "working": [], "dropped": []})
        memory = {"core": told["core"], "working": told["working"], "ephemeral": []}
        state = {**state_shown(ask), "memory": memory, "dropped": told["dropped"]}
        state.pop("unchanged", None)
        return Answer(f"Noted.\n\n{SEPARATOR}\n{json.dumps(state)}")


def items_shown(ask: Ask) -> dict[str, str]:
    """The contents of all memory items in a request, by id: those of the epoch that are unchanged, and the rest."""
    texts = [text for _, text in ask.messages] + [ask.system, json.dumps(ask.body, ensure_ascii=False)]
    state = state_shown(ask)
    epoch = next((found for text in texts if (found := parse_block(text, "memory"))), {})
    brief = {id: content for items in epoch.values() for id, _, content in items}
    shown = {id: brief[id] for id in state.get("unchanged", ()) if id in brief}
    return shown | {item["id"]: item["content"] for items in state["memory"].values() for item in items}


def client(provider: Provider, store: Store | str | Path, **names: Any) -> OpenAI:
    bare = OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
    return ctxwrap.wrap(bare, store=str(store) if isinstance(store, Path) else store, **names)


def say(client: Any, text: str, **how: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}], **how)


def texts_in(directory: Path) -> Iterator[tuple[str, str]]:
    """Every file below a directory as text, with its path."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(directory)), path.read_bytes().decode("utf-8", "replace")
