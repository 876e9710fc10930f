"""What a turn writes down: its messages and events as records, before the log numbers and dates them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ctxwrap.memory.epoch import unchanged
from ctxwrap.memory.items import Origin, is_foreign
from ctxwrap.pack import injection, receipt
from ctxwrap.pack.builder import Pack
from ctxwrap.redaction.visibility import Target
from ctxwrap.session import blobs
from ctxwrap.session.abi import legal_name
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import as_record, kept_of
from ctxwrap.tokens.measure import Measure
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import Body, Message, Operation, ParsedReply, Record, Reply, Request, SessionKey, TurnInputs
from ctxwrap.workingset.requests import Decision


@dataclass(frozen=True, slots=True)
class TurnRecords:
    """The records of one turn; the events of its stages are among them if settings want that."""

    id: str
    key: SessionKey
    wire: str
    mode: Mode
    request: Request
    opening: TurnInputs
    settings: Settings

    def ids(self, attempt: int) -> receipt.EventIds:
        return receipt.EventIds(self.key.session, self.id, self.opening.runtime.round, attempt)

    def message(self, message: Message, screen: TurnRedactor, **control: Any) -> Record:
        """A message with its count of tokens, which is stored with it."""
        shown, measure = screen.message(message), Measure(self.request.model)
        return screen.record(message, shown, tokens={measure.name: measure.counted(shown)}, **control)

    def asked(self, new: Iterable[tuple[Message, int]]) -> list[Record]:
        """What the caller said, each with its round; the first of it continues the conversation."""
        parents = iter([self.opening.parent])
        return [
            self.message(
                message,
                TurnRedactor(self.settings.redaction),
                round=number,
                parent="" if message.role == "system" else next(parents, ""),
            )
            for message, number in new
        ]

    def answer(self, reply: Reply, screen: TurnRedactor, status: str, reason: str, origin: Origin) -> list[Record]:
        """The answer as far as it came; it follows what the caller said, if that is in the log."""
        is_behind = any(message.role != "system" for message, _ in self.opening.new)
        return [
            self.message(
                message,
                screen,
                round=self.opening.runtime.round,
                parent="" if is_behind else self.opening.parent,
                status=status,
                reason=reason,
                origin=_written_from(origin),
            )
            for message in reply.messages[:1]
            if message.content or message.tool_calls or not reason
        ]

    def start(
        self, made: Pack | None, body: Body, kept: Mapping[str, Record], screen: TurnRedactor, origin: Origin
    ) -> list[Record]:
        """That the turn begins, with its pack, and what happened to memory since the last one."""
        opening = self.opening
        start: Record = {
            "type": "start",
            "run": self.id,
            "model": self.request.model,
            "mode": self.mode,
            "wire": self.wire,
            "stream": self.request.stream,
            "runtime": opening.runtime.as_json(),
            "began": opening.began,
            "origin": _written_from(origin),
            **self._pack_fields(made, body, kept),
            **screen.evidence(),
            "ctx": {"writer": opening.writer, **_blobs(kept)},
        }
        if opening.rules:
            start["rules"] = opening.rules
        outputs = made.outputs if made else ()
        return self._with_stages([start, *self._memory(), *self.files(outputs)], 1)

    def repack(self, made: Pack, body: Body, kept: Mapping[str, Record]) -> list[Record]:
        """What was sent in the end, since what was to be sent was too long."""
        event = {"type": "repack", "run": self.id, **self._pack_fields(made, body, kept), "ctx": _blobs(kept)}
        return self._with_stages([event], 2)

    def _memory(self) -> list[Record]:
        """What happened to memory since the last turn, and what came back for this one."""
        opening = self.opening
        moves: Record = {"type": "evolution", "run": self.id, "moves": list(opening.moves), "ctx": {}}
        recalled = [operation.as_json() for operation in opening.recalled]
        recall: Record = {"type": "recall", "run": self.id, "round": opening.runtime.round, "operations": recalled}
        return [*([moves] if opening.moves else []), *([{**recall, "ctx": {}}] if recalled else [])]

    def files(self, decisions: Iterable[Decision]) -> list[Record]:
        """What became of requests to the working set."""
        head = {"type": "working_set", "run": self.id, "round": self.opening.runtime.round}
        return [{**head, **each.as_json(), "ctx": {}} for each in decisions]

    def handed_out(self, target: Target, attempt: int, kept: Mapping[str, Record], tool_call: str) -> list[Record]:
        """That somebody was given what is for them; `kept` is where the texts lie, by their sources."""
        event: Record = {"type": "resources", "run": self.id, "target": target, "attempt": attempt}
        event |= {"tool_call_id": tool_call} if tool_call else {}
        event["texts"] = _texts(kept)
        return self._with_stages([{**event, "ctx": _blobs(kept)}], attempt)

    def delta(self, text: str, origin: Origin) -> Record:
        """What the answer went on to say, for the case that nobody lives to write its end."""
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
        """The trailer as it was read, and what it did to memory if it was `applied`; also that it is not there."""
        if reading is None or (reading.status == "missing" and not due):
            return []
        event: Record = {
            "type": "snapshot",
            "run": self.id,
            "round": self.opening.runtime.round,
            "status": reading.status,
            "repairs": list(reading.repairs),
            "violations": list(reading.violations),
            "trailer": kept_of(reading.trailer),
        }
        if due:
            event |= {"due": True, "model": self.request.model}
        if applied is not None:
            event["operations"] = [operation.as_json() for operation in operations]
            event |= {name: applied[name] for name in ("capabilities", "active_task")}
            event["origin"] = _written_from(origin)
        return [{**event, "ctx": {}}]

    def observation(self, operations: Iterable[Operation]) -> list[Record]:
        """What was done to memory without the model's help."""
        told = [operation.as_json() for operation in operations]
        event = {"type": "observation", "run": self.id, "round": self.opening.runtime.round, "operations": told}
        return [{**event, "ctx": {}}] if told else []

    def choices(self, reply: Reply) -> list[Record]:
        """Answers beside the first are no part of the conversation; the log keeps them all the same."""
        return [
            {"type": "choice", "run": self.id, "index": at, **as_record(message)}
            for at, message in enumerate(reply.messages[1:], 1)
        ]

    def tool_calls(self, reply: Reply, answer_at: int) -> list[Record]:
        """The tools that the answer calls; the calls themselves stand in its message."""
        calls = (call for message in reply.messages[:1] for call in message.tool_calls)
        return [self._tool_event("tool_call", call["id"], call["name"], answer_at) for call in calls]

    def tool_results(self) -> list[Record]:
        """What tools gave since the last turn: which call, how much, and whether it failed."""
        new = enumerate((message for message, _ in self.opening.new), self.opening.first_message)
        results = [(number, message) for number, message in new if message.role == "tool"]
        names = self._names_of_calls() if results else {}
        return [
            self._tool_event(
                "tool_result",
                message.tool_call_id,
                message.name or names.get(message.tool_call_id, ""),
                number,
                bytes=len(message.text.encode("utf-8", "surrogatepass")),
                **({"error": True} if message.extra.get("is_error") is True else {}),
            )
            for number, message in results
        ]

    def _names_of_calls(self) -> dict[str, str]:
        known = (*(kept.message for kept in self.opening.history), *self.request.messages)
        return {str(call["id"]): str(call["name"]) for message in known for call in message.tool_calls}

    def _tool_event(self, type: str, id: str, name: str, number: int, **more: Any) -> Record:
        event = {"type": type, "run": self.id, "id": legal_name(id or "none"), "name": legal_name(name or "unknown")}
        return {**event, "message": number, **more, "ctx": {}}

    def ended(
        self, records: list[Record], attempt: int, reply: Reply, reason: str, screen: TurnRedactor
    ) -> list[Record]:
        """The records of a turn's end, and that it is at its end."""
        done = self._done(reply, reason, screen)
        return [*records, *self._stages([*records, done], attempt), done]

    def _done(self, reply: Reply, reason: str, screen: TurnRedactor) -> Record:
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
        calls = [call["id"] for message in reply.messages for call in message.tool_calls if call.get("id")]
        if calls:
            done["tool_call_ids"] = calls
        if (reply.finish or reply.messages) and not receipt.was_taken(done):
            done["taken"] = True
        return {**done, "ctx": {}, **screen.evidence()}

    def _with_stages(self, records: list[Record], attempt: int) -> list[Record]:
        return [*records, *self._stages(records, attempt)]

    def _stages(self, records: list[Record], attempt: int) -> list[Record]:
        """The events of the stages, if they are to be written as they happen."""
        if self.settings.evidence != "log":
            return []
        return receipt.stages_of(records, self.ids(attempt), sends=self.mode in receipt.SENDING)

    def screened(self, events: list[Record]) -> list[Record]:
        """Events as they may be written; the rows of a pack were made of items that may be."""
        if self.settings.redaction is None:
            return events
        changed = zip(events, TurnRedactor(self.settings.redaction).events(events), strict=True)
        return [{**new, "pack": old["pack"]} if "pack" in old else new for old, new in changed]

    def _pack_fields(self, made: Pack | None, body: Body, kept: Mapping[str, Record]) -> Record:
        """What an event tells about a pack."""
        if made is None:
            return {"pack": []}
        fields: Record = {
            "pack": receipt.rows(TurnRedactor(self.settings.redaction).items(made.items)),
            "budget": receipt.budget_as_json(made.budget),
            "prefix": injection.as_json(made.prefix),
            "sent": {**made.sent, "state": self._state(made), "texts": _texts(kept)},
            "stable": made.stable,
            "sha256": injection.body_hash(body),
        }
        if made.epoch is not None:
            fields["epoch"] = made.epoch
        if made.report:
            fields["assembly_report"] = made.report
        if made.output_paths:
            fields["outputs"] = list(made.output_paths)
        return fields

    def _state(self, made: Pack) -> Record:
        """The state that was sent; `unchanged` is true where it follows from the epoch and the rest."""
        state, epoch = made.sent["state"], made.epoch or self.opening.epoch or {}
        listed = state.get("unchanged")
        follows = listed and listed == unchanged(epoch, state["memory"], state.get("dropped", ()))
        return {**state, "unchanged": True} if follows else state


def _written_from(origin: Origin) -> Origin:
    """The origin of what a model writes that was shown something of this origin."""
    return origin if is_foreign(origin) else "assistant"


def _blobs(kept: Mapping[str, Record]) -> Record:
    """What an event's control data says of the contents that it refers to."""
    return {"blobs": [blobs.short(blob) for blob in kept.values()]} if kept else {}


def _texts(kept: Mapping[str, Record]) -> Record:
    """Which of these contents each text is."""
    return {name: at for at, name in enumerate(kept)}
