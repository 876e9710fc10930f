"""What is said to a model to see whether it keeps a memory, and what has to be in it afterwards."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

SYSTEM = "Answer in one short sentence."

SCRIPT = (
    "Hello! My name is Ada.",
    "I am allergic to peanuts.",
    "I live in Bergen.",
    "I am on the train right now.",
    "What is the capital of Portugal?",
    "I need to book a ferry by Friday.",
    "How long does an egg have to boil?",
    "My favourite colour is green.",
    "Name one river in Africa.",
    "I have moved to Trondheim.",
    "Which month has the fewest days?",
    "I work as a nurse.",
    "Write one line of a rhyme about rain.",
    "What must I not eat?",
    "How many legs does a spider have?",
    "Where do I live?",
    "I have finished booking the ferry.",
    "What is seven times eight?",
    "What is my name?",
    "Thank you very much.",
)
"""Facts for good, one that changes, a task that is done, a remark about the moment, and talk about other things."""

_TOLD = {"the name": "ada", "the allergy": "peanut", "the colour": "green", "the work": "nurse"}
_NEW_HOME, _OLD_HOME, _PASSING = "trondheim", "bergen", "train"


class Finding(NamedTuple):
    """Something that has to be so at the end, and whether it is."""

    what: str
    holds: bool


def findings(memory: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Finding]:
    """What has become of what was told, in a memory by tiers."""
    contents = [str(item["content"]).casefold() for items in memory.values() for item in items]
    for name, word in _TOLD.items():
        yield Finding(f"{name} is remembered", any(word in content for content in contents))
    yield Finding("the new home is remembered", any(_NEW_HOME in content for content in contents))
    stale = [content for content in contents if _OLD_HOME in content and _NEW_HOME not in content]
    yield Finding("the old home is not", not stale)
    core = [str(item["content"]).casefold() for item in memory.get("core", ())]
    yield Finding("what was so for the moment is not core", not any(_PASSING in content for content in core))
