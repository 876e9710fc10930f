"""The utterances of utterances.txt, each with what its author of expectations wrote beside it."""

from pathlib import Path
from typing import NamedTuple

from ctxwrap.documents.sentences import RawMessage

_MARKS = {"= ": "kept", "! ": "false", "~ ": "filler"}


class Utterance(NamedTuple):
    raw: RawMessage
    kept: tuple[str, ...]
    false: tuple[str, ...]
    filler: tuple[str, ...]


def utterances() -> list[Utterance]:
    text = (Path(__file__).parent / "utterances.txt").read_text(encoding="utf-8")
    return [_utterance(number, block) for number, block in enumerate(text.split("\n@ ")[1:], 1)]


def is_held_out(utterance: Utterance) -> bool:
    return utterance.raw.number % 4 == 0


def _utterance(number: int, block: str) -> Utterance:
    head, *lines = block.strip().split("\n")
    speaker, role, day = head.split(", ")
    text = "\n".join(line for line in lines if line[:2] not in _MARKS)
    expected = {
        name: tuple(each for line in lines if line[:2] == mark for each in line[2:].split(" | "))
        for mark, name in _MARKS.items()
    }
    return Utterance(
        RawMessage(number, role, text.strip(), f"{day}T10:00:00Z", "" if speaker == "-" else speaker), **expected
    )
