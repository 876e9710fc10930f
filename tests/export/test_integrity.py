"""Records that do not fit together: each kind of fault is found, and named."""

from collections.abc import Callable
from typing import Any

import pytest

from ctxwrap.export.evidence import Evidence, envelope_of, faults_in
from ctxwrap.export.evidence.document import digest
from ctxwrap.stores.memory import MemoryStore
from tests.export.logs import FIXED, append, begin, done, entry, frame, say


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """One of everything, as the model may see it."""
    store = MemoryStore()
    append(store, "events", {"type": "summary", "text": "So far.", "source": "messages:1-2", "origin": "user"})
    say(store, ("user", "one"), ("assistant", "two"), ("user", "three"))
    missing = {"path": "gone.md", "reason": "it is not there", "severity": "low", "resolution": "", "status": "open"}
    begin(
        store,
        *FIXED,
        entry("recent_messages", "messages.jsonl", refs=["1-2"], freshness=2),
        entry("summary", "context/summary.md"),
        entry("pinned", "context/pinned/a.md", reason="truncated from 50"),
        entry("pinned", "context/pinned/b.md", False),
        conversation="1-3",
        texts={"pinned": frame("context/pinned/a.md", "a"), "background": frame("context/summary.md", "So far.")},
        report={"included": [], "missing_context": [missing]},
    )
    done(store)
    found = envelope_of("s", turn=1, target="model", store=store)
    assert list(faults_in(found)) == []
    return found


def changed(evidence: Evidence, field: str, **update: Any) -> Evidence:
    """With another first record of that kind."""
    first, *others = getattr(evidence, field)
    return evidence.model_copy(update={field: (first.model_copy(update=update), *others)})


def block(evidence: Evidence, **update: Any) -> Evidence:
    first, *others = evidence.assemblies[0].ordered_blocks
    return changed(evidence, "assemblies", ordered_blocks=(first.model_copy(update=update), *others))


NOWHERE = ("nowhere",)
OTHER = digest("other")
FAULTS: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "a surface that is not there": (
        lambda e: changed(e, "envelopes", surface_refs=NOWHERE),
        "surface_refs has 'nowhere'",
    ),
    "an item that is not there": (lambda e: changed(e, "envelopes", item_refs=NOWHERE), "item_refs has 'nowhere'"),
    "a policy that nobody tells": (lambda e: e.model_copy(update={"policies": {}}), "policy_refs has 'policy:"),
    "a record of no envelope": (lambda e: changed(e, "envelopes", injection_refs=()), "no envelope holds 'injection-"),
    "an event of no envelope": (lambda e: changed(e, "envelopes", evidence_refs=()), "no envelope holds 'event-"),
    "a root that is no envelope": (lambda e: e.model_copy(update={"root": "nowhere"}), "its root 'nowhere'"),
    "two records of one id": (
        lambda e: e.model_copy(update={"items": (*e.items, e.items[0])}),
        "two records have the id",
    ),
    "a source that is not there": (lambda e: changed(e, "items", source_refs=NOWHERE), "source_refs has 'nowhere'"),
    "a candidate of no surface": (lambda e: changed(e, "surfaces", available_item_refs=()), "candidate_item_refs has"),
    "a candidate that was neither selected nor omitted": (
        lambda e: changed(e, "selections", omitted_item_refs=()),
        "either selected or omitted, once",
    ),
    "one that was both": (
        lambda e: changed(e, "selections", selected_item_refs=e.selections[0].candidate_item_refs),
        "either selected or omitted, once",
    ),
    "a selection of no surface": (lambda e: changed(e, "selections", surface_id="nowhere"), "the surface 'nowhere'"),
    "a signal about nothing": (
        lambda e: changed(e, "selections", ranking_signals={"nowhere": {}}),
        "ranking_signals has",
    ),
    "a selection of no budget": (lambda e: changed(e, "selections", budget_ref="nowhere"), "budget_ref has 'nowhere'"),
    "a window of no budget": (lambda e: changed(e, "windows", budget_ref="nowhere"), "budget_ref has 'nowhere'"),
    "segments out of order": (
        lambda e: changed(e, "windows", segments=e.windows[0].segments[::-1]),
        "segments are out of order",
    ),
    "blocks out of order": (
        lambda e: changed(e, "assemblies", ordered_blocks=e.assemblies[0].ordered_blocks[::-1]),
        "blocks are out of order",
    ),
    "assembled and not selected": (
        lambda e: block(e, item_refs=(e.selections[0].omitted_item_refs[0].item_ref,)),
        "which was not selected",
    ),
    "source items of other blocks": (
        lambda e: changed(e, "assemblies", source_item_refs=()),
        "differ from those of its blocks",
    ),
    "a block with another's hash": (lambda e: block(e, hash=OTHER), "the hash of another content"),
    "a redacted block with its content": (
        lambda e: block(e, redaction_state="removed"),
        "is redacted but has its content",
    ),
    "a content that is not there": (lambda e: e.model_copy(update={"contents": {}}), "which does not exist"),
    "a content under another's name": (
        lambda e: e.model_copy(update={"contents": dict.fromkeys(e.contents, "other")}),
        "is the digest of another text",
    ),
    "a content that nothing refers to": (
        lambda e: e.model_copy(update={"contents": {**e.contents, OTHER: "other"}}),
        "nothing refers to the content",
    ),
    "a content that its target may not see": (
        lambda e: e.model_copy(update={"target": "ui"}),
        "that ui may not see",
    ),
    "injected and not assembled": (
        lambda e: changed(e, "injections", item_refs=(*e.injections[0].item_refs, e.items[-1].item_id)),
        "items differ from those of its blocks",
    ),
    "injected for others than it was assembled for": (
        lambda e: changed(e, "injections", target="tool"),
        "injects for tool what was assembled for model",
    ),
    "an injection of no assembly": (
        lambda e: changed(e, "injections", assembly_id="nowhere"),
        "the assembly 'nowhere'",
    ),
    "shown to the model, which may not see it": (
        lambda e: changed(e, "items", visibility=("ui",), content_ref=None, content_mode="opaque"),
        "to model, which may not see it",
    ),
    "a compaction of nothing": (lambda e: changed(e, "compactions", source_item_refs=NOWHERE), "source_item_refs has"),
    "a compaction without its summary": (lambda e: changed(e, "compactions", summary_ref="nowhere"), "summary_ref has"),
    "a redacted summary with its text": (
        lambda e: changed(e, "summaries", redaction_state="removed"),
        "is redacted but has its content",
    ),
    "a resolution that is not there": (
        lambda e: changed(e, "missing_context", status="resolved", resolution_refs=NOWHERE),
        "resolution_refs has 'nowhere'",
    ),
    "an event about nothing": (lambda e: changed(e, "events", subject="nowhere"), "subject has 'nowhere'"),
    "an event of another context": (lambda e: changed(e, "events", context_id="nowhere"), "context_id has 'nowhere'"),
    "a truncation of nothing": (
        lambda e: changed(
            e,
            "budgets",
            truncation_records=(e.budgets[0].truncation_records[0].model_copy(update={"item_ref": "nowhere"}),),
        ),
        "truncation_records has 'nowhere'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_named(evidence: Evidence, name: str) -> None:
    damage, words = FAULTS[name]
    assert any(words in fault for fault in faults_in(damage(evidence))), list(faults_in(damage(evidence)))
