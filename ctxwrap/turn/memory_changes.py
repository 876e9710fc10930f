"""The operations that a complete reply applies to memory: by its snapshot or, without one, by rules."""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from ctxwrap.language.statements import Statement, statements_in
from ctxwrap.memory.items import highest_tier
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, compare, drop_omitted, observe, user_statements
from ctxwrap.memory.owned import Contribution, offered_core, split_returned, without_known
from ctxwrap.protocol.instructions import EXAMPLE_CONTENTS
from ctxwrap.settings import Settings
from ctxwrap.types import Operation, OwnerView, Request


def memory_changes(
    snapshot: Mapping[str, Any] | None,
    shown: dict[str, Any],
    memory: Memory,
    circumstances: Circumstances,
    settings: Settings,
    *,
    calls_tools: bool,
) -> tuple[tuple[Operation, ...], tuple[str, ...]]:
    """The operations, and the rules that the snapshot breaks. `shown` is the memory that the model saw.

    Rules read the user's statements only from a reply that calls no tools: such a reply answers nothing yet.
    """
    reads_statements = not calls_tools and memory.evolves and settings.on_missing != "keep"
    if snapshot is None:
        return observe(memory, circumstances, statements_in(circumstances.said)) if reads_statements else (), ()
    violation = ""
    if settings.snapshot == "full":
        snapshot, violation = drop_omitted(shown, snapshot)
    tiers, before = snapshot["memory"], shown["memory"]
    changed = {tier: items for tier, items in tiers.items() if items != before.get(tier)}  # most tiers stay
    if not EXAMPLE_CONTENTS.isdisjoint(map(_content_of, chain.from_iterable(changed.values()))):
        changed = _without_examples(changed)
    # A model that saw foreign text may not write core memory; what the user stated in plain words may still go there.
    model_writes_core = highest_tier(circumstances.origin, foreign_core=circumstances.foreign_core) == "core"
    stated: tuple[Statement, ...] = ()
    if reads_statements and not model_writes_core:
        stated = user_statements(circumstances.said, map(_content_of, _without_examples(tiers)["core"]))
    operations = compare(shown, {**snapshot, "memory": changed}, memory, circumstances, stated)
    return operations, (violation,) if violation else ()


def changes_with_owners(
    owners: Sequence[OwnerView],
    snapshot: Mapping[str, Any] | None,
    shown: dict[str, Any],
    memory: Memory,
    circumstances: Circumstances,
    settings: Settings,
    *,
    calls_tools: bool,
) -> tuple[tuple[Operation, ...], tuple[str, ...], tuple[Contribution, ...]]:
    """The same for a turn of a user or a team, and what it contributes to their memory.

    Core items go to the user, or to a team without a user that the turn may write to; others stay in the session.
    """
    own = split_returned(snapshot, shown, owners, circumstances)
    operations, violations = memory_changes(
        own.snapshot, dict(own.shown), memory, circumstances, settings, calls_tools=calls_tools
    )
    operations = without_known(operations, shown, owners)
    changes, taker = own.changes, next((owner for owner in owners if owner.writes), None)
    if taker is not None:
        operations, offered = offered_core(operations, memory, taker)
        changes = {**changes, taker.kind: [*changes.get(taker.kind, ()), *offered]}
    given = (Contribution(owner, tuple(changes.get(owner.kind, ()))) for owner in owners)
    return operations, violations, tuple(each for each in given if each.operations)


def _without_examples(tiers: Mapping[str, Any]) -> dict[str, Any]:
    """Memory items without those that the model copied from the instructions."""
    return {tier: [item for item in items if item["content"] not in EXAMPLE_CONTENTS] for tier, items in tiers.items()}


_content_of = itemgetter("content")


def last_user_text(request: Request) -> str:
    """What the user said last, before any tool was called for it."""
    said: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user":
            said.insert(0, message.text)
        elif said:
            break
    return "\n".join(said)
