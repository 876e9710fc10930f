"""The ladder: what is mended, under which name; what is dropped, and why; what nobody can read."""

import copy
import json
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.protocol import read_reply
from ctxwrap.protocol.recovery import recover, recover_plain
from ctxwrap.types import ParsedReply
from tests.protocol.test_reply import ITEM, RUNTIME, SEPARATOR, state
from tests.support import examples

OTHER = {**ITEM, "id": "core-2", "content": 'She said "no", then left.', "tags": ["b", "c"]}
STATE = state(memory={"core": [ITEM, OTHER], "working": [{**ITEM, "id": "w-1"}], "ephemeral": []}, active_task="Tea")
TEXT = json.dumps(STATE, ensure_ascii=False)


def read(tail: str, previous: dict[str, Any] | None = None) -> ParsedReply:
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{tail}", RUNTIME, previous)
    assert reading.visible == "Hello."
    return reading


@pytest.mark.parametrize(
    ("old", "new", "repairs"),
    [
        ("}]", "},]", ("commas",)),
        ("0.1", "+.1f", ("numbers",)),
        ('"core": [', '"core": [ // as before', ("comments",)),
        ('"type": ', '"type" => ', ("marks",)),
        (", ", ",\u00a0", ("spaces",)),
        ('"type"', 'type"', ("marks",)),
        ('"decay": 0.1, "round"', '"decay": 0.1 "round"', ("marks",)),
        ('"The sky is blue."', '"The sky is blue.', ("marks",)),
        ("The sky is blue.", "The sky\nis blue.", None),
        ('\\"no\\"', '"no"', ("inner-quotes",)),
        ("true", "true", ()),
    ],
)
def test_damaged_json_marks_are_repaired(old: str, new: str, repairs: tuple[str, ...] | None) -> None:
    tail = TEXT.replace(old, new + "\n" * (repairs == ("comments",)), 1)
    reading = read(tail)
    wanted = STATE if repairs is not None else json.loads(TEXT.replace(old, "The sky\\nis blue.", 1))
    assert reading.snapshot == wanted
    assert reading.repairs == (repairs if repairs is not None else ("control-characters",))


@pytest.mark.parametrize(
    ("damaged", "repairs"),
    [
        (f"```json\n{TEXT}\n```", ("code-fence",)),
        (f"Here it is:\n{TEXT}", ("text-before",)),
        (f"<state>\n{TEXT}\n</state>", ("markup",)),
        (json.dumps(TEXT), ("double-encoding",)),
        (f"{TEXT}\n{TEXT}", ("text-after",)),
        (TEXT.replace('"', "“"), None),
        (json.dumps({"context": STATE}), ("wrapped",)),
        (TEXT.replace('"2.2"', "2.2"), ("version",)),
        (TEXT.replace('"core"', '"long_term"'), ("tier-spelling",)),
        (TEXT.replace('"active_task"', '"activeTask"'), ("key-spelling",)),
        (TEXT.replace('"round": 1', '"round": "1"'), ("round",)),
        (TEXT.replace('["a"]', '"a"'), ("tags",)),
    ],
)
def test_json_dialects_are_read(damaged: str, repairs: tuple[str, ...] | None) -> None:
    reading = read(damaged)
    if repairs is not None:
        assert (reading.status, reading.repairs) == ("repaired", repairs)
        assert reading.snapshot == STATE


def test_yaml_is_read_with_the_types_of_json() -> None:
    reading = read(
        "version: 2.2\nmemory:\n  core:\n  - {id: a, type: fact, decay: .5, round: 3, tags: [on, 010], content: no,"
        " due: 2026-04-01}\n  working: []\n  ephemeral: []\ncapabilities: []\nactive_task: yes\n"
    )
    assert reading.snapshot is not None
    item = {"id": "a", "type": "fact", "decay": 0.5, "round": 3, "tags": ["on", "010"], "content": "no"}
    assert reading.snapshot["memory"]["core"] == [{**item, "due": "2026-04-01"}]
    assert reading.snapshot["active_task"] == "yes"


@pytest.mark.parametrize("value", ["&a [*a]", "!!python/object:os.system {}", "[" * 40 + "]" * 40])
def test_yaml_with_aliases_tags_or_deep_nesting_is_rejected(value: str) -> None:
    assert read(f"version: 2.2\nmemory:\n  core: {value}\n").status == "rejected"


@given(st.integers(0, len(TEXT) - 1))
def test_truncated_snapshot_keeps_previous_items_that_were_not_reached(length: int) -> None:
    """Wherever the text ends: what came is taken, and nothing is removed that was not reached."""
    older = copy.deepcopy(STATE)
    older["memory"]["ephemeral"] = [{**ITEM, "id": "e-1"}]
    older["memory"]["working"] = [{**ITEM, "id": "w-9"}]
    older["active_task"] = "Coffee"
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{TEXT[:length]}", RUNTIME, older)
    if reading.status == "repaired":
        assert reading.snapshot == STATE
    elif reading.snapshot is not None:
        assert reading.status == "partial"
        memory = reading.snapshot["memory"]
        assert [item["id"] for item in memory["core"]] == ["core-1", "core-2"]
        assert memory["ephemeral"] == ([] if '"ephemeral": []' in TEXT[:length] else older["memory"]["ephemeral"])
        assert memory["working"][-1]["id"] == "w-9" or TEXT.index("]", TEXT.index("w-1")) < length
        assert all(item in (*STATE["memory"]["core"], *older["memory"]["core"]) for item in memory["core"])
        assert reading.snapshot["active_task"] in ("Coffee", "Tea")


MARKS = '{}[],:"'


@given(st.integers(0, len(TEXT) - 1), st.sampled_from(("drop", "double", *MARKS)), st.data())
def test_snapshot_with_one_wrong_mark_is_read_correctly_or_rejected(at: int, change: str, data: st.DataObject) -> None:
    places = [place for place, char in enumerate(TEXT) if char in MARKS and TEXT[place - 1] != "\\"]
    place = places[at % len(places)]
    put = {"drop": "", "double": TEXT[place] * 2}.get(change, change)
    reading = read_reply(f"Hello.\n{SEPARATOR}\n{TEXT[:place]}{put}{TEXT[place + 1 :]}", RUNTIME)
    if reading.status in ("clean", "repaired") and reading.snapshot != STATE:
        assert strictly(f"{TEXT[:place]}{put}{TEXT[place + 1 :]}") or differs_inside(reading.snapshot)


def strictly(text: str) -> bool:
    try:
        return bool(json.loads(text))
    except ValueError:
        return False


def differs_inside(snapshot: Any) -> bool:
    """Whether only the edge of one text differs, which nobody can tell from what was meant."""
    found, meant = json.dumps(snapshot, sort_keys=True), json.dumps(STATE, sort_keys=True)
    return abs(len(found) - len(meant)) <= 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decay": True}, "decay"),
        ({"decay": "often"}, "decay"),
        ({"round": 1.5}, "round"),
        ({"round": -1}, "round"),
        ({"tags": 5}, "tags"),
        ({"tags": ["x"] * 65}, "tags"),
        ({"content": ""}, "content"),
        ({"content": None}, "content"),
        ({"content": "x" * 20_000}, "content"),
        ({"id": ""}, "id"),
        ({"id": "x" * 201}, "id"),
    ],
)
def test_a_bad_item_is_dropped_with_its_reason_and_the_good_ones_stay(change: dict[str, Any], reason: str) -> None:
    bad = {**ITEM, "id": "core-9", **change}
    memory = {"core": [ITEM, bad, 7], "working": [], "ephemeral": [], "attic": []}
    reading = read(json.dumps(state(memory=memory)))
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["core"] == [ITEM]
    assert reading.status == "partial"
    first, second, third = reading.violations
    assert first.startswith("core item dropped: ")
    assert reason in first
    assert "dictionary" in second
    assert third == "unknown tier 'attic' dropped"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"decay": 1.5}, {"decay": 1.0}),
        ({"decay": -3}, {"decay": 0.0}),
        ({"decay": "0.25"}, {"decay": 0.25}),
        ({"decay": "40 %"}, {"decay": 0.4}),
        ({"round": "2"}, {"round": 2}),
        ({"round": 2.0}, {"round": 2}),
        ({"tags": "x, y"}, {"tags": ["x", "y"]}),
        ({"id": 7}, {"id": "7"}),
        ({"content": "half \ud83d"}, {"content": "half \ufffd"}),
    ],
)
def test_field_of_the_wrong_type_is_converted(change: dict[str, Any], wanted: dict[str, Any]) -> None:
    reading = read(json.dumps(state(memory={"core": [{**ITEM, **change}], "working": [], "ephemeral": []})))
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["core"] == [{**ITEM, **wanted}]
    assert (reading.status, reading.repairs) == ("repaired", (*change,))


def test_invalid_item_or_tier_forgets_no_memory_item() -> None:
    known = {**ITEM, "id": "known", "content": "The grass is green."}
    previous = state(memory={"core": [ITEM, known], "working": [{**ITEM, "id": "w"}], "ephemeral": []}, active_task="x")
    given = state(memory={"core": [{**known, "decay": "often"}], "working": "nothing", "ephemeral": []})
    del given["active_task"]
    reading = read(json.dumps(given), previous)
    assert reading.snapshot is not None
    assert reading.snapshot["memory"] == {**previous["memory"], "core": [known]}
    assert reading.snapshot["active_task"] == "x"
    assert reading.status == "partial"


def test_empty_tier_is_emptied_and_missing_tier_is_kept() -> None:
    given = copy.deepcopy(STATE)
    given["memory"] = {"core": [], "working": None}
    reading = read(json.dumps(given), STATE)
    assert reading.snapshot is not None
    assert reading.snapshot["memory"] == {**STATE["memory"], "core": []}
    assert reading.repairs == ("missing-tier",)


def test_missing_fields_are_taken_from_the_shown_item() -> None:
    given = copy.deepcopy(STATE)
    for name in ("type", "decay", "content"):
        del given["memory"]["core"][1][name]
    reading = read(json.dumps(given), STATE)
    assert (reading.snapshot, reading.repairs) == (STATE, ("missing-fields",))


def test_ellipsis_is_replaced_by_the_shown_text() -> None:
    given = copy.deepcopy(STATE)
    given["memory"]["core"][1:] = ["..."]
    reading = read(json.dumps(given), STATE)
    assert (reading.snapshot, reading.repairs) == (STATE, ("ellipsis",))


def test_ids_are_unique_over_all_tiers() -> None:
    given = copy.deepcopy(STATE)
    given["memory"]["working"] = [ITEM, {**ITEM, "content": "Another."}]
    reading = read(json.dumps(given))
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["working"] == [{**ITEM, "id": "core-3", "content": "Another."}]
    assert reading.repairs == ("duplicate-items", "duplicate-ids")


@pytest.mark.parametrize(
    "tail",
    [
        "{",
        "{}",
        '{"memory": []}',
        '{"memory": {}}',
        '{"memory": {"attic": []}}',
        '{"active_task": "a", "memory": {"core": []}, "active_task": "b"}',
        "{" * 5000,
        '{"a":' * 40 + "1" + "}" * 40,
        '{"memory": {"core": [' + "[" * 100_000,
        TEXT[:-1] + " " * 300_000 + "}",
        TEXT[:-1] + " " * 70_000 + "x}",
    ],
)
def test_unreadable_snapshot_is_rejected_and_never_shown(tail: str) -> None:
    reading = read(tail)
    assert (reading.snapshot, reading.status) == (None, "rejected")
    assert reading.violations


@pytest.mark.parametrize(
    "damaged",
    [
        TEXT.replace('"type": "fact"', '"type": x "fact" y', 1),
        TEXT.replace('"tags": ["a"], "content"', '"tags": ["a" "content" :', 1),
        TEXT.replace('"core-1"', '"core-1": {"id": "core-7"', 1),
    ],
)
def test_ambiguous_snapshot_is_rejected(damaged: str) -> None:
    reading = read(damaged)
    assert (reading.snapshot, reading.status) == (None, "ambiguous")
    assert reading.violations


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"note": [[[[1]]]]}, True),
        ({"note": "😀"}, True),
        ({"note": "\ud83d"}, False),
        ({"\ud83d": 1}, False),
        ({"note": json.loads("[" * 40 + "]" * 40)}, False),
    ],
)
def test_unknown_fields_are_kept_if_valid(change: dict[str, Any], kept: bool) -> None:
    given = state(memory={"core": [{**ITEM, **change}], "working": [], "ephemeral": []})
    reading = read(json.dumps(given))
    assert reading.snapshot is not None
    assert reading.snapshot["memory"]["core"] == [{**ITEM, **(change if kept else {})}]
    assert reading.status == ("clean" if kept else "partial")


def test_valid_regions_are_kept_exactly() -> None:
    odd = {**ITEM, "content": "\ud83d\ude00 \\ud83d \u0000 line\n", "decay": 1e-7, "extra": {"n": 10**20, "e": 1.50}}
    given = state(memory={"core": [odd], "working": [], "ephemeral": []})
    text = json.dumps(given).replace('"ephemeral": []', '"ephemeral": [],')
    reading = read(text)
    assert reading.status == "repaired"
    assert json.dumps(reading.snapshot) == json.dumps(given)


DELTA = {"version": "2.2", "runtime": RUNTIME, "memory": {"core": [{**ITEM, "id": "core-9"}]}, "dropped": ["core-2"]}


@pytest.mark.parametrize("without", [(), ("runtime",), ("memory",), ("dropped",)])
@pytest.mark.parametrize("task", [{}, {"active_task": "Tea"}])
def test_delta_may_leave_out_unchanged_fields(without: tuple[str, ...], task: dict[str, str]) -> None:
    given = {key: value for key, value in {**DELTA, **task}.items() if key not in without}
    reading = read(json.dumps(given), STATE)
    assert reading.status == ("repaired" if "dropped" in without else "clean")
    assert reading.snapshot is not None
    core = STATE["memory"]["core"] if "memory" in without else [{**ITEM, "id": "core-9"}]
    assert reading.snapshot["memory"] == {**STATE["memory"], "core": core}
    assert reading.snapshot["active_task"] == "Tea"
    assert reading.snapshot["capabilities"] == STATE["capabilities"]


def test_an_item_without_an_id_gets_the_next_of_its_tier() -> None:
    nameless = {key: value for key, value in ITEM.items() if key != "id"}
    known = {**nameless, "content": OTHER["content"]}
    given = {**DELTA, "memory": {"core": [{**nameless, "content": "New."}, known, {**nameless, "content": ""}]}}
    reading = read(json.dumps(given), STATE)
    assert reading.snapshot is not None
    assert [item["id"] for item in reading.snapshot["memory"]["core"]] == ["core-3", "core-2"]
    assert reading.status == "partial"
    assert reading.repairs == ("missing-id",)
    assert "id" in reading.violations[0]


@pytest.mark.parametrize("entries", [["x"] * 65, ["x" * 3000], [{"name": "x" * 3000, "scope": "y"}]])
def test_capabilities_have_limits(entries: list[Any]) -> None:
    reading = read(json.dumps(state(capabilities=entries)))
    assert reading.snapshot is not None
    assert reading.status == "partial"
    assert reading.snapshot["capabilities"] == [entry for entry in entries[:64] if entry == "x"]
    assert "capabilities" in reading.violations[0]


@pytest.mark.parametrize(
    ("word", "number"),
    [("三", 3), ("十", 10), ("二十四", 24), ("零点〇五", 0.05), ("０.２５", 0.25), ("٠.٥", 0.5), ("三三十", None)],
)
def test_numbers_of_other_scripts_are_read(word: str, number: float | None) -> None:
    from ctxwrap.protocol.fields import COERCIONS

    assert COERCIONS["decay"](word) == (word if number is None else min(number, 1.0))


def test_snapshot_with_two_different_decodings_is_rejected() -> None:
    text = TEXT.replace("The sky is blue.", "&lt;b&gt; > 3").replace('"', "&quot;")
    reading = read(text.replace("\\&quot;", "&quot;&quot;", 0))
    assert (reading.snapshot, reading.status) == (None, "ambiguous")


@pytest.mark.parametrize("text", ["id: core-1\ncontent: a\\nb", "id: core-1 = x\ncontent: c", "id: core-1\nand so on"])
def test_ambiguous_lines_are_not_read(text: str) -> None:
    reading = recover(
        f"version: 2.2\n## core\n{text}\n## working\n## ephemeral\n## capabilities\nactive_task: x", None, None
    )
    assert reading.snapshot is None


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(['"k": v', "a : b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
CHANGES: list[tuple[Any, ...]] = [
    *((name,) for name in (*STATE, "missing", "working_set", "dropped", "other")),
    *(("runtime", name) for name in (*RUNTIME, "other")),
    *(("memory", "core", 1, name) for name in (*ITEM, "other")),
]
KEYS = ['"id"', '"round"', '"tags"', '"core"', '"memory"', '"runtime"', '"datetime"', '"version"', '"b"', '"']
BEFORE_KEYS = [
    "",
    "",
    "",
    '"id": 1, ',
    '"round": 3,',
    '"\\u0069d" : 1, ',
    '"core": [], ',
    '"memory"\n:{},',
    "{",
    ",",
    " ",
]


@examples(600)
@given(
    st.sampled_from(CHANGES),
    VALUES,
    st.sampled_from([None, 1, "\t"]),
    st.sampled_from([(", ", ": "), (",", ":"), (" , ", " : ")]),
    st.sampled_from(KEYS),
    st.sampled_from(BEFORE_KEYS),
    st.integers(0, 3),
)
def test_plain_trailer_is_read_like_any_other(
    path: tuple[Any, ...],
    value: Any,
    indent: int | str | None,
    separators: tuple[str, str],
    key: str,
    before_key: str,
    place: int,
) -> None:
    data = copy.deepcopy(STATE)
    *holders, name = path
    reduce(getitem, holders, data)[name] = value
    start, *rest = json.dumps(data, indent=indent, separators=separators).split(key)
    for at, part in enumerate(rest):
        start += (before_key if at == place else "") + key + part
    read = recover_plain(start, RUNTIME, STATE)
    assert read is None or repr(read) == repr(recover(start, RUNTIME, STATE))


@pytest.mark.parametrize(
    "layout", [{}, {"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}, {"separators": (" , ", " : ")}]
)
def test_canonical_trailer_is_plain_in_every_layout(layout: dict[str, Any]) -> None:
    whole = {**STATE, "capabilities": ["a", {"name": "b", "scope": "c"}], "missing": [{"question": "Why?"}]}
    for data in (STATE, whole, {**STATE, "runtime": {}}, {**STATE, "dropped": ["core-9"]}):
        read = recover_plain(json.dumps(data, **layout), RUNTIME, STATE)
        assert read is not None
        assert read.snapshot == {**data, "runtime": RUNTIME}


@pytest.mark.parametrize("key", ['"version"', '"round"', '"memory"', '"core"', '"id"', '"name"'])
def test_trailer_with_a_key_twice_is_not_plain(key: str) -> None:
    text = json.dumps({**STATE, "capabilities": [{"name": "b"}]})
    assert recover_plain(text, RUNTIME, STATE) is not None
    start, end = text.split(key, 1)
    value = json.JSONDecoder().raw_decode(end, 2)[1]
    assert recover_plain(f"{start}{key}{end[:value]}, {key}{end}", RUNTIME, STATE) is None
