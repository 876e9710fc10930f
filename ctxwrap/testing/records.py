"""Records as the tests write and read them."""

from ctxwrap.storage import Log
from ctxwrap.types import Record, SessionKey

KEY = SessionKey("tenant", "agent", "session")

KNOWN: Record = {
    "text": "".join(map(chr, range(256))),
    "lone": "\ud800",
    "list": [1, 0.1, None, True],
    "positions": "not control data",
}
"""What a checkpoint may hold."""


def record(text: str, **more: object) -> Record:
    return {"content": text, **more, "ctx": {"v": 1}}


def numbered_record(number: int, filler: str = "") -> Record:
    return {"content": f"number {number}", "filler": filler, "ctx": {"v": 1, "seq": number}}


def contents(log: Log, after: int = 0, stream: str = "messages") -> list[object]:
    return [line["content"] for line in log.read(stream, after)[0]]


def said(log: Log, *texts: str) -> Log:
    """The log, with a message for each text."""
    with log.locked():
        log.append({"messages": [record(text) for text in texts]})
    return log
