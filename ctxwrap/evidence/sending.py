"""What was sent: the blocks of a request in their order, and the places where they became visible to the model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.mapping import POINTS
from ctxwrap.evidence.objects import Assembly, Block, Injection, ModelApi
from ctxwrap.evidence.placing import Keep, Placed, Sees
from ctxwrap.evidence.reading import Attempt, Turn
from ctxwrap.evidence.things import key_of
from ctxwrap.evidence.vocabulary import InjectionPoint, Target
from ctxwrap.inspection.reading import text_in
from ctxwrap.session.packs.view import Block as Shown
from ctxwrap.stages.events import SENDING
from ctxwrap.stages.injection import tokens_taken
from ctxwrap.types import Record


@dataclass(frozen=True, slots=True)
class Sending:
    turn: Turn
    attempt: Attempt
    inside: Mapping[str, Sequence[Placed]]
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


def _common(placed: Sequence[Placed]) -> tuple[Target, ...]:
    """Those who may see all of these."""
    return tuple(target for target in placed[0].visibility if all(target in each.visibility for each in placed))


def _mappings(done: Record) -> tuple[ModelApi, ...]:
    """The provider's own words for it, if it said any."""
    id, usage = text_in(done, "response_id"), done.get("usage")
    taken = tokens_taken(usage) if isinstance(usage, dict) else {}
    return (ModelApi(kind="model_api", response_id=id, **taken),) if id or taken else ()
