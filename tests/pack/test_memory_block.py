"""Which memories a call gets to see: what matters most, some of what is asked for, and seldom in a new place."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.memory.items import TIERS
from ctxwrap.pack.memory import Sizes, items_that_fit, memory_block

SIZES = Sizes(
    whole=lambda items: [int(item["size"]) + 12 for item in items],
    brief=lambda items: [int(item["size"]) for item in items],
)
WORDS = ("Lisbon", "bakery", "telescope", "violin", "invoice")
SIZED = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(1, 60)), max_size=15)
QUESTIONS = st.lists(st.sampled_from(WORDS), max_size=2, unique=True).map(" ".join)


def tier(name: str, items: list[Any]) -> list[dict[str, Any]]:
    """Items in the order that memory gives them: what matters most first."""
    return [
        {"id": f"{name}{at}", "type": "fact", "decay": 0.1, "content": f"About the {word}.", "size": size}
        for at, (word, size) in enumerate(items)
    ]


def memory(core: list[Any], working: list[Any] | None = None) -> dict[str, list[dict[str, Any]]]:
    return {"core": tier("c", core), "working": tier("w", working or []), "ephemeral": []}


def flat(tiers: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [item for tier in TIERS for item in tiers[tier]]


@given(SIZED, SIZED, st.integers(0, 900))
def test_memory_is_chosen_by_tier_first_and_in_its_order(core: list[Any], working: list[Any], limit: int) -> None:
    items = flat(memory(core, working))
    lasting, asked = items_that_fit(memory(core, working), limit, SIZES)
    assert not asked
    left = limit
    for item in items:
        assert (item["id"] in lasting) == (item["size"] <= left), "whatever fits behind those before it is in"
        left -= item["size"] if item["id"] in lasting else 0


@given(SIZED, SIZED, st.integers(0, 900), QUESTIONS)
def test_question_displaces_items_only_for_related_items(
    core: list[Any], working: list[Any], limit: int, question: str
) -> None:
    items = {item["id"]: item for item in flat(memory(core, working))}
    lasting, asked = items_that_fit(memory(core, working), limit, SIZES, question)
    assert not lasting & asked
    taken = sum(SIZES.brief([items[id] for id in lasting])) + sum(SIZES.whole([items[id] for id in asked]))
    assert taken <= limit
    assert all(any(word in items[id]["content"] for word in question.split()) for id in asked)
    without = items_that_fit(memory(core, working), limit, SIZES)[0]
    if without == items.keys():
        assert lasting == without, "where all fits, nothing makes way"


def test_item_the_question_is_about_is_shown_despite_more_important_items() -> None:
    many = memory([("bakery", 20)] * 50, [("telescope", 20)])
    assert items_that_fit(many, 400, SIZES, "Where does the violin lie?")[1] == set()
    lasting, asked = items_that_fit(many, 400, SIZES, "Where is my telescope?")
    assert asked == {"w0"}
    assert len(lasting) == 16, "eight tenths are for what matters most in any case"


@given(SIZED, SIZED, st.integers(0, 1500), st.booleans(), st.booleans(), QUESTIONS)
def test_memory_block_fits_its_limit_and_matches_the_shown_items(
    was: list[Any], now: list[Any], limit: int, may: bool, history_cut: bool, question: str
) -> None:
    made = memory_block(
        memory(now), memory(was), limit, SIZES, may_begin=may, is_history_cut=lambda: history_cut, question=question
    )
    epoch, changes = flat(made.epoch), flat(made.memory.changes)
    assert made.tokens == sum(SIZES.brief(epoch)) + sum(SIZES.whole(changes)) <= limit
    assert may or not made.is_new
    by_id = {item["id"]: item for item in (*epoch, *changes)}
    shown = {item["id"]: item for item in flat(made.memory.shown)}
    assert shown == {id: item for id, item in by_id.items() if id not in made.memory.dropped}
    assert shown.keys() == {id for item in made.items if item.included for id in item.refs}
    assert {*made.memory.unchanged} == shown.keys() - {item["id"] for item in changes}
    assert sorted(id for item in made.items for id in item.refs) == sorted(item["id"] for item in flat(memory(now)))


def test_oversized_memory_does_not_start_an_epoch_on_every_call() -> None:
    """What has faded a little more than another makes way for it: that alone is no reason to tell all anew."""
    epoch, began = None, 0
    for round in range(60):
        decays = {at: ((at * 7 + round) % 50) / 50 for at in range(100)}
        order = sorted(decays, key=lambda at: decays[at])
        items = [{"id": f"m{at}", "type": "fact", "decay": decays[at], "content": f"{at}", "size": 38} for at in order]
        made = memory_block({"core": items, "working": [], "ephemeral": []}, epoch, 3000, SIZES, may_begin=True)
        epoch, began = made.epoch, began + made.is_new
    assert began <= 15


def test_item_the_question_is_about_starts_no_epoch() -> None:
    """A question brings other items with every call; the epoch goes by what matters most."""
    epoch, began = None, 0
    for round in range(20):
        many = memory([(word, 20) for word in WORDS] * 40)
        question = f"What of the {WORDS[round % len(WORDS)]}?"
        made = memory_block(many, epoch, 1200, SIZES, may_begin=True, question=question)
        epoch, began = made.epoch, began + made.is_new
        assert made.memory.changes["core"]
    assert began == 1
