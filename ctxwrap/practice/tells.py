"""What the practice model understands when it is told something, as a table."""

import re
from dataclasses import dataclass

from ctxwrap.practice.words import addressed, bare, capitalized

_DECAY = {"identity": 0.05, "preference": 0.2, "fact": 0.3, "task": 0.4, "hint": 0.8}
_VERBS = {
    "like": "likes",
    "love": "loves",
    "enjoy": "enjoys",
    "prefer": "prefers",
    "adore": "adores",
    "hate": "hates",
    "dislike": "dislikes",
    "don't like": "does not like",
    "do not like": "does not like",
}
NAMING = r"(?:the )?user(?:'s name is| is called| is named) .+|name: .+"
LIVING = r"(?:the )?user lives in .+"
LIKING = r"(?:likes|loves|enjoys|prefers|adores)"
DISLIKING = r"(?:hates|dislikes|does not like)"

_REMEMBER = re.compile(r"(?:remember|note|keep in mind|don't forget|do not forget)(?: that\b|:|,)? +(.+)", re.I)
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|we|our|us)\b", re.I)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing the user told, ready to be remembered."""

    tier: str
    type: str
    id: str
    """The id it gets; a `#` stands for the next free number."""

    content: str
    same: str
    """Matches the content of every memory about the same thing."""

    reply: str

    @property
    def decay(self) -> float:
        return _DECAY[self.type]

    @property
    def tags(self) -> list[str]:
        """Its type, and what it is about when the id says so."""
        subject = self.id.rpartition("-")[2]
        return [self.type] if subject == "#" else [self.type, subject]


@dataclass(frozen=True, slots=True)
class _Tell:
    pattern: str
    tier: str
    type: str
    id: str
    content: str
    same: str = ""
    reply: str = "Noted: {you}."

    def fact(self, sentence: str) -> Fact | None:
        found = re.fullmatch(self.pattern, sentence, re.I)
        if found is None:
            return None
        values = [value.strip(" \"'") for value in found.groups()]
        content = self.content.format(*values)
        same = self.same.format(*(re.escape(value) for value in values)) or re.escape(content)
        reply = self.reply.format(*values, you=addressed(content))
        return Fact(self.tier, self.type, self.id, content, same, reply)


_TELLS = (
    _Tell(
        r"(?:just )?for (?:now|today|the moment)\b[,:]? *(.+)",
        *("ephemeral", "hint", "hint-#", "For now: {0}."),
        reply="Fine, for now: {0}.",
    ),
    _Tell(
        r"(.+?),? (?:(?:just )?for (?:now|today|the moment)|right now)",
        *("ephemeral", "hint", "hint-#", "For now: {0}."),
        reply="Fine, for now: {0}.",
    ),
    _Tell(
        r"(?:my name is|my name's|i am called|i'm called|(?:you can |just )?call me) (.+)",
        *("core", "identity", "core-name", "The user's name is {0}."),
        same=NAMING,
        reply="Nice to meet you, {0}.",
    ),
    _Tell(
        r"(?:i am|i'm) ((?-i:[A-Z])[\w'-]+)",
        *("core", "identity", "core-name", "The user's name is {0}."),
        same=NAMING,
        reply="Nice to meet you, {0}.",
    ),
    _Tell(
        r"i(?: now| have|'ve)? (?:live|moved|am living) (?:in|to) (.+)",
        *("core", "identity", "core-home", "The user lives in {0}."),
        same=LIVING,
    ),
    _Tell(
        r"i(?: now)? work (at|for|in|as|with|on) (.+)",
        *("core", "identity", "core-work", "The user works {0} {1}."),
        same=r"The user works .+",
    ),
    _Tell(
        r"(?:i need to|i have to|i must|i've got to|remind me to|remember to|don't forget to|to-?do:?) +(.+)",
        *("working", "task", "task-#", "The user needs to {0}."),
        reply="I put it on your list: {0}.",
    ),
    *(
        _Tell(
            rf"i (?:also |really |do )*{verb} (.+)",
            *("core", "preference", "pref-#", f"The user {third} {{0}}."),
            same=rf"The user (?:{LIKING}|{DISLIKING}) {{0}}\.",
        )
        for verb, third in _VERBS.items()
    ),
    _Tell(
        r"my favou?rite ([\w' -]{1,40}?) (is|are) (.+)",
        *("core", "preference", "pref-#", "The user's favourite {0} {1} {2}."),
        same=r"The user's favourite {0} (?:is|are) .+",
    ),
    _Tell(
        r"my ([\w' -]{1,40}?) (is|are|was|were) (.+)",
        *("core", "fact", "fact-#", "The user's {0} {1} {2}."),
        same=r"The user's {0} (?:is|are|was|were) .+",
    ),
    _Tell(r"i have (.+)", "core", "fact", "fact-#", "The user has {0}."),
    _Tell(
        r"(?:i am|i'm) (allergic to .+|from .+|an? .+|\d+ years old|vegan|vegetarian)",
        *("core", "fact", "fact-#", "The user is {0}."),
    ),
)


def told(sentence: str) -> Fact | None:
    """What `sentence` tells, if the table knows such sentences."""
    if sentence.rstrip().endswith("?"):
        return None
    plain = bare(sentence)
    remember = _REMEMBER.fullmatch(plain)
    return _first(plain) or (_first(remember[1]) or _remembered(remember[1]) if remember else None)


def _first(sentence: str) -> Fact | None:
    return next((fact for tell in _TELLS if (fact := tell.fact(sentence)) is not None), None)


def _remembered(text: str) -> Fact:
    """Something to remember that fits no row; in the user's own words when it speaks of the user."""
    content = f'The user says: "{text}".' if _FIRST_PERSON.search(text) else f"{capitalized(text)}."
    return Fact("core", "fact", "fact-#", content, re.escape(content), f"Noted: {addressed(content)}.")
