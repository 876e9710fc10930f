"""One short conversation of our own, written as files of LoCoMo, LongMemEval and BEAM."""

import json
from pathlib import Path
from typing import Any

CAT = "My cat is called Oskar, and he sleeps on the kitchen shelf all day long."
BICYCLE = "Yesterday I bought a green bicycle from an old man in Lyon."
MOVED = "By the way, I moved to Ghent last week, into a flat above a bakery."
SMALL_TALK = ("How nice to hear that from you!", "The weather here is awful, by the way.", "I see, tell me more.")

QUESTIONS = {"cat": "What is the name of the cat?", "bicycle": "Which colour has the bicycle from Lyon?"}


def locomo() -> list[dict[str, Any]]:
    """Sessions 2 and 10, so that the order of numbers is not that of their digits; Ben says two things in a row."""
    talk = {
        "speaker_a": "Ann",
        "speaker_b": "Ben",
        "session_10_date_time": "9:05 am on 3 June, 2023",
        "session_10": [
            {"speaker": "Ben", "dia_id": "D10:1", "text": MOVED},
            {"speaker": "Ann", "dia_id": "D10:2", "text": SMALL_TALK[2], "blip_caption": "a photo of a street"},
        ],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": CAT},
            {"speaker": "Ben", "dia_id": "D2:2", "text": SMALL_TALK[0]},
            {"speaker": "Ben", "dia_id": "D2:3", "text": BICYCLE},
        ],
    }
    qa = [
        {"question": QUESTIONS["cat"], "answer": "Oskar", "evidence": ["D2:1"], "category": 4},
        {"question": QUESTIONS["bicycle"], "answer": "green", "evidence": ["D2:3; D10:1", "D", "D9:9"], "category": 1},
        {"question": "When did Ben move?", "answer": 2023, "evidence": ["D10:1"], "category": 2},
        {
            "question": "What is the name of the dog?",
            "adversarial_answer": "Oskar",
            "evidence": ["D2:1"],
            "category": 5,
        },
    ]
    return [{"sample_id": "conv-1", "conversation": talk, "qa": qa}]


def longmemeval() -> list[dict[str, Any]]:
    """The later session stands first, as in the oracle's file."""
    row = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": QUESTIONS["cat"],
        "answer": "Oskar",
        "question_date": "2023/06/10 (Sat) 08:00",
        "haystack_session_ids": ["s2", "s1"],
        "haystack_dates": ["2023/06/03 (Sat) 09:05", "2023/05/08 (Mon) 13:56"],
        "haystack_sessions": [
            [{"role": "user", "content": SMALL_TALK[1]}, {"role": "assistant", "content": SMALL_TALK[2]}],
            [
                {"role": "user", "content": CAT, "has_answer": True},
                {"role": "assistant", "content": SMALL_TALK[0], "has_answer": False},
            ],
        ],
        "answer_session_ids": ["s1"],
    }
    count = {**row, "question_id": "q2", "question_type": "multi-session", "question": "How many cats?", "answer": 1}
    missing = {**row, "question_id": "q3_abs", "question": "What is the name of the dog?", "answer": "Not mentioned."}
    return [row, count, missing]


def beam_chat() -> list[dict[str, Any]]:
    """Batches of turns, as in the repository; the id 4 occurs twice."""
    first = [
        {"role": "user", "id": 0, "time_anchor": "May-08-2023", "index": "1,1", "content": f"{CAT} ->-> 1,1"},
        {"role": "assistant", "id": 1, "content": SMALL_TALK[0]},
    ]
    second = [{"role": "user", "id": 2, "content": BICYCLE}, {"role": "assistant", "id": 3, "content": SMALL_TALK[2]}]
    third = [
        {"role": "user", "id": 4, "time_anchor": "June-03-2023", "content": MOVED},
        {"role": "assistant", "id": 4, "content": SMALL_TALK[1]},
    ]
    return [{"batch_number": 1, "turns": [first, second]}, {"batch_number": 2, "turns": [third]}]


def beam_questions() -> dict[str, list[dict[str, Any]]]:
    return {
        "abstention": [
            {"question": "What is the name of the dog?", "ideal_response": "Nothing is said.", "rubric": ["Not said"]}
        ],
        "information_extraction": [
            {
                "question": QUESTIONS["cat"],
                "answer": "It is Oskar.",
                "source_chat_ids": [0],
                "rubric": ["LLM response should state: Oskar"],
            }
        ],
        "knowledge_update": [
            {
                "question": QUESTIONS["bicycle"],
                "answer": "green",
                "source_chat_ids": {"original_info": [2, 4], "updated_info": [0]},
            }
        ],
    }


def beam_row() -> dict[str, Any]:
    """A row of the dataset: a list of messages for each batch, and the questions as text."""
    chat = [[message for turn in batch["turns"] for message in turn] for batch in beam_chat()]
    return {"conversation_id": "7", "chat": chat, "probing_questions": str(beam_questions())}


def write_beam(folder: Path, chat: object = None, name: str = "chat.json") -> Path:
    """A conversation in the layout of the repository."""
    place = folder / "100K" / "7"
    (place / "probing_questions").mkdir(parents=True, exist_ok=True)
    write(place / name, beam_chat() if chat is None else chat)
    write(place / "probing_questions" / "probing_questions.json", beam_questions())
    return folder


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data))
    return path
