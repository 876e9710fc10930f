"""The pack of a call: from every source what fits, in the order of the stages, and the record of what was chosen.

Claims on the budget come in this order: pinned, summary, memory (facts, decisions, work, references), working set,
retrieved, recent messages, children. What is found must not repeat what is sent as recent messages, so its share is put
aside and it is looked for when these are known.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ctxwrap.memory.epoch import Tiers
from ctxwrap.memory.items import TIERS, Origin, foreign_in, origin_of_all, origin_of_request
from ctxwrap.pack.budget import Budget, Ledger, Limit, reckon
from ctxwrap.pack.history import Retrieved, conversation, passages, texts
from ctxwrap.pack.injection import (
    Chosen,
    InjectedPart,
    StableText,
    assemble,
    prefix_of,
    protocol_for,
    stable_tokens,
    words_for,
)
from ctxwrap.pack.memory import remembered, sizes
from ctxwrap.pack.selection import NOT_VISIBLE, Sharing, as_item, counted_once, cut, newest, referred, select
from ctxwrap.protocol.framing import boundary_of
from ctxwrap.protocol.instructions import frame
from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens import reply_reserve, window_of
from ctxwrap.tokens.measure import Measure
from ctxwrap.tokens.truncation import estimate
from ctxwrap.types import (
    Body,
    Candidate,
    HistoryMessage,
    Injection,
    Message,
    PackItem,
    Prefix,
    Record,
    Request,
    Resource,
    SessionKey,
    SourcedText,
    TurnInputs,
)
from ctxwrap.workingset.priorities import followed, with_results
from ctxwrap.workingset.reader import FileText
from ctxwrap.workingset.requests import Decision
from ctxwrap.workingset.working_set import PackedFiles, WorkingSetView, pack_files

_FRAMES = 64
"""What the marks around pinned texts, memory, background and findings take, at most."""

_LEAST_TALK = 740
"""What recent messages, memory and what is found may take together in any case: some ten short messages."""

_LEAST_RECENT = 4
"""So many of the newest messages are sent although they take more than their share: a short question refers to them."""

_SAME_DIGITS = str.maketrans("0123456789", "0000000000")
"""The runtime differs in every call by its digits only, which take the same tokens: so its count is remembered."""

_OLDER = "older than the budget reaches"
_LESS = "others are more to the point"
_ELSEWHERE = "the caller or the provider keeps the history"


Retrieve = Callable[[str, int, int, Callable[[str], int]], Retrieved]
"""Finds what the messages below a number say about a question, in so many tokens as counted."""


class PackSources(NamedTuple):
    """What a call may use beyond its session's own state."""

    files: WorkingSetView | None = None
    retrieve: Retrieve | None = None


class PackRequest(NamedTuple):
    """A call that is to get a pack."""

    key: SessionKey
    adapter: ProviderAdapter
    body: Body
    request: Request
    mode: Mode


@dataclass(frozen=True, slots=True)
class Pack:
    injection: Injection
    state: dict[str, Any]
    """Memory as the model sees it."""
    brief: frozenset[str]
    """The ids of what it sees in brief, without type, tags and round."""
    items: tuple[PackItem, ...]
    """Every candidate, with the reason why it is in or out."""
    budget: Record
    prefix: Prefix
    stable: float
    """The share of the request that begins like the last one."""
    found: Retrieved
    sent: Record
    """What was sent, by numbers and in few words, so that it can be told again."""
    texts: Mapping[str, str]
    """The longer texts among it, by name."""
    epoch: Tiers | None
    """The memory of an epoch that begins with this call."""
    report: Record
    """Of the working set."""
    origin: Origin
    """The least trusted of what the model is shown."""
    outputs: tuple[Decision, ...] = ()
    """Which tool outputs came into the working set and went."""
    output_paths: tuple[str, ...] = ()
    """Those that are there."""
    resources: tuple[Resource, ...] = ()
    """What others than the model may see."""


def pack(
    asked: PackRequest, opening: TurnInputs, sources: PackSources, settings: Settings, most: Limit | None = None
) -> Pack:
    """What to add to a call; `most` is a limit beside those of the settings, the session and the model."""
    return _Packing(asked, opening, sources, settings, most).done()


class _Packing:
    def __init__(
        self, asked: PackRequest, opening: TurnInputs, sources: PackSources, settings: Settings, most: Limit | None
    ) -> None:
        self.asked, self.opening, self.sources, self.settings = asked, opening, sources, settings
        self.may_begin_epoch = most is None
        self.measure = Measure(asked.request.model)
        self.boundary = boundary_of(asked.key)
        self.protocol = protocol_for(asked.mode, settings)
        self.words = words_for(self.protocol, opening.state["capabilities"])
        self.framing = self._frame_tokens()
        self.talk = conversation(asked.request, opening, settings, self.measure)
        self.whole = self.measure.body(asked.adapter.request_tokens, asked.body)
        self.ledger = Ledger(self._budget(most), settings.shares, self._talk())
        self.talk = self.talk._replace(older=counted_once(self.talk.older, self.measure))
        self.copies: dict[int, int] = {}
        """Which messages are sent as references to which others."""
        self.chosen = Chosen()
        self.items: list[PackItem] = []
        self.sent: tuple[HistoryMessage, ...] = ()
        self.state: dict[str, Any] = opening.state
        self.brief: frozenset[str] = frozenset()
        self.epoch: Tiers | None = None
        self.offered: WorkingSetView | None = None
        """The working set as it is in this turn."""
        self.supplement = PackedFiles()
        self.sharing = Sharing(settings.visibility)
        self.found = Retrieved()

    def done(self) -> Pack:
        self.ledger.hold("recent", sum(each.tokens for each in self.talk.older))
        self._add_pinned()
        self._add_summary()
        self._add_memory()
        self._add_files()
        self._add_recent()
        self._add_outputs()
        self._add_found()
        self._add_children()
        return self._assembled()

    def _budget(self, most: Limit | None) -> Budget:
        """What there is to spend, and what the caller's words and the frame around memory take of it."""
        model, settings = self.asked.request.model, self.settings
        window = window_of(model, settings.windows)
        reply = reply_reserve(model, self.asked.adapter.reply_limit(self.asked.body), settings.windows)
        own = self.opening.limit
        limits = [Limit(window.input_tokens - reply, f"the window of {model}")] if window.known else []
        if own is None and settings.budget:
            limits.append(Limit(settings.budget, "settings"))
        elif own:
            limits.append(Limit(own, "context/budget"))
        limits += [most] if most else []
        return reckon(
            limits or [Limit(_UNLIMITED, "nothing")],
            self.whole - sum(each.tokens for each in self.talk.older if each.place >= 0) + self.framing,
            reply=reply,
            counter=self.measure.name,
            exact=self.measure.exact,
        )

    def _talk(self) -> int | None:
        """What the conversation may take: no more than its last messages would without us.

        One that has no more messages than these is all of it recent, and nothing is left out for our sake.
        """
        last = self.settings.budget_messages
        if len(self.talk.older) < last or not last or self.settings.history == "caller":
            return None
        newest = self.talk.older[-last + 1 :] if last > 1 else ()
        return max(_LEAST_TALK, sum(each.tokens for each in newest) - self.framing)

    def _frame_tokens(self) -> int:
        """The protocol, and the state with nothing remembered."""
        empty = {**self.opening.state, "memory": {tier: [] for tier in TIERS}}
        runtime = frame(with_runtime(empty, self.opening.runtime)).translate(_SAME_DIGITS)
        return sum(map(self.measure.text, (*self.words, runtime))) + _FRAMES

    def _add_pinned(self) -> None:
        self.sharing.offer("pinned", self.opening.pinned)
        candidates = texts("pinned", self.opening.pinned, self.boundary, self.measure)
        self.chosen.pinned = self._claimed("pinned", candidates)

    def _add_summary(self) -> None:
        offered = [text for text in (self.opening.document, self.opening.summary) if text]
        self.sharing.offer("summary", offered)
        candidates = texts("summary", offered, self.boundary, self.measure, self.ledger.room("summary"))
        self.chosen.background += self._claimed("summary", candidates)

    def _add_children(self) -> None:
        self.sharing.offer("children", self.opening.children)
        candidates = texts("children", self.opening.children, self.boundary, self.measure)
        self.chosen.background += self._claimed("children", candidates)

    def _claimed(self, kind: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        chosen, items = select(self.sharing.marked(candidates), self.ledger.room(kind))
        self.items += items
        self.ledger.spend(kind, sum(each.tokens for each in chosen))
        return chosen

    def _add_memory(self) -> None:
        """The items that have room, told by an epoch and what changed since, or all in one place."""
        memory, room = self.opening.state["memory"], self.ledger.room("memory")
        made = remembered(
            memory,
            self.opening.epoch,
            room,
            sizes(self.measure.text),
            may_begin=self.may_begin_epoch,
            at_hand=self._begins_elsewhere(),
            question=self._question(),
            foreign=self.opening.foreign_items,
        )
        others = {name: value for name, value in self.opening.state.items() if name != "memory"}
        beside = {"unchanged": made.told.unchanged, "dropped": made.told.dropped}
        self.state, self.brief = {"memory": made.told.shown, **others}, frozenset(made.told.unchanged)
        self.chosen.state = {
            "memory": made.told.changes,
            **{name: ids for name, ids in beside.items() if ids},
            **others,
        }
        self.chosen.epoch = made.epoch if any(made.epoch.values()) else None
        self.epoch = made.epoch if made.is_new else None
        self.items += made.items
        self.ledger.spend("memory", made.tokens)

    def _add_files(self) -> None:
        self.offered = self.sources.files
        if self.offered is not None and self.offered.path and self.settings.working_set_updates:
            boot = replace(self.offered.boot, takes_requests=self.asked.mode != "readonly")
            self.offered = followed(self.offered._replace(boot=boot), self.spoken, self.opening.runtime.round)
        if self.offered is not None:
            files = self.offered.manifest.files
            self.sharing.declare({file.path: file.visibility for file in files if file.visibility is not None})
            for kind in {file.kind for file in files}:
                self.sharing.offer(kind, _read(self.offered, kind))
            self.offered = self._without_hidden(self.offered)
            self._supply(self.offered)

    def _without_hidden(self, offered: WorkingSetView) -> WorkingSetView:
        """The files that the model may see; the others are left out."""
        files = offered.manifest.files
        seen = tuple(file for file in files if "model" in self.sharing.seen_by(file.kind, file.path))
        self.items += [
            PackItem(file.kind, file.path, 0, False, NOT_VISIBLE, file.priority, origin="file")
            for file in files
            if file not in seen
        ]
        return offered._replace(manifest=replace(offered.manifest, files=seen))

    def _add_outputs(self) -> None:
        """Large results of tools that are not sent any more, as files that claim their room among the others."""
        if self.offered is None or not self.offered.path or not self.settings.working_set_updates:
            return
        unsent, opening = self.talk.older[: len(self.talk.older) - len(self.sent)], self.opening
        self.offered = with_results(self.offered, self.spoken, unsent, opening.runtime.round, opening.outputs)
        if self.offered.output_paths:
            self.items = [item for item in self.items if item not in self.supplement.items]
            self.ledger.spend("working_set", -self.supplement.tokens)
            self._supply(self.offered, quiet=True)

    def _supply(self, offered: WorkingSetView, *, quiet: bool = False) -> None:
        room, strict = self.ledger.room("working_set"), self.settings.strict
        self.supplement = pack_files(offered, self.boundary, room, self.measure.text, strict=strict, quiet=quiet)
        self.items += self.supplement.items
        self.chosen.instructions, self.chosen.files = self.supplement.instructions, self.supplement.context
        self.chosen.offered = self.supplement.offered
        self.ledger.spend("working_set", self.supplement.tokens)

    @property
    def spoken(self) -> list[Message]:
        """The conversation as far as it is at hand."""
        said = [message for message in self.asked.request.messages if message.role != "system"]
        return [*(kept.message for kept in self.opening.history), *said]

    def _begins_elsewhere(self) -> bool:
        """Whether recent messages will begin with another one than in the last call, as far as can be told yet."""
        start = self._start()
        return 0 < self._began != (self.talk.older[start].number if start < len(self.talk.older) else 0)

    @property
    def _began(self) -> int:
        before = self.opening.before
        return before.messages[0] if before and before.messages else 0

    def _start(self) -> int:
        """Where recent messages begin, whether they are the caller's or come from the log."""
        older = self.talk.older
        room = min(self.ledger.rest("recent"), self.settings.history_tokens)
        start = cut(older, room, self._began)
        if self.ledger.talk is None:
            return start
        return min(start, newest(older, _LEAST_RECENT, min(self.ledger.left, self.settings.history_tokens)))

    def _add_recent(self) -> None:
        """The newest messages that have room, from a user's on."""
        if self.sources.retrieve:
            self.ledger.hold("retrieved", self.ledger.budget.effective)
        older, start = self.talk.older, self._start()
        self.sent, self.copies = referred(older[start:], self.measure)
        self._note_messages(self.sent, "recent history", included=True)
        self._note_messages(older[:start], _OLDER, included=False)
        self._note_messages(self.talk.elsewhere, _ELSEWHERE, included=False)
        self.chosen.history = tuple(each.message for each in self.sent if each.place < 0)
        self.chosen.references = _references(each for each in self.sent if each.number in self.copies)
        self.chosen.left_out = frozenset(each.place for each in older[:start] if each.place >= 0)
        self.ledger.spend("recent", sum(each.tokens for each in self.sent))

    def _note_messages(self, messages: Sequence[HistoryMessage], reason: str, *, included: bool) -> None:
        if not messages:
            return
        numbers = [each.number for each in messages]
        self.items.append(
            PackItem(
                "recent_messages",
                "messages.jsonl",
                sum(each.tokens for each in messages),
                included,
                reason,
                freshness=max(numbers),
                origin=origin_of_all(((each.number, each.message) for each in messages), self.opening.foreign_messages),
                refs=(ranges(numbers),),
            )
        )

    def _add_found(self) -> None:
        retrieve, room = self.sources.retrieve, self.ledger.room("retrieved")
        if retrieve is None or not room:
            return
        known = [number for number in (*(each.number for each in self.sent), *self.talk.newest) if number]
        first = min(known, default=self.opening.first_message)
        self.found = retrieve(self._question(), first, room, estimate)  # counted when they are lines of a request
        self.chosen.found = self._claimed("retrieved", passages(self.found.chosen, self.measure.text))
        missed = zip(self.found.missed, passages(self.found.missed, estimate), strict=True)
        self.items += [
            as_item(each, included=False, reason=", ".join(passage.reasons) or _LESS) for passage, each in missed
        ]

    def _question(self) -> str:
        """What is looked for: the user's words and, where these are few, what is being done."""
        said = self.talk.question
        task = str(self.opening.state.get("active_task") or "")
        return said if len(said.split()) >= _TELLING else f"{said}\n{task}"

    def _assembled(self) -> Pack:
        asked, opening, chosen = self.asked, self.opening, self.chosen
        injection = assemble(chosen, self.words, opening.runtime, asked.mode, self.settings)
        head, said = self._head(injection), [StableText(each.number, each.tokens) for each in self.sent]
        budget = self.ledger.as_json()
        stable = stable_tokens(opening.before, head, said)
        said += [StableText(number, 0) for number in self.talk.newest]
        items = self.sharing.told((*self._fixed_items(), *self.items))
        return Pack(
            injection=injection,
            state=self.state,
            brief=self.brief,
            items=items,
            budget=budget,
            prefix=prefix_of(head, said),
            stable=round(stable / max(1, budget["fixed"] + budget["used"]), 3),
            found=self.found,
            sent=self._sent(),
            texts={"protocol": self.words.as_text(), **chosen.texts},
            epoch=self.epoch,
            report=dict(self.supplement.report),
            origin=foreign_in(item.origin for item in items if item.included) or self._callers_origin(),
            outputs=self.offered.outputs if self.offered else (),
            output_paths=self.offered.output_paths if self.offered else (),
            resources=tuple(self.sharing.resources),
        )

    def _sent(self) -> Record:
        chosen = {each.refs[0] for each in self.chosen.found}
        found = [each for each in self.found.chosen if f"{each.number}.{each.part}" in chosen]
        return {
            "protocol": self.protocol,
            "system": ranges(self.opening.system),
            "epoch": "brief" if self.chosen.epoch is not None else "",
            "state": self.chosen.state,
            "found": [[each.number, each.part, each.heading, each.speaker] for each in found],
            **({"copies": list(self.copies.items())} if self.copies else {}),
        }

    def _head(self, injection: Injection) -> list[InjectedPart]:
        """What stands before the conversation, in the order of the request."""
        measure, body = self.measure, self.asked.body
        system = "\n".join(message.text for message in self.asked.request.messages if message.role == "system")
        tools = json.dumps(body["tools"], default=str) if body.get("tools") else ""
        parts = (tools, injection.protocol, system, injection.standing, injection.background)
        return [InjectedPart(text, measure.text(text)) for text in parts]

    def _fixed_items(self) -> list[PackItem]:
        """What is sent in any case."""
        protocol = self.measure.text(self.words.protocol)
        callers = self.ledger.budget.fixed - self.framing
        state = foreign_in((self.opening.foreign_state, self._epoch_origin() or ""))
        return [
            PackItem("system", "protocol", protocol, True, "tells the model what the blocks are", 1.0),
            PackItem(
                "memory",
                "events.jsonl",
                self.framing - protocol,
                True,
                "frames, and the runtime fields",
                1.0,
                origin=state or "operator",
            ),
            PackItem("request", "caller", callers, True, "sent by the caller", 1.0, origin=self._callers_origin()),
        ]

    def _epoch_origin(self) -> Origin | None:
        """Of what the epoch tells, of items that are gone as well."""
        told = (str(item["id"]) for tier in (self.chosen.epoch or {}).values() for item in tier)
        return foreign_in(self.opening.foreign_items.get(id, "") for id in told)

    def _callers_origin(self) -> Origin:
        return origin_of_request(self.asked.request, self.opening, self.chosen.left_out)


def _references(copies: Iterable[HistoryMessage]) -> dict[int, dict[str, str]]:
    """What the caller's messages at some places say in the place of what tools gave, by the ids of the calls."""
    texts: dict[int, dict[str, str]] = {}
    for each in copies:
        if each.place >= 0:
            texts.setdefault(each.place, {})[each.message.tool_call_id] = each.message.text
    return texts


def _read(offered: WorkingSetView, kind: str) -> Iterator[SourcedText]:
    """The files of a working set that could be read and are of that kind."""
    files = (file for file in offered.manifest.files if file.kind == kind)
    found = ((file.path, offered.contents.get(file.path)) for file in files)
    return (SourcedText(path, text.text, "file") for path, text in found if isinstance(text, FileText))


_UNLIMITED = 10**9
_TELLING = 4
"""A question of fewer words says little by itself."""
