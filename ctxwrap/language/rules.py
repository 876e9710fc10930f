"""Shared by the rules of both languages: statements, rule tables and the English third person."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ctxwrap.language.lexicon import FREQUENCY_ADVERBS, PAST_FORMS
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.vocabulary import parse_pairs

StatementTier = Literal["core", "working"]

MAX_LENGTH = 200
"""Maximum characters in a statement."""


MASK = "\ufffc"
"""Replaces a quotation."""


class Statement(NamedTuple):
    """A fact to remember, with the fields of a memory item."""

    type: str
    tier: StatementTier
    decay: float
    content: str
    """A sentence in the third person, in the user's language."""


class StatementCategory(NamedTuple):
    """Type, tier and decay of the statements that a rule produces."""

    type: str
    tier: StatementTier
    decay: float

    def of(self, content: str) -> Statement | None:
        """Make a statement, or None if the content is too long."""
        return Statement(*self, content) if len(content) <= MAX_LENGTH else None


NAME = StatementCategory("identity", "core", 0.05)
HEALTH = StatementCategory("fact", "core", 0.05)
LIFE = StatementCategory("fact", "core", 0.1)
"""Home, work, family, and what the user asks to remember."""
INSTRUCTION = StatementCategory("instruction", "core", 0.1)
LIKING = StatementCategory("preference", "core", 0.2)
DECISION = StatementCategory("decision", "working", 0.3)
BUDGET = StatementCategory("fact", "working", 0.3)
DEADLINE = StatementCategory("deadline", "working", 0.3)
TASK = StatementCategory("task", "working", 0.3)
PROJECT = StatementCategory("fact", "working", 0.3)
"""Occupies the user for weeks: a trip, a course, a book."""

RuleMatch = re.Match[str]
RuleAction = Callable[[RuleMatch], Statement | None]
RuleTable = tuple[tuple[re.Pattern[str], RuleAction], ...]


def compile_rules(*pairs: tuple[str, RuleAction]) -> RuleTable:
    """Pair each pattern with the action for a clause whose start it matches."""
    return tuple((lazy_pattern(pattern), action) for pattern, action in pairs)


def first_statement(clause: str, table: RuleTable) -> Statement | None:
    """Return the statement of the first rule that matches the clause and produces one."""
    for pattern, action in table:
        if (match := pattern.match(clause)) and (statement := action(match)):
            return statement
    return None


class AssertedSentence(NamedTuple):
    text: str
    asks: bool
    """Whether the sentence ends as a question."""


_TOKEN = lazy_pattern(r"[\w'\-]+|[^\w'\-]+")
_PRONOUN_PAIRS = """
    i=they|me=them|my=their|mine=theirs|myself=themselves|we=they|us=them|our=their|ours=theirs|ourselves=themselves
    |i'm=they are|i've=they have|i'll=they will|we're=they are|we've=they have|we'll=they will|am=are
"""
_VERB_PAIRS = """
    have=has|am=is|do=does|go=goes|don't=does not|haven't=has not|was=was|were=was|can=can|can't=cannot
    |cannot=cannot|will=will|won't=will not|must=must|should=should|never=never
"""
_PRONOUNS, _IRREGULAR_VERBS = parse_pairs(_PRONOUN_PAIRS), parse_pairs(_VERB_PAIRS)
_PAST, _ADVERBS = frozenset(PAST_FORMS.split()), frozenset(FREQUENCY_ADVERBS.split())


def third_person(text: str) -> str:
    """Replace the speaker's pronouns by `they`."""
    replaced: list[str] = []
    before = ""
    for token in _TOKEN.findall(text):
        small = token.lower()
        clock = small == "am" and before != "i"
        spelled = len(token) > 1 and token.isupper()  # US is not a pronoun
        replaced.append(token if clock or spelled else _PRONOUNS.get(small, token))
        before = small if token.strip() else before
    return "".join(replaced)


def user_clause(predicate: str) -> str:
    """Turn the predicate after `I` into a clause about `The user`."""
    words = predicate.split(" ")
    at = next((at for at, word in enumerate(words[:3]) if word.lower() not in _ADVERBS), 0)
    words[at] = _third_person_verb(words[at])
    return f"The user {' '.join(words[: at + 1])} {third_person(' '.join(words[at + 1 :]))}".rstrip()


def _third_person_verb(verb: str) -> str:
    small = verb.lower()
    if small in _IRREGULAR_VERBS:
        return _IRREGULAR_VERBS[small]
    if small in _PAST or small.endswith("ed"):
        return small
    if small.endswith(("s", "sh", "ch", "x", "z")):
        return f"{small}es"
    return f"{small[:-1]}ies" if small.endswith("y") and small[-2:-1] not in "aeiou" else f"{small}s"
