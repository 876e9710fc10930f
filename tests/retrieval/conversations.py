"""Conversations to search, made of our own small talk with facts planted in it."""

import random
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ctxwrap.retrieval.index import Index


class Said(NamedTuple):
    number: int
    text: str
    role: str = "user"
    speaker: str = ""
    group: str = ""
    time: int = 0


FILLERS = (
    "That is lovely to hear, thank you for telling me.",
    "How was the rest of your afternoon?",
    "The tram was late again, so I read two chapters on the platform.",
    "I tried the new bakery on the corner; the rye bread is decent.",
    "Did the parcel ever arrive?",
    "It rained all morning and the laundry is still wet.",
    "My sister called about the summer plans.",
    "We should fix a date for the museum.",
    "The office moved the meeting once more.",
    "I finally repaired the kitchen lamp.",
    "What did the neighbours say about the noise?",
    "The soup came out too salty, I blame the recipe.",
)

FACTS = {
    "What was Irma's bird given?": (("Tell me, how is your bird?", "He got a shot against psittacosis."), 1),
    "Where did Otto lose his passport?": (("I had a bad day.", "My passport is gone, I left it in Trieste."), 1),
    "What does Irma's brother repair?": (("My brother has a workshop where he restores old accordions.",), 0),
    "When did Otto adopt the greyhound?": (("We adopted a greyhound last Tuesday!",), 0),
    "How many beehives does Irma keep?": (("I keep seven beehives behind the shed.",), 0),
    "Wie heißt Ottos Boot?": (("Mein Boot heißt Seeschwalbe.",), 0),
}
"""For a question the turns that answer it, and which of them is the one to be found."""

DAY = 86_400


def small_talk(turns: int, seed: int = 1) -> tuple[list[Said], dict[str, int]]:
    """So many turns of two people with all facts at the start, and where the answers are."""
    chance = random.Random(seed)
    texts: list[str] = []
    answers = {}
    for question, (told, which) in FACTS.items():
        texts += chance.sample(FILLERS, 3)
        asked_of = "Irma" if "Irma" in question else "Otto"
        if (len(texts) + which) % 2 != ("Irma", "Otto").index(asked_of):
            texts.append("Good morning!")
        answers[question] = len(texts) + which
        texts += told
    while len(texts) < turns:
        texts.append(f"{chance.choice(FILLERS)} {chance.choice(FILLERS)}")
    said = [
        Said(number, text, speaker=("Irma", "Otto")[number % 2], group=f"day {number // 12}", time=number // 12 * DAY)
        for number, text in enumerate(texts)
    ]
    return said, answers


def indexed(said: list[Said]) -> Index:
    index = Index()
    for each in said:
        index.add(*each[:2], role=each.role, speaker=each.speaker, group=each.group, time=each.time)
    assert all(one.number < other.number for one, other in pairwise(said))
    return index


MEANS = {"boat": 0, "ship": 0, "vessel": 0, "tea": 1, "infusion": 1, "brew": 1}


class ByWord:
    """A vector that has a direction for each meaning, and a little noise for each other word."""

    name, dimensions = "by word", 16

    def __call__(self, texts: Sequence[str]) -> Any:
        rows = np.zeros((len(texts), self.dimensions))
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().rstrip(".?").split():
                row[MEANS.get(word, 2 + zlib.crc32(word.encode()) % 14)] += 3.0 if word in MEANS else 0.3
        return rows
