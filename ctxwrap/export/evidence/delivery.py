"""What was delivered: the blocks of a request, and what targets other than the model received."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, RequestAttempt, time_of
from ctxwrap.export.evidence.items import POINTS, ContextRecord, key_of, mode_of, trust_of, visibility_of
from ctxwrap.export.evidence.objects import Assembly, Block, Injection, Item, ModelApi, Selection, Selector, SourceRef
from ctxwrap.export.evidence.vocabulary import TARGETS, VERSION, InjectionPoint, TargetName
from ctxwrap.inspect.streams import text_in
from ctxwrap.pack.injection import tokens_taken
from ctxwrap.pack.receipt import SENDING
from ctxwrap.session.blobs import texts_in
from ctxwrap.session.pack_view import Block as Shown
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import Record

VISIBILITY, FORGETTING = "policy:visibility", "policy:forgetting"
POLICIES = {
    VISIBILITY: "A target sees what names it among those who may see it, and nothing else.",
    FORGETTING: "What was forgotten or purged on request is gone from every file of its session.",
}

Sees = Callable[[Sequence[TargetName]], bool]
"""Whether what these may see is to be told."""

Keep = Callable[[str], str]
"""Puts a text among the contents, and gives the name it has there."""

_CUT = re.compile(r"truncated from (\d{1,15})$")


def as_seen_by(target: TargetName) -> Sees:
    return lambda visibility: target in visibility


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A thing, as the records know it."""

    thing: ContextRecord
    id: str
    visibility: tuple[TargetName, ...]
    sees: bool
    source: str
    truncated: int | None
    """How many tokens it had before it was cut."""


def placed(attempt: RequestAttempt, at: int, thing: ContextRecord, sees: Sees) -> PlacedRecord:
    visibility = visibility_of(thing.item.visibility)
    may_see = sees(visibility)
    found = _CUT.search(thing.item.reason)
    source = f"source-{digest(' '.join(_whereabouts(thing, may_see)))[7:23]}"
    return PlacedRecord(thing, f"item-{attempt.id}-{at}", visibility, may_see, source, int(found[1]) if found else None)


def source_of(each: PlacedRecord) -> SourceRef:
    uri, part, whole = _whereabouts(each.thing, each.sees)
    return SourceRef(
        **VERSION,
        source_id=each.source,
        uri=uri,
        source_kind=uri.partition(":")[0],
        selector=Selector(type="message_part" if "messages" in uri else "custom", value=part) if part else None,
        digest=f"sha256:{whole}" if whole else None,
    )


def item_of(each: PlacedRecord, keep: Keep) -> Item:
    thing, entry = each.thing, each.thing.item
    content = thing.content if each.sees else None
    is_hidden = thing.content is not None and not each.sees
    return Item(
        **VERSION,
        item_id=each.id,
        context_kind=thing.kind,
        content_mode="opaque" if content is None else mode_of(thing.kind),
        content_ref=None if content is None else keep(content),
        mime_type="" if content is None else "text/plain",
        byte_size=None if content is None else len(content.encode()),
        source_refs=(each.source,),
        token_estimate=thing.tokens,
        freshness={"message": entry.freshness} if entry.freshness else {},
        trust_level=trust_of(entry.origin),
        visibility=each.visibility,
        priority=float(entry.priority),
        metadata={"pack_kind": entry.kind, "reason": entry.reason},
        **redaction(is_gone=thing.is_gone, is_hidden=is_hidden),
    )


def redaction(*, is_gone: bool, is_hidden: bool) -> dict[str, Any]:
    """What a record says of a content that is not there any more, or not for whoever looks."""
    if is_gone:
        return {"redaction_state": "removed", "redaction_method": "forgotten", "policy_refs": (FORGETTING,)}
    if is_hidden:
        return {"redaction_state": "policy_blocked", "redaction_method": "left_out", "policy_refs": (VISIBILITY,)}
    return {}


def _whereabouts(thing: ContextRecord, sees: bool) -> tuple[str, str, str]:
    """Where a thing lies, which part of it, and the digest of the whole; as far as that may be told."""
    return thing.uri, thing.part if sees or not thing.is_private else "", thing.digest if sees else ""


_POINTS: dict[TargetName, InjectionPoint] = {
    "tool": "tool_visible_resource",
    "runtime": "runtime_metadata",
    "ui": "ui_panel",
    "user": "ui_panel",
    "reviewer": "review_export",
    "peer_agent": "peer_agent_message",
    "evidence_export": "review_export",
}


class Delivery(NamedTuple):
    selection: Selection
    assembly: Assembly
    injection: Injection


def deliveries_of(
    turn: LoggedTurn,
    attempt: RequestAttempt,
    placed: Sequence[PlacedRecord],
    text: Callable[[str], str | None],
    sees: Sees,
    keep: Keep,
) -> Iterator[Delivery]:
    """What the log says that others were handed, each time."""
    told = [event for event in turn.named("resources") if f"{turn.id}.{count_in(event, 'attempt')}" == attempt.id]
    for at, event in enumerate(told, 1):
        target = next((each for each in TARGETS if each == event.get("target")), None)
        texts = texts_in(event)
        if target in _POINTS:
            given = [(each, text(str(texts[each.thing.item.source]))) for each in placed if _is_in(each, texts, target)]
            yield _Handing(attempt, f"{attempt.id}-{target}-{at}", target, event, sees, keep).records(given)


def _is_in(each: PlacedRecord, texts: Record, target: TargetName) -> bool:
    """Whether it was handed out to somebody who may see it; a log that says more is not believed."""
    return each.thing.item.source in texts and target in each.visibility


class _Handing(NamedTuple):
    attempt: RequestAttempt
    id: str
    target: TargetName
    event: Record
    sees: Sees
    keep: Keep

    def records(self, given: Sequence[tuple[PlacedRecord, str | None]]) -> Delivery:
        refs = tuple(each.id for each, _ in given)
        blocks = tuple(self._block(at, each, text) for at, (each, text) in enumerate(given))
        time, visibility = time_of(self.event), (self.target,)
        selection = Selection(
            **VERSION,
            selection_id=f"selection-{self.id}",
            surface_id=f"surface-{self.attempt.id}",
            candidate_item_refs=refs,
            selected_item_refs=refs,
            selection_policy=f"what is for {self.target} to see",
            created_at=time,
        )
        assembly = Assembly(
            **VERSION,
            assembly_id=f"assembly-{self.id}",
            target=self.target,
            ordered_blocks=blocks,
            wrapping_policy="none: each text as it is",
            source_item_refs=refs,
            visibility=visibility,
            created_at=time,
        )
        injection = Injection(
            **VERSION,
            injection_id=f"injection-{self.id}",
            assembly_id=assembly.assembly_id,
            target=self.target,
            injection_point=_POINTS[self.target],
            block_refs=tuple(block.block_id for block in blocks),
            item_refs=refs,
            native_id=text_in(self.event, "tool_call_id"),
            visibility=visibility,
            final_ref=f"resources:{self.id}",
            created_at=time,
        )
        return Delivery(selection, assembly, injection)

    def _block(self, at: int, each: PlacedRecord, text: str | None) -> Block:
        is_told = text is not None and self.sees(each.visibility)
        ref = self.keep(text) if text is not None and is_told else None
        return Block(
            block_id=f"block-{self.id}-{at + 1}",
            item_refs=(each.id,),
            content_ref=ref,
            wrapper=each.thing.item.kind,
            position=at,
            visibility=each.visibility,
            hash=ref,
            redaction_state="removed" if text is None else "none" if is_told else "policy_blocked",
        )


@dataclass(frozen=True, slots=True)
class Sending:
    turn: LoggedTurn
    attempt: RequestAttempt
    inside: Mapping[str, Sequence[PlacedRecord]]
    """What stands in each block, by its key."""
    sees: Sees
    keep: Keep

    def assembly(self, shown: Sequence[Shown]) -> Assembly:
        blocks = tuple(self._block(at, each) for at, each in enumerate(shown))
        states = {block.redaction_state for block in blocks}
        return Assembly(
            **VERSION,
            assembly_id=f"assembly-{self.attempt.id}",
            target="model",
            ordered_blocks=blocks,
            wrapping_policy="a frame that nothing inside can close",
            budget_ref=f"budget-{self.attempt.id}",
            source_item_refs=tuple(dict.fromkeys(ref for block in blocks for ref in block.item_refs)),
            visibility=("model",),
            redaction_state="removed" if "removed" in states else "policy_blocked" if states > {"none"} else "none",
            created_at=self.attempt.time,
        )

    def _block(self, at: int, shown: Shown) -> Block:
        """A part of the request; who may see all that is in it may see it, else only the model."""
        inside = self.inside.get(key_of(shown), ())
        visibility = _common(inside) if inside and not self._tells_more(shown) else ("model",)
        is_gone = any(each.thing.is_gone for each in inside)
        sees = self.sees(visibility) and not is_gone
        ref = self.keep(shown.text) if sees else None
        return Block(
            block_id=f"block-{self.attempt.id}-{at + 1}",
            item_refs=tuple(each.id for each in inside),
            content_ref=ref,
            wrapper=shown.name,
            position=at,
            visibility=visibility,
            token_estimate=shown.tokens,
            hash=ref,
            redaction_state="removed" if is_gone else "none" if sees else "policy_blocked",
        )

    def _tells_more(self, shown: Shown) -> bool:
        """Whether the items do not account for all of a block: an epoch tells of what was dropped since."""
        sent = self.attempt.event["sent"]["state"]
        return shown.name in ("memory", "state") and any(sent.get(name) for name in _BESIDE)

    def injections(self, assembly: Assembly) -> Iterator[Injection]:
        """One for each place in the request, if a provider took it: the log says so, not the selection."""
        if self.attempt.event.get("mode") not in SENDING or self.attempt != self.turn.attempts[-1]:
            return
        if not self._was_taken():
            return
        points: dict[InjectionPoint, list[Block]] = {}
        for block in assembly.ordered_blocks:
            points.setdefault(POINTS[block.wrapper], []).append(block)
        for point, blocks in points.items():
            yield self._injection(point, blocks)

    def _was_taken(self) -> bool:
        answered = [done for done in self.turn.named("done") if done.get("response_id") or done.get("status") == "ok"]
        return bool(answered or self.turn.named("context.injection.applied", "delta"))

    def _injection(self, point: InjectionPoint, blocks: Sequence[Block]) -> Injection:
        done: Record = next(reversed(self.turn.named("done")), {})
        hash = f"sha256:{self.attempt.event['sha256']}"
        return Injection(
            **VERSION,
            injection_id=f"injection-{self.attempt.id}-{point}",
            assembly_id=f"assembly-{self.attempt.id}",
            target="model",
            injection_point=point,
            block_refs=tuple(block.block_id for block in blocks),
            item_refs=tuple(dict.fromkeys(ref for block in blocks for ref in block.item_refs)),
            native_id=text_in(done, "response_id"),
            visibility=("model",),
            final_ref=f"request:{self.attempt.id}",
            hash=hash,
            external_mappings=_mappings(done),
            created_at=self.attempt.time,
            metadata={"wire": text_in(self.attempt.event, "wire"), "hash_of": "the request as JSON with sorted keys"},
        )


_BESIDE = ("dropped", "capabilities", "active_task")
"""What a state tells beside memory."""


def _common(placed: Sequence[PlacedRecord]) -> tuple[TargetName, ...]:
    """Those who may see all of these."""
    return tuple(target for target in placed[0].visibility if all(target in each.visibility for each in placed))


def _mappings(done: Record) -> tuple[ModelApi, ...]:
    """The provider's own words for it, if it said any."""
    id, usage = text_in(done, "response_id"), done.get("usage")
    taken = tokens_taken(usage) if isinstance(usage, dict) else {}
    return (ModelApi(kind="model_api", response_id=id, **taken),) if id or taken else ()
