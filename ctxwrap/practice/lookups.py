"""The requests that no model answers: stored turns, models, counts and embeddings."""

import base64
import struct
from collections.abc import Iterator
from dataclasses import replace

from ctxwrap.practice.answer import JSON, Failure
from ctxwrap.practice.apis import DIALECTS, Event
from ctxwrap.practice.apis.chat import stored_messages
from ctxwrap.practice.apis.responses import input_items
from ctxwrap.practice.ask import Seen
from ctxwrap.practice.reply import Refused, Reply, Stream, body_of, listing, query_of, speaks_anthropic
from ctxwrap.practice.shelf import Shelf
from ctxwrap.practice.usage import tokens_in

MODEL = "practice"
_VECTOR = (0.25, 0.5, -0.25, 0.75, -0.5, 0.125, 0.0, 1.0)


def stored_response(shelf: Shelf, seen: Seen, id: str) -> Reply | Stream:
    turn = shelf.get("responses", id)
    calm = replace(turn, answer=turn.answer.calm())
    query = query_of(seen)
    if query.get("stream") != "true":
        return Reply(DIALECTS["responses"].complete(calm))
    after = query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal():
        raise Refused(Failure(400, "Invalid 'starting_after'.", param="starting_after"))
    return Stream(_later(DIALECTS["responses"].events(calm), int(after)))


def _later(events: Iterator[Event], after: int) -> Iterator[Event]:
    return (event for number, event in enumerate(events) if number > after)


def response_input(shelf: Shelf, seen: Seen, id: str) -> Reply:
    items = input_items(shelf.get("responses", id))
    return Reply(listing(items if query_of(seen).get("order") == "asc" else items[::-1]))


def delete_response(shelf: Shelf, seen: Seen, id: str) -> Reply:
    shelf.drop("responses", id)
    return Reply({"id": id, "object": "response", "deleted": True})


def stored_chat(shelf: Shelf, seen: Seen, id: str) -> Reply:
    turn = shelf.get("chat", id)
    return Reply(DIALECTS["chat"].complete(turn) | {"metadata": turn.ask.body.get("metadata") or {}})


def stored_chats(shelf: Shelf, seen: Seen) -> Reply:
    return Reply(listing([DIALECTS["chat"].complete(turn) for turn in shelf.all("chat")]))


def chat_messages(shelf: Shelf, seen: Seen, id: str) -> Reply:
    return Reply(listing(stored_messages(shelf.get("chat", id))))


def delete_chat(shelf: Shelf, seen: Seen, id: str) -> Reply:
    shelf.drop("chat", id)
    return Reply({"id": id, "object": "chat.completion.deleted", "deleted": True})


def models(shelf: Shelf, seen: Seen) -> Reply:
    return Reply(listing([_model(seen, MODEL)]))


def model(shelf: Shelf, seen: Seen, id: str) -> Reply:
    return Reply(_model(seen, id))


def _model(seen: Seen, id: str) -> JSON:
    if speaks_anthropic(seen):
        created = "2026-01-01T00:00:00Z"
        return {
            "type": "model",
            "id": id,
            "display_name": "ctxwrap's practice model",
            "created_at": created,
            "lifecycle": "active",
        }
    return {"id": id, "object": "model", "created": 1767225600, "owned_by": "ctxwrap"}


def embeddings(shelf: Shelf, seen: Seen) -> Reply:
    body = body_of(seen)
    given = body.get("input", "")
    texts = given if isinstance(given, list) else [given]
    vector = _vector(body.get("encoding_format"))
    count = sum(tokens_in(str(text)) for text in texts)
    return Reply(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": index, "embedding": vector} for index in range(len(texts))],
            "model": str(body.get("model") or MODEL),
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


def _vector(encoding: object) -> str | list[float]:
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{len(_VECTOR)}f", *_VECTOR)).decode()
    return list(_VECTOR)
