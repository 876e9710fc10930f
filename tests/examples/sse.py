"""Server-sent events as a client of the backend reads them."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class Events:
    """Lines in, events out."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def of(self, lines: Iterable[str]) -> Iterator[Event]:
        for line in lines:
            if event := self._taken(line):
                yield event

    async def of_async(self, lines: AsyncIterator[str]) -> AsyncIterator[Event]:
        async for line in lines:
            if event := self._taken(line):
                yield event

    def _taken(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        return Event(fields["event"], json.loads(fields["data"])) if "event" in fields else None


def text_of(events: Iterable[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.name == "text")
