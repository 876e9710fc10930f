"""Statement: one thing that a user says of themselves, and the rules that find such things."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ctxwrap.patterns import lazy_pattern

Tier = Literal["core", "working"]

LONGEST = 200
"""So many characters has the content of a statement at most."""


class Statement(NamedTuple):
    """One thing worth remembering, as a memory item has it."""

    type: str
    tier: Tier
    decay: float
    content: str
    """A sentence in the third person, in the language of the user."""


class Sort(NamedTuple):
    """What kind of item a rule makes."""

    type: str
    tier: Tier
    decay: float

    def of(self, content: str) -> Statement | None:
        """The statement, or None if it would be too long to be one."""
        return Statement(*self, content) if len(content) <= LONGEST else None


NAME = Sort("identity", "core", 0.05)
HEALTH = Sort("fact", "core", 0.05)
LIFE = Sort("fact", "core", 0.1)
"""Home, work, family, and what the user asks to be remembered."""
INSTRUCTION = Sort("instruction", "core", 0.1)
LIKING = Sort("preference", "core", 0.2)
DECISION = Sort("decision", "working", 0.3)
BUDGET = Sort("fact", "working", 0.3)
DEADLINE = Sort("deadline", "working", 0.3)
TASK = Sort("task", "working", 0.3)
PROJECT = Sort("fact", "working", 0.3)
"""What occupies the user for some weeks: a trip, a course, a book."""

Found = re.Match[str]
Tell = Callable[[Found], Statement | None]
Rules = tuple[tuple[re.Pattern[str], Tell], ...]


def rules(*pairs: tuple[str, Tell]) -> Rules:
    """Patterns, each with what it tells if it matches the start of a clause."""
    return tuple((lazy_pattern(pattern), tell) for pattern, tell in pairs)


def first_told(clause: str, known: Rules) -> Statement | None:
    """What the first rule that fits the clause makes of it."""
    for pattern, tell in known:
        if (found := pattern.match(clause)) and (told := tell(found)):
            return told
    return None
