"""Files of LoCoMo, LongMemEval and BEAM are read as their authors mean them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conversations import Conversation, DataError, Question, read

from tests.benchmarks import samples
from tests.benchmarks.samples import BICYCLE, CAT, MOVED, SMALL_TALK


def one(path: Path, format: str) -> Conversation:
    data = read(path)
    assert data.format == format
    return data.conversations[0]


def evidence(talk: Conversation, question: Question) -> list[str]:
    return [talk.said[at].text for at in question.evidence]


def test_sessions_of_locomo_are_in_order_with_their_dates_and_speakers(tmp_path: Path) -> None:
    talk = one(samples.write(tmp_path / "a.json", samples.locomo()), "LoCoMo")
    assert [(each.name, each.role) for each in talk.said] == [
        ("Ann", "user"), ("Ben", "assistant"), ("Ben", "assistant"), ("Ben", "assistant"), ("Ann", "user")
    ]  # fmt: skip
    assert [each.text for each in talk.said[:4]] == [CAT, SMALL_TALK[0], BICYCLE, MOVED]
    assert talk.said[4].text == f"{SMALL_TALK[2]} [shares a picture: a photo of a street]"
    assert talk.said[0].time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert talk.said[3].time == datetime(2023, 6, 3, 9, 5, tzinfo=UTC)
    assert [each.time for each in talk.said] == sorted(each.time for each in talk.said)


def test_evidence_of_locomo_names_messages(tmp_path: Path) -> None:
    talk = one(samples.write(tmp_path / "a.json", samples.locomo()), "LoCoMo")
    cat, bicycle, moved, dog = talk.questions
    assert (evidence(talk, cat), cat.category, cat.expected) == ([CAT], "single-hop", ("Oskar",))
    assert (evidence(talk, bicycle), bicycle.category) == ([BICYCLE, MOVED], "multi-hop")
    assert (moved.category, moved.expected) == ("temporal", ("2023",))
    assert (dog.answerable, dog.evidence, dog.expected) == (False, (), ())


def test_locomo_may_have_the_format_of_the_recall_benchmark(tmp_path: Path) -> None:
    row = samples.locomo()[0]
    talk = row["conversation"]
    sessions = [
        {
            "date_time": talk[f"session_{number}_date_time"],
            "turns": [{**turn, "id": turn["dia_id"]} for turn in talk[f"session_{number}"]],
        }
        for number in (2, 10)
    ]
    own = [{"sample_id": "conv-1", "sessions": sessions, "questions": row["qa"]}]
    assert one(samples.write(tmp_path / "own.json", own), "LoCoMo") == one(
        samples.write(tmp_path / "a.json", [row]), "LoCoMo"
    )


def test_longmemeval_is_sorted_by_date_and_knows_its_evidence(tmp_path: Path) -> None:
    data = read(samples.write(tmp_path / "a.json", samples.longmemeval()))
    talk = data.conversations[0]
    assert data.format == "LongMemEval"
    assert [each.text for each in talk.said] == [CAT, *SMALL_TALK]
    assert [each.role for each in talk.said] == ["user", "assistant"] * 2
    assert talk.said[2].time == datetime(2023, 6, 3, 9, 5, tzinfo=UTC)
    question = talk.questions[0]
    assert (question.id, question.category, evidence(talk, question)) == ("q1", "single-session-user", [CAT])
    assert question.asked_at == datetime(2023, 6, 10, 8, 0, tzinfo=UTC)
    count, missing = (data.conversations[at].questions[0] for at in (1, 2))
    assert count.expected == ("1",)
    assert (missing.answerable, missing.category, missing.evidence) == (False, "abstention", ())


def test_beam_in_the_layout_of_its_repository(tmp_path: Path) -> None:
    talk = one(samples.write_beam(tmp_path), "BEAM")
    assert [each.text for each in talk.said] == [CAT, SMALL_TALK[0], BICYCLE, SMALL_TALK[2], MOVED, SMALL_TALK[1]]
    assert talk.said[0].time == datetime(2023, 5, 8, tzinfo=UTC)
    assert talk.said[4].time == datetime(2023, 6, 3, tzinfo=UTC)
    dog, cat, bicycle = talk.questions
    assert (dog.answerable, dog.category, dog.evidence) == (False, "abstention", ())
    assert (cat.category, evidence(talk, cat)) == ("information_extraction", [CAT])
    assert cat.expected == ("LLM response should state: Oskar",)
    assert bicycle.expected == ("green",)
    assert evidence(talk, bicycle) == [CAT, BICYCLE]  # two messages have the id 4, and nobody knows which is meant


def test_a_row_of_the_beam_dataset_says_the_same(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text("\n".join(json.dumps({**samples.beam_row(), "conversation_id": id}) for id in ("7", "8")) + "\n")
    layout, (row, other) = one(samples.write_beam(tmp_path), "BEAM"), read(lines).conversations
    assert row == layout
    assert other.id == "2 8"


def test_a_cut_chat_of_beam_is_read_instead_of_the_whole_one(tmp_path: Path) -> None:
    samples.write_beam(tmp_path, samples.beam_chat()[:1], name="chat_trunecated.json")
    assert one(samples.write_beam(tmp_path), "BEAM").said[-1].text == SMALL_TALK[2]


def test_hash_changes_with_the_questions_of_beam(tmp_path: Path) -> None:
    before = read(samples.write_beam(tmp_path)).sha256
    samples.write(tmp_path / "100K" / "7" / "probing_questions" / "probing_questions.json", {})
    assert read(tmp_path).sha256 != before


def without(rows: list[dict[str, Any]], name: str) -> str:
    return json.dumps([{key: value for key, value in row.items() if key != name} for row in rows])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(samples.locomo())[:-20], "is damaged"),
        ("", "is damaged"),
        ('{"a": 1}\n{"a": ', "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("PAR1 and so on", "is Parquet"),
        ("[]", "has no conversations"),
        ('[{"prompt": "x", "completion": "y"}]', "'prompt', 'completion'"),
        ("[[1], [2]]", "no known format"),
        ("7", "no known format"),
        (without(samples.longmemeval(), "haystack_dates"), "conversation 1 of 3 lacks the field 'haystack_dates'"),
        (json.dumps([*samples.longmemeval(), {"haystack_sessions": []}]), "conversation 4 of 4 lacks"),
        (json.dumps(samples.locomo()).replace("1:56 pm", "noon"), "conversation 1 of 1 is damaged"),
        (json.dumps([samples.beam_row()]).replace('"assistant"', '"robot"'), "the role 'robot'"),
        (json.dumps([{**samples.beam_row(), "probing_questions": "{'a': ["}]), "conversation 1 of 1 is damaged"),
    ],
)
def test_damaged_and_unknown_files_are_refused_with_the_reason(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_missing_files_and_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(DataError, match="no folder of BEAM"):
        read(tmp_path)
