"""The corpus keeps its promises, and the reader those of the corpus: class by class, cut short, and in every cut."""

import html
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from ctxwrap.protocol import ReplyStream, read_reply
from tests.protocol.corpus import CLASSES, FUZZ, TRUNCATED, Case, cases, fuzz, of_class
from tests.protocol.damage import SEPARATOR, TIERS

SEED = 20_260_301
EACH = 6
APPLIED = ("clean", "repaired", "partial")
UNSURE = ("partial", "ambiguous", "missing", "rejected")

ITEM = {
    "type": "object",
    "required": ["id", "type", "decay", "round", "tags", "content"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "decay": {"type": "number", "minimum": 0, "maximum": 1},
        "round": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "content": {"type": "string", "minLength": 1},
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runtime", "memory", "capabilities", "active_task"],
    "properties": {
        "version": {"const": "2.2"},
        "runtime": {"type": "object", "required": ["round", "datetime", "startup_at"]},
        "memory": {
            "type": "object",
            "required": list(TIERS),
            "additionalProperties": {"type": "array", "items": ITEM},
        },
        "capabilities": {"type": "array", "items": {"type": "object", "required": ["name", "scope"]}},
        "active_task": {"type": "string"},
    },
}


@pytest.fixture(scope="module")
def corpus() -> list[Case]:
    return cases(SEED, 400)


def test_a_seed_always_gives_the_same_cases(corpus: list[Case]) -> None:
    assert cases(SEED, 40) == corpus[:40]
    assert cases(SEED + 1, 40) != corpus[:40]
    assert fuzz(SEED, 20) == fuzz(SEED, 40)[:20]


def test_every_class_appears_alone_and_a_quarter_is_composed(corpus: list[Case]) -> None:
    assert {case.name for case in corpus} >= set(CLASSES)
    composed = [case for case in corpus if len(case.damage) > 1]
    assert len(composed) == len(corpus) // 4
    assert {len(case.damage) for case in composed} == {2, 3}


def test_cases_survive_the_file_format(corpus: list[Case]) -> None:
    assert [Case.from_json(case.to_json()) for case in corpus] == corpus
    columns = ["class", "corruptions", "reply", "visible", "snapshot", "lossless", "policy", "runtime", "prev"]
    assert list(json.loads(corpus[0].to_json())) == columns


def test_expected_state_of_each_case_is_a_valid_snapshot(corpus: list[Case]) -> None:
    check = jsonschema.Draft202012Validator(SCHEMA)
    for case in corpus:
        check.validate(case.snapshot)
        ids = [item["id"] for items in case.snapshot["memory"].values() for item in items]
        assert len(ids) == len(set(ids)), case.name
        assert case.snapshot["runtime"] == case.runtime
        if case.previous is not None:
            check.validate(case.previous)


def test_a_clean_reply_is_text_separator_and_strict_json() -> None:
    for case in of_class("clean", SEED, 40):
        assert case.reply.startswith(case.visible)
        rest = case.reply.removeprefix(case.visible)
        assert rest.startswith(f"\n\n{SEPARATOR}")
        assert json.loads(rest.strip().removeprefix(SEPARATOR)) == case.snapshot


def test_every_damage_changes_the_reply(corpus: list[Case]) -> None:
    valid_anyway = {"clean", "separator_in_content", "number_leading_dot_plus"}
    for case in corpus:
        if valid_anyway.isdisjoint(case.damage):
            _, _, tail = case.reply.removeprefix(case.visible).partition(f"\n\n{SEPARATOR}")
            assert repr(strictly(tail)) != repr(case.snapshot), case.name


def strictly(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_visible_text_of_each_case_is_first_and_complete(corpus: list[Case]) -> None:
    for case in corpus:
        if "prose_after" not in case.damage:
            assert case.reply.startswith(case.visible), case.name
        assert case.visible == case.visible.strip(), case.name


def test_lossless_cases_are_decidable_from_reply_or_previous_state(corpus: list[Case]) -> None:
    for case in corpus:
        if case.lossless:
            readings = list(letters(case))
            missing = [text for text in texts(case.snapshot) if not any(text in reading for reading in readings)]
            assert not missing, case.name


def texts(snapshot: dict[str, Any]) -> Iterator[str]:
    """The letters of everything the snapshot says."""
    yield squeezed(snapshot["active_task"])
    for items in snapshot["memory"].values():
        for item in items:
            yield from (squeezed(text) for text in (item["id"], item["type"], item["content"], *item["tags"]))


def letters(case: Case) -> Iterator[str]:
    """The letters of the reply, under every way in which they may be encoded."""
    tail = case.reply.removeprefix(case.visible)
    before = json.dumps(case.previous, ensure_ascii=False)
    for text in (tail, html.unescape(tail), before):
        for _ in range(3):
            yield squeezed(text)
            text = unescaped(text)


def squeezed(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def unescaped(text: str) -> str:
    def char(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"].strip("ux{}"), 16))
        return " " if match["mark"] in "nrtbf" else match["mark"]

    text = re.sub(r"(?s)\\(?:(?P<code>u[\da-f]{4}|u\{[\da-f]+\}|x[\da-f]{2})|(?P<mark>.))", char, text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_ambiguous_cases_are_not_lossless(corpus: list[Case]) -> None:
    lossy = {*TRUNCATED, "decay_out_of_range", "dup_id_conflict"}
    for case in corpus:
        assert case.lossless == lossy.isdisjoint(case.damage), case.name
        assert case.policy or case.lossless, "what is lost can only be replaced by choice"


@pytest.mark.parametrize("name", sorted(TRUNCATED))
def test_a_truncated_reply_ends_before_its_json_does(name: str) -> None:
    for case in of_class(name, SEED, 20):
        assert case.previous is not None
        assert strictly(case.reply.removeprefix(case.visible).strip().removeprefix(SEPARATOR)) is None


def test_fuzz_edits_one_json_mark() -> None:
    for case in fuzz(SEED, 80):
        assert case.lossless
        assert case.previous is None
        assert case.damage[0] in FUZZ


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_of_damage_is_repaired(name: str) -> None:
    for case in of_class(name, SEED, EACH):
        reading = read_reply(case.reply, case.runtime, case.previous)
        assert (reading.visible, reading.snapshot) == (case.visible, case.snapshot)
        assert reading.status in APPLIED


def outcome(case: Case) -> tuple[bool, bool, bool]:
    """Whether the reading is exact, whether it is wrong without saying so, and whether the visible text is right."""
    reading = read_reply(case.reply, case.runtime, case.previous)
    right = reading.snapshot == case.snapshot
    return right, not right and reading.status in ("clean", "repaired"), reading.visible == case.visible


def test_composed_damage_is_repaired(corpus: list[Case]) -> None:
    outcomes = [outcome(case) for case in corpus if len(case.damage) > 1 and case.lossless]
    exact, silent, seen = (sum(column) / len(outcomes) for column in zip(*outcomes, strict=True))
    assert exact >= 0.99
    assert silent <= 0.003
    assert seen >= 0.995


def test_unclassified_damage_is_repaired_or_reported() -> None:
    outcomes = [outcome(case) for case in fuzz(SEED, 400)]
    exact, silent, seen = (sum(column) / len(outcomes) for column in zip(*outcomes, strict=True))
    assert exact >= 0.9
    assert silent <= 0.06
    assert seen >= 0.99


@pytest.mark.parametrize("name", sorted(TRUNCATED))
def test_truncated_snapshot_is_never_reported_as_complete(name: str) -> None:
    for case in of_class(name, SEED, EACH):
        reading = read_reply(case.reply, case.runtime, case.previous)
        assert reading.status in UNSURE or reading.snapshot == case.snapshot
        assert reading.status != "clean"


@pytest.mark.parametrize("name", CLASSES)
def test_streamed_reply_reads_like_the_whole_reply(name: str) -> None:
    rng = random.Random(SEED)
    for case in of_class(name, SEED, 2):
        stream = ReplyStream(case.runtime, case.previous)
        shown = "".join([*(stream.feed(chunk) for chunk in chunks(case.reply, rng)), stream.close()])
        assert stream.reading == read_reply(case.reply, case.runtime, case.previous)
        assert shown == stream.reading.visible


def chunks(text: str, rng: random.Random) -> Iterator[str]:
    at = 0
    while at < len(text):
        size = rng.choice((1, 2, 3, 5, 8, 40, 200))
        yield text[at : at + size]
        at += size
