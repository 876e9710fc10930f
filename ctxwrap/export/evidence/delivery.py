"""Delivery records: the blocks of a request to the model, and what other targets received."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ctxwrap.export.evidence.document import digest
from ctxwrap.export.evidence.history import LoggedTurn, RequestAttempt, read_time
from ctxwrap.export.evidence.items import POINTS, ContextRecord, block_key, mode_of, trust_of, visibility_of
from ctxwrap.export.evidence.objects import Assembly, Block, Injection, Item, ModelApi, Selection, Selector, SourceRef
from ctxwrap.export.evidence.vocabulary import TARGETS, VERSION, InjectionPoint, TargetName
from ctxwrap.inspect.streams import text_in
from ctxwrap.pack.injection import tokens_taken
from ctxwrap.pack.receipt import SENDING
from ctxwrap.session.blobs import texts_in
from ctxwrap.session.pack_view import PackBlock
from ctxwrap.stores.log_format import count_in
from ctxwrap.types import Record

VISIBILITY, FORGETTING = "policy:visibility", "policy:forgetting"
POLICIES = {
    VISIBILITY: "A target sees what names it among those who may see it, and nothing else.",
    FORGETTING: "What was forgotten or purged on request is gone from every file of its session.",
}

MaySee = Callable[[Sequence[TargetName]], bool]
"""Whether the document's target is among the targets that may see a text."""

StoreText = Callable[[str], str]
"""Adds a text to the document's contents and returns its digest."""

_TRUNCATED = re.compile(r"truncated from (\d{1,15})$")


def visibility_filter(target: TargetName) -> MaySee:
    return lambda visibility: target in visibility


@dataclass(frozen=True, slots=True)
class DocumentItem:
    """A context record with its ids in the document, and whether the document's target may see it."""

    record: ContextRecord
    id: str
    visibility: tuple[TargetName, ...]
    is_visible: bool
    source_id: str
    truncated: int | None
    """Number of tokens before truncation."""


def identify(attempt: RequestAttempt, number: int, record: ContextRecord, may_see: MaySee) -> DocumentItem:
    visibility = visibility_of(record.item.visibility)
    is_visible = may_see(visibility)
    found = _TRUNCATED.search(record.item.reason)
    return DocumentItem(
        record,
        id=f"item-{attempt.id}-{number}",
        visibility=visibility,
        is_visible=is_visible,
        source_id=f"source-{digest(' '.join(_location(record, is_visible)))[7:23]}",
        truncated=int(found[1]) if found else None,
    )


def build_source(item: DocumentItem) -> SourceRef:
    uri, part, whole = _location(item.record, item.is_visible)
    return SourceRef(
        **VERSION,
        source_id=item.source_id,
        uri=uri,
        source_kind=uri.partition(":")[0],
        selector=Selector(type="message_part" if "messages" in uri else "custom", value=part) if part else None,
        digest=f"sha256:{whole}" if whole else None,
    )


def build_item(item: DocumentItem, store_text: StoreText) -> Item:
    record, pack_item = item.record, item.record.item
    content = record.content if item.is_visible else None
    is_hidden = record.content is not None and not item.is_visible
    return Item(
        **VERSION,
        item_id=item.id,
        context_kind=record.kind,
        content_mode="opaque" if content is None else mode_of(record.kind),
        content_ref=None if content is None else store_text(content),
        mime_type="" if content is None else "text/plain",
        byte_size=None if content is None else len(content.encode()),
        source_refs=(item.source_id,),
        token_estimate=record.tokens,
        freshness={"message": pack_item.freshness} if pack_item.freshness else {},
        trust_level=trust_of(pack_item.origin),
        visibility=item.visibility,
        priority=float(pack_item.priority),
        metadata={"pack_kind": pack_item.kind, "reason": pack_item.reason},
        **redaction(is_gone=record.is_gone, is_hidden=is_hidden),
    )


def redaction(*, is_gone: bool, is_hidden: bool) -> dict[str, Any]:
    """Return the redaction fields of a record whose content was removed or is hidden from the target."""
    if is_gone:
        return {"redaction_state": "removed", "redaction_method": "forgotten", "policy_refs": (FORGETTING,)}
    if is_hidden:
        return {"redaction_state": "policy_blocked", "redaction_method": "left_out", "policy_refs": (VISIBILITY,)}
    return {}


def _location(record: ContextRecord, is_visible: bool) -> tuple[str, str, str]:
    """Return the URI, the part and the digest of a record's source; hidden parts are empty."""
    return record.uri, record.part if is_visible or not record.is_private else "", record.digest if is_visible else ""


_TARGET_POINTS: dict[TargetName, InjectionPoint] = {
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


def build_deliveries(
    turn: LoggedTurn,
    attempt: RequestAttempt,
    items: Sequence[DocumentItem],
    text: Callable[[str], str | None],
    may_see: MaySee,
    store_text: StoreText,
) -> Iterator[Delivery]:
    """Build the records of each logged delivery to a target other than the model."""
    events = [event for event in turn.named("resources") if f"{turn.id}.{count_in(event, 'attempt')}" == attempt.id]
    for number, event in enumerate(events, 1):
        target = next((each for each in TARGETS if each == event.get("target")), None)
        texts = texts_in(event)
        if target in _TARGET_POINTS:
            id = f"{attempt.id}-{target}-{number}"
            # the target must be able to see the item: a log from elsewhere may claim more
            delivered = [
                (item, text(str(texts[source])))
                for item in items
                if (source := item.record.item.source) in texts and target in item.visibility
            ]
            yield _TargetDelivery(attempt, id, target, event, may_see, store_text).build(delivered)


class _TargetDelivery(NamedTuple):
    attempt: RequestAttempt
    id: str
    target: TargetName
    event: Record
    may_see: MaySee
    store_text: StoreText

    def build(self, delivered: Sequence[tuple[DocumentItem, str | None]]) -> Delivery:
        refs = tuple(item.id for item, _ in delivered)
        blocks = tuple(self._block(position, *each) for position, each in enumerate(delivered))
        time, visibility = read_time(self.event), (self.target,)
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
            injection_point=_TARGET_POINTS[self.target],
            block_refs=tuple(block.block_id for block in blocks),
            item_refs=refs,
            native_id=text_in(self.event, "tool_call_id"),
            visibility=visibility,
            final_ref=f"resources:{self.id}",
            created_at=time,
        )
        return Delivery(selection, assembly, injection)

    def _block(self, position: int, item: DocumentItem, text: str | None) -> Block:
        is_visible = text is not None and self.may_see(item.visibility)
        ref = self.store_text(text) if text is not None and is_visible else None
        return Block(
            block_id=f"block-{self.id}-{position + 1}",
            item_refs=(item.id,),
            content_ref=ref,
            wrapper=item.record.item.kind,
            position=position,
            visibility=item.visibility,
            hash=ref,
            redaction_state="removed" if text is None else "none" if is_visible else "policy_blocked",
        )


@dataclass(frozen=True, slots=True)
class ModelDelivery:
    turn: LoggedTurn
    attempt: RequestAttempt
    items_by_block: Mapping[str, Sequence[DocumentItem]]
    """The items in each block, by the block's key."""
    may_see: MaySee
    store_text: StoreText

    def assembly(self, pack_blocks: Sequence[PackBlock]) -> Assembly:
        blocks = tuple(self._block(position, block) for position, block in enumerate(pack_blocks))
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

    def _block(self, position: int, block: PackBlock) -> Block:
        """Build a block of the request; it is visible to the targets that may see all of its items."""
        items = self.items_by_block.get(block_key(block), ())
        visibility = _shared_visibility(items) if items and not self._has_other_content(block) else ("model",)
        is_gone = any(item.record.is_gone for item in items)
        is_visible = self.may_see(visibility) and not is_gone
        ref = self.store_text(block.text) if is_visible else None
        return Block(
            block_id=f"block-{self.attempt.id}-{position + 1}",
            item_refs=tuple(item.id for item in items),
            content_ref=ref,
            wrapper=block.name,
            position=position,
            visibility=visibility,
            token_estimate=block.tokens,
            hash=ref,
            redaction_state="removed" if is_gone else "none" if is_visible else "policy_blocked",
        )

    def _has_other_content(self, block: PackBlock) -> bool:
        """Whether a block has content beside its items, which has no visibility of its own."""
        sent = self.attempt.event["sent"]["state"]
        return block.name in ("memory", "state") and any(sent.get(name) for name in _OTHER_CONTENT)

    def injections(self, assembly: Assembly) -> Iterator[Injection]:
        """Build one injection per injection point, if the log says that the provider accepted the request."""
        if self.attempt.event.get("mode") not in SENDING or self.attempt != self.turn.attempts[-1]:
            return
        if not self._was_accepted():
            return
        points: dict[InjectionPoint, list[Block]] = {}
        for block in assembly.ordered_blocks:
            points.setdefault(POINTS[block.wrapper], []).append(block)
        for point, blocks in points.items():
            yield self._injection(point, blocks)

    def _was_accepted(self) -> bool:
        answered = [done for done in self.turn.named("done") if done.get("response_id") or done.get("status") == "ok"]
        return bool(answered or self.turn.named("context.injection.applied", "delta"))

    def _injection(self, point: InjectionPoint, blocks: Sequence[Block]) -> Injection:
        done: Record = next(reversed(self.turn.named("done")), {})
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
            hash=f"sha256:{self.attempt.event['sha256']}",
            external_mappings=_mappings(done),
            created_at=self.attempt.time,
            metadata={"wire": text_in(self.attempt.event, "wire"), "hash_of": "the request"},
        )


_OTHER_CONTENT = ("dropped", "capabilities", "active_task")
"""Parts of a state block that are not memory items."""


def _shared_visibility(items: Sequence[DocumentItem]) -> tuple[TargetName, ...]:
    """Return the targets that may see all of these items."""
    return tuple(target for target in items[0].visibility if all(target in item.visibility for item in items))


def _mappings(done: Record) -> tuple[ModelApi, ...]:
    """Return the provider's response id and token counts, if the log has any."""
    id, usage = text_in(done, "response_id"), done.get("usage")
    token_counts = tokens_taken(usage) if isinstance(usage, dict) else {}
    return (ModelApi(kind="model_api", response_id=id, **token_counts),) if id or token_counts else ()
