"""The session of a conversation whose client names none, by the conversation's first messages.

Its name is a hash of the owner, the user and the first user message, so that every worker finds it. A conversation that
begins alike gets the next number; a later request belongs to the one whose first reply it repeats.
"""

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import TypeVar

from ctxwrap.inspect.streams import calls_in, readable, said_in, text_in
from ctxwrap.service.serve.names import RequestNames
from ctxwrap.stores.base import Store
from ctxwrap.types import Message, Request, SessionKey

K = TypeVar("K")
V = TypeVar("V")

_AGENT, _MESSAGES = "default", "messages"
_ALIKE = 64
"""Conversations with the same beginning that are compared, newest first."""
_REMEMBERED = 4096
_FIRST_REPLY_WITHIN = 16
"""Messages among which the first reply is searched."""


class Conversations:
    """Finds sessions by their beginning. Every method blocks for as long as a short read takes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The highest number in use, by tenant and beginning."""
        self._replies: OrderedDict[SessionKey, str] = OrderedDict()
        """What the first reply of a session said, once it is known."""

    def session_of(self, names: RequestNames, request: Request, *, is_retry: bool) -> str | None:
        """The session of a request; None if its beginning is not in it."""
        if request.server_history or not request.messages:
            return None
        beginning = _beginning(names, request.messages)
        reply = next((_said(each) for each in request.messages if each.role == "assistant"), None)
        newest = self._newest(names, beginning)
        if reply is None:
            return _name(beginning, newest) if is_retry and newest else self._begin(names, beginning)
        for number in range(newest, max(newest - _ALIKE, 0), -1):
            if self._first_reply(self._key(names, beginning, number)) == reply:
                return _name(beginning, number)
        return _name(beginning, 1) if newest == 1 else self._begin(names, beginning)

    def _begin(self, names: RequestNames, beginning: str) -> str:
        with self._lock:
            place = names.tenant, names.key(beginning)
            number = self._numbers.get(place, 0) + 1
            _remember(self._numbers, place, number)
        return _name(beginning, number)

    def _newest(self, names: RequestNames, beginning: str) -> int:
        """The highest number in use, also by other workers."""
        place = names.tenant, names.key(beginning)
        known = number = self._numbers.get(place, 0)
        step = 1
        while step:  # first ever larger steps, then back by halves: numbers are used without gaps
            if self._exists(self._key(names, beginning, number + step)):
                number, step = number + step, step * 2
            else:
                step //= 2
        if number > known:
            with self._lock:
                number = max(number, self._numbers.get(place, 0))
                _remember(self._numbers, place, number)
        return number

    def _exists(self, key: SessionKey) -> bool:
        return bool(self._store.open(key).pick(_MESSAGES, [1]))

    def _first_reply(self, key: SessionKey) -> str | None:
        known = self._replies.get(key)
        if known is not None:
            return known
        log = self._store.open(key)
        for record in log.between(_MESSAGES, 1, _FIRST_REPLY_WITHIN):
            if record.get("role") == "assistant":
                whole = readable(record, log.files)
                said = _joined(said_in(whole), [text_in(call, "id") for call in calls_in(whole)])
                with self._lock:
                    _remember(self._replies, key, said)
                return said
        return None

    def _key(self, names: RequestNames, beginning: str, number: int) -> SessionKey:
        return SessionKey(names.tenant, _AGENT, names.key(_name(beginning, number)))


def _beginning(names: RequestNames, messages: tuple[Message, ...]) -> str:
    first = next((each for each in messages if each.role == "user"), messages[0])
    text = f"{names.owner}\n{names.user or ''}\n{first.role}\n{first.content!r}"
    return f"auto-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _name(beginning: str, number: int) -> str:
    return beginning if number == 1 else f"{beginning}-{number}"


def _said(message: Message) -> str:
    return _joined(message.text, [str(call.get("id", "")) for call in message.tool_calls])


def _joined(text: str, calls: list[str]) -> str:
    """What a message said, without what clients change in white space."""
    return "\n".join([" ".join(text.split()), *calls])


def _remember(known: "OrderedDict[K, V]", key: K, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
