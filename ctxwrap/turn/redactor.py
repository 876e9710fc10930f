"""What a turn takes in and writes down, without what its redaction policy is about.

A message that was changed says in `ctx.digest` how the caller knows it, so that it is known when it is sent again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ctxwrap.pack.builder import PackSources
from ctxwrap.pack.receipt import item_in
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.redactor import FieldNames, Redactor
from ctxwrap.session.alignment import digest
from ctxwrap.stores.log_format import as_record
from ctxwrap.types import Body, Message, PackItem, ParsedReply, Record, Request, TurnInputs
from ctxwrap.workingset.reader import FileText
from ctxwrap.workingset.working_set import WorkingSetView


class TurnRedactor:
    """A policy, or none, for the things of a turn; it counts what it finds."""

    def __init__(self, redaction: Redaction | None) -> None:
        self._redaction = redaction
        self._redactor = Redactor(redaction) if redaction else None
        self._lines, self._lines_end = "", 0

    def evidence(self) -> Record:
        """What an event tells of it: which policies, what they found how often, and what became of it."""
        if self._redaction is None or self._redactor is None:
            return {}
        found = dict(self._redactor.found)
        told = {"policy": self._redaction.names, "found": found, "method": "replace"}
        return {"redaction": {**told, "state": "masked" if found else "none"}}

    def text(self, text: str) -> str:
        return self._redactor.text(text) if self._redactor else text

    def lines(self, text: str) -> str:
        """A text that goes on, as far as nothing that follows can change how it is redacted: only keys have lines.

        It is the same text every time, and longer; what was looked at before is not looked at again.
        """
        if self._redaction is None:
            return text
        end = text.rfind("\n") + 1
        if "PRIVATE KEY" in text:
            return self._redaction.redacted(text[:end]).text
        if end > self._lines_end:
            self._lines += self._redaction.redacted(text[self._lines_end : end]).text
            self._lines_end = end
        return self._lines

    def value(self, value: Any) -> Any:
        return self._redactor.value(value) if self._redactor else value

    def body(self, body: Body, names: FieldNames) -> Body:
        """A request; it is looked at in any case, and changed if the provider is to get it so."""
        if self._redactor is None or self._redaction is None:
            return body
        redacted = self._redactor.body(body, names)
        return redacted if self._redaction.request else body

    def events(self, events: list[Record]) -> list[Record]:
        """Events as they may be written: whatever an error, a path or a reason quotes."""
        return self._redactor.records(events) if self._redactor else events

    def request(self, request: Request) -> Request:
        changed: Request = self.value(request)
        return changed

    def message(self, message: Message) -> Message:
        changed: Message = self.value(message)
        return changed

    def record(self, message: Message, shown: Message, **control: Any) -> Record:
        """A message as the log has it: as it is shown and, if the policy says so, as it was said."""
        if shown is message or self._redaction is None:
            return as_record(message, **control)
        record = as_record(shown, **control, digest=digest(message))
        if self._redaction.log == "keep":
            record["said"] = {name: value for name, value in as_record(message).items() if name != "ctx"}
        return record

    def items(self, items: Sequence[PackItem]) -> Sequence[PackItem]:
        """What became of all that could be sent."""
        return [item_in(self.value(item.as_json())) for item in items] if self._redactor else items

    def opening(self, opening: TurnInputs) -> TurnInputs:
        """What a turn starts from, all of it; the log may hold what was said before there was a policy."""
        if self._redactor is None:
            return opening
        new = tuple((TurnRedactor(self._redaction).message(message), number) for message, number in opening.new)
        changed: TurnInputs = self.value(replace(opening, new=()))  # what is new was counted with the request
        return replace(changed, new=new)

    def sources(self, sources: PackSources) -> PackSources:
        """Files were redacted when they were read; what is found in the log is looked at when it is found."""
        if self._redactor is None:
            return sources
        if sources.files is not None:
            self._count(sources.files)
        retrieve = sources.retrieve
        return sources._replace(retrieve=(lambda *asked: self.value(retrieve(*asked))) if retrieve else None)

    def _count(self, offered: WorkingSetView) -> None:
        assert self._redactor is not None
        for file in offered.contents.values():
            self._redactor.found.update(dict(file.found) if isinstance(file, FileText) else {})

    def reading(self, reading: ParsedReply | None) -> ParsedReply | None:
        """What a reply's trailer turned out to be, with nothing of it as the model spelled it."""
        if reading is None or self._redactor is None:
            return reading
        return replace(
            reading,
            snapshot=self._redactor.numbers_too(reading.snapshot),
            repairs=self.value(reading.repairs),
            violations=self.value(reading.violations),
            trailer=self._redactor.json_text(reading.trailer),
        )
