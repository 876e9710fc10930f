"""Readers of benchmark files that you have: LoCoMo, LongMemEval and BEAM, recognised by their content.

| benchmark | what is read |
| --- | --- |
| LoCoMo | `locomo10.json`, or conversations in the format of `recall.py --data` |
| LongMemEval | `longmemeval_s.json`, `_m`, `_oracle` |
| BEAM | a `chat.json` beside its `probing_questions`, a folder of these, or rows of the dataset as JSON (lines) |

The evidence of a question is the messages that its file names; a name that fits no message, or several, is left out.
"""

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple


class DataError(Exception):
    """A file is damaged, or of no known format."""


class Said(NamedTuple):
    """A message of a conversation; `name` is the speaker's if both sides are people."""

    role: Literal["user", "assistant"]
    text: str
    time: datetime
    name: str = ""


class Question(NamedTuple):
    id: str
    text: str
    category: str
    expected: tuple[str, ...]
    """The answer, or the points that one has to make."""
    evidence: tuple[int, ...]
    """Places of messages in the conversation; empty if unknown, and for questions without an answer."""
    answerable: bool
    asked_at: datetime


class Conversation(NamedTuple):
    id: str
    said: list[Said]
    questions: list[Question]


class Data(NamedTuple):
    name: str
    format: str
    sha256: str
    conversations: list[Conversation]

    def about(self) -> dict[str, Any]:
        asked = sum(len(each.questions) for each in self.conversations)
        sizes = {"conversations": len(self.conversations), "questions": asked}
        return {"name": self.name, "format": self.format, "sha256": self.sha256, **sizes}


_Row = dict[str, Any]


class _Sessions:
    """The messages of a conversation, session by session; a message is dated a minute after the one before."""

    def __init__(self) -> None:
        self.said: list[Said] = []
        self._places: dict[str, int] = {}
        self._ids: Counter[str] = Counter()
        self.now = datetime(2024, 1, 1, tzinfo=UTC)
        """When the next message is said; a reader sets it where a session begins."""

    def add(self, role: str, text: str, name: str = "", id: object = None) -> None:
        if role != "user" and role != "assistant":  # so that mypy knows
            raise ValueError(f"a message has the role {role!r}")
        self._ids[str(id)] += 1
        self._places[str(id)] = len(self.said)
        self.said.append(Said(role, text, self.now, name))
        self.now += timedelta(minutes=1)

    def places(self, ids: Iterable[object]) -> tuple[int, ...]:
        named = dict.fromkeys(str(id) for id in ids)
        return tuple(sorted(self._places[id] for id in named if self._ids[id] == 1))


def _moment(written: str, form: str) -> datetime:
    return datetime.strptime(written, form).replace(tzinfo=UTC)


_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
_LOCOMO_ID = re.compile(r"D\d+:\d+")


def _locomo_sessions(row: _Row) -> Iterator[tuple[str, list[_Row]]]:
    if "sessions" in row:
        yield from ((session["date_time"], session["turns"]) for session in row["sessions"])
        return
    talk = row["conversation"]
    numbers = sorted(int(key[8:]) for key in talk if key.startswith("session_") and key[8:].isdigit())
    yield from ((talk[f"session_{number}_date_time"], talk[f"session_{number}"]) for number in numbers)


def _locomo(row: _Row) -> tuple[list[Said], list[Question]]:
    sessions, speakers = _Sessions(), dict[str, str]()
    for time, turns in _locomo_sessions(row):
        sessions.now = _moment(time, _LOCOMO_TIME)
        for turn in turns:
            name = turn["speaker"]
            role = speakers.setdefault(name, "assistant" if speakers else "user")  # the first speaker is the user
            shown = f" [shares a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            sessions.add(turn.get("role", role), turn["text"] + shown, name, turn.get("dia_id") or turn.get("id"))
    asked_at = _moment(row["asked_at"], _LOCOMO_TIME) if row.get("asked_at") else sessions.now
    questions = []
    for number, each in enumerate(row["qa"] if "qa" in row else row["questions"]):
        category = _LOCOMO_CATEGORIES.get(each["category"], str(each["category"]))
        answerable = category != "adversarial"
        named = [id for written in each["evidence"] for id in _LOCOMO_ID.findall(written)]
        expected = (str(each["answer"]),) if answerable and "answer" in each else ()
        evidence = sessions.places(named) if answerable else ()
        questions.append(Question(str(number), each["question"], category, expected, evidence, answerable, asked_at))
    return sessions.said, questions


_LONGMEMEVAL_TIME = "%Y/%m/%d (%a) %H:%M"


def _longmemeval(row: _Row) -> tuple[list[Said], list[Question]]:
    dates = [_moment(each, _LONGMEMEVAL_TIME) for each in row["haystack_dates"]]
    sessions, evidence = _Sessions(), list[int]()
    for time, turns in sorted(zip(dates, row["haystack_sessions"], strict=True), key=lambda each: each[0]):
        sessions.now = time
        for turn in turns:
            if turn.get("has_answer"):
                evidence.append(len(sessions.said))
            sessions.add(turn["role"], turn["content"])
    answerable = not row["question_id"].endswith("_abs")
    question = Question(
        row["question_id"],
        row["question"],
        row["question_type"] if answerable else "abstention",
        (str(row["answer"]),),
        tuple(evidence) if answerable else (),
        answerable,
        _moment(row["question_date"], _LONGMEMEVAL_TIME),
    )
    return sessions.said, [question]


_BEAM_TIME = "%B-%d-%Y"
_BEAM_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_BEAM_INDEX, _LONGEST_INDEX = "->->", 16
"""Before the number of its plan at the end of a user's message, which is no part of what was said."""


def _leaves(part: Any) -> Iterator[Any]:
    """The messages or numbers in batches, turns, plans or groups, however deep."""
    if isinstance(part, list):
        for each in part:
            yield from _leaves(each)
    elif isinstance(part, dict) and "role" not in part:
        yield from _leaves(list(part.values()))
    elif part is not None and not isinstance(part, str):
        yield part


def _beam(row: _Row) -> tuple[list[Said], list[Question]]:
    sessions = _Sessions()
    for message in (each for each in _leaves(row["chat"]) if isinstance(each, dict)):
        with suppress(ValueError):  # an anchor in another form leaves the time as it is
            sessions.now = _moment(message.get("time_anchor") or "", _BEAM_TIME)
        text, mark, number = message["content"].rpartition(_BEAM_INDEX)
        said = text.rstrip() if mark and len(number) < _LONGEST_INDEX else message["content"]
        sessions.add(message["role"], said, id=message.get("id"))
    questions = []
    written = row["probing_questions"]
    # the dataset has the questions as the text of a Python literal
    for category, asked in (ast.literal_eval(written) if isinstance(written, str) else written).items():
        for number, each in enumerate(asked):
            answerable = category != "abstention"
            answers = [str(each[name]) for name in _BEAM_ANSWERS if each.get(name)]
            expected = tuple(str(point) for point in each.get("rubric") or answers[:1])
            evidence = sessions.places(_leaves(each.get("source_chat_ids"))) if answerable else ()
            questions.append(
                Question(
                    f"{category} {number}", each["question"], category, expected, evidence, answerable, sessions.now
                )
            )
    return sessions.said, questions


_FORMATS: tuple[tuple[str, tuple[str, ...], Callable[[_Row], tuple[list[Said], list[Question]]]], ...] = (
    ("LongMemEval", ("haystack_sessions", "question"), _longmemeval),
    ("LoCoMo", ("conversation", "qa"), _locomo),
    ("LoCoMo", ("sessions", "questions"), _locomo),
    ("BEAM", ("chat", "probing_questions"), _beam),
)
"""Name, fields by which a row is recognised, and reader."""
_IDS = ("sample_id", "question_id", "conversation_id")


def read(path: Path) -> Data:
    """The conversations of a file or folder. Raises DataError."""
    digest = hashlib.sha256()
    try:
        rows = [row for each in _files(path) for row in _rows(each, digest)]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if not rows:
        raise DataError(f"{path} has no conversations")
    found = next(
        (
            (name, reader)
            for name, fields, reader in _FORMATS
            if isinstance(rows[0], dict) and rows[0].keys() >= set(fields)
        ),
        None,
    )
    if found is None:
        fields = ", ".join(map(repr, list(rows[0])[:6])) if isinstance(rows[0], dict) else "no names"
        raise DataError(
            f"{path} is of no known format: the fields of its first object are {fields}. Known are LoCoMo "
            "(conversation and qa, or sessions and questions), LongMemEval (haystack_sessions and question) and BEAM "
            "(chat and probing_questions, or a chat.json beside the folder probing_questions)"
        )
    name, reader = found
    conversations = []
    for number, row in enumerate(rows, 1):
        try:
            own = next((f" {row[key]}" for key in _IDS if key in row), "")
            conversations.append(Conversation(f"{number}{own}", *reader(row)))
        except KeyError as error:
            raise DataError(f"{path}: conversation {number} of {len(rows)} lacks the field {error}") from error
        except (TypeError, ValueError, AttributeError, SyntaxError) as error:
            raise DataError(f"{path}: conversation {number} of {len(rows)} is damaged: {error}") from error
    return Data(path.name, name, digest.hexdigest(), conversations)


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    folders = sorted({each.parent.parent for each in path.rglob(_QUESTIONS)})
    if not folders:
        raise DataError(f"{path} has no {_QUESTIONS}, so it is no folder of BEAM: name the file of a benchmark")
    # some chats were cut, and the questions are about what is left; BEAM spells the name so
    cut = [folder / "chat_trunecated.json" for folder in folders]
    return [each if each.exists() else each.with_name("chat.json") for each in cut]


_QUESTIONS = "probing_questions/probing_questions.json"


def _rows(path: Path, digest: "hashlib._Hash") -> list[_Row]:
    parsed = _parsed(path, digest)
    questions = path.parent / _QUESTIONS
    if path.name.startswith("chat") and questions.exists():
        asked = _parsed(questions, digest)
        return [{"conversation_id": path.parent.name, "chat": parsed, "probing_questions": asked}]
    return parsed if isinstance(parsed, list) else [parsed]


def _parsed(path: Path, digest: "hashlib._Hash") -> Any:
    raw = path.read_bytes()
    digest.update(raw)
    if raw[:4] == b"PAR1":
        raise DataError(f"{path} is Parquet: write it as JSON first, with datasets.load_dataset(...).to_json(...)")
    try:
        try:
            return json.loads(raw)
        except json.JSONDecodeError as error:
            if error.msg != "Extra data":
                raise
            return [json.loads(line) for line in raw.split(b"\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}") from error
