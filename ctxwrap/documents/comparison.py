"""Comparison of lines: same subject, same statement, another date, a finished task."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from ctxwrap.documents.sentences import ADDRESS, addresses_in, is_question, words_of
from ctxwrap.documents.vocabulary import (
    CHANGED,
    CONFIRMED,
    COPULAS,
    DECIDED,
    DONE,
    DONE_UNSPACED,
    MOVED,
    NEGATIONS,
    NOT_YET,
    TENTATIVE,
    UNCERTAIN,
)
from ctxwrap.language.dates import Day, days_in
from ctxwrap.language.vocabulary import TIME
from ctxwrap.language.words import term_of, terms_of

Verdict = Literal["other", "same", "confirmed", "changed"]

_MARK = re.compile(r"^\s{0,20}[-*•+]\s(?:\[[ xX]\]\s)?")
_SAID = re.compile(r"\s?\((?:[^()]{1,60}, )?\d{4}-\d{2}-\d{2}\)$")
_STRUCK = re.compile(r"~~[^~\n]{1,80}~~ ?")
_DONE_ON = re.compile(r" – done \d{4}-\d{2}-\d{2}$")
_TOKEN = re.compile(r"\d[\d.,:]*\d|\d|[^\W\d][\w'’\-]*|[=:→]")
_NAME = re.compile(r"(?<=[\w,;–] )[A-Z][\w\-]{1,30}|\b[A-Z]{2,20}\b")
_NOISE = frozenset(terms_of(f"{CHANGED} {TENTATIVE} {CONFIRMED} {DECIDED} user assistant likes"))
_TENTATIVE, _COPULAS = frozenset(TENTATIVE.split()), frozenset(COPULAS.split())
_NEGATIONS = frozenset(NEGATIONS.split())
_TENTATIVE_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_TENTATIVE, key=len, reverse=True))})\b", re.I)
_UNCERTAIN = frozenset(UNCERTAIN.split())
_MOVES = "|".join(each.replace("_", " ") for each in MOVED.split())
_MOVE = re.compile(rf"\b(?:{_MOVES})\b", re.I)
_FROM = re.compile(r"\b(?:from|of|not|von|vom|statt|du|del|desde)\s(?:the\s|den\s|dem\s)?$", re.I)
_SUBJECT_END = re.compile(
    rf"\s(?:is|are|was|were|has|have|got|will|ist|sind|wurde|wird|est|a été|es|fue|se|{_MOVES})\b",
    re.I,
)
_NEAR, _NEARER = 0.75, 0.85
_FEWEST = 0.6
_FURTHER = 3
"""So many words more may tell the same decision, or the same day or number, at greater length."""


class Gist(NamedTuple):
    """What a line speaks of, and what it says of it."""

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    days: frozenset[str]
    struck: frozenset[str]
    """The days that it had before."""
    numbers: frozenset[str]
    negated: bool
    tentative: bool


def bare(line: str) -> str:
    """The line without its mark, what is struck, and when it was said or done."""
    return _SAID.sub("", _DONE_ON.sub("", _STRUCK.sub("", _MARK.sub("", line[:600])).rstrip()))


@lru_cache(maxsize=4096)
def gist_of(line: str) -> Gist:
    whole = bare(line)
    addresses = addresses_in(whole)
    text = ADDRESS.sub(" ", whole)
    days = days_in(text)
    for day in reversed(days):
        text = f"{text[: day.start]} to {text[day.end :]}"
    about, numbers = _parted(text)
    words = set(words_of(text))
    return Gist(
        whole,
        frozenset(terms_of(about)) - _NOISE | addresses,
        frozenset(terms_of(" ".join(_NAME.findall(about)))) - _NOISE | addresses,
        frozenset(day.name for day in days),
        frozenset(day.name for found in _STRUCK.findall(line[:600]) for day in days_in(found)),
        frozenset(numbers),
        not _NEGATIONS.isdisjoint(words),
        not _TENTATIVE.isdisjoint(words),
    )


def _parted(text: str) -> tuple[str, list[str]]:
    """What is spoken of, and the numbers that are said of it: those behind a verb or the like."""
    about: list[str] = []
    numbers: list[str] = []
    said = False
    for token in _TOKEN.findall(text):
        said = said or token.lower() in _COPULAS
        (numbers if said and token[0].isdigit() else about).append(token)
    return " ".join(about), numbers


def verdict(old: Gist, new: Gist) -> Verdict:
    """How what is new stands to what is known; rather `other` than wrong."""
    share = _share(old, new)
    if not share:
        return "other"
    if new.days and new.days <= old.struck:
        return "same"
    values, known = new.days | new.numbers, old.days | old.numbers
    if values <= known and new.negated == old.negated:
        if old.tentative and not new.tentative and new.days:
            return "confirmed"
        return "same" if share >= _NEARER or (values and share >= _NEAR) else "other"
    if (new.days and old.days and new.days != old.days) or (new.numbers and old.numbers and new.numbers != old.numbers):
        return "changed"
    if new.negated != old.negated:
        return "changed"
    return "changed" if share >= _NEARER and known < values else "other"


def _share(old: Gist, new: Gist) -> float:
    """How much of what they speak of is the same; 0 if it may be two things."""
    common, either = old.terms & new.terms, old.terms | new.terms
    if not common or (len(common) < 2 and old.terms != new.terms):
        return 0.0
    if (old.names - new.terms) and (new.names - old.terms):
        return 0.0
    share = len(common) / len(either)
    within = old.terms <= new.terms or new.terms <= old.terms
    return share if share >= _NEAR or (within and share >= _FEWEST) else 0.0


def as_confirmed(line: str) -> str:
    """The line with its first word of doubt taken back."""
    return _TENTATIVE_WORD.sub("**confirmed**", line, count=1)


def covers(more: Gist, less: Gist, section: str, own: frozenset[str]) -> bool:
    """Whether one line of a section says all that another says; `own` are the words of the user's name.

    What is said of the user may hold of somebody else: there a further word makes it another matter, unless a number or
    a day shows that it is the same.
    """
    if more.negated != less.negated or not less.terms or not less.terms - own <= more.terms:
        return False
    if not less.days | less.numbers <= more.days | more.struck | more.numbers:
        return False
    has_values = bool(less.days or (less.numbers and less.numbers == more.numbers))
    further = len(more.terms - less.terms - own)
    return further <= (_FURTHER if section == "Decisions" or has_values else 0)


class DateChange(NamedTuple):
    """What a sentence says was put off, or brought forward, to another day."""

    terms: frozenset[str]
    day: str
    """The new one, as the sentence has it."""
    name: str
    """The same as YYYY-MM-DD, or --MM-DD."""
    before: str
    """The old one, by its name, if it is said."""


def move_in(sentence: str) -> DateChange | None:
    """The move that a sentence tells of, if it is certain what moves and whereto."""
    words = words_of(sentence)
    days, verb = days_in(sentence[:600]), _MOVE.search(sentence[:600])
    if not verb or not days or is_question(sentence) or not _UNCERTAIN.isdisjoint(words):
        return None
    old = [day for day in days if _FROM.search(sentence[max(0, day.start - 20) : day.start])]
    new = [day for day in days if day not in old]
    subject = frozenset(terms_of(_SUBJECT_END.split(sentence, maxsplit=1)[0])) - _NOISE
    if len(new) != 1 or len(old) > 1 or not subject:
        return None
    return DateChange(subject, _text_of(sentence, new[0]), new[0].name, old[0].name if old else "")


def moved_by(move: DateChange, lines: Sequence[str]) -> int | None:
    """The place of the line whose day a move changes; None if it is none, or may be one of several."""
    gists = [gist_of(line) for line in lines]
    places = [
        at
        for at, each in enumerate(gists)
        if move.terms <= each.terms
        and each.days
        and move.name not in each.days
        and (not move.before or any(_same_day(move.before, day) for day in each.days))
    ]
    places.sort(key=lambda at: len(gists[at].terms))
    is_clear = len(places) == 1 or (len(places) > 1 and len(gists[places[0]].terms) < len(gists[places[1]].terms))
    return places[0] if is_clear else None


def is_known(move: DateChange, lines: Sequence[str]) -> bool:
    """Whether a line tells of the move already."""
    gists = map(gist_of, lines)
    return any(move.terms <= each.terms and each.struck and move.name in each.days for each in gists)


def _same_day(one: str, other: str) -> bool:
    return one == other or (one[-5:] == other[-5:] and "-" in (one[0], other[0]))


def _text_of(text: str, day: Day) -> str:
    return text[day.start : day.end].rstrip(".,") if day.name.startswith("-") else day.name


def retold(line: str, text: str) -> str:
    """The line in other words, with the days that are struck in it and with when it was said."""
    said = _SAID.search(line)
    return f"{_mark(line)}{''.join(_STRUCK.findall(line))}{text}{said[0] if said else ''}"


def is_dated(line: str) -> bool:
    """Whether it ends with when it was said, as lines made of messages do."""
    return _SAID.search(line) is not None


def _mark(line: str) -> str:
    found = _MARK.match(line)
    return found[0] if found else ""


def with_day(line: str, day: str) -> str:
    """The line with the only day that it names, beside when it was said, struck and the new one behind it."""
    said = _SAID.search(line)
    body, tail = (line[: said.start()], line[said.start() :]) if said else (line, "")
    days = days_in(_STRUCK.sub(lambda found: " " * len(found[0]), body))
    if len({each.name for each in days}) != 1:
        return line
    old = body[days[0].start : days[0].end]
    return f"{body[: days[0].start]}~~{old}~~ {day}{body[days[0].end :]}{tail}"


_DONE, _NOT_YET = frozenset(DONE.split()), frozenset(NOT_YET.split())
_DONE_TERMS, _TIME_TERMS = frozenset(terms_of(DONE)), frozenset(terms_of(TIME))
_OPEN = re.compile(r"\s{0,20}[-*•+]\s(?:\[ \]\s)?(?!\[)")
_TICKED = re.compile(r"\s{0,20}[-*•+]\s\[[xX]\]\s")
_BEHIND_OBJECT = re.compile(r"\s(?:to|by|for|with|from|on|until|before|at|bei|mit|bis|an|von|chez|con|à|a)\s")
_TO_DO = re.compile(r"(?P<lead>.{0,60}?\b(?:needs|has|have|must|faut|que) (?:to )?)(?=\w)")


def is_open(line: str) -> bool:
    return _OPEN.match(line) is not None


def is_ticked(line: str) -> bool:
    return _TICKED.match(line) is not None


def ticked(line: str, day: str) -> str:
    """The line of a task as one that is done."""
    mark = _OPEN.match(line)
    return f"- [x] {line[mark.end() :] if mark else line}{f' – done {day}' if day else ''}"


def finished_by(sentence: str, tasks: Sequence[str]) -> int | None:
    """The place of the task that is done now; None if the sentence does not say so, or says it of several."""
    if is_question(sentence) or not _NOT_YET.isdisjoint(words_of(sentence)):
        return None
    shares = [_shared(sentence, task) for task in tasks]
    best = max(shares, default=0.0)
    return shares.index(best) if best and shares.count(best) == 1 else None


def says_only_done(sentence: str) -> bool:
    """Whether it says that something is done without saying what."""
    words = words_of(sentence)
    return _says_done(sentence) and len(words) <= 4 and set(terms_of(sentence)) <= _DONE_TERMS


def _says_done(sentence: str) -> bool:
    return not _DONE.isdisjoint(words_of(sentence)) or any(map(sentence.__contains__, DONE_UNSPACED))


def _shared(sentence: str, task: str) -> float:
    """How much of a task is spoken of as done; 0 if not all of what is to be done something with."""
    text = bare(task)
    lead = _TO_DO.match(text)
    verb, _, rest = text[lead.end() if lead else 0 :].partition(" ")
    object = set(terms_of(_BEHIND_OBJECT.split(f"{rest} ", maxsplit=1)[0])) - _TIME_TERMS
    wanted, said = gist_of(task), gist_of(sentence)
    spoken = said.terms | said.numbers
    about = (wanted.terms | wanted.numbers) - _TIME_TERMS - {term_of(verb)}
    elsewhere = (wanted.names - said.terms - _TIME_TERMS) and (said.names - wanted.terms - _TIME_TERMS)
    if not object or not object <= spoken | _DONE_TERMS or not object & spoken or elsewhere:
        return 0.0
    return len(about & spoken) / len(about) if _says_done(sentence) or _did(sentence, verb) else 0.0


def _did(sentence: str, verb: str) -> bool:
    """Whether the sentence has a verb in another form that tells of the past."""
    return bool(term_of(verb)) and any(
        term_of(word) == term_of(verb) and word != verb.lower() and not word.endswith(("ing", "s"))
        for word in words_of(sentence)
    )
