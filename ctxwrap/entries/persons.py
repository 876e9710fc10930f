"""Persons: what somebody says of themselves, told of them by others; only where no doubt is left."""

import re
from itertools import pairwise

from ctxwrap.entries.vocabulary import ADVERBS, ENGLISH, NOT_ENGLISH, NUMBERED, OBJECT_NEXT, PRESENT, UNCHANGED

_TOKEN = re.compile(r"[\w'’]+")
_UNCERTAIN = re.compile(r"[\"“”„«»]|\b(?:and|or) I\b|\bI (?:and|or)\b")
_THEY = frozenset({"im", "ive", "they", "them", "their", "theirs", "they're", "they've", "they'll", "they'd"})
_YOU = frozenset({"you", "your", "you're", "you've", "you'll", "you'd", "yours", "yourself", "yourselves"})
_TIED_YOU = {"your": "{}'s", "yours": "{}'s", "you're": "{} is", "you've": "{} has", "you'll": "{} will"}
_OBJECT = frozenset(OBJECT_NEXT.split()) | {""}
_ONE = {"i": "they", "me": "them", "my": "their", "mine": "theirs", "myself": "themselves"}
_MANY = {"we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves"}
_TIED = {"i'm": "they're", "i've": "they've", "i'll": "they'll", "i'd": "they'd"}
_TIED_MANY = {"we're": "they're", "we've": "they've", "we'll": "they'll", "we'd": "they'd"}
_TIED_VERBS = {"i'm": "is", "i've": "has", "i'll": "will"}
_TOLD = {**_ONE, **_MANY, **_TIED, **_TIED_MANY}
_BE = {"am": "are", "was": "were"}
_ADVERBS = frozenset(ADVERBS.split())
_NUMBERED = frozenset(NUMBERED.split())

_ENGLISH = frozenset(ENGLISH.split())
_FOREIGN = frozenset(NOT_ENGLISH.split())

_LEAD = re.compile(r"(?:[A-Z][a-z]{1,12},? )(?:[a-z]{1,12},? ){0,2}(?=(?:I|my)\b)")
_ONESELF = frozenset({*_ONE, *_TIED, "ich", "mein", "meine", "mir", "mich", "je", "mon", "ma", "yo", "mi"})
_WE_UNSPACED = re.compile("我们|我們|私たち|私達")

_PRESENT = dict(pair.split(":") for pair in PRESENT.split())
_UNCHANGED = frozenset(UNCHANGED.split())


def is_english(sentence: str) -> bool:
    words = [word.lower().replace("’", "'") for word in _TOKEN.findall(sentence[:600])]
    english, foreign = (sum(word in known for word in words) for known in (_ENGLISH, _FOREIGN))
    return (english > foreign and english * 8 >= len(words)) or (not foreign and sentence.isascii())


def reported(sentence: str, addressee: str = "") -> str | None:
    """The sentence in the third person, its speaker as `they`; None if that could be wrong, or it is not English.

    `addressee` is who `you` and `your` speak of, if that is known.
    """
    if not is_english(sentence):
        return None
    words = [word.lower().replace("’", "'") for word in _TOKEN.findall(sentence)]
    said = set(words)
    alone, together = not said.isdisjoint({*_ONE, *_TIED}), not said.isdisjoint({*_MANY, *_TIED_MANY})
    if not addressee and not said.isdisjoint(_YOU):
        return None
    if (alone and together) or ((alone or together) and _is_uncertain(sentence, said)):
        return None
    return _replaced(sentence, alone, addressee)


def _is_uncertain(sentence: str, said: set[str]) -> bool:
    """Whether `they` may be somebody else, and `I` somebody who is quoted."""
    return not said.isdisjoint(_THEY) or _UNCERTAIN.search(sentence) is not None or _may_be_a_number(sentence)


def _may_be_a_number(sentence: str) -> bool:
    """Whether an I may be a roman one."""
    tokens = _TOKEN.findall(sentence)
    before = [tokens[at - 1] for at, word in enumerate(tokens) if word == "I" and at > 0]
    return any(word.lower() in _NUMBERED for word in before) or "I/" in sentence or "I." in sentence


def _replaced(sentence: str, alone: bool, addressee: str) -> str | None:
    tokens = list(_TOKEN.finditer(sentence))
    small = [token[0].lower().replace("’", "'") for token in tokens]
    pieces: list[str] = []
    end, subject, at = 0, "", 0
    while at < len(tokens):
        token, word = tokens[at], small[at]
        new: str | None = _TOLD.get(word)
        if alone and word in _BE:
            new = {"i": _BE[word], "": ""}.get(subject)
        elif word in _YOU:
            new = _addressed(word, small[at + 1] if at + 1 < len(small) else "", addressee)
        if new == "":
            return None
        subject = "i" if word == "i" else subject if word in _ADVERBS else ""
        step = 2 if word == "you" and new and new != addressee else 1
        pieces += [sentence[end : token.start()], token[0] if new is None else new]
        at += step
        end = tokens[at - 1].end()
    return "".join(pieces) + sentence[end:]


def _addressed(word: str, following: str, addressee: str) -> str:
    """What stands in the place of `you`, with the verb behind it if it is a subject; nothing if that cannot be told."""
    if word != "you":
        return _TIED_YOU.get(word, "").format(addressee)
    if verb := _third({"are": "am", "were": "was", "aren't": "am not"}.get(following, following)):
        return f"{addressee} {verb}"
    return addressee if following in _OBJECT else ""


def told_of(sentence: str, name: str, addressee: str = "") -> str:
    """The sentence as a line about `name`: in the third person where that is certain, else as it is behind the name."""
    if not speaks_of_oneself(sentence):
        addressed = not _YOU.isdisjoint(word.lower() for word in _TOKEN.findall(sentence.replace("’", "'")))
        return (reported(sentence, addressee) or f"{name}: {sentence}") if addressed else sentence
    return _third_person(sentence, name) or f"{name}: {sentence}"


def _third_person(sentence: str, name: str) -> str:
    """The sentence about `name`, who is its subject; nothing if that cannot be told."""
    if reported(sentence) is None or _another_verb(sentence):
        return ""
    start = _LEAD.match(sentence)
    before = start[0] if start and not speaks_of_oneself(start[0]) else ""
    told = _with_subject(sentence[len(before) :], name)
    return told and before + told


def _with_subject(sentence: str, name: str) -> str:
    their = reported(sentence) or ""
    first, _, rest = sentence.partition(" ")
    small = first.lower().replace("’", "'")
    told = their.partition(" ")[2]
    if small == "my":
        return f"{name}'s {told}"
    if small in _TIED_VERBS:
        return f"{name} {_TIED_VERBS[small]} {told}"
    verb = _third(rest.partition(" ")[0]) if small == "i" else ""
    return f"{name} {verb} {told.partition(' ')[2]}".strip() if verb else ""


def _another_verb(sentence: str) -> bool:
    """Whether a second verb may hang on the same subject, and would have to change with it."""
    words = [word.lower() for word in _TOKEN.findall(sentence) if word.lower() not in _ADVERBS]
    return any(word in ("and", "but", "or") and after in _PRESENT for word, after in pairwise(words))


def _third(verb: str) -> str:
    return _PRESENT.get(verb) or (verb if verb in _UNCHANGED or verb.endswith("ed") else "")


def speaks_of_oneself(sentence: str) -> bool:
    words = {word.lower().replace("’", "'") for word in _TOKEN.findall(sentence[:600])}
    unspaced = _WE_UNSPACED.sub("", sentence[:600])
    return (
        not words.isdisjoint(_ONESELF)
        or any(word.startswith("j'") for word in words)
        or any(map(unspaced.__contains__, "我私僕俺"))
    )
