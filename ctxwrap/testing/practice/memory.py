"""The practice model's memory: sentences it understands as facts, and the state that it reads, changes and writes."""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ctxwrap.memory.items import TIERS
from ctxwrap.protocol.instructions import VERSION
from ctxwrap.protocol.vocabulary import MAX_QUESTION, MAX_QUESTIONS
from ctxwrap.testing.practice.answer import JSON
from ctxwrap.testing.practice.requests import dict_at, dicts

LONGEST_SENTENCE = 500

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_STATEMENT = r"i\b|my [\w' ]{1,40}? (?:is|are) |call me |remind me |remember "
_QUESTION = r"(?:what|where|who|when|how)(?:'s| is| are| do| does| can)\b"
_CLAUSE_END = re.compile(rf",?\s+(?:and|but)\s+(?=(?:also |please )?(?:{_STATEMENT}|{_QUESTION}))|,\s+(?=i\b)", re.I)
_OPENING = re.compile(
    r"(?:(?:hi|hello|hey|please|by the way|btw|well|ok|okay|also|actually|and|but|so|oh|yes|no|user:|human:)"
    r"(?: there)?[,!.:]*\s+)+(?=\w)",
    re.I,
)
_SMALL_WORDS = """
a about am an and are at be can could did do does for had has have how i in is it know many me much my of on or
please remember s t tell that the there this to user was were what when where which who with would you your
"""
_STOP_WORDS = frozenset(_SMALL_WORDS.split())
_SYNONYMS = {"name": "call", "favorite": "favourite", "color": "colour"}
_SECOND_PERSON = {"is": "are", "was": "were", "has": "have", "does": "do"}


def sentences(text: str) -> list[str]:
    """Split `text` into sentences and clauses, without openings such as "Hello,"."""
    plain = text.replace("’", "'")
    clauses = (clause for part in _SENTENCE_END.split(plain) for clause in _CLAUSE_END.split(part))
    opened = (clause.strip() for clause in clauses if len(clause) <= LONGEST_SENTENCE)
    return [_OPENING.sub("", clause, count=1) if _OPENING.match(clause) else clause for clause in opened if clause]


def strip_punctuation(sentence: str) -> str:
    """Return `sentence` without the punctuation at its end."""
    return sentence.rstrip(" .!?;,")


def keywords(text: str) -> frozenset[str]:
    """Return the stems of the words in `text` that carry meaning."""
    found = re.findall(r"\w+", text.lower().replace("’", "'"))
    return frozenset(_root(_SYNONYMS.get(word, word)) for word in found if word not in _STOP_WORDS)


def _root(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word.removesuffix(ending)
    return word


def to_second_person(content: str) -> str:
    """Turn a statement about the user into the second person: `The user likes tea.` becomes `you like tea`."""
    text = re.sub(r"\bthe user's\b", "your", strip_punctuation(content), flags=re.I)
    return re.sub(r"\bthe user (\w+)", lambda found: f"you {_second_person(found[1])}", text, flags=re.I)


def _second_person(verb: str) -> str:
    return _SECOND_PERSON.get(verb, verb.removesuffix("s"))


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def join_words(parts: list[str]) -> str:
    """Join `parts` with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


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
    """One fact that the user stated."""

    tier: str
    type: str
    id: str
    """The item's id; `#` stands for the next free number."""

    content: str
    same: str
    """A pattern for the contents that the fact replaces."""

    reply: str

    @property
    def decay(self) -> float:
        return _DECAY[self.type]

    @property
    def tags(self) -> list[str]:
        """The type, and the subject if the id names it."""
        subject = self.id.rpartition("-")[2]
        return [self.type] if subject == "#" else [self.type, subject]


@dataclass(frozen=True, slots=True)
class _StatementPattern:
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
        reply = self.reply.format(*values, you=to_second_person(content))
        return Fact(self.tier, self.type, self.id, content, same, reply)


_STATEMENTS = (
    _StatementPattern(
        r"(?:just )?for (?:now|today|the moment)\b[,:]? *(.+)",
        *("ephemeral", "hint", "hint-#", "For now: {0}."),
        reply="Fine, for now: {0}.",
    ),
    _StatementPattern(
        r"(.+?),? (?:(?:just )?for (?:now|today|the moment)|right now)",
        *("ephemeral", "hint", "hint-#", "For now: {0}."),
        reply="Fine, for now: {0}.",
    ),
    _StatementPattern(
        r"(?:my name is|my name's|i am called|i'm called|(?:you can |just )?call me) (.+)",
        *("core", "identity", "core-name", "The user's name is {0}."),
        same=NAMING,
        reply="Nice to meet you, {0}.",
    ),
    _StatementPattern(
        r"(?:i am|i'm) ((?-i:[A-Z])[\w'-]+)",
        *("core", "identity", "core-name", "The user's name is {0}."),
        same=NAMING,
        reply="Nice to meet you, {0}.",
    ),
    _StatementPattern(
        r"i(?: now| have|'ve)? (?:live|moved|am living) (?:in|to) (.+)",
        *("core", "identity", "core-home", "The user lives in {0}."),
        same=LIVING,
    ),
    _StatementPattern(
        r"i(?: now)? work (at|for|in|as|with|on) (.+)",
        *("core", "identity", "core-work", "The user works {0} {1}."),
        same=r"The user works .+",
    ),
    _StatementPattern(
        r"(?:i need to|i have to|i must|i've got to|remind me to|remember to|don't forget to|to-?do:?) +(.+)",
        *("working", "task", "task-#", "The user needs to {0}."),
        reply="I put it on your list: {0}.",
    ),
    *(
        _StatementPattern(
            rf"i (?:also |really |do )*{verb} (.+)",
            *("core", "preference", "pref-#", f"The user {third} {{0}}."),
            same=rf"The user (?:{LIKING}|{DISLIKING}) {{0}}\.",
        )
        for verb, third in _VERBS.items()
    ),
    _StatementPattern(
        r"my favou?rite ([\w' -]{1,40}?) (is|are) (.+)",
        *("core", "preference", "pref-#", "The user's favourite {0} {1} {2}."),
        same=r"The user's favourite {0} (?:is|are) .+",
    ),
    _StatementPattern(
        r"my ([\w' -]{1,40}?) (is|are|was|were) (.+)",
        *("core", "fact", "fact-#", "The user's {0} {1} {2}."),
        same=r"The user's {0} (?:is|are|was|were) .+",
    ),
    _StatementPattern(r"i have (.+)", "core", "fact", "fact-#", "The user has {0}."),
    _StatementPattern(
        r"(?:i am|i'm) (allergic to .+|from .+|an? .+|\d+ years old|vegan|vegetarian)",
        *("core", "fact", "fact-#", "The user is {0}."),
    ),
)


def parse_statement(sentence: str) -> Fact | None:
    """Return the fact in `sentence`, if a pattern matches."""
    if sentence.rstrip().endswith("?"):
        return None
    plain = strip_punctuation(sentence)
    remember = _REMEMBER.fullmatch(plain)
    return _match(plain) or (_match(remember[1]) or _verbatim_fact(remember[1]) if remember else None)


def _match(sentence: str) -> Fact | None:
    return next((fact for pattern in _STATEMENTS if (fact := pattern.fact(sentence)) is not None), None)


def _verbatim_fact(text: str) -> Fact:
    """Return a fact for "remember …" that matches no pattern; quoted if it is in the first person."""
    content = f'The user says: "{text}".' if _FIRST_PERSON.search(text) else f"{capitalized(text)}."
    return Fact("core", "fact", "fact-#", content, re.escape(content), f"Noted: {to_second_person(content)}.")


_TASK = re.compile(r"The user needs to (.+)\.")


class PracticeMemory:
    """A state that the model changes; parts that it does not understand stay as they were."""

    def __init__(self, state: JSON | None = None) -> None:
        self._given = {
            str(item.get("id")): item for tier in TIERS for item in dicts(dict_at(state or {}, "memory").get(tier))
        }
        self._state = deepcopy(state or {})
        self._memory = dict_at(self._state, "memory")
        for tier in TIERS:
            if not isinstance(self._memory.get(tier), list):
                self._memory[tier] = []
        self.runtime = dict_at(self._state, "runtime")
        self._tasks_changed = False

    @property
    def round(self) -> int:
        given = self.runtime.get("round")
        return given if isinstance(given, int) else 0

    @property
    def items(self) -> list[JSON]:
        """The items with a text, core first."""
        return [item for tier in TIERS for item in dicts(self._memory[tier]) if isinstance(item.get("content"), str)]

    @property
    def contents(self) -> list[str]:
        return [item["content"] for item in self.items]

    @property
    def tasks(self) -> list[JSON]:
        """The open tasks, newest last."""
        return sorted((item for item in self.items if item.get("type") == "task"), key=_touched)

    def has_subject_of(self, fact: Fact) -> bool:
        """Whether an item has the same subject as `fact`."""
        return self._item_like(fact) is not None

    def _item_like(self, fact: Fact) -> JSON | None:
        same = re.compile(fact.same, re.I)
        return next((item for item in self.items if same.fullmatch(item["content"])), None)

    def add_fact(self, fact: Fact) -> None:
        """Add `fact`, or replace the item with the same subject."""
        self._tasks_changed |= fact.type == "task"
        item = self._item_like(fact)
        if item is not None:
            item.update(content=fact.content, round=self.round)
            return
        self._memory[fact.tier].append(
            {
                "id": self._free_id(fact.id),
                "type": fact.type,
                "decay": fact.decay,
                "round": self.round,
                "tags": fact.tags,
                "content": fact.content,
            }
        )

    def add_item(self, tier: str, item: JSON) -> None:
        """Add an item, or replace the one with its id."""
        for known in TIERS:
            self._memory[known] = [each for each in self._memory[known] if each.get("id") != item["id"]]
        self._memory[tier].append(item)

    def drop(self, items: list[JSON]) -> None:
        self._tasks_changed |= any(item.get("type") == "task" for item in items)
        gone = {id(item) for item in items}
        for tier in TIERS:
            self._memory[tier] = [item for item in self._memory[tier] if id(item) not in gone]

    def add_question(self, question: str) -> None:
        """Add an open question to the state."""
        missing, question = dicts(self._state.get("missing")), question[:MAX_QUESTION]
        if question not in [each.get("question") for each in missing]:
            new = {"question": question, "severity": "low", "needed_for": "an answer"}
            self._state["missing"] = [new, *missing][:MAX_QUESTIONS]

    def drop_answered(self, is_known: Callable[[str], bool]) -> None:
        """Remove the open questions that can be answered now."""
        missing = dicts(self._state.get("missing"))
        if missing:
            self._state["missing"] = [each for each in missing if not is_known(str(each.get("question")))]

    def about(self, text: str) -> list[JSON]:
        """Return the items that have every keyword of `text`."""
        wanted = keywords(text)
        return [item for item in self.items if wanted and wanted <= keywords(item["content"])]

    def state(self) -> JSON:
        """Return the state for the next round."""
        return self._state | {
            "version": self._state.get("version", VERSION),
            "runtime": self.runtime,
            "memory": self._memory,
            "capabilities": self._state.get("capabilities", []),
            "active_task": self._active_task(),
        }

    def changes(self) -> JSON:
        """Return the state with new and changed items only, and the ids of dropped ones."""
        state = self.state()
        ids_now = {str(item.get("id")) for tier in TIERS for item in dicts(self._memory[tier])}
        changed = {
            tier: [item for item in dicts(self._memory[tier]) if self._given.get(str(item.get("id"))) != item]
            for tier in TIERS
        }
        return state | {"memory": changed, "dropped": [id for id in self._given if id not in ids_now]}

    def _active_task(self) -> Any:
        given = self._state.get("active_task", "")
        if given and not self._tasks_changed:
            return given
        return capitalized(task_text(self.tasks[-1])) + "." if self.tasks else ""

    def _free_id(self, id: str) -> str:
        prefix = id.removesuffix("#")
        ids = (str(item.get("id")) for tier in TIERS for item in dicts(self._memory[tier]))
        numbers = [int(found[1]) for taken in ids if (found := re.fullmatch(rf"{prefix}(\d+)", taken))]
        return f"{prefix}{max(numbers, default=0) + 1}" if id.endswith("#") else id


def task_text(item: JSON) -> str:
    """Return a task without "The user needs to"."""
    content = str(item["content"])
    found = _TASK.fullmatch(content)
    return found[1] if found else content.rstrip(".")


def _touched(item: JSON) -> int:
    given = item.get("round")
    return given if isinstance(given, int) else 0
