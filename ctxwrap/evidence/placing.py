"""Things as records: an item and its source for each, as far as a target may see them.

What a target may not see never gets into a record: neither a text nor its digest, nor the name that a model gave a
memory.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ctxwrap.evidence.document import digest
from ctxwrap.evidence.forms import VERSION
from ctxwrap.evidence.mapping import mode_of, trust_of, visibility_of
from ctxwrap.evidence.objects import Item, Selector, SourceRef
from ctxwrap.evidence.reading import Attempt
from ctxwrap.evidence.things import Thing
from ctxwrap.evidence.vocabulary import Target

VISIBILITY, FORGETTING = "policy:visibility", "policy:forgetting"
POLICIES = {
    VISIBILITY: "A target sees what names it among those who may see it, and nothing else.",
    FORGETTING: "What was forgotten or purged on request is gone from every file of its session.",
}

Sees = Callable[[Sequence[Target]], bool]
"""Whether what these may see is to be told."""

Keep = Callable[[str], str]
"""Puts a text among the contents, and gives the name it has there."""

_CUT = re.compile(r"truncated from (\d{1,15})$")


def as_seen_by(target: Target) -> Sees:
    return lambda visibility: target in visibility


@dataclass(frozen=True, slots=True)
class Placed:
    """A thing, as the records know it."""

    thing: Thing
    id: str
    visibility: tuple[Target, ...]
    sees: bool
    source: str
    truncated: int | None
    """How many tokens it had before it was cut."""


def placed(attempt: Attempt, at: int, thing: Thing, sees: Sees) -> Placed:
    visibility = visibility_of(thing.item.visibility)
    may_see = sees(visibility)
    found = _CUT.search(thing.item.reason)
    source = f"source-{digest(' '.join(_whereabouts(thing, may_see)))[7:23]}"
    return Placed(thing, f"item-{attempt.id}-{at}", visibility, may_see, source, int(found[1]) if found else None)


def source_of(each: Placed) -> SourceRef:
    uri, part, whole = _whereabouts(each.thing, each.sees)
    return SourceRef(
        **VERSION,
        source_id=each.source,
        uri=uri,
        source_kind=uri.partition(":")[0],
        selector=Selector(type="message_part" if "messages" in uri else "custom", value=part) if part else None,
        digest=f"sha256:{whole}" if whole else None,
    )


def item_of(each: Placed, keep: Keep) -> Item:
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


def _whereabouts(thing: Thing, sees: bool) -> tuple[str, str, str]:
    """Where a thing lies, which part of it, and the digest of the whole; as far as that may be told."""
    return thing.uri, thing.part if sees or not thing.is_private else "", thing.digest if sees else ""
