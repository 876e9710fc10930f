"""The turns that an API stores, for those who ask for them later."""

import threading

from ctxwrap.practice.answer import Failure
from ctxwrap.practice.apis import Turn
from ctxwrap.practice.reply import Refused

_CAPACITY = 1000


class Shelf:
    """Holds the newest turns by the API and the id under which they were answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[tuple[str, str], Turn] = {}

    def keep(self, turn: Turn) -> None:
        """Store what the API would store; called before anything is sent, for clients that ask at once."""
        if not _is_stored(turn):
            return
        with self._lock:
            self._turns[turn.ask.api, _id(turn)] = turn
            if len(self._turns) > _CAPACITY:
                del self._turns[next(iter(self._turns))]

    def find(self, api: str, id: str) -> Turn | None:
        with self._lock:
            return self._turns.get((api, id))

    def get(self, api: str, id: str) -> Turn:
        turn = self.find(api, id)
        if turn is None:
            what = "Response" if api == "responses" else "Chat completion"
            raise Refused(Failure(404, f"{what} with id '{id}' not found."))
        return turn

    def all(self, api: str) -> list[Turn]:
        with self._lock:
            return [turn for (kind, _), turn in self._turns.items() if kind == api]

    def drop(self, api: str, id: str) -> None:
        self.get(api, id)
        with self._lock:
            self._turns.pop((api, id), None)


def _id(turn: Turn) -> str:
    return turn.id("chatcmpl-" if turn.ask.api == "chat" else "resp_")


def _is_stored(turn: Turn) -> bool:
    """Responses are stored unless the request says no, chats only when it says yes, broken streams never."""
    if turn.ask.stream and turn.answer.error_after is not None:
        return False
    store = turn.ask.body.get("store")
    return store is not False if turn.ask.api == "responses" else turn.ask.api == "chat" and store is True
