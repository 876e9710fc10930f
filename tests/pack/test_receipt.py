"""The receipt of a pack: short, and read as it was."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from ctxwrap.pack.receipt import budget_as_json, budget_in, items_as_json, items_in
from ctxwrap.types import PackItem

NUMBERS = st.integers(0, 10**6)
KINDS = st.sampled_from(["system", "memory", "request", "facts", "todo", "recent_messages", "retrieved", "pinned"])
SOURCES = st.sampled_from(["protocol", "events.jsonl", "caller", "context/facts.jsonl", "messages.jsonl"]) | st.text()
REASONS = st.sampled_from(["remembered", "recent history", "it did not fit", "found by group", "found"]) | st.text()
REFS = st.sampled_from(["1-118", "3", "72.0", "1-3,9", "w-1", "9-", "²", "9" * 400]) | st.text()
ITEMS = st.builds(
    PackItem,
    kind=KINDS,
    source=SOURCES,
    tokens=NUMBERS,
    included=st.booleans(),
    reason=REASONS,
    priority=st.sampled_from([0.5, 0.8, 1.0]) | st.floats(0, 1),
    freshness=NUMBERS,
    origin=st.sampled_from(["user", "assistant", "operator", "tool"]),
    visibility=st.sampled_from([("model",), ("tool", "model"), ()]),
    refs=st.lists(REFS, max_size=3).map(tuple),
)
FOUND = PackItem(
    "retrieved", "messages.jsonl", 123, False, "it did not fit", freshness=72, origin="user", refs=("72.0",)
)


@given(st.lists(ITEMS))
@example([FOUND])
def test_receipt_items_survive_json(items: list[PackItem]) -> None:
    assert items_in(json.loads(json.dumps({"pack": items_as_json(items)}))) == tuple(items)


def test_common_receipt_item_is_stored_in_compact_form() -> None:
    assert items_as_json([FOUND._replace(origin="assistant")]) == [["missed", 123, "72.0"]]


def test_items_of_earlier_formats_are_read() -> None:
    assert items_in({"pack": [FOUND.as_json()]}) == (FOUND,)


SPENT = st.dictionaries(st.sampled_from(["pinned", "memory", "recent", "working_set"]), NUMBERS)
BUDGETS = st.fixed_dictionaries(
    {
        "limit": NUMBERS,
        "set_by": st.sampled_from(["settings", "the provider"]),
        "reply": NUMBERS,
        "fixed": NUMBERS,
        "effective": NUMBERS,
        "used": NUMBERS,
        "spent": SPENT,
        "counter": st.sampled_from(["estimate", "o200k_base"]),
        "exact": st.booleans(),
    }
)


@given(BUDGETS)
def test_receipt_budget_survives_json(budget: dict[str, object]) -> None:
    nothing = dict.fromkeys(("pinned", "summary", "memory", "recent", "retrieved", "children"), 0)
    told = budget_in(json.loads(json.dumps({"budget": budget_as_json(budget)})))
    assert told == {**budget, "spent": {**nothing, **budget["spent"]}}  # type: ignore[dict-item]
    assert budget_in({"budget": told}) == told
