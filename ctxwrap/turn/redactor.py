"""Applies a redaction policy to what a turn reads and writes.

The log keeps the digest of the original of each redacted message (`ctx.digest`), so that the message is recognised when
the caller sends it again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ctxwrap.pack.builder import PackSources
from ctxwrap.pack.receipt import item_from_json
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.redactor import FieldNames, Redactor
from ctxwrap.session.alignment import digest
from ctxwrap.stores.log_format import as_record
from ctxwrap.types import Body, Message, PackItem, ParsedReply, Record, Request, TurnInputs
from ctxwrap.workingset.reader import FileText
from ctxwrap.workingset.working_set import WorkingSetView


class TurnRedactor:
    """Redacts the values of a turn, or returns them as they are if there is no policy; counts what it finds."""

    def __init__(self, redaction: Redaction | None) -> None:
        self._redaction = redaction
        self._redactor = Redactor(redaction) if redaction else None
        self._lines, self._lines_end = "", 0

    def evidence(self) -> Record:
        """The fields of an event that say which policies ran and what they found how often."""
        if self._redaction is None or self._redactor is None:
            return {}
        found = dict(self._redactor.found)
        evidence = {"policy": self._redaction.names, "found": found, "method": "replace"}
        return {"redaction": {**evidence, "state": "masked" if found else "none"}}

    def text(self, text: str) -> str:
        return self._redactor.text(text) if self._redactor else text

    def lines(self, text: str) -> str:
        """The complete lines of a growing text, redacted. Only a private key spans lines.

        Each call must continue the text of the last one: lines that were redacted before are not read again.
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
        """A request: searched in any case, changed only if the policy applies to requests."""
        if self._redactor is None or self._redaction is None:
            return body
        redacted = self._redactor.body(body, names)
        return redacted if self._redaction.request else body

    def events(self, events: list[Record]) -> list[Record]:
        """Events, whatever they quote in an error, a path or a reason."""
        return self._redactor.records(events) if self._redactor else events

    def request(self, request: Request) -> Request:
        changed: Request = self.value(request)
        return changed

    def message(self, message: Message) -> Message:
        changed: Message = self.value(message)
        return changed

    def record(self, message: Message, redacted: Message, **control: Any) -> Record:
        """A message as the log keeps it: redacted and, if the policy says so, the original as well."""
        if redacted is message or self._redaction is None:
            return as_record(message, **control)
        record = as_record(redacted, **control, digest=digest(message))
        if self._redaction.log == "keep":
            record["said"] = {name: value for name, value in as_record(message).items() if name != "ctx"}
        return record

    def items(self, items: Sequence[PackItem]) -> Sequence[PackItem]:
        return [item_from_json(self.value(item.as_json())) for item in items] if self._redactor else items

    def inputs(self, inputs: TurnInputs) -> TurnInputs:
        """All that a turn starts from; the log may hold text from before there was a policy."""
        if self._redactor is None:
            return inputs
        new = tuple((TurnRedactor(self._redaction).message(message), number) for message, number in inputs.new)
        changed: TurnInputs = self.value(replace(inputs, new=()))  # new messages were counted with the request
        return replace(changed, new=new)

    def sources(self, sources: PackSources) -> PackSources:
        """Files were redacted when they were read; text retrieved from the log is redacted here."""
        if self._redactor is None:
            return sources
        if sources.files is not None:
            self._count(sources.files)
        retrieve = sources.retrieve
        return sources._replace(retrieve=(lambda *query: self.value(retrieve(*query))) if retrieve else None)

    def _count(self, view: WorkingSetView) -> None:
        assert self._redactor is not None
        for file in view.contents.values():
            self._redactor.found.update(dict(file.found) if isinstance(file, FileText) else {})

    def reading(self, reading: ParsedReply | None) -> ParsedReply | None:
        """The reading of a reply, redacted also inside its JSON."""
        if reading is None or self._redactor is None:
            return reading
        return replace(
            reading,
            snapshot=self._redactor.numbers_too(reading.snapshot),
            repairs=self.value(reading.repairs),
            violations=self.value(reading.violations),
            trailer=self._redactor.json_text(reading.trailer),
        )
