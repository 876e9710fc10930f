"""The pack of a call: every stage claims its share of the budget in turn, and records what it chose.

The order of claims is that of `_Packing.build`. Retrieved passages must not repeat recent messages, so their share is
reserved until these are known.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ctxwrap.kinds import KINDS, text_kinds
from ctxwrap.memory.epoch import Tiers
from ctxwrap.memory.items import MemoryItem, Origin, least_trusted_foreign, origin_of_request
from ctxwrap.pack.budget import Ledger, Limit, TokenBudget, smallest_limit
from ctxwrap.pack.injection import (
    Chosen,
    assemble,
    instructions_for,
    instructions_tokens,
    measured_head,
    protocol_for,
    stable_tokens,
)
from ctxwrap.pack.memory import NO_OWNED_ITEMS, OwnedItems, memory_block, recalled_item, sizes
from ctxwrap.pack.older_messages import (
    NO_MESSAGES,
    OlderMessages,
    conversation,
    counted_once,
    cut,
    references_in,
    referred,
)
from ctxwrap.pack.receipt import OLDER
from ctxwrap.pack.selection import (
    LINES,
    NOT_VISIBLE,
    Retrieved,
    Sharing,
    fit_passages,
    missed_passages,
    need_of_past,
    newest_first,
    search_text,
    select,
    speaker_lines,
    text_candidates,
)
from ctxwrap.protocol.instructions import boundary_of, frame_state
from ctxwrap.protocol.snapshot import with_runtime
from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.retrieval.selection import Passage
from ctxwrap.settings import Mode, Settings
from ctxwrap.stores.log_format import ranges
from ctxwrap.tokens import reply_reserve, window_of
from ctxwrap.tokens.measure import estimate_tokens, measure_for
from ctxwrap.types import (
    Body,
    Candidate,
    Injection,
    Message,
    Operation,
    PackedFiles,
    PackItem,
    Prefix,
    Record,
    Request,
    Resource,
    Runtime,
    SessionKey,
    TurnInputs,
)

if TYPE_CHECKING:  # `workingset` is loaded by the first call that has files
    from ctxwrap.workingset.requests import Decision
    from ctxwrap.workingset.working_set import WorkingSetView

_FRAMES = 64
"""The most tokens that the marks around pinned texts, memory, background and retrieved passages take."""

_LEAST_CONVERSATION = 740
"""The least limit for recent messages, memory and retrieved passages together: about ten short messages."""

_LEAST_RECENT = 4
"""The newest messages that are sent even beyond their share: a short question refers to them."""

_SAME_DIGITS = bytes.maketrans(b"0123456789", b"0000000000")
"""The runtime differs between calls in its digits only, which does not change its tokens: so its count is cached."""

_OWNED = frozenset({"user_items", "team_items"})
_ORIGIN, _IS_INCLUDED = attrgetter("origin"), attrgetter("included")
_PLACE = attrgetter("number", "part", "heading", "speaker")

_KEPT_ELSEWHERE = "the caller or the provider keeps the history"


Retrieve = Callable[[str, int, int, Callable[[str], int]], Retrieved]
"""Finds passages about a question, in messages below a number, within a number of tokens, by a way of counting."""


Recall = Callable[[Sequence[Passage], int], tuple[Operation, ...]]
"""Brings memory items back from swap that were learned from passages, in a round."""


class PackSources(NamedTuple):
    """The sources of a pack beside the state of the session."""

    files: "WorkingSetView | None" = None
    retrieve: Retrieve | None = None
    recall: Recall | None = None


class PackRequest(NamedTuple):
    """The request that gets a pack."""

    key: SessionKey
    adapter: ProviderAdapter
    body: Body
    request: Request
    mode: Mode


class Pack(NamedTuple):
    injection: Injection
    state: dict[str, Any]
    """The memory that the model sees."""
    brief: frozenset[str]
    """The ids of the items in the epoch block, which has no type, tags and round."""
    items: tuple[PackItem, ...]
    """Every candidate, with the reason why it is included or not."""
    budget: Record
    prefix: Prefix
    stable: float
    """The part of the request that has the same prefix as the last one."""
    found: Retrieved
    sent: Record
    """What was sent, as numbers and short texts, from which the log rebuilds the pack."""
    texts: Mapping[str, str]
    """The longer texts, by block."""
    epoch: Tiers | None
    """The memory of an epoch that begins with this call."""
    report: Record
    """The assembly report of the working set."""
    origin: Origin
    """The least trusted origin of what the model sees."""
    outputs: "tuple[Decision, ...]" = ()
    """The tool outputs that entered or left the working set."""
    output_paths: tuple[str, ...] = ()
    """The tool outputs in the working set."""
    resources: tuple[Resource, ...] = ()
    """The texts for targets other than the model."""
    recalled: tuple[Operation, ...] = ()
    """What came back from swap because of what was found."""


def pack(
    given: PackRequest, inputs: TurnInputs, sources: PackSources, settings: Settings, most: Limit | None = None
) -> Pack:
    """Make the pack of a call; `most` is a limit beside those of the settings, the session and the model."""
    return _Packing(given, inputs, sources, settings, most).build()


class _Packing:
    brief: frozenset[str] = frozenset()
    epoch: Tiers | None = None
    working_set: "WorkingSetView | None" = None
    """The working set as it is in this turn."""
    files = PackedFiles()
    recent = NO_MESSAGES
    found = Retrieved()
    recalled: tuple[Operation, ...] = ()

    def __init__(
        self, given: PackRequest, inputs: TurnInputs, sources: PackSources, settings: Settings, most: Limit | None
    ) -> None:
        self.given, self.inputs, self.sources, self.settings = given, inputs, sources, settings
        self.may_begin_epoch = most is None
        self.measure = measure_for(given.request.model)
        self.protocol = protocol_for(given.mode, settings)
        self.words = instructions_for(self.protocol, inputs.state["capabilities"])
        self.words_tokens = instructions_tokens(self.words, self.measure.text)
        self.framing = self._framing_tokens()
        self.conversation = conversation(given.request, inputs, settings, self.measure)
        self.ledger = Ledger(self._budget(most), settings.shares, self._conversation_limit())
        self.is_plain = self.conversation.older.are_plain
        if not self.is_plain:
            self.conversation = self.conversation._replace(older=counted_once(self.conversation.older, self.measure))
        before = inputs.before
        self.began = before.messages[0] if before and before.messages else 0
        """The number of the message with which recent messages began in the last call; 0 if that is not known."""
        self.question = search_text(self.conversation.question, str(inputs.state.get("active_task") or ""))
        """The text to search with: the user's newest message, with the active task if it is short."""
        self.sharing = Sharing(settings.visibility)
        self.chosen = Chosen()
        self.items: list[PackItem] = []
        self.state: dict[str, Any] = inputs.state
        self.copies: dict[int, int] = {}
        """By number of a message that is sent as a reference, the number of the original."""
        self.quoted: list[Passage] = []
        """Those of the passages found that are sent, best first."""

    def build(self) -> Pack:
        self.ledger.hold("recent_messages", self.conversation.older.tokens)
        has_texts, has_files = any(self.inputs.texts.values()), self.sources.files is not None
        if has_texts:
            self._add_texts("early")
        self._add_memory()
        if has_files:
            self._add_files()
        self._add_recent()
        if has_files:
            self._add_outputs()
        self._add_retrieved()
        if has_texts:
            self._add_texts("late")
        return self._assembled(self.chosen.texts if has_texts or has_files else {})

    def _budget(self, most: Limit | None) -> TokenBudget:
        model, adapter, body, measure = self.given.request.model, self.given.adapter, self.given.body, self.measure
        window, budget = window_of(model, self.settings.windows), self.settings.budget
        reply = reply_reserve(window, adapter.reply_limit(body))
        given = measure.body(adapter.request_tokens, body) - self.conversation.older.callers_tokens
        heavy = max(given, budget - budget // 2)  # requests of fewer tokens have the same limit, which is kept
        limit = smallest_limit(model, window, reply, budget, self.inputs.limit, heavy)
        limit = most if most and most.tokens < limit.tokens else limit
        fixed = given + self.framing
        return TokenBudget(max(0, limit.tokens), limit.set_by, reply, fixed, measure.name, measure.exact)

    def _conversation_limit(self) -> int | None:
        """The limit for the conversation: what its last messages would take without ctxwrap.

        A conversation of fewer messages has no such limit.
        """
        last, older = self.settings.budget_messages, self.conversation.older
        count = len(older)
        if count < last or not last or self.settings.history == "caller":
            return None
        tokens = older.tokens_from(count - last + 1)
        return max(_LEAST_CONVERSATION, tokens - self.framing)

    def _framing_tokens(self) -> int:
        """The tokens of the protocol, and of the state with an empty memory."""
        inputs, count = self.inputs, self.measure.text
        if inputs.state["capabilities"] or len(inputs.state) > _USUAL_FIELDS:
            state = count(_framed_without_memory(inputs.state, inputs.runtime))
        else:
            number, moment, startup = inputs.runtime
            task = inputs.state["active_task"]
            state = _usual_state_tokens(count, len(str(number)), *map(_with_same_digits, (moment, startup, task)))
        return sum(self.words_tokens) + state + _FRAMES

    def _add_texts(self, claims: Literal["early", "late"]) -> None:
        for kind in text_kinds(claims):
            offered = self.inputs.texts.get(kind.name)
            if not offered:
                continue
            self.sharing.offer(kind.name, offered)
            candidates = text_candidates(
                kind, offered, boundary_of(self.given.key), self.measure, self.ledger.claimable(kind.name)
            )
            self.chosen.session_texts.setdefault(kind.block, []).extend(self._selected(kind.name, candidates))

    def _selected(self, kind: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates of a kind that fit its share, which they take."""
        chosen, items = select(self.sharing.mark_candidates(candidates), self.ledger.claimable(kind))
        self.items += items
        self.ledger.spend(kind, sum(each.tokens for each in chosen))
        return chosen

    def _add_memory(self) -> None:
        """The memory items that fit, as an epoch and the changes since, or all of them in the state."""
        owned = self._owned_items() if self.inputs.owners else NO_OWNED_ITEMS
        made = memory_block(
            self.inputs.state["memory"],
            self.inputs.epoch,
            self.ledger.claimable("memory", spare=self._tokens_for_passages()),
            sizes(self.measure.text),
            may_begin=self.may_begin_epoch,
            is_history_cut=self._begins_elsewhere,
            question=self.question,
            foreign=self.inputs.foreign.items,
            owned=owned,
        )
        shown, changes, dropped, unchanged = made.memory
        others = {**self.inputs.state}
        del others["memory"]
        self.state, self.brief = {"memory": shown, **others}, frozenset(unchanged)
        sent: dict[str, Any] = {"memory": changes}
        if unchanged:
            sent["unchanged"] = unchanged
        if dropped:
            sent["dropped"] = dropped
        self.chosen.state = sent | others
        self.chosen.epoch = made.epoch if any(made.epoch.values()) else None
        self.epoch = made.epoch if made.is_new else None
        self.items += made.items
        tokens = made.tokens
        for item in made.items if owned.ids else ():
            if item.included and item.kind in _OWNED:
                self.ledger.spend(item.kind, item.tokens)
                tokens -= item.tokens
        self.ledger.spend("memory", max(0, tokens))

    def _owned_items(self) -> OwnedItems:
        """The items of the user and the team that fit their shares."""
        owned, core = NO_OWNED_ITEMS, self.inputs.state["memory"]["core"]
        for owner in self.inputs.owners:
            items = [item for item in core if item["id"] in owner.items]
            limit = self.ledger.claimable(f"{owner.kind}_items")
            owned = owned.add(items, limit, sizes(self.measure.text), self.question)
        return owned

    @property
    def _follows(self) -> bool:
        """Whether the working set follows the conversation."""
        return bool(self.working_set and self.working_set.path and self.settings.working_set_updates)

    def _add_files(self) -> None:
        view = self.working_set = self.sources.files
        assert view is not None
        if self._follows:
            from ctxwrap.workingset.priorities import with_adjusted_priorities

            boot = replace(view.boot, takes_requests=self.given.mode != "readonly")
            view = with_adjusted_priorities(view._replace(boot=boot), self._messages(), self.inputs.runtime.round)
        files = view.manifest.files
        self.sharing.declare({file.path: file.visibility for file in files if file.visibility is not None})
        for kind in {file.kind for file in files}:
            self.sharing.offer(kind, view.texts(kind))
        self.working_set = self._without_hidden(view)
        self._pack_files(self.working_set)

    def _without_hidden(self, view: "WorkingSetView") -> "WorkingSetView":
        """The working set without the files that the model may not see."""
        files = view.manifest.files
        seen = tuple(file for file in files if "model" in self.sharing.seen_by(file.kind, file.path))
        self.items += [
            PackItem(file.kind, file.path, 0, False, NOT_VISIBLE, file.priority, origin="file")
            for file in files
            if file not in seen
        ]
        return view._replace(manifest=replace(view.manifest, files=seen))

    def _add_outputs(self) -> None:
        """Large tool results that are no longer sent, as files that compete with the others."""
        if self.working_set is None or not self._follows:
            return
        from ctxwrap.workingset.priorities import with_tool_results

        unsent, inputs = self.conversation.older[: len(self.conversation.older) - len(self.recent)], self.inputs
        view = with_tool_results(self.working_set, self._messages(), unsent, inputs.runtime.round, inputs.outputs)
        self.working_set = view
        if view.output_paths:
            self.items = [item for item in self.items if item not in self.files.items]
            self.ledger.spend("working_set", -self.files.tokens)
            self._pack_files(view, quiet=True)

    def _pack_files(self, view: "WorkingSetView", *, quiet: bool = False) -> None:
        from ctxwrap.workingset.working_set import pack_files

        limit, strict = self.ledger.claimable("working_set"), self.settings.strict
        self.files = pack_files(view, boundary_of(self.given.key), limit, self.measure.text, strict=strict, quiet=quiet)
        self.items += self.files.items
        self.chosen.instructions, self.chosen.files = self.files.instructions, self.files.context
        self.chosen.offered = self.files.offered
        self.ledger.spend("working_set", self.files.tokens)

    def _messages(self) -> list[Message]:
        """The conversation as far as it is loaded."""
        own = [message for message in self.given.request.messages if message.role != "system"]
        return [*(kept.message for kept in self.inputs.history), *own]

    def _begins_elsewhere(self) -> bool:
        """Whether recent messages will begin with another message than in the last call, by the present ledger."""
        start, older = self._start(), self.conversation.older
        return 0 < self.began != (older.number(start) if start < len(older) else 0)

    def _start(self) -> int:
        """The index of the first recent message."""
        older, most = self.conversation.older, self.settings.history_tokens
        start = cut(older, min(self.ledger.unreserved("recent_messages"), most), self.began)
        if start <= len(older) - _LEAST_RECENT:
            return start
        return min(start, older.newest(_LEAST_RECENT, min(self.ledger.left, most)))

    def _tokens_for_passages(self) -> int:
        """The share of passages; 0 if the conversation is so short that it is sent whole."""
        may_find = self.sources.retrieve and (self.ledger.conversation is not None or not self._is_whole())
        return self.ledger.share("retrieved") if may_find else 0

    def _is_whole(self) -> bool:
        """Whether all messages of the log can be sent."""
        older, first = self.conversation.older, self.inputs.first_message
        known = len(self.inputs.system) + sum(0 < number < first for number in older.numbers)
        fitting = min(self.ledger.left, self.settings.history_tokens)
        return known >= first - 1 and older.tokens <= fitting

    def _add_recent(self) -> None:
        """The newest messages that fit, beginning with one of the user."""
        self.ledger.hold("retrieved", self._tokens_for_passages())
        left_out, self.recent = self.conversation.older.split(self._start())
        if not self.is_plain:
            self.recent, self.copies = referred(self.recent, self.measure)
        self._note_messages(self.recent, KINDS["recent_messages"].reason, included=True)
        self._note_messages(left_out, OLDER, included=False)
        self._note_messages(self.conversation.elsewhere, _KEPT_ELSEWHERE, included=False)
        self.chosen.history = tuple(self.recent.from_log)
        if self.copies:
            self.chosen.references = references_in(each for each in self.recent if each.number in self.copies)
        self.chosen.left_out = left_out.callers_places
        self.ledger.spend("recent_messages", self.recent.tokens)

    def _note_messages(self, messages: OlderMessages, reason: str, *, included: bool) -> None:
        if messages:
            self.items.append(messages.as_item(reason, self.inputs.foreign.messages, included=included))

    def _add_retrieved(self) -> None:
        retrieve = self.sources.retrieve
        room = self.ledger.claimable("retrieved")
        limit = self.ledger.needed("retrieved", need_of_past(self.conversation.question), room)
        if retrieve is None or not limit:
            return
        known = [*self.recent.numbers, *self.conversation.newest]
        first = min(filter(None, known), default=self.inputs.first_message)
        self.found = retrieve(self.question, first, limit, estimate_tokens)  # counted exactly once they are lines
        if not self.found.chosen and not self.found.missed:
            return
        seen = self.sharing.seen_by("retrieved", KINDS["retrieved"].source)
        self.quoted, items = fit_passages(self.found.chosen, self.measure.text, room, seen)
        self.chosen.found = speaker_lines(newest_first(self.quoted))
        self.items += [*items, *missed_passages(self.found.missed, seen)]
        tokens = sum([item.tokens for item in items if item.included])
        self.ledger.spend("retrieved", tokens)
        self._add_recalled(limit - tokens)

    def _add_recalled(self, left: int) -> None:
        """The memory items that were learned from what is found; those that fit the rest of its share are shown."""
        if self.sources.recall is None or not self.found.chosen:
            return
        if self.question != self.conversation.question:  # the user did not name the task that was searched with
            return
        back = self.sources.recall(self.found.chosen, self.inputs.runtime.round)
        if not back:
            return
        shown = {str(item["id"]) for tier in self.inputs.state["memory"].values() for item in tier}
        self.recalled = tuple(each for each in back if each.id not in shown)
        for item in (MemoryItem.from_json(each.item or {}) for each in self.recalled):
            entry = item.shown(round(item.decay, 3))
            (tokens,) = sizes(self.measure.text).whole([entry])
            self.items.append(recalled_item(item, tokens, fits=tokens <= left))
            if tokens <= left:
                left -= tokens
                self.ledger.spend("memory", tokens)
                self._show(item, entry)

    def _show(self, item: MemoryItem, entry: dict[str, Any]) -> None:
        """Add an item to the state, though the epoch may have it and the state may say that it is dropped."""
        for memory in (self.state["memory"], self.chosen.state["memory"]):
            memory[item.tier] = [*memory[item.tier], entry]
        dropped = [id for id in self.chosen.state.pop("dropped", ()) if id != item.id]
        self.chosen.state |= {"dropped": dropped} if dropped else {}

    def _assembled(self, texts: Mapping[str, str]) -> Pack:
        """The pack of what was chosen; `texts` are the longer ones."""
        given, inputs, chosen, budget = self.given, self.inputs, self.chosen, self.ledger.as_json()
        injection = assemble(chosen, texts, self.words, inputs.runtime, given.mode, self.settings)
        head, sizes = measured_head(self._head(injection), self.measure.text)
        prefix = Prefix(head, (*self.recent.numbers, *self.conversation.newest))
        stable = stable_tokens(inputs.before, prefix, sizes, self.recent.tokens_before)
        callers = origin_of_request(given.request, inputs, chosen.left_out)
        items = self.sharing.mark_items((*self._fixed_items(callers), *self.items))
        made = Pack(
            injection=injection,
            state=self.state,
            brief=self.brief,
            items=items,
            budget=budget,
            prefix=prefix,
            stable=round(stable / max(1, budget["fixed"] + budget["used"]), 3),
            found=self.found,
            sent=self._sent(),
            texts={"protocol": self.words.as_text(), **texts},
            epoch=self.epoch,
            report=dict(self.files.report),
            origin=least_trusted_foreign(map(_ORIGIN, filter(_IS_INCLUDED, items))) or callers,
            recalled=self.recalled,
        )
        if self.sharing.resources:
            made = made._replace(resources=tuple(self.sharing.resources))
        view = self.working_set
        return made if view is None else made._replace(outputs=view.outputs, output_paths=view.output_paths)

    def _sent(self) -> Record:
        return {
            "protocol": self.protocol,
            "system": ranges(self.inputs.system) if self.inputs.system else "",
            "epoch": "brief" if self.chosen.epoch is not None else "",
            "state": self.chosen.state,
            "found": list(map(list, map(_PLACE, self.quoted))),
            **({"lines": LINES} if self.quoted else {}),
            **({"copies": list(self.copies.items())} if self.copies else {}),
        }

    def _head(self, injection: Injection) -> tuple[str, ...]:
        """The parts before the conversation, in the order of the request."""
        tools = self.given.body.get("tools")
        written = json.dumps(tools, default=str) if tools else ""
        return written, injection.protocol, self.conversation.system, injection.standing, injection.background

    def _fixed_items(self, callers: Origin) -> list[PackItem]:
        """The items that are always sent."""
        protocol, foreign = self.words_tokens[0], self.inputs.foreign
        state = self._state_origin() if foreign.state or foreign.items else None
        return [
            _fixed_item("system", protocol, "operator"),
            _fixed_item("memory", self.framing - protocol, state or "operator"),
            _fixed_item("request", self.ledger.budget.fixed - self.framing, callers),
        ]

    def _state_origin(self) -> Origin | None:
        """The foreign origin in the state and in the epoch block, which may show items that memory no longer has."""
        foreign = self.inputs.foreign
        ids = [str(item["id"]) for tier in (self.chosen.epoch or {}).values() for item in tier]
        return least_trusted_foreign((foreign.state, *(foreign.items.get(id, "") for id in ids)))


_USUAL_FIELDS = len(("memory", "capabilities", "active_task"))


@lru_cache(maxsize=64)
def _usual_state_tokens(count: Callable[[str], int], digits: int, moment: str, startup: str, task: str) -> int:
    """The tokens of the state with an empty memory and a round of so many digits."""
    state = {"memory": {}, "capabilities": [], "active_task": task}
    return count(_framed_without_memory(state, Runtime(10 ** (digits - 1), moment, startup)))


def _framed_without_memory(state: dict[str, Any], runtime: Runtime) -> str:
    empty = {**state, "memory": {"core": [], "working": [], "ephemeral": []}}
    return _with_same_digits(frame_state(with_runtime(empty, runtime)))


def _with_same_digits(text: str) -> str:
    written = text.encode("utf-8", "surrogatepass").translate(_SAME_DIGITS)  # much faster than that of a text
    return written.decode("utf-8", "surrogatepass")


@lru_cache(maxsize=256)
def _fixed_item(kind: str, tokens: int, origin: Origin) -> PackItem:
    row = KINDS[kind]
    return PackItem(kind, row.source, tokens, True, row.reason, 1.0, 0, origin)
