"""Third person: what a user says in English of themselves, as others say it of them."""

from ctxwrap.language.lexicon import OFTEN, PAST
from ctxwrap.patterns import lazy_pattern

_TOKEN = lazy_pattern(r"[\w'\-]+|[^\w'\-]+")
_WORDS = {
    "i": "they",
    "me": "them",
    "my": "their",
    "mine": "theirs",
    "myself": "themselves",
    "we": "they",
    "us": "them",
    "our": "their",
    "ours": "theirs",
    "ourselves": "themselves",
    "i'm": "they are",
    "i've": "they have",
    "i'll": "they will",
    "we're": "they are",
    "we've": "they have",
    "we'll": "they will",
    "am": "are",
}
_THIRD = {
    "have": "has",
    "am": "is",
    "do": "does",
    "go": "goes",
    "don't": "does not",
    "haven't": "has not",
    "was": "was",
    "were": "was",
    "can": "can",
    "can't": "cannot",
    "cannot": "cannot",
    "will": "will",
    "won't": "will not",
    "must": "must",
    "should": "should",
    "never": "never",
}
_PAST, _ADVERBS = frozenset(PAST.split()), frozenset(OFTEN.split())


def others(text: str) -> str:
    """The text with its speaker as `they`."""
    told: list[str] = []
    before = ""
    for token in _TOKEN.findall(text):
        small = token.lower()
        clock = small == "am" and before != "i"
        spelled = len(token) > 1 and token.isupper()  # the US is no pronoun
        told.append(token if clock or spelled else _WORDS.get(small, token))
        before = small if token.strip() else before
    return "".join(told)


def about_user(predicate: str) -> str:
    """`The user` with what stood behind `I`, its verb in the third person."""
    words = predicate.split(" ")
    at = next((at for at, word in enumerate(words[:3]) if word.lower() not in _ADVERBS), 0)
    words[at] = _third(words[at])
    return f"The user {' '.join(words[: at + 1])} {others(' '.join(words[at + 1 :]))}".rstrip()


def _third(verb: str) -> str:
    small = verb.lower()
    if small in _THIRD:
        return _THIRD[small]
    if small in _PAST or small.endswith("ed"):
        return small
    if small.endswith(("s", "sh", "ch", "x", "z")):
        return f"{small}es"
    return f"{small[:-1]}ies" if small.endswith("y") and small[-2:-1] not in "aeiou" else f"{small}s"
