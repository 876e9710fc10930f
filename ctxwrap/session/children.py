"""Child sessions in the parent's state: inputs, results, and the files in context/child/."""

from collections.abc import Iterable
from typing import Any

from ctxwrap.session.abi import is_legal_name
from ctxwrap.session.append_only_file import line
from ctxwrap.session.swap import shortened
from ctxwrap.stores.base import Files
from ctxwrap.types import Record, SourcedText

CHILD = "context/child"

_SHOWN = 8
"""The most results offered to a call."""

_LARGEST = 64 * 1024
"""The most bytes of each."""

STATUSES = ("pending", "active", "done", "error", "cancelled")


class Children:
    def __init__(self, known: dict[str, Record] | None = None) -> None:
        self.known = known or {}
        """By name: agent, session, status and, once it is done, the beginning of the result."""
        self._unsaved: dict[str, bytes] = {}
        self._unlinked: list[tuple[str, str]] = []

    @property
    def refs(self) -> tuple[Record, ...]:
        """The results, as refs."""
        return tuple(
            {"id": name, "path": f"{CHILD}/{name}/result.md", "kind": "child_result", "summary": child["summary"]}
            for name, child in sorted(self.known.items())
            if child.get("summary")
        )

    def results(self, files: Files) -> list[SourcedText]:
        """The results, newest first.

        The parent does not know what a child has read, so a result is trusted like a tool output.
        """
        if not self.known:
            return []
        names = [name for name, child in self.known.items() if child.get("summary")]
        return [_result(f"{CHILD}/{name}/result.md", files) for name in names[: -_SHOWN - 1 : -1]]

    def take(self, event: Record) -> None:
        name = event.get("child")
        if not isinstance(name, str) or not is_legal_name(name):
            return
        if event["type"] == "agent.child.start":
            self.known[name] = {"agent": str(event["agent"]), "session": str(event["session"]), "status": "active"}
            self._write(name, agent=self.known[name]["agent"], session=self.known[name]["session"], status="active")
            self._write(name, **{"handoff.md": str(event["handoff"])})
        elif event["type"] == "agent.child.result" and name in self.known:
            result, status = str(event["result"]), str(event["status"])
            self.known[name] |= {"status": status, "summary": shortened(result) or "no text"}
            self._write(name, status=status, **{"result.md": result})
            self._unsaved[f"{CHILD}/{name}/refs.jsonl"] = b"".join(line(each) for each in event.get("refs") or ())
            self._link(name, event.get("artifacts") or ())
        elif event["type"] == "agent.child.cancel" and name in self.known:
            self.known[name]["status"] = "cancelled"
            self._write(name, status="cancelled")

    def _write(self, name: str, **files: str) -> None:
        for file, text in files.items():
            self._unsaved[f"{CHILD}/{name}/{file}"] = text.encode("utf-8", "backslashreplace") + b"\n"

    def _link(self, name: str, artifacts: Iterable[Any]) -> None:
        for artifact in artifacts:
            if is_legal_name(artifact["name"]) and is_legal_name(artifact["blob"]["id"]):
                place = f"{CHILD}/{name}/artifact/{artifact['name']}"
                self._unlinked.append((f"raw/{artifact['blob']['id']}", place))

    def save(self, files: Files) -> None:
        for place, data in self._unsaved.items():
            files.save(place, data)
        for raw, place in self._unlinked:
            files.link(raw, place)
        self._unsaved, self._unlinked = {}, []

    def as_json(self) -> Record:
        return self.known

    @classmethod
    def from_json(cls, value: Record) -> "Children":
        return cls({name: dict(child) for name, child in value.items()})


def _result(place: str, files: Files) -> SourcedText:
    data = (files.load(place) or b"")[:_LARGEST]
    return SourcedText(place, data.decode("utf-8", "replace"), "tool")
