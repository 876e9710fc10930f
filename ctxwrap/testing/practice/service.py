"""Routes of the practice provider: from a recorded request to a reply."""

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
    """A complete JSON reply."""

    body: JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


@dataclass(frozen=True, slots=True)
class EventReply:
    """A stream of events, created while they are sent."""

    events: Iterator[StreamEvent]
    headers: Mapping[str, str] = field(default_factory=dict)
    gzip: bool = False


class Refused(Exception):
    """Raised to reply with `failure`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def path_of(request: RecordedRequest) -> str:
    """Return the path without a prefix such as a version or an Azure deployment."""
    return unquote(_PREFIX.sub("", urlsplit(request.path).path, count=1))


def query_of(request: RecordedRequest) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(request.path).query).items()}


def body_of(request: RecordedRequest) -> JSON:
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        raise Refused(Failure(400, "We could not parse the JSON body of your request.")) from None
    if not isinstance(body, dict):
        raise Refused(Failure(400, "The body of your request must be a JSON object."))
    return body


def speaks_anthropic(request: RecordedRequest) -> bool:
    return "anthropic-version" in request.headers or path_of(request).startswith("/messages")


def listing(items: list[JSON]) -> JSON:
    """Return all items as one page."""
    first, last = (items[0].get("id"), items[-1].get("id")) if items else (None, None)
    return {"object": "list", "data": items, "first_id": first, "last_id": last, "has_more": False}


_CAPACITY = 1000


class StoredTurns:
    """The newest stored turns, by API and id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, str], PracticeTurn] = {}

    def add(self, turn: PracticeTurn) -> None:
        """Store the turn if the API would, before the reply is sent: clients may fetch it at once."""
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
    """Responses are stored unless the request declines, chats only if it asks for it, broken streams never."""
    if turn.ask.stream and turn.answer.error_after is not None:
        return False
    store = turn.ask.body.get("store")
    return store is not False if turn.ask.api == "responses" else turn.ask.api == "chat" and store is True


MODEL = "practice"
_VECTOR = (0.25, 0.5, -0.25, 0.75, -0.5, 0.125, 0.0, 1.0)


def stored_response(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply | EventReply:
    turn = stored.get("responses", id)
    undisturbed = replace(turn, answer=turn.answer.undisturbed())
    query = query_of(request)
    if query.get("stream") != "true":
        return JsonReply(DIALECTS["responses"].complete(undisturbed))
    after = query.get("starting_after", "-1")
    if not after.removeprefix("-").isdecimal():
        raise Refused(Failure(400, "Invalid 'starting_after'.", param="starting_after"))
    return EventReply(_later(DIALECTS["responses"].events(undisturbed), int(after)))


def _later(events: Iterator[StreamEvent], after: int) -> Iterator[StreamEvent]:
    return (event for number, event in enumerate(events) if number > after)


def response_input(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    items = input_items(stored.get("responses", id))
    return JsonReply(listing(items if query_of(request).get("order") == "asc" else items[::-1]))


def delete_response(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    stored.drop("responses", id)
    return JsonReply({"id": id, "object": "response", "deleted": True})


def stored_chat(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    turn = stored.get("chat", id)
    return JsonReply(DIALECTS["chat"].complete(turn) | {"metadata": turn.ask.body.get("metadata") or {}})


def stored_chats(stored: StoredTurns, request: RecordedRequest) -> JsonReply:
    return JsonReply(listing([DIALECTS["chat"].complete(turn) for turn in stored.all("chat")]))


def chat_messages(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    return JsonReply(listing(stored_messages(stored.get("chat", id))))


def delete_chat(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    stored.drop("chat", id)
    return JsonReply({"id": id, "object": "chat.completion.deleted", "deleted": True})


def models(stored: StoredTurns, request: RecordedRequest) -> JsonReply:
    return JsonReply(listing([_model(request, MODEL)]))


def model(stored: StoredTurns, request: RecordedRequest, id: str) -> JsonReply:
    return JsonReply(_model(request, id))


def _model(request: RecordedRequest, id: str) -> JSON:
    if speaks_anthropic(request):
        created = "2026-01-01T00:00:00Z"
        return {
            "type": "model",
            "id": id,
            "display_name": "ctxwrap's practice model",
            "created_at": created,
            "lifecycle": "active",
        }
    return {"id": id, "object": "model", "created": 1767225600, "owned_by": "ctxwrap"}


def embeddings(stored: StoredTurns, request: RecordedRequest) -> JsonReply:
    body = body_of(request)
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

# a lookup takes the stored turns, the request, and the groups of its pattern
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
    """Replies to each request, and stores turns as the API does."""

    def __init__(self, answer: Answering, clock: Callable[[], float]) -> None:
        self._answer = answer
        self._clock = clock
        self._stored = StoredTurns()
        self._cache = PromptCache()
        self._lock = threading.Lock()
        self._requests = 0

    def reply(self, request: RecordedRequest) -> JsonReply | EventReply:
        number = self._next_number()
        path = path_of(request)
        try:
            if request.method == "POST" and path in _GENERATING:
                return self._generate(request, number, _GENERATING[path])
            if request.method == "POST" and path in _COUNTING:
                return self._count(request, _COUNTING[path])
            return self._look_up(request, path)
        except Refused as refused:
            return _fail(request, refused.failure, number)

    def refuse(self, request: RecordedRequest, failure: Failure) -> JsonReply:
        """Return the reply to a request whose body cannot be read."""
        return _fail(request, failure, self._next_number())

    def _next_number(self) -> int:
        with self._lock:
            self._requests += 1
            return self._requests

    def _generate(self, request: RecordedRequest, number: int, api: ApiName) -> JsonReply | EventReply:
        ask = self._ask(request, api)
        answer = self._ask_model(ask)
        if isinstance(answer, Failure):
            return _fail(request, answer, number)
        turn = PracticeTurn(ask, answer, number, int(self._clock()), self._cache.take(ask))
        self._stored.add(turn)
        headers = _id_headers(number)
        if ask.stream:
            return EventReply(DIALECTS[api].events(turn), headers, answer.gzip)
        return JsonReply(DIALECTS[api].complete(turn), 200, headers, answer.gzip)

    def _count(self, request: RecordedRequest, api: ApiName) -> JsonReply:
        counted: JSON = {"input_tokens": input_tokens(self._ask(request, api))}
        return JsonReply(counted | ({"object": "response.input_tokens"} if api == "responses" else {}))

    def _look_up(self, request: RecordedRequest, path: str) -> JsonReply | EventReply:
        for method, pattern, lookup in _LOOKUPS:
            if method == request.method and (found := re.fullmatch(pattern, path)):
                return lookup(self._stored, request, *found.groups())
        raise Refused(Failure(404, f"Invalid URL ({request.method} {request.path})"))

    def _ask(self, request: RecordedRequest, api: ApiName) -> Ask:
        body = body_of(request)
        required = _REQUIRED[api]
        if required is not None and required not in body:
            raise Refused(Failure(400, f"Missing required parameter: '{required}'.", param=required))
        return Ask(api, body, request.path, request.headers, self._earlier(api, body))

    def _ask_model(self, ask: Ask) -> Answer | Failure:
        try:
            return self._answer(ask)
        except Exception as error:  # an error of a test's function must reach the test, not end a thread
            return Failure(500, f"the answer function raised {type(error).__name__}: {error}")

    def _earlier(self, api: ApiName, body: JSON) -> tuple[JSON, ...]:
        previous = body.get("previous_response_id")
        if api != "responses" or previous is None:
            return ()
        turn = self._stored.find("responses", str(previous))
        if turn is None:
            message = f"Previous response with id '{previous}' not found."
            code = "previous_response_not_found"
            raise Refused(Failure(400, message, param="previous_response_id", code=code))
        return (*input_items(turn), *output(turn))


def _fail(request: RecordedRequest, failure: Failure, number: int) -> JsonReply:
    if failure.hang is not None:
        failure.hang()
    headers = _id_headers(number)
    to_json = DIALECTS["messages" if speaks_anthropic(request) else "chat"].failure
    return JsonReply(to_json(failure, headers["request-id"]), failure.status, headers | dict(failure.headers))


def _id_headers(number: int) -> dict[str, str]:
    """Return the request's id under OpenAI's and Anthropic's header names."""
    id = f"req_practice-{number:06d}"
    return {"x-request-id": id, "request-id": id}
