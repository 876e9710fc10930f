"""Compares lines: same subject, same statement, another date, a finished task."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from ctxwrap.documents.sentences import (
    ADDRESS,
    MAX_HEAD,
    MAX_READ,
    MAX_TAIL,
    addresses_in,
    is_question,
    lowered,
    without_marks,
    words_in,
    words_of,
)
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
from ctxwrap.language.patterns import folded, has_any, shortest_hints
from ctxwrap.language.vocabulary import TIME
from ctxwrap.language.words import each_term, term_of, terms_of
from ctxwrap.language.words import words_in as written_words

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
_MOVE_HINTS = shortest_hints(max(each.split("_")[::-1], key=len) for each in MOVED.split())
_DIGIT = re.compile(r"\d")
_FROM = re.compile(r"\b(?:from|of|not|von|vom|statt|du|del|desde)\s(?:the\s|den\s|dem\s)?$", re.I)
_SUBJECT_END = re.compile(
    rf"\s(?:is|are|was|were|has|have|got|will|ist|sind|wurde|wird|est|a été|es|fue|se|{_MOVES})\b",
    re.I,
)
_SIMILAR, _VERY_SIMILAR = 0.75, 0.85
_MIN_OVERLAP = 0.6
_MAX_ADDED_WORDS = 3
"""A decision, date or number may be stated with this many additional words."""


_NONE = frozenset[str]()


class Gist(NamedTuple):
    """The subject of a line, and what the line states about it."""

    text: str
    terms: frozenset[str]
    names: frozenset[str]
    days: frozenset[str]
    struck: frozenset[str]
    """Former days, struck through."""
    numbers: frozenset[str]
    negated: bool
    tentative: bool


def strip_line(line: str) -> str:
    """Remove the list mark, struck text, and the dates of statement and completion."""
    return _SAID.sub("", _DONE_ON.sub("", _STRUCK.sub("", _MARK.sub("", line[:600])).rstrip()))


@lru_cache(maxsize=4096)
def gist_of(line: str) -> Gist:
    whole = strip_line(line)
    addresses = addresses_in(whole)
    text = ADDRESS.sub(" ", whole) if addresses else whole
    days = days_in(text)
    for day in reversed(days):
        text = f"{text[: day.start]} to {text[day.end :]}"
    about, numbers = _split_numbers(text)
    words = set(words_of(text))
    return Gist(
        whole,
        frozenset(terms_of(about)) - _NOISE | addresses,
        frozenset(terms_of(" ".join(_NAME.findall(about)))) - _NOISE | addresses,
        frozenset(day.name for day in days),
        frozenset(day.name for found in _STRUCK.findall(line[:600]) for day in days_in(found))
        if "~~" in line
        else _NONE,
        frozenset(numbers),
        not _NEGATIONS.isdisjoint(words),
        not _TENTATIVE.isdisjoint(words),
    )


def _split_numbers(text: str) -> tuple[str, list[str]]:
    """Separate the subject from the numbers that follow a verb or the like."""
    about: list[str] = []
    numbers: list[str] = []
    said = False
    for token in _TOKEN.findall(text):
        said = said or token.lower() in _COPULAS
        (numbers if said and token[0].isdigit() else about).append(token)
    return " ".join(about), numbers


def compare_gists(old: Gist, new: Gist) -> Verdict:
    """Classify a new line against a known one; in doubt `other`."""
    share = _share(old, new)
    if not share:
        return "other"
    if new.days and new.days <= old.struck:
        return "same"
    values, known = new.days | new.numbers, old.days | old.numbers
    if values <= known and new.negated == old.negated:
        if old.tentative and not new.tentative and new.days:
            return "confirmed"
        return "same" if share >= _VERY_SIMILAR or (values and share >= _SIMILAR) else "other"
    if (new.days and old.days and new.days != old.days) or (new.numbers and old.numbers and new.numbers != old.numbers):
        return "changed"
    if new.negated != old.negated:
        return "changed"
    return "changed" if share >= _VERY_SIMILAR and known < values else "other"


def _share(old: Gist, new: Gist) -> float:
    """Return the overlap of the subjects, or 0 if they may differ."""
    common, either = old.terms & new.terms, old.terms | new.terms
    if not common or (len(common) < 2 and old.terms != new.terms):
        return 0.0
    if (old.names - new.terms) and (new.names - old.terms):
        return 0.0
    share = len(common) / len(either)
    within = old.terms <= new.terms or new.terms <= old.terms
    return share if share >= _SIMILAR or (within and share >= _MIN_OVERLAP) else 0.0


def confirm(line: str) -> str:
    """Replace the first word of doubt by **confirmed**."""
    return _TENTATIVE_WORD.sub("**confirmed**", line, count=1)


def covers(more: Gist, less: Gist, section: str, own: frozenset[str]) -> bool:
    """Whether one line of a section includes all that another says; `own` are the terms of the user's name.

    A statement about the user may also hold for somebody else: there an additional word makes it another statement,
    unless a number or a day shows that it is the same.
    """
    if more.negated != less.negated or not less.terms or not less.terms - own <= more.terms:
        return False
    if not less.days | less.numbers <= more.days | more.struck | more.numbers:
        return False
    has_values = bool(less.days or (less.numbers and less.numbers == more.numbers))
    further = len(more.terms - less.terms - own)
    return further <= (_MAX_ADDED_WORDS if section == "Decisions" or has_values else 0)


class DateChange(NamedTuple):
    """A date that a sentence moves to another day."""

    terms: frozenset[str]
    day: str
    """The new day as written."""
    name: str
    """The new day as YYYY-MM-DD, or --MM-DD."""
    before: str
    """The former day in the same form, if stated."""


def date_change_in(sentence: str) -> DateChange | None:
    """Return the date change that a sentence states, if subject and day are certain."""
    if not _may_move_a_day(sentence, folded(sentence)) or not _MOVE.search(sentence[:600]):
        return None
    days = days_in(sentence[:600])
    if not days or is_question(sentence) or not _UNCERTAIN.isdisjoint(words_of(sentence)):
        return None
    old = [day for day in days if _FROM.search(sentence[max(0, day.start - 20) : day.start])]
    new = [day for day in days if day not in old]
    subject = frozenset(terms_of(_SUBJECT_END.split(sentence, maxsplit=1)[0])) - _NOISE
    if len(new) != 1 or len(old) > 1 or not subject:
        return None
    return DateChange(subject, _text_of(sentence, new[0]), new[0].name, old[0].name if old else "")


def _may_move_a_day(text: str, small: str) -> bool:
    return _DIGIT.search(text) is not None and has_any(small, _MOVE_HINTS)


def moved_line(move: DateChange, lines: Sequence[str]) -> int | None:
    """Return the position of the line whose day changes, or None if there is none or it is ambiguous."""
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


def is_applied(move: DateChange, lines: Sequence[str]) -> bool:
    """Whether a line already states the change."""
    gists = map(gist_of, lines)
    return any(move.terms <= each.terms and each.struck and move.name in each.days for each in gists)


def _same_day(one: str, other: str) -> bool:
    return one == other or (one[-5:] == other[-5:] and "-" in (one[0], other[0]))


def _text_of(text: str, day: Day) -> str:
    return text[day.start : day.end].rstrip(".,") if day.name.startswith("-") else day.name


def rephrase(line: str, text: str) -> str:
    """Rephrase a line, keeping struck days and the date of statement."""
    said = _SAID.search(line)
    return f"{_mark(line)}{''.join(_STRUCK.findall(line))}{text}{said[0] if said else ''}"


def is_dated(line: str) -> bool:
    """Whether the line ends with the date of a statement, as lines from messages do."""
    return _SAID.search(line) is not None


def _mark(line: str) -> str:
    found = _MARK.match(line)
    return found[0] if found else ""


def replace_day(line: str, day: str) -> str:
    """Strike the line's only day and add the new one after it."""
    said = _SAID.search(line)
    body, tail = (line[: said.start()], line[said.start() :]) if said else (line, "")
    days = days_in(_STRUCK.sub(lambda found: " " * len(found[0]), body))
    if len({each.name for each in days}) != 1:
        return line
    old = body[days[0].start : days[0].end]
    return f"{body[: days[0].start]}~~{old}~~ {day}{body[days[0].end :]}{tail}"


_DONE, _NOT_YET = frozenset(DONE.split()), frozenset(NOT_YET.split())
_DONE_HINTS = shortest_hints((*DONE.split(), *DONE_UNSPACED))
_DONE_TERMS, _TIME_TERMS = frozenset(terms_of(DONE)), frozenset(terms_of(TIME))
_OPEN = re.compile(r"\s{0,20}[-*•+]\s(?:\[ \]\s)?(?!\[)")
_TICKED = re.compile(r"\s{0,20}[-*•+]\s\[[xX]\]\s")
_AFTER_OBJECT = re.compile(r"\s(?:to|by|for|with|from|on|until|before|at|bei|mit|bis|an|von|chez|con|à|a)\s")
_NOT_PAST = ("ing", "s")
_TO_DO = re.compile(r"(?P<lead>.{0,60}?\b(?:needs|has|have|must|faut|que) (?:to )?)(?=\w)")


def is_open(line: str) -> bool:
    return _OPEN.match(line) is not None


def is_ticked(line: str) -> bool:
    return _TICKED.match(line) is not None


def tick(line: str, day: str) -> str:
    """Mark a task as done."""
    mark = _OPEN.match(line)
    return f"- [x] {line[mark.end() :] if mark else line}{f' – done {day}' if day else ''}"


def finished_task(sentence: str, tasks: Sequence[str]) -> int | None:
    """Return the position of the task that the sentence finishes, or None if there is none or it is ambiguous."""
    if is_question(sentence) or not _NOT_YET.isdisjoint(words_of(sentence)):
        return None
    shares = [_share_done(sentence, task) for task in tasks]
    best = max(shares, default=0.0)
    return shares.index(best) if best and shares.count(best) == 1 else None


def says_only_done(sentence: str) -> bool:
    """Whether the sentence says that something is done without naming it."""
    words = words_of(sentence)
    return _says_done(sentence) and len(words) <= 4 and set(terms_of(sentence)) <= _DONE_TERMS


def _says_done(sentence: str) -> bool:
    return not _DONE.isdisjoint(words_of(sentence)) or any(map(sentence.__contains__, DONE_UNSPACED))


class _Task(NamedTuple):
    """What a sentence must mention to finish a task."""

    verb: str
    object: frozenset[str]
    about: frozenset[str]
    gist: Gist


@lru_cache(maxsize=512)
def _verb_in(line: str) -> tuple[str, str]:
    """The first word of what a task demands, and the rest."""
    text = gist_of(line).text
    lead = _TO_DO.match(text)
    verb, _, rest = text[lead.end() if lead else 0 :].partition(" ")
    return verb, rest


@lru_cache(maxsize=512)
def _task_in(line: str) -> _Task:
    (verb, rest), gist = _verb_in(line), gist_of(line)
    object = frozenset(terms_of(_AFTER_OBJECT.split(f"{rest} ", maxsplit=1)[0])) - _TIME_TERMS
    return _Task(verb, object, (gist.terms | gist.numbers) - _TIME_TERMS - {term_of(verb)}, gist)


def _share_done(sentence: str, line: str) -> float:
    """Return the share of a task that the sentence mentions as done; 0 unless it mentions the task's object."""
    task, said = _task_in(line), gist_of(sentence)
    spoken = said.terms | said.numbers
    elsewhere = (task.gist.names - said.terms - _TIME_TERMS) and (said.names - task.gist.terms - _TIME_TERMS)
    if not task.object or not task.object <= spoken | _DONE_TERMS or not task.object & spoken or elsewhere:
        return 0.0
    is_done = _says_done(sentence) or _has_past_form(sentence, task.verb)
    return len(task.about & spoken) / len(task.about) if is_done else 0.0


def _has_past_form(sentence: str, verb: str) -> bool:
    """Whether the sentence has the verb in a past form."""
    return bool(term_of(verb)) and any(
        term_of(word) == term_of(verb) and word != verb.lower() and not word.endswith(_NOT_PAST)
        for word in words_of(sentence)
    )


class ChangeHints:
    """Tells which of several texts may finish a task or move a day; in doubt all of them.

    Most texts do neither: one look at the distinct words of all of them says what to look for in each, which takes a
    fraction of the time for splitting them into sentences. Those of messages that were indexed just now are known.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        said = " ".join(set[str]().union(*(written_words(_in_both_forms(text)).distinct for text in texts)))
        small = folded(said)
        self._moves = [hint for hint in _MOVE_HINTS if hint in small] if _DIGIT.search(said) else []
        self._done = [hint for hint in _DONE_HINTS if hint in small]
        self._has_doubtful = "\u0131" in said or max(map(len, texts), default=0) > MAX_READ
        self._said = said
        self._words: set[str] | None = None
        self._tasks: Sequence[str] = ()
        self._has_verbs = False
        self._past: list[str] = []
        """For the tasks last asked about, whether they have verbs, and words of the texts that may be past forms."""

    def may_change(self, text: str, tasks: Sequence[str]) -> bool:
        """Whether a sentence of a text may finish one of these tasks or move a day."""
        if tasks != self._tasks:
            self._look_for(tasks)
        if self._has_doubtful and self._has_verbs and _is_doubtful(text):
            return True
        if not (self._moves or self._done or self._past):
            return False
        said = _in_both_forms(text)
        small = folded(said)
        if has_any(small, self._moves) and _DIGIT.search(said):
            return True
        return bool(tasks) and (has_any(small, self._done) or has_any(lowered(said), self._past))

    def _look_for(self, tasks: Sequence[str]) -> None:
        verbs: dict[str, set[str]] = {}
        for task in tasks:
            verb = _verb_in(task)[0]
            if term := term_of(verb):
                verbs.setdefault(term, set()).add(verb.lower())
        self._tasks, self._has_verbs = tasks, bool(verbs)
        self._past = self._forms_of(verbs) if verbs else []

    def _forms_of(self, verbs: dict[str, set[str]]) -> list[str]:
        """The words of the texts that may be past forms of verbs, which are given by their terms."""
        if self._words is None:
            self._words = set(words_in(self._said))
        # of these, the texts have the parts
        whole = [verb for same in verbs.values() for verb in same if "-" in verb or "_" in verb]
        themselves = {verb for same in verbs.values() if len(same) == 1 for verb in same}
        words = list(self._words - themselves)
        terms = each_term(words)
        if verbs.keys().isdisjoint(terms):  # as mostly
            return whole
        forms = (word for word, term in zip(words, terms, strict=True) if term in verbs)
        return [*whole, *(word for word in forms if not word.endswith(_NOT_PAST))]


def _in_both_forms(text: str) -> str:
    """The text with and without the marks of bold text and code, if it has any."""
    return f"{text} {without_marks(text)}" if "**" in text or "`" in text else text


def _is_doubtful(text: str) -> bool:
    """Whether a sentence may have words that the text has not: one that is cut, or begins with a dotless i."""
    is_cut = len(text) > MAX_READ and (len(text) > MAX_HEAD + MAX_TAIL or max(map(len, text.split("\n"))) > MAX_READ)
    return is_cut or "\u0131" in text
