"""The little English the practice model needs: sentences, words, and speaking to the user."""

import re

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
    """The sentences and joined clauses of `text`, without what people open them with."""
    plain = text.replace("’", "'")
    clauses = (clause for part in _SENTENCE_END.split(plain) for clause in _CLAUSE_END.split(part))
    opened = (clause.strip() for clause in clauses if len(clause) <= LONGEST_SENTENCE)
    return [_OPENING.sub("", clause, count=1) if _OPENING.match(clause) else clause for clause in opened if clause]


def bare(sentence: str) -> str:
    """`sentence` without the marks at its end."""
    return sentence.rstrip(" .!?;,")


def keywords(text: str) -> frozenset[str]:
    """The words that say what `text` is about, in a form that ignores how they are bent."""
    found = re.findall(r"\w+", text.lower().replace("’", "'"))
    return frozenset(_root(_SYNONYMS.get(word, word)) for word in found if word not in _STOP_WORDS)


def _root(word: str) -> str:
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word.removesuffix(ending)
    return word


def addressed(content: str) -> str:
    """A statement about the user, said to the user: `The user likes tea.` is `you like tea`."""
    text = re.sub(r"\bthe user's\b", "your", bare(content), flags=re.I)
    return re.sub(r"\bthe user (\w+)", lambda found: f"you {_second_person(found[1])}", text, flags=re.I)


def _second_person(verb: str) -> str:
    return _SECOND_PERSON.get(verb, verb.removesuffix("s"))


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(parts: list[str]) -> str:
    """`parts` as people enumerate them."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)
