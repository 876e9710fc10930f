"""Delta snapshots: a change means the same whether the model repeats its whole memory or tells only the change."""

import copy
import json
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ctxwrap
from ctxwrap.memory.items import TIERS, MemoryItem
from ctxwrap.memory.memory import Memory
from ctxwrap.memory.operations import Circumstances, compare, complete_state, drop_omitted
from ctxwrap.memory.similarity import same_fact
from ctxwrap.protocol import read_reply
from ctxwrap.protocol.instructions import SEPARATOR
from ctxwrap.protocol.snapshot import empty_state, with_runtime
from ctxwrap.session.session import Session
from ctxwrap.settings import MemoryRules
from ctxwrap.stores.files.store import FileStore
from ctxwrap.testing.practice import PracticeModel, Provider
from ctxwrap.types import ParsedReply, Runtime, SessionKey

NOW = 9
RUNTIME = Runtime(NOW, "2026-02-20T18:30:00.000000Z", "2026-02-20T18:00:00.000000Z")
CONTENTS = (
    "The user likes green tea.",
    "The user's bicycle has 21 gears and a bell.",
    "The user's bicycle has 24 gears and a bell.",
    "Say <<<CONTEXT>>> to nobody.",
    "the user likes GREEN tea",
    "用户住在里斯本。",
)
SAID = ("", "I like green tea.", "My bicycle has 24 gears and a bell, tell the user.")

contents = st.sampled_from(CONTENTS)
tiers = st.sampled_from(TIERS)
decays = st.sampled_from((0.0, 0.1, 0.4, 0.95))


@st.composite
def items(draw: st.DrawFn, id: str) -> dict[str, Any]:
    item = {"id": id, "type": "fact", "decay": draw(decays), "round": 1, "tags": ["test"], "content": draw(contents)}
    return item | draw(st.sampled_from(({}, {"pinned": True}, {"dropped": True})))


@st.composite
def states(draw: st.DrawFn, prefix: str, most: int) -> dict[str, list[dict[str, Any]]]:
    """A memory, by tier."""
    memory: dict[str, list[dict[str, Any]]] = {tier: [] for tier in TIERS}
    for number in range(draw(st.integers(0, most))):
        memory[draw(tiers)].append(draw(items(f"{prefix}-{number}")))
    return memory


class Change(NamedTuple):
    """What a model makes of the memory it was shown, in both ways to say it."""

    full: dict[str, Any]
    delta: dict[str, Any]


@st.composite
def changes(draw: st.DrawFn, shown: dict[str, Any]) -> Change:
    full = {tier: list[dict[str, Any]]() for tier in TIERS}
    delta = copy.deepcopy(full)
    dropped = []
    placed = [(tier, item) for tier in TIERS for item in shown["memory"][tier]]
    for tier, was in placed:
        to, item = draw(st.sampled_from((tier, tier, *TIERS))), dict(was)
        match draw(st.sampled_from(("keep", "keep", "reword", "touch", "weigh", "drop"))):
            case "drop":
                dropped.append(item["id"])
                continue
            case "reword":
                item |= {"content": draw(contents), "round": NOW}
            case "touch":
                item["round"] = NOW
            case "weigh":
                item["decay"] = draw(decays)
        full[to].append(item)
        if (to, item) != (tier, was):
            delta[to].append(item)
    new = draw(states("new", 3))
    rest = {"capabilities": ["search"], "active_task": draw(st.sampled_from(("", "Write a letter.")))}
    return Change(
        {"memory": {tier: full[tier] + new[tier] for tier in TIERS}, **rest},
        {"memory": {tier: delta[tier] + new[tier] for tier in TIERS}, "dropped": dropped, **rest},
    )


def remembering(memory: dict[str, Any], *, evolves: bool = True) -> Memory:
    """A memory that a model wrote in round 1 and that nobody has touched up to now."""
    kept = Memory(MemoryRules(), evolves=evolves)
    kept.apply(compare(empty_state(), {"memory": memory}, kept, Circumstances(1)), 1)
    kept.advance(NOW)
    return kept


def read(snapshot: dict[str, Any], shown: dict[str, Any]) -> ParsedReply:
    """`snapshot` as it comes back from a model."""
    written = json.dumps(with_runtime(snapshot, RUNTIME), ensure_ascii=False)
    return read_reply(f"Hello.\n\n{SEPARATOR}\n{written}", RUNTIME.as_json(), shown)


def places(memory: Memory) -> list[dict[str, MemoryItem]]:
    return [memory.items, memory.swap]


@given(
    st.data(),
    states("old", 6),
    st.booleans(),
    st.sampled_from(SAID),
    st.sampled_from(("user", "tool")),
)
def test_full_snapshot_and_delta_make_the_same_change(
    data: st.DataObject, memory: dict[str, Any], evolves: bool, said: str, origin: Any
) -> None:
    one, other = (remembering(memory, evolves=evolves) for _ in range(2))
    shown = one.shown()
    change = data.draw(changes(shown))
    full, delta = read(change.full, shown), read(change.delta, shown)
    assert (full.status, delta.status) == ("clean", "clean")
    assert full.snapshot is not None
    assert delta.snapshot is not None
    turn = Circumstances(NOW, origin, said=said)
    snapshot, violation = drop_omitted(shown, full.snapshot)
    told_whole = compare(shown, snapshot, one, turn)
    told_alone = compare(shown, delta.snapshot, other, turn)
    if violation:
        gone = {operation.id for operation in told_whole if operation.kind == "drop" and not operation.successor}
        kept = [id for id in delta.snapshot["dropped"] if id in gone]
        told_alone = compare(shown, {**delta.snapshot, "dropped": kept}, other, turn)
    assert told_whole == told_alone
    one.apply(told_whole, NOW)
    other.apply(told_alone, NOW)
    assert places(one) == places(other)


@given(st.data(), states("old", 6), st.booleans())
def test_concurrent_changes_do_not_undo_each_other(data: st.DataObject, memory: dict[str, Any], evolves: bool) -> None:
    now = remembering(memory, evolves=evolves)
    shown = now.shown()
    change = data.draw(changes(shown)).full
    now.apply(compare(shown, change, now, Circumstances(NOW)), NOW)
    contents = {id: item.content for place in places(now) for id, item in place.items()}
    for item in (item for tier in TIERS for item in change["memory"][tier]):
        assert any(same_fact(content, item["content"]) for content in contents.values())
        assert item["id"].startswith("new") or same_fact(contents[item["id"]], item["content"])


SHOWN = remembering(
    {
        "core": [
            {"id": f"core-{number}", "type": "fact", "decay": 0.1, "round": 1, "tags": [], "content": content}
            for number, content in enumerate(CONTENTS[:3], 1)
        ],
        "working": [
            {"id": "work-1", "type": "task", "decay": 0.2, "round": 1, "tags": [], "content": "Book the train."}
        ],
        "ephemeral": [],
    }
).shown()
NOTHING: dict[str, Any] = {"memory": {tier: [] for tier in TIERS}, "dropped": [], "capabilities": [], "active_task": ""}


def returned(changes: dict[str, Any]) -> dict[str, Any]:
    """The memory that `changes` leave, after a model wrote them."""
    reading = read({**NOTHING, **changes}, SHOWN)
    assert reading.snapshot is not None, reading.violations
    memory: dict[str, Any] = complete_state(SHOWN, reading.snapshot)["memory"]
    return memory


def without(*ids: str) -> dict[str, Any]:
    return {tier: [item for item in SHOWN["memory"][tier] if item["id"] not in ids] for tier in TIERS}


@pytest.mark.parametrize(
    "memory", [NOTHING["memory"], {}, {"core": []}, {"core": None, "working": []}, {"core": ["..."]}]
)
def test_unwritten_items_stay_and_dropped_items_go(memory: dict[str, Any]) -> None:
    assert returned({"memory": memory}) == SHOWN["memory"]
    assert returned({"memory": memory, "dropped": ["work-1", "core-2"]}) == without("work-1", "core-2")


@pytest.mark.parametrize(
    ("dropped", "gone", "status"),
    [
        (["core-1", "unknown"], ["core-1"], "clean"),
        (["core-1", "..."], ["core-1"], "clean"),
        ("core-1", ["core-1"], "repaired"),
        ([{"id": "core-1", "content": "Done."}, "core-3"], ["core-1", "core-3"], "repaired"),
        (None, [], "repaired"),
        (["core-1", 2], ["core-1"], "partial"),
        ({"core": ["core-1"]}, [], "partial"),
        (["core-1", "x" * 300], ["core-1"], "partial"),
    ],
)
def test_dropped_accepts_several_forms(dropped: Any, gone: list[str], status: str) -> None:
    assert read({**NOTHING, "dropped": dropped}, SHOWN).status == status
    assert returned({"dropped": dropped}) == without(*gone)


def test_item_dropped_and_written_again_stays() -> None:
    anew = {**SHOWN["memory"]["core"][0], "content": "The user likes black tea."}
    new = {**anew, "id": "core-9", "content": "The user has a cat."}
    memory = returned({"memory": {**NOTHING["memory"], "core": [anew, new]}, "dropped": ["core-1", "core-9"]})
    assert memory["core"] == [anew, *SHOWN["memory"]["core"][1:], new]


def test_duplicate_id_does_not_take_an_unwritten_id() -> None:
    new = [{**SHOWN["memory"]["core"][0], "id": "core-4", "content": text} for text in ("One cat.", "Two dogs.")]
    twice = [{**new[0], "id": "core-1"}, {**new[1], "id": "core-1"}]
    memory = returned({"memory": {**NOTHING["memory"], "core": twice}})
    assert memory["core"] == [twice[0], *SHOWN["memory"]["core"][1:], new[1]]


@pytest.mark.parametrize(
    "spelled",
    [
        "'dropped': ['core-1', 'core-3']",
        "“dropped”: [“core-1”, “core-3”]",
        '"dropped": ["core-1", "core-3",]',
        '"dropped": ["core-1" "core-3"]',
        '"dropped": [core-1, core-3]',
        'dropped: ["core-1", "core-3"',
        '"Dropped": ["core-1", "core-3"]',
    ],
)
def test_a_damaged_list_of_ids_is_read(spelled: str) -> None:
    written = json.dumps(with_runtime(NOTHING, RUNTIME)).replace('"dropped": []', spelled)
    reading = read_reply(f"Hello.\n\n{SEPARATOR}\n{written}", RUNTIME.as_json(), SHOWN)
    assert reading.snapshot is not None, reading.violations
    assert (reading.snapshot["dropped"], reading.status) == (["core-1", "core-3"], "repaired")


def test_truncated_list_of_ids_drops_nothing() -> None:
    written = json.dumps(with_runtime({**NOTHING, "dropped": ["core-2", "core-12"]}, RUNTIME))
    for end in range(written.index("core-2"), written.index('"capabilities"')):
        reading = read_reply(f"Hello.\n\n{SEPARATOR}\n{written[:end]}", RUNTIME.as_json(), SHOWN)
        dropped = (reading.snapshot or {}).get("dropped", [])
        assert dropped in ([], ["core-2", "core-12"]), written[:end]
        assert reading.status == "partial"


CHAT = (
    "My name is Ada and I like tea.",
    "I need to book the train. My bicycle is green.",
    "For now: answer in short sentences.",
    "What is my bicycle?",
    "My bicycle is red.",
    "I finished it.",
    "Forget my bicycle. I have a cat.",
    "I like tea.",
    "What do you know about me?",
)


def remembered(home: Path, session: str) -> Memory:
    key = SessionKey("default", "default", session)
    opened = Session(key, FileStore(home).open(key))
    opened.refresh()
    return opened.memory


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_the_practice_model_keeps_the_same_memory_either_way(provider: Provider, home: Path, api: str) -> None:
    provider.answer = PracticeModel()
    bare = openai.OpenAI(api_key="x", base_url=provider.openai_url)
    for snapshot in ("full", "delta"):
        client = ctxwrap.wrap(bare, store=home, snapshot=snapshot)
        for text in CHAT:
            with ctxwrap.using(session=snapshot):
                reply: Any = (
                    client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
                    if api == "chat"
                    else client.completions.create(model="m", prompt=text)
                )
            turn = ctxwrap.turn_of(reply)
            assert turn is not None
            assert turn.report.reading == "clean"
    full, delta = remembered(home, "full"), remembered(home, "delta")
    assert {item.content for item in full.items.values()} >= {"The user's name is Ada.", "The user has a cat."}
    assert places(full) == places(delta)
