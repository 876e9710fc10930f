"""What is missing: the events that tell of it, and the fold of these."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.pack.receipt import EventIds
from ctxwrap.session.missing import (
    MissingItems,
    gaps_in,
    id_of,
    missing_after,
    missing_from_json,
    missing_history,
    open_in,
    pack_events,
    question_events,
    questions_shown,
    settlement_event,
)
from ctxwrap.types import PackItem, Record

WORDS = st.sampled_from(["Where is it?", "Who pays?", "When?", "How many?", "Which one?", "Why so?", "What else?"])
QUESTION = st.fixed_dictionaries(
    {"question": WORDS | st.text(min_size=1, max_size=20)},
    optional={
        "severity": st.sampled_from(["info", "low", "medium", "high", "blocking"]),
        "needed_for": st.text(max_size=9),
        "asked": st.sampled_from(["user", "operator", "tool", ""]),
    },
)
LISTS = st.lists(st.none() | st.lists(QUESTION, max_size=8), max_size=6)


class Log:
    """A session's events, and what is known by them."""

    def __init__(self) -> None:
        self.known: MissingItems = ()
        self.events: list[Record] = []
        self.round = 0

    def write(self, events: list[Record]) -> list[str]:
        for event in json.loads(json.dumps(events)):
            self.known = missing_after(self.known, event)
            self.events.append(event)
        return [event["type"].rpartition(".")[2] for event in events]

    def pack(self, *items: PackItem, report: dict[str, Any] | None = None) -> list[str]:
        self.round += 1
        return self.write(pack_events(self.known, items, report or {}, self.ids))

    def flag(self, *questions: dict[str, str]) -> list[str]:
        return self.write(question_events(self.known, questions, self.ids, f"messages:{self.round}"))

    @property
    def ids(self) -> EventIds:
        return EventIds("s", f"t{self.round}", self.round)


def ask(question: str, **more: str) -> dict[str, str]:
    return {"question": question, **more}


@given(LISTS)
def test_open_questions_are_those_of_the_last_list(lists: list[list[dict[str, str]] | None]) -> None:
    log, last = Log(), list[dict[str, str]]()
    for listed in lists:
        log.pack()
        if listed is not None:
            log.flag(*listed)
            last = listed
    assert {each.id for each in open_in(log.known)} == {id_of("model", each["question"]) for each in last}
    again = Log()
    again.write(log.events)
    assert again.known == log.known, "whoever reads the log knows the same"
    assert missing_from_json(json.loads(json.dumps(log.known))) == log.known
    assert [each for each in missing_history(log.events) if each.status in ("open", "requested")] == list(log.known)


@given(LISTS, QUESTION)
def test_repeated_question_is_logged_once(lists: list[list[dict[str, str]] | None], question: dict[str, str]) -> None:
    log, told = Log(), []
    for listed in lists:
        log.pack()
        others = [
            each for each in listed or () if id_of("model", each["question"]) != id_of("model", question["question"])
        ]
        log.flag(question, *others[:7])
    told = [event["type"] for event in log.events if event["subject"] == id_of("model", question["question"])]
    once = ["context.missing.detected", *(["context.missing.requested"] if question.get("asked") else [])]
    assert told == (once if lists else [])


def test_question_id_derives_from_its_text() -> None:
    assert id_of("model", "Where  is it") == id_of("model", "where is IT?") != id_of("model", "Where was it?")
    assert id_of("model", "?!") != id_of("model", "!?")


def test_a_question_is_asked_and_answered() -> None:
    log = Log()
    log.pack()
    assert log.flag(ask("Who pays?", severity="blocking", needed_for="the invoice")) == ["detected"]
    (missing,) = log.known
    assert (missing.status, missing.severity, missing.blocked_actions) == ("open", "blocking", ("the invoice",))
    assert (missing.turn, missing.round) == ("t1", 1)
    assert log.flag(ask("Who pays?", asked="user")) == ["requested"]
    assert [(each.status, each.requested_from, each.severity) for each in log.known] == [
        ("requested", "user", "blocking")
    ]
    assert log.flag(ask("who pays", severity="low", asked="user")) == ["detected"]
    assert [(each.status, each.severity) for each in log.known] == [("requested", "low")]
    log.pack()
    assert log.flag() == ["resolved"]
    assert log.known == ()
    assert [(each.status, each.resolution) for each in missing_history(log.events)] == [("resolved", "messages:2")]


def test_old_questions_expire() -> None:
    log = Log()
    log.pack()
    log.flag(ask("Who pays?"))
    for _ in range(50):
        assert log.pack() == []
    assert [each.question for each in questions_shown(log.known, 51)] == ["Who pays?"]
    assert questions_shown(log.known, 52) == ()
    assert log.pack() == ["resolved"]
    assert log.events[-1]["data"]["status"] == "expired"
    assert log.known == ()


def test_too_many_questions_expire_and_the_newest_are_shown() -> None:
    """Turns at once may each flag eight."""
    log = Log()
    for turn in range(5):
        events = question_events(
            (), [ask(f"Question {turn}-{at}?") for at in range(8)], EventIds("s", f"t{turn}", 1), "messages:1"
        )
        log.write(events)
    assert len(log.known) == 40
    assert [each.question for each in questions_shown(log.known, 1)] == [
        f"Question 4-{at}?" for at in reversed(range(8))
    ]
    assert log.pack() == ["resolved"] * 8
    assert log.known[0].question == "Question 1-0?"


SOURCES = [
    (PackItem("pinned", "context/pinned/a.md", 9, False, "over budget: 9 tokens, 3 left"), "high"),
    (PackItem("summary", "context/summary.md", 9, False, "over budget: 9 tokens, 3 left"), "medium"),
    (PackItem("children", "context/child/c/result.md", 9, False, "over budget: 9 tokens, 3 left"), "low"),
    (PackItem("working_set", "rules.md", 9, True, "truncated from 90", 1.0, origin="file"), "high"),
]


@pytest.mark.parametrize(("item", "severity"), SOURCES, ids=lambda each: getattr(each, "kind", each))
def test_a_source_over_its_cap_is_missing_until_it_is_sent(item: PackItem, severity: str) -> None:
    log = Log()
    assert log.pack(item) == ["detected"]
    (missing,) = log.known
    assert (missing.severity, missing.status, missing.requested_from) == (severity, "open", "operator")
    assert missing.source.endswith(item.source)
    assert missing.blocked_actions
    assert log.pack(item) == log.pack(item) == []
    assert log.pack() == [], "not asked for is not sent"
    assert log.pack(item._replace(included=True, reason="whole")) == ["resolved"]
    assert log.known == ()
    assert log.pack(item) == ["detected"]


@pytest.mark.parametrize(
    "item",
    [
        PackItem("recent_messages", "messages.jsonl", 9, False, "older than the budget reaches"),
        PackItem("facts", "context/facts.jsonl", 9, False, "over budget: memory has more than its share holds"),
        PackItem("retrieved", "messages.jsonl", 9, False, "over budget: 9 tokens, 3 left"),
        PackItem("working_set", "notes.md", 9, False, "Over budget, priority too low", 0.4, origin="file"),
        PackItem("working_set", "notes.md", 9, True, "truncated from 90", 0.9, origin="file"),
        PackItem("pinned", "context/pinned/a.md", 9, False, "it is not for the model to see"),
    ],
    ids=lambda item: f"{item.kind}-{item.reason}",
)
def test_item_left_out_by_selection_is_not_missing_context(item: PackItem) -> None:
    assert gaps_in([item], {}) == []


def report(path: str, severity: str) -> dict[str, Any]:
    missing = {"path": path, "reason": "it is not there", "severity": severity, "resolution": "create it"}
    return {"missing_context": [missing]}


def test_missing_file_has_the_severity_of_its_report() -> None:
    log = Log()
    assert log.pack(report=report("a.md", "medium")) == ["detected"]
    assert log.pack(report=report("a.md", "blocking")) == ["detected"], "it is worse than it was"
    assert log.pack(report=report("a.md", "blocking")) == []
    (missing,) = log.known
    assert (missing.severity, missing.round, missing.remedy) == ("blocking", 1, "create it")
    for _ in range(60):
        assert log.pack(report=report("a.md", "blocking")) == [], "what is still missing does not expire"
    assert log.pack() == ["resolved"], "nobody asks for it any more"


def test_sources_beyond_the_limit_are_not_logged_repeatedly() -> None:
    log = Log()
    many = {"missing_context": [each for at in range(40) for each in report(f"{at}.md", "low")["missing_context"]]}
    many["missing_context"] += report("vital.md", "blocking")["missing_context"]
    assert log.pack(report=many) == ["detected"] * 32
    assert log.known[0].source == "workingset:vital.md", "the worst comes first"
    assert log.pack(report=many) == []


def settle(log: Log, status: Any, id: str = "") -> None:
    event = settlement_event(log.known, id or log.known[0].id, status, "by hand", "s")
    assert event is not None
    log.write([event])


def test_declined_missing_context_is_not_logged_again() -> None:
    log = Log()
    log.pack(report=report("a.md", "low"))
    log.flag(ask("Who pays?"))
    for id in [each.id for each in log.known]:
        settle(log, "declined", id)
    assert open_in(log.known) == ()
    assert log.pack(report=report("a.md", "low")) == []
    assert log.flag(ask("Who pays?", asked="user")) == []
    assert open_in(log.known) == questions_shown(log.known, 2) == ()
    assert [each.status for each in missing_history(log.events)] == ["declined", "declined"]
    sent = PackItem("working_set", "a.md", 9, True, "whole", 0.4)
    assert log.pack(sent) == ["resolved"]
    assert log.pack(report=report("a.md", "low")) == ["detected"], "it was there in between"


def test_resolved_missing_context_is_logged_again_if_still_absent() -> None:
    log = Log()
    log.pack(report=report("a.md", "low"))
    settle(log, "resolved")
    assert log.known == ()
    assert log.pack(report=report("a.md", "low")) == ["detected"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TYPES = ("context.missing.detected", "context.missing.requested", "context.missing.resolved")
FIELDS = ("question", "severity", "status", "source", "blocked_actions", "round", "requested_from", "resolution")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(TYPES), "subject": st.sampled_from(["a", "b", ""]) | JSON},
            optional={"data": JSON | st.dictionaries(st.sampled_from(FIELDS), JSON), "run": JSON},
        ),
        max_size=8,
    )
)
def test_missing_context_of_any_log_survives_json(events: list[Record]) -> None:
    log = Log()
    log.write(events)
    assert missing_from_json(json.loads(json.dumps(log.known))) == log.known
    for each in log.known:
        assert each.status in ("open", "requested", "declined")
        assert each.severity in ("info", "low", "medium", "high", "blocking")
    log.pack()
    log.flag(ask("Who pays?"))


def test_missing_context_of_a_foreign_log_is_limited() -> None:
    log = Log()
    log.write([{"type": TYPES[0], "subject": f"m-{at}", "data": {"question": "?" * 9999}} for at in range(1000)])
    assert len(log.known) == 256
    assert all(len(each.question) == 2000 for each in log.known)
