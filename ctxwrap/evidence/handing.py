"""What others than the model were handed of a turn's context: selections, assemblies and injections of their own."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.objects import Assembly, Block, Injection, Selection
from ctxwrap.evidence.placing import Keep, Placed, Sees
from ctxwrap.evidence.reading import Attempt, Turn, time_of
from ctxwrap.evidence.vocabulary import TARGETS, InjectionPoint, Target
from ctxwrap.inspection.reading import text_in
from ctxwrap.records import count_in
from ctxwrap.session.blobs import texts_in
from ctxwrap.types import Record

_POINTS: dict[Target, InjectionPoint] = {
    "tool": "tool_visible_resource",
    "runtime": "runtime_metadata",
    "ui": "ui_panel",
    "user": "ui_panel",
    "reviewer": "review_export",
    "peer_agent": "peer_agent_message",
    "evidence_export": "review_export",
}


class Handed(NamedTuple):
    selection: Selection
    assembly: Assembly
    injection: Injection


def handed_out(
    turn: Turn, attempt: Attempt, placed: Sequence[Placed], text: Callable[[str], str | None], sees: Sees, keep: Keep
) -> Iterator[Handed]:
    """What the log says that others were handed, each time."""
    told = [event for event in turn.named("resources") if f"{turn.id}.{count_in(event, 'attempt')}" == attempt.id]
    for at, event in enumerate(told, 1):
        target = next((each for each in TARGETS if each == event.get("target")), None)
        texts = texts_in(event)
        if target in _POINTS:
            given = [(each, text(str(texts[each.thing.item.source]))) for each in placed if _is_in(each, texts, target)]
            yield _Handing(attempt, f"{attempt.id}-{target}-{at}", target, event, sees, keep).records(given)


def _is_in(each: Placed, texts: Record, target: Target) -> bool:
    """Whether it was handed out to somebody who may see it; a log that says more is not believed."""
    return each.thing.item.source in texts and target in each.visibility


class _Handing(NamedTuple):
    attempt: Attempt
    id: str
    target: Target
    event: Record
    sees: Sees
    keep: Keep

    def records(self, given: Sequence[tuple[Placed, str | None]]) -> Handed:
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
        return Handed(selection, assembly, injection)

    def _block(self, at: int, each: Placed, text: str | None) -> Block:
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
