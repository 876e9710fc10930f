"""What the practice provider does with a request, from its bytes to a reply; no sockets here."""

import re
import threading
from collections.abc import Callable

from ctxwrap.practice import lookups
from ctxwrap.practice.answer import JSON, Answer, Failure
from ctxwrap.practice.apis import DIALECTS, Turn
from ctxwrap.practice.apis.responses import input_items, output
from ctxwrap.practice.ask import Answering, ApiName, Ask, Seen
from ctxwrap.practice.reply import Refused, Reply, Stream, body_of, path_of, speaks_anthropic
from ctxwrap.practice.shelf import Shelf
from ctxwrap.practice.usage import PromptCache, input_tokens

_GENERATING: dict[str, ApiName] = {
    "/chat/completions": "chat",
    "/completions": "completions",
    "/responses": "responses",
    "/messages": "messages",
}
_COUNTING: dict[str, ApiName] = {"/messages/count_tokens": "messages", "/responses/input_tokens": "responses"}
_REQUIRED = {"chat": "messages", "completions": "prompt", "responses": None, "messages": "messages"}

# a lookup takes the shelf, the request, and what the groups of its pattern found
_LOOKUPS: tuple[tuple[str, str, Callable[..., Reply | Stream]], ...] = (
    ("GET", "/responses/([^/]+)", lookups.stored_response),
    ("GET", "/responses/([^/]+)/input_items", lookups.response_input),
    ("DELETE", "/responses/([^/]+)", lookups.delete_response),
    ("GET", "/chat/completions", lookups.stored_chats),
    ("GET", "/chat/completions/([^/]+)", lookups.stored_chat),
    ("GET", "/chat/completions/([^/]+)/messages", lookups.chat_messages),
    ("DELETE", "/chat/completions/([^/]+)", lookups.delete_chat),
    ("GET", "/models", lookups.models),
    ("GET", "/models/(.+)", lookups.model),
    ("POST", "/embeddings", lookups.embeddings),
)


class Service:
    """Finds the reply to each request, and remembers the turns that the API stores."""

    def __init__(self, answer: Answering, clock: Callable[[], float]) -> None:
        self._answer = answer
        self._clock = clock
        self._shelf = Shelf()
        self._cache = PromptCache()
        self._lock = threading.Lock()
        self._requests = 0

    def reply(self, seen: Seen) -> Reply | Stream:
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

    def refuse(self, seen: Seen, failure: Failure) -> Reply:
        """The reply to a request whose body could not be read."""
        return _fail(seen, failure, self._next_number())

    def _next_number(self) -> int:
        with self._lock:
            self._requests += 1
            return self._requests

    def _generate(self, seen: Seen, number: int, api: ApiName) -> Reply | Stream:
        ask = self._ask(seen, api)
        answer = self._ask_model(ask)
        if isinstance(answer, Failure):
            return _fail(seen, answer, number)
        turn = Turn(ask, answer, number, int(self._clock()), self._cache.take(ask))
        self._shelf.keep(turn)
        headers = _id_headers(number)
        if ask.stream:
            return Stream(DIALECTS[api].events(turn), headers, answer.gzip)
        return Reply(DIALECTS[api].complete(turn), 200, headers, answer.gzip)

    def _count(self, seen: Seen, api: ApiName) -> Reply:
        counted: JSON = {"input_tokens": input_tokens(self._ask(seen, api))}
        return Reply(counted | ({"object": "response.input_tokens"} if api == "responses" else {}))

    def _look_up(self, seen: Seen, path: str) -> Reply | Stream:
        for method, pattern, lookup in _LOOKUPS:
            if method == seen.method and (found := re.fullmatch(pattern, path)):
                return lookup(self._shelf, seen, *found.groups())
        raise Refused(Failure(404, f"Invalid URL ({seen.method} {seen.path})"))

    def _ask(self, seen: Seen, api: ApiName) -> Ask:
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


def _fail(seen: Seen, failure: Failure, number: int) -> Reply:
    if failure.hang is not None:
        failure.hang()
    headers = _id_headers(number)
    spell = DIALECTS["messages" if speaks_anthropic(seen) else "chat"].failure
    return Reply(spell(failure, headers["request-id"]), failure.status, headers | dict(failure.headers))


def _id_headers(number: int) -> dict[str, str]:
    """The request's id, under OpenAI's name and under Anthropic's."""
    id = f"req_practice-{number:06d}"
    return {"x-request-id": id, "request-id": id}
