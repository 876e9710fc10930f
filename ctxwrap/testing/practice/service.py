"""What the practice provider does with a request, from its bytes to a reply."""

import base64
import json
import re
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote, urlsplit

from ctxwrap.testing.practice.answer import JSON, Answer, Failure
from ctxwrap.testing.practice.apis import DIALECTS, PracticeTurn, StreamEvent
from ctxwrap.testing.practice.apis.chat import stored_messages
from ctxwrap.testing.practice.apis.responses import input_items, output
from ctxwrap.testing.practice.requests import Answering, ApiName, Ask, RecordedRequest
from ctxwrap.testing.practice.usage import PromptCache, input_tokens, tokens_in

_PREFIX = re.compile(r"(?:/openai/deployments/[^/]+|/openai/v1|/openai|/v1)(?=/)")


@dataclass(frozen=True, slots=True)
class JsonReply:
    """One whole JSON body."""

    body: JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


@dataclass(frozen=True, slots=True)
class EventReply:
    """Events, made while they are sent."""

    events: Iterator[StreamEvent]
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


class Refused(Exception):
    """The request gets `failure` instead of an answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def path_of(seen: RecordedRequest) -> str:
    """The path without what comes before an API's own: a version, or an Azure deployment."""
    return unquote(_PREFIX.sub("", urlsplit(seen.path).path, count=1))


def query_of(seen: RecordedRequest) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(seen.path).query).items()}


def body_of(seen: RecordedRequest) -> JSON:
    try:
        body = json.loads(seen.body)
    except (ValueError, RecursionError):
        raise Refused(Failure(400, "We could not parse the JSON body of your request.")) from None
    if not isinstance(body, dict):
        raise Refused(Failure(400, "The body of your request must be a JSON object."))
    return body


def speaks_anthropic(seen: RecordedRequest) -> bool:
    return "anthropic-version" in seen.headers or path_of(seen).startswith("/messages")


def listing(items: list[JSON]) -> JSON:
    """One page that holds all there is."""
    first, last = (items[0].get("id"), items[-1].get("id")) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}


_CAPACITY = 1000


class StoredTurns:
    """Holds the newest turns by the API and the id under which they were answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, str], PracticeTurn] = {}

    def keep(self, turn: PracticeTurn) -> None:
        """Store what the API would store; called before anything is sent, for clients that ask at once."""
        if not _is_stored(turn):
            return
        with self._lock:
            self._turns[turn.ask.api, _id(turn)] = turn
            if len(self._turns) > _CAPACITY:
                del self._turns[next(iter(self._turns))]

    def find(self, api: str, id: str) -> PracticeTurn | None:
        with self._lock:
            return self._turns.get((api, id))

    def get(self, api: str, id: str) -> PracticeTurn:
        turn = self.find(api, id)
        if turn is None:
            what = "Response" if api == "responses" else "Chat completion"
            raise Refused(Failure(404, f"{what} with id '{id}' not found."))
        return turn

    def all(self, api: str) -> list[PracticeTurn]:
        with self._lock:
            return [turn for (kind, _), turn in self._turns.items() if kind == api]

    def drop(self, api: str, id: str) -> None:
        self.get(api, id)
        with self._lock:
            self._turns.pop((api, id), None)


def _id(turn: PracticeTurn) -> str:
    return turn.id("chatcmpl-" if turn.ask.api == "chat" else "resp_")


def _is_stored(turn: PracticeTurn) -> bool:
    """Responses are stored unless the request says no, chats only when it says yes, broken streams never."""
    if turn.ask.stream and turn.answer.error_after is not None:
        return False
    store = turn.ask.body.get("store")
    return store is not False if turn.ask.api == "responses" else turn.ask.api == "chat" and store is True


MODEL = "practice"
_VECTOR = (0.25, 0.5, -0.25, 0.75, -0.5, 0.125, 0.0, 1.0)


def stored_response(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply | EventReply:
    turn = shelf.get("responses", id)
    calm = replace(turn, answer=turn.answer.calm())
    query = query_of(seen)
    if query.get("stream") != "true":
        return JsonReply(DIALECTS["responses"].complete(calm))
    after = query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal():
        raise Refused(Failure(400, "Invalid 'starting_after'.", param="starting_after"))
    return EventReply(_later(DIALECTS["responses"].events(calm), int(after)))


def _later(events: Iterator[StreamEvent], after: int) -> Iterator[StreamEvent]:
    return (event for number, event in enumerate(events) if number > after)


def response_input(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    items = input_items(shelf.get("responses", id))
    return JsonReply(listing(items if query_of(seen).get("order") == "asc" else items[::-1]))


def delete_response(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    shelf.drop("responses", id)
    return JsonReply({"id": id, "object": "response", "deleted": True})


def stored_chat(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    turn = shelf.get("chat", id)
    return JsonReply(DIALECTS["chat"].complete(turn) | {"metadata": turn.ask.body.get("metadata") or {}})


def stored_chats(shelf: StoredTurns, seen: RecordedRequest) -> JsonReply:
    return JsonReply(listing([DIALECTS["chat"].complete(turn) for turn in shelf.all("chat")]))


def chat_messages(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    return JsonReply(listing(stored_messages(shelf.get("chat", id))))


def delete_chat(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    shelf.drop("chat", id)
    return JsonReply({"id": id, "object": "chat.completion.deleted", "deleted": True})


def models(shelf: StoredTurns, seen: RecordedRequest) -> JsonReply:
    return JsonReply(listing([_model(seen, MODEL)]))


def model(shelf: StoredTurns, seen: RecordedRequest, id: str) -> JsonReply:
    return JsonReply(_model(seen, id))


def _model(seen: RecordedRequest, id: str) -> JSON:
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


def embeddings(shelf: StoredTurns, seen: RecordedRequest) -> JsonReply:
    body = body_of(seen)
    given = body.get("input", "")
    texts = given if isinstance(given, list) else [given]
    vector = _vector(body.get("encoding_format"))
    count = sum(tokens_in(str(text)) for text in texts)
    return JsonReply(
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


_GENERATING: dict[str, ApiName] = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/responses": "responses",
    "/messages": "messages",
}
_COUNTING: dict[str, ApiName] = {"/messages/count_tokens": "messages", "/responses/input_tokens": "responses"}
_REQUIRED = {"chat": "messages", "completions": "prompt", "responses": None, "messages": "messages"}

# a lookup takes the shelf, the request, and what the groups of its pattern found
_LOOKUPS: tuple[tuple[str, str, Callable[..., JsonReply | EventReply]], ...] = (
    ("GET", "/responses/([^/]+)", stored_response),
    ("GET", "/responses/([^/]+)/input_items", response_input),
    ("DELETE", "/responses/([^/]+)", delete_response),
    ("GET", "/chat/completions", stored_chats),
    ("GET", "/chat/completions/([^/]+)", stored_chat),
    ("GET", "/chat/completions/([^/]+)/messages", chat_messages),
    ("DELETE", "/chat/completions/([^/]+)", delete_chat),
    ("GET", "/models", models),
    ("GET", "/models/(.+)", model),
    ("POST", "/embeddings", embeddings),
)


class Service:
    """Finds the reply to each request, and remembers the turns that the API stores."""

    def __init__(self, answer: Answering, clock: Callable[[], float]) -> None:
        self._answer = answer
        self._clock = clock
        self._shelf = StoredTurns()
        self._cache = PromptCache()
        self._lock = threading.Lock()
        self._requests = 0

    def reply(self, seen: RecordedRequest) -> JsonReply | EventReply:
        number = self._next_number()
        path = path_of(seen)
        try:
            if seen.method == "POST" and path in _GENERATING:
                return self._generate(seen, number, _GENERATING[path])
            if seen.method == "POST" and path in _COUNTING:
                return self._count(seen, _COUNTING[path])
            return self._look_up(seen, path)
        except Refused as refused:
            return _fail(seen, refused.failure, number)

    def refuse(self, seen: RecordedRequest, failure: Failure) -> JsonReply:
        """The reply to a request whose body could not be read."""
        return _fail(seen, failure, self._next_number())

    def _next_number(self) -> int:
        with self._lock:
            self._requests += 1
            return self._requests

    def _generate(self, seen: RecordedRequest, number: int, api: ApiName) -> JsonReply | EventReply:
        ask = self._ask(seen, api)
        answer = self._ask_model(ask)
        if isinstance(answer, Failure):
            return _fail(seen, answer, number)
        turn = PracticeTurn(ask, answer, number, int(self._clock()), self._cache.take(ask))
        self._shelf.keep(turn)
        headers = _id_headers(number)
        if ask.stream:
            return EventReply(DIALECTS[api].events(turn), headers, answer.gzip)
        return JsonReply(DIALECTS[api].complete(turn), 200, headers, answer.gzip)

    def _count(self, seen: RecordedRequest, api: ApiName) -> JsonReply:
        counted: JSON = {"input_tokens": input_tokens(self._ask(seen, api))}
        return JsonReply(counted | ({"object": "response.input_tokens"} if api == "responses" else {}))

    def _look_up(self, seen: RecordedRequest, path: str) -> JsonReply | EventReply:
        for method, pattern, lookup in _LOOKUPS:
            if method == seen.method and (found := re.fullmatch(pattern, path)):
                return lookup(self._shelf, seen, *found.groups())
        raise Refused(Failure(404, f"Invalid URL ({seen.method} {seen.path})"))

    def _ask(self, seen: RecordedRequest, api: ApiName) -> Ask:
        body = body_of(seen)
        required = _REQUIRED[api]
        if required is not None and required not in body:
            raise Refused(Failure(400, f"Missing required parameter: '{required}'.", param=required))
        return Ask(api, body, seen.path, seen.headers, self._earlier(api, body))

    def _ask_model(self, ask: Ask) -> Answer | Failure:
        try:
            return self._answer(ask)
        except Exception as error:  # what a test's own function raises must reach the test, not end a thread
            return Failure(500, f"the answer function raised {type(error).__name__}: {error}")

    def _earlier(self, api: ApiName, body: JSON) -> tuple[JSON, ...]:
        previous = body.get("previous_response_id")
        if api != "responses" or previous is None:
            return ()
        turn = self._shelf.find("responses", str(previous))
        if turn is None:
            message = f"Previous response with id '{previous}' not found."
            code = "previous_response_not_found"
            raise Refused(Failure(400, message, param="previous_response_id", code=code))
        return (*input_items(turn), *output(turn))


def _fail(seen: RecordedRequest, failure: Failure, number: int) -> JsonReply:
    if failure.hang is not None:
        failure.hang()
    headers = _id_headers(number)
    spell = DIALECTS["messages" if speaks_anthropic(seen) else "chat"].failure
    return JsonReply(spell(failure, headers["request-id"]), failure.status, headers | dict(failure.headers))


def _id_headers(number: int) -> dict[str, str]:
    """The request's id, under OpenAI's name and under Anthropic's."""
    id = f"req_practice-{number:06d}"
    return {"x-request-id": id, "request-id": id}
