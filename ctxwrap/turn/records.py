"""The records a turn writes, and the redaction of everything it reads and writes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ctxwrap.memory.epoch import unchanged_ids
from ctxwrap.memory.items import Origin, is_foreign
from ctxwrap.pack import injection, receipt
from ctxwrap.pack.builder import Pack, PackSources
from ctxwrap.pack.receipt import item_from_json
from ctxwrap.redaction import Redaction
from ctxwrap.redaction.structure import FieldNames
from ctxwrap.redaction.visibility import Target
from ctxwrap.session import blobs
from ctxwrap.session.abi import legal_name
from ctxwrap.session.branch import digest
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import as_record, truncate_for_log
from ctxwrap.tokens.measure import measure_for
from ctxwrap.types import (
    Body,
    Message,
    Operation,
    PackItem,
    ParsedReply,
    Record,
    Reply,
    Request,
    SessionKey,
    TurnInputs,
)

if TYPE_CHECKING:
    from ctxwrap.workingset.requests import Decision
    from ctxwrap.workingset.working_set import WorkingSetView


class TurnRedactor:
    """Redacts the values of a turn, or returns them as they are if there is no policy; counts what it finds."""

    def __init__(self, redaction: Redaction | None) -> None:
        self._redaction, self._redactor = redaction, None
        if redaction is not None:
            from ctxwrap.redaction.redactor import Redactor

            self._redactor = Redactor(redaction)
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
        changed: TurnInputs = self.value(inputs._replace(new=()))  # new messages were counted with the request
        return changed._replace(new=new)

    def sources(self, sources: PackSources) -> PackSources:
        """Files were redacted when they were read; text retrieved from the log is redacted here."""
        if self._redactor is None:
            return sources
        if sources.files is not None:
            self._count(sources.files)
        retrieve, recall = sources.retrieve, sources.recall
        return sources._replace(
            retrieve=(lambda *query: self.value(retrieve(*query))) if retrieve else None,
            recall=(lambda *found: self.value(recall(*found))) if recall else None,
        )

    def _count(self, view: "WorkingSetView") -> None:
        from ctxwrap.workingset.reader import FileText

        assert self._redactor is not None
        for file in view.contents.values():
            self._redactor.found.update(dict(file.found) if isinstance(file, FileText) else {})

    def reading(self, reading: ParsedReply) -> ParsedReply:
        """The reading of a reply, redacted also inside its JSON."""
        if self._redactor is None:
            return reading
        return reading._replace(
            snapshot=self._redactor.numbers_too(reading.snapshot),
            repairs=self.value(reading.repairs),
            violations=self.value(reading.violations),
            trailer=self._redactor.json_text(reading.trailer),
        )


def redactor_for(redaction: Redaction | None) -> TurnRedactor | None:
    """What redacts by a policy, if there is one."""
    return None if redaction is None else TurnRedactor(redaction)


class TurnRecords(NamedTuple):
    """Builds the records of one turn, and the events of its stages if `evidence` is "log"."""

    id: str
    key: SessionKey
    provider: str
    mode: Mode
    request: Request
    inputs: TurnInputs
    settings: Settings

    def ids(self, attempt: int) -> receipt.EventIds:
        return receipt.EventIds(self.key.session, self.id, self.inputs.runtime.round, attempt)

    def message(self, message: Message, redactor: TurnRedactor | None, **control: Any) -> Record:
        """A message as the log keeps it, with its number of tokens."""
        measure = measure_for(self.request.model)
        if redactor is None:
            return as_record(message, tokens={measure.name: measure.counted(message)}, **control)
        redacted = redactor.message(message)
        return redactor.record(message, redacted, tokens={measure.name: measure.counted(redacted)}, **control)

    def asked(self, new: Iterable[tuple[Message, int]]) -> list[Record]:
        """The caller's new messages, each with its round; the first one continues the conversation at its parent."""
        redactor, parent, asked = redactor_for(self.settings.redaction), self.inputs.parent, []
        for message, number in new:
            if message.role == "system":
                asked.append(self.message(message, redactor, round=number))
            else:
                asked.append(self.message(message, redactor, round=number, parent=parent))
                parent = ""
        return asked

    def answer(
        self, reply: Reply, redactor: TurnRedactor | None, status: str, reason: str, origin: Origin
    ) -> list[Record]:
        """The reply so far; its parent is the caller's newest message, if that is new too."""
        message = reply.messages[0] if reply.messages else None
        if message is None or not (message.content or message.tool_calls or not reason):
            return []
        parent = self.inputs.parent
        if parent and any(message.role != "system" for message, _ in self.inputs.new):
            parent = ""
        control = {"status": status, "reason": reason, "origin": _written_from(origin)}
        return [self.message(message, redactor, round=self.inputs.runtime.round, parent=parent, **control)]

    def start(
        self, pack: Pack | None, body: Body, stored: Mapping[str, Record], redactor: TurnRedactor | None, origin: Origin
    ) -> list[Record]:
        """The events that begin the turn: its pack, and what changed in memory since the last turn."""
        inputs = self.inputs
        start: Record = {
            "type": "start",
            "run": self.id,
            "model": self.request.model,
            "mode": self.mode,
            "wire": self.provider,
            "stream": self.request.stream,
            "runtime": inputs.runtime.as_json(),
            "began": inputs.began,
            "origin": _written_from(origin),
            **self._pack_fields(pack, body, stored),
        }
        if redactor is not None:
            start |= redactor.evidence()
        start["ctx"] = control = {"writer": inputs.writer}
        if inputs.owners:
            control |= _owners(inputs)
        if stored:
            control |= _blobs(stored)
        if inputs.rules:
            start["rules"] = inputs.rules
        events = [start]
        if inputs.moves:
            events.append({"type": "evolution", "run": self.id, "moves": list(inputs.moves), "ctx": {}})
        if recalled := (*inputs.recalled, *(pack.recalled if pack else ())):
            back = [operation.as_json() for operation in recalled]
            event = {"type": "recall", "run": self.id, "round": inputs.runtime.round, "operations": back}
            events.append({**event, "ctx": {}})
        if pack and pack.outputs:
            events += self.files(pack.outputs)
        return self._with_stages(events, 1)

    def repack(self, pack: Pack, body: Body, stored: Mapping[str, Record]) -> list[Record]:
        """The event for the smaller pack that was sent in the end."""
        event = {"type": "repack", "run": self.id, **self._pack_fields(pack, body, stored), "ctx": _blobs(stored)}
        return self._with_stages([event], 2)

    def files(self, decisions: "Iterable[Decision]") -> list[Record]:
        """The events for decisions on requests to the working set."""
        head = {"type": "working_set", "run": self.id, "round": self.inputs.runtime.round}
        return [{**head, **each.as_json(), "ctx": {}} for each in decisions]

    def handed_out(self, target: Target, attempt: int, stored: Mapping[str, Record], tool_call: str) -> list[Record]:
        """The event for texts handed to `target`; `stored` says where they are, by source."""
        event: Record = {"type": "resources", "run": self.id, "target": target, "attempt": attempt}
        event |= {"tool_call_id": tool_call} if tool_call else {}
        event["texts"] = _texts(stored)
        return self._with_stages([{**event, "ctx": _blobs(stored)}], attempt)

    def delta(self, text: str, origin: Origin) -> Record:
        """The event for the next part of a reply, in case the process dies before its end."""
        return {"type": "delta", "run": self.id, "text": text, "origin": _written_from(origin), "ctx": {}}

    def snapshot(
        self,
        reading: ParsedReply | None,
        applied: Mapping[str, Any] | None,
        operations: Iterable[Operation],
        origin: Origin,
        *,
        due: bool,
    ) -> list[Record]:
        """The event for the trailer, or for one that is due and missing; with its operations if it was `applied`."""
        if reading is None or (reading.status == "missing" and not due):
            return []
        event: Record = {
            "type": "snapshot",
            "run": self.id,
            "round": self.inputs.runtime.round,
            "status": reading.status,
            "repairs": list(reading.repairs),
            "violations": list(reading.violations),
            "trailer": truncate_for_log(reading.trailer),
        }
        if due:
            event |= {"due": True, "model": self.request.model}
        if applied is not None:
            event["operations"] = [operation.as_json() for operation in operations]
            event["capabilities"], event["active_task"] = applied["capabilities"], applied["active_task"]
            event["origin"] = _written_from(origin)
        event["ctx"] = {}
        return [event]

    def observation(self, operations: Iterable[Operation]) -> list[Record]:
        """The event for what rules changed in memory."""
        changes = [operation.as_json() for operation in operations]
        event = {"type": "observation", "run": self.id, "round": self.inputs.runtime.round, "operations": changes}
        return [{**event, "ctx": {}}]

    def choices(self, reply: Reply) -> list[Record]:
        """The events for further choices, which are not part of the conversation."""
        return [
            {"type": "choice", "run": self.id, "index": index, **as_record(message)}
            for index, message in enumerate(reply.messages[1:], 1)
        ]

    def tool_calls(self, answer: Message, number: int) -> list[Record]:
        """The events for the tools that an answer, which gets this number in the log, calls."""
        return [self._tool_event("tool_call", call["id"], call["name"], number) for call in answer.tool_calls]

    def tool_results(self) -> list[Record]:
        """The events for tool results since the last turn: call, size, and whether it failed."""
        events: list[Record] = []
        names: dict[str, str] | None = None
        for number, (message, _) in enumerate(self.inputs.new, self.inputs.first_message):
            if message.role == "tool":
                names = self._names_of_calls() if names is None else names
                name = message.name or names.get(message.tool_call_id, "")
                more: Record = {"bytes": len(message.text.encode("utf-8", "surrogatepass"))}
                if message.extra.get("is_error") is True:
                    more["error"] = True
                events.append(self._tool_event("tool_result", message.tool_call_id, name, number, **more))
        return events

    def _names_of_calls(self) -> dict[str, str]:
        known = (*(logged.message for logged in self.inputs.history), *self.request.messages)
        return {str(call["id"]): str(call["name"]) for message in known for call in message.tool_calls}

    def _tool_event(self, type: str, id: str, name: str, number: int, **more: Any) -> Record:
        event = {"type": type, "run": self.id, "id": legal_name(id or "none"), "name": legal_name(name or "unknown")}
        return {**event, "message": number, **more, "ctx": {}}

    def ended(
        self, records: list[Record], attempt: int, reply: Reply, reason: str, redactor: TurnRedactor | None
    ) -> list[Record]:
        """`records`, the events of their stages, and the event that ends the turn."""
        done = self._done(reply, reason, redactor)
        if self.settings.evidence == "log":
            records = [*records, *self._stages([*records, done], attempt)]
        return [*records, done]

    def _done(self, reply: Reply, reason: str, redactor: TurnRedactor | None) -> Record:
        status = "error" if reason.startswith("provider_error") else "cancelled" if reason else "ok"
        done: Record = {
            "type": "done",
            "run": self.id,
            "status": status,
            "reason": reason or reply.finish,
            "response_id": reply.response_id,
            "model": reply.model,
            "usage": dict(reply.usage),
        }
        calls: list[str] = []
        for message in reply.messages:
            if message.tool_calls:
                calls += [call["id"] for call in message.tool_calls if call.get("id")]
        if calls:
            done["tool_call_ids"] = calls
        if (reply.finish or reply.messages) and not receipt.was_accepted(done):
            done["taken"] = True
        done["ctx"] = {}
        return done if redactor is None else {**done, **redactor.evidence()}

    def _with_stages(self, records: list[Record], attempt: int) -> list[Record]:
        return [*records, *self._stages(records, attempt)] if self.settings.evidence == "log" else records

    def _stages(self, records: list[Record], attempt: int) -> list[Record]:
        return receipt.stage_events(records, self.ids(attempt), sends=self.mode in receipt.SENDING)

    def redacted(self, events: list[Record]) -> list[Record]:
        """Events as they may be written; the rows of a pack were redacted before."""
        if self.settings.redaction is None:
            return events
        changed = zip(events, TurnRedactor(self.settings.redaction).events(events), strict=True)
        return [{**new, "pack": old["pack"]} if "pack" in old else new for old, new in changed]

    def _pack_fields(self, pack: Pack | None, body: Body, stored: Mapping[str, Record]) -> Record:
        if pack is None:
            return {"pack": []}
        items: Sequence[PackItem] = pack.items
        if self.settings.redaction is not None:
            items = TurnRedactor(self.settings.redaction).items(items)
        fields: Record = {
            "pack": receipt.items_as_json(items),
            "budget": receipt.budget_as_json(pack.budget),
            "prefix": injection.as_json(pack.prefix),
            "sent": {**pack.sent, "state": self._state(pack), "texts": _texts(stored)},
            "stable": pack.stable,
            "sha256": injection.body_hash(body),
        }
        if pack.epoch is not None:
            fields["epoch"] = pack.epoch
        if pack.report:
            fields["assembly_report"] = pack.report
        if pack.output_paths:
            fields["outputs"] = list(pack.output_paths)
        return fields

    def _state(self, pack: Pack) -> Record:
        """The state that was sent; `unchanged` is true, not a list, where the list follows from the epoch.

        Only redaction, which may give two items the same id, keeps it from following.
        """
        state, epoch = pack.sent["state"], pack.epoch or self.inputs.epoch or {}
        follows = listed = state.get("unchanged")
        if listed and self.settings.redaction is not None:
            follows = listed == unchanged_ids(epoch, state["memory"], state.get("dropped", ()))
        return {**state, "unchanged": True} if follows else state


def _owners(inputs: TurnInputs) -> Record:
    """The control data of a turn that names a user or a team."""
    names = {owner.kind: owner.key.session for owner in inputs.owners}
    return {"owners": names, "merged": {owner.kind: owner.merged for owner in inputs.owners}}


def _written_from(origin: Origin) -> Origin:
    """The origin of what a model writes after it saw text of `origin`."""
    return origin if is_foreign(origin) else "assistant"


def _blobs(stored: Mapping[str, Record]) -> Record:
    """The control data for texts that an event refers to."""
    return {"blobs": [blobs.short(blob) for blob in stored.values()]} if stored else {}


def _texts(stored: Mapping[str, Record]) -> Record:
    """The index in `_blobs` of each text, by name."""
    return dict(zip(stored, range(len(stored)), strict=True))
