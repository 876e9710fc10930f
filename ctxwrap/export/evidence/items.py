"""The context records of one request: what its pack included or left out, in the terms of Agent Context."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, get_args

from ctxwrap.export.evidence.history import RequestAttempt, SessionHistory
from ctxwrap.export.evidence.vocabulary import (
    TARGETS,
    ContentMode,
    ContextKind,
    InjectionPoint,
    OmissionReason,
    TargetName,
)
from ctxwrap.kinds import is_file, kind_named
from ctxwrap.memory.items import ORIGINS, TIERS
from ctxwrap.pack.selection import passages_sent
from ctxwrap.protocol.instructions import blocks_in, boundary_of, encode_escaped
from ctxwrap.session.blobs import texts_in
from ctxwrap.session.pack_view import PackBlock, PackView
from ctxwrap.stores.log_format import numbers_in
from ctxwrap.types import PackItem
from ctxwrap.workingset.manifest import OFFER
from ctxwrap.workingset.working_set import OUTPUT

_MODES: dict[ContextKind, ContentMode] = {
    "tool_result": "tool_result_ref",
    "thread_summary": "summary",
    "computed_summary": "summary",
    "artifact_ref": "artifact_ref",
}

POINTS: dict[str, InjectionPoint] = {
    "protocol": "system_prompt",
    "boot": "system_prompt",
    "system": "system_prompt",
    "pinned": "system_prompt",
    "memory": "system_prompt",
    "background": "user_message_appendix",
    "message": "message_history",
    "found": "user_message_appendix",
    "offered": "user_message_appendix",
    "state": "user_message_appendix",
    "reminder": "user_message_appendix",
}
"""Where each block of a request stands."""

_OMISSIONS: tuple[tuple[str, OmissionReason], ...] = (
    ("over budget", "budget_limit"),
    ("older than the budget", "budget_limit"),
    ("not for the model to see", "not_visible_to_target"),
    ("may not be read", "permission_missing"),
    ("binary file", "unsupported_media"),
    ("not utf-8", "unsupported_media"),
    ("more than", "too_large"),
    ("more to the point", "low_relevance"),
)
"""What stands in a pack's reason for leaving something out, and the standard's word for it."""


_TERMS: dict[str, ContextKind] = {term: term for term in get_args(ContextKind)}


def kind_of(kind: str, **known: str) -> ContextKind:
    """The term for a kind of pack item, given the item's source, role, tier or origin."""
    evidence = kind_named(kind).evidence
    variants = (term for name, glob, term in evidence.variants if fnmatchcase(known.get(name, ""), glob))
    return _TERMS[next(variants, evidence.kind)]


def mode_of(kind: ContextKind) -> ContentMode:
    """How an item of that kind refers to its content."""
    return _MODES.get(kind, "ref")


_REASONS: dict[str, OmissionReason] = {reason: reason for reason in get_args(OmissionReason)}


def omission_of(kind: str, reason: str) -> OmissionReason:
    lowered = reason.lower()
    known = next((word for words, word in _OMISSIONS if words in lowered), None)
    return known or _REASONS[kind_named(kind).evidence.omission]


def visibility_of(words: Iterable[str]) -> tuple[TargetName, ...]:
    """Those who may see something; a word that names nobody lets nobody see it."""
    given = set(words)
    return tuple(target for target in TARGETS if target in given)


def trust_of(origin: str) -> str:
    """The origin, if it is one; findings name who spoke, which is nobody's business."""
    return origin if origin in ORIGINS else "user"


@dataclass(frozen=True, slots=True)
class ContextRecord:
    entry: int
    """Index of its entry in the pack."""
    item: PackItem
    kind: ContextKind
    uri: str
    part: str = ""
    """The part of the source: a number, a range or an id."""
    is_private: bool = False
    """Whether the part's name may reveal content, as the ids that a model gives to memory items do."""
    content: str | None = None
    """The text sent to the model; None if it is unknown or was not sent."""
    is_gone: bool = False
    """Whether the text was forgotten or purged since."""
    tokens: int | None = None
    digest: str = ""
    """SHA-256 of the whole source, which may be longer than the text sent."""
    blocks: tuple[str, ...] = ()
    """Keys of the request's blocks that contain it."""


def block_key(block: PackBlock) -> str:
    """Return the key by which context records name a block."""
    return block.source if block.name in ("message", "system") else block.name


def read_records(history: SessionHistory, attempt: RequestAttempt) -> tuple[ContextRecord, ...]:
    """Return all candidates of a request, included or not; none if nothing was packed."""
    return tuple(_RecordReader(history, attempt, attempt.view).read()) if attempt.view is not None else ()


@dataclass
class _RecordReader:
    history: SessionHistory
    attempt: RequestAttempt
    view: PackView
    _at: int = field(default=0, init=False)

    def read(self) -> Iterator[ContextRecord]:
        for at, item in enumerate(self.view.items):
            self._at = at
            form = kind_named(item.kind).form
            if item.kind == "request":
                yield from self._messages(item, [*self._system, *self._newest])
            elif form == "messages" and item.included:
                yield from self._messages(item, self._recent)
            elif form == "memory":
                yield from (self._memory(item, id) for id in item.refs)
            else:
                yield self._one(item)

    def _one(self, item: PackItem) -> ContextRecord:
        """Return the record of a pack item that stands for one source."""
        kind = kind_of(item.kind, source=item.source, origin=item.origin)
        blocks = (self._block_of(item),) if item.included else ()
        content = self._content(item) if item.included else None
        is_gone = content is None and (bool(self._deleted_blocks.intersection(blocks)) or self._is_purged(item))
        part = " ".join(item.refs)
        whole = self._digests.get(item.source, "") if is_file(item.kind) else ""
        return ContextRecord(
            self._at, item, kind, _uri(item), part, False, content, is_gone, item.tokens, digest=whole, blocks=blocks
        )

    def _memory(self, item: PackItem, id: str) -> ContextRecord:
        tier, memory = self._memory_items.get(id, ("", None))
        places = [name for name, ids in self._memory_blocks.items() if id in ids] or [*self._memory_blocks][-1:]
        blocks = tuple(places) if item.included else ()
        content = encode_escaped(memory) if memory is not None and item.included else None
        kind, is_gone = kind_of(item.kind, tier=tier), item.included and content is None
        tokens = item.tokens if len(item.refs) == 1 else None
        return ContextRecord(self._at, item, kind, _uri(item), id, True, content, is_gone, tokens, blocks=blocks)

    def _messages(self, item: PackItem, numbers: list[int]) -> Iterator[ContextRecord]:
        """Yield one record per message; messages that are not in the log share one record."""
        for number in filter(None, dict.fromkeys(numbers)):
            yield self._message(item, number)
        if not all(numbers) or not numbers:
            blocks = ("messages.jsonl",) if numbers else ()
            yield ContextRecord(self._at, item, kind_of(item.kind), "caller:messages", blocks=blocks)

    def _message(self, item: PackItem, number: int) -> ContextRecord:
        source = f"messages:{number}"
        block = next((block for block in self.view.blocks if block.source == source), None)
        if block is None:  # missing from a damaged log
            kind = kind_of(item.kind)
            return ContextRecord(
                self._at, item, kind, "session:messages.jsonl", str(number), blocks=("messages.jsonl",)
            )
        is_gone = number in self.history.purged
        content = None if is_gone else block.text
        kind = kind_of(item.kind, role=block.role)
        where = ("session:messages.jsonl", str(number), False)
        return ContextRecord(self._at, item, kind, *where, content, is_gone, block.tokens, blocks=(source,))

    @cached_property
    def _sent(self) -> dict[str, Any]:
        return dict(self.attempt.event["sent"])

    @cached_property
    def _system(self) -> list[int]:
        return numbers_in(str(self._sent["system"]))

    @cached_property
    def _recent(self) -> list[int]:
        refs = [item.refs for item in self.view.items if item.kind == "recent_messages" and item.included]
        return [number for (ref,) in refs for number in numbers_in(ref)]

    @cached_property
    def _newest(self) -> list[int]:
        """The caller's messages after the recent ones, which every request contains."""
        conversation = numbers_in(str(self.attempt.event["prefix"]["messages"]))
        return conversation[len(self._recent) :]

    @cached_property
    def _memory_blocks(self) -> dict[str, set[str]]:
        """The ids of the memory items in each block."""
        state = {"state": _ids(self._sent["state"].get("memory") or {})}
        return {"memory": _ids(self.attempt.epoch), **state} if self._sent["epoch"] else state

    @cached_property
    def _memory_items(self) -> dict[str, tuple[str, Any]]:
        """Memory items as they were sent, with their tiers, by id."""
        memories = [self.attempt.epoch] if self._sent["epoch"] else []
        memories.append(self._sent["state"].get("memory") or {})
        return {str(item["id"]): (tier, item) for each in memories for tier in TIERS for item in each.get(tier, ())}

    @cached_property
    def _framed_texts(self) -> dict[str, str]:
        """Texts of files, pins, summary and child results, by path."""
        boundary = boundary_of(self.history.key)
        texts = [block.text for block in self.view.blocks if block.name in ("boot", "pinned", "background", "offered")]
        return {block.path: block.content for text in texts for block in blocks_in(text, boundary)}

    @cached_property
    def _search_results(self) -> dict[str, str]:
        """Search results as they were sent, each a line of JSON."""
        text = next((block.text for block in self.view.blocks if block.name == "found"), "")
        lines = text.split("\n")[1:-1]
        places = [f"{number}.{part}" for number, part, *_ in passages_sent(self._sent)]
        return dict(zip(places, lines, strict=True)) if len(places) == len(lines) else {}

    def _content(self, item: PackItem) -> str | None:
        if item.kind == "system":
            return next(block.text for block in self.view.blocks if block.name == "protocol")
        if item.kind == "memory":
            return encode_escaped(self.attempt.event["runtime"])
        if item.kind == "boot_header":
            return self.view.boot_header or None
        if kind_named(item.kind).form == "passage":
            return None if self._is_purged(item) else self._search_results.get(item.refs[0])
        return self._framed_texts.get(item.source)

    @cached_property
    def _deleted_blocks(self) -> set[str]:
        """The blocks whose texts were deleted."""
        return {name for name, id in texts_in(self.attempt.event).items() if self.history.text(str(id)) is None}

    def _is_purged(self, item: PackItem) -> bool:
        """Whether this is a search result from a purged message."""
        return kind_named(item.kind).form == "passage" and int(item.refs[0].partition(".")[0]) in self.history.purged

    def _block_of(self, item: PackItem) -> str:
        if item.source.startswith(OFFER):
            return "offered"
        if is_file(item.kind):
            return "boot" if self._roles.get(item.source) in ("system", "developer") else "background"
        return kind_named(item.kind).block

    @cached_property
    def _roles(self) -> dict[str, str]:
        return {str(each["path"]): str(each["role"]) for each in self.view.report.get("included", ())}

    @cached_property
    def _digests(self) -> dict[str, str]:
        return {str(each["path"]): str(each["digest"]) for each in self.view.report.get("included", ())}


def _ids(memory: Mapping[str, Any]) -> set[str]:
    return {str(item["id"]) for tier in TIERS for item in memory.get(tier, ())}


def _uri(item: PackItem) -> str:
    """Return the URI of the source: in the session, the working set, a tool's output or ctxwrap itself."""
    kind = kind_named(item.kind)
    if kind.store == "workingset" and item.source.startswith((OUTPUT, OFFER)):
        return item.source
    return f"{kind.store}:{item.source.replace(' ', '-') if kind.store == 'ctxwrap' else item.source}"
