"""Learning: which sentences of a raw message are worth a line in a document, and under which heading."""

import re
from typing import NamedTuple

from ctxwrap.entries.persons import told_of
from ctxwrap.entries.raw import Raw
from ctxwrap.entries.requests import asked_elsewhere, greeted, task_in, without_opener
from ctxwrap.entries.sentences import cut, sentences_in
from ctxwrap.entries.telling import assigns, decides, facts_in, is_filler, is_question, words_of, worth
from ctxwrap.entries.vocabulary import ANSWERED, LIKES, LIKES_UNSPACED, NO_NAMES, UNSURE_LIKES
from ctxwrap.language.dates import days_in
from ctxwrap.language.vocabulary import STANDING, STANDING_PHRASES

SILENT = frozenset({"tool", "function", "system", "developer"})
"""From them nothing is learnt: what they say can be had again, and anybody may have written it."""

_MOST = 6
"""So many lines come from one message."""

_WIDEST = 220
"""So many characters of a sentence go into a line."""

_WORTH_A_NOTE = 4.0
_WORTH_A_FACT = 2.5
_CHATTY = 12
"""Who needs so many words and names nothing has nothing to tell that lasts."""

_ANSWERED = frozenset(ANSWERED.split())

_CALLED = re.compile(
    r"\b(?i:my name is|i am called|call me|ich heiße|mein name ist|je m'appelle|me llamo|mi nombre es) "
    r"(?P<name>[A-ZÀ-ÖØ-Þ][\w'\-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\w'\-]{1,30}){0,2})"
)
_CALLED_UNSPACED = re.compile(r"(?:我叫|我的名字是|私の名前は)(?P<name>\w{1,12})")
_IS = re.compile(
    r"(?P<name>[A-ZÀ-ÖØ-Þ][\w'\-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\w'\-]{1,30}){0,2}) "
    r"(?:is|ist|est|es) (?P<what>(?:our|my|the|unser|unsere|mein|meine|notre|mon|ma|nuestro|nuestra|mi) [^\d:;]{3,80})"
)
_UP_TO_DAY = re.compile(
    r"(?<!\bnot)(?<!\bhasta)(?<!\bdesde)(?<!\bhasta)(?<!\bpara)(?<!\bdepuis)(?<!\bavant)(?<!\bback)(?<!\bup)"
    r"(?:\s(?:is|will be|ist|est|es|sera|será))?\s(?:on|to|for|am|zum|le|au|el|al)\s$"
)
_OF_ONCE = ("my name is", "call me", "don't forget", "vergiss nicht", "make sure")
_TODO = re.compile(r"(?:to-?do|task|action item|aufgabe|tâche|tarea):\s{1,3}(?=\S)", re.I)
_NO_NAMES = frozenset(NO_NAMES.split())
_LIKES = re.compile(
    r"\b(?:i|we)(?: really| also| still| don't| do not)? (?:like|love|hate|enjoy|dislike|prefer)\b", re.I
)
_PREFERRED = frozenset(f"{LIKES} {STANDING}".split()) - frozenset(UNSURE_LIKES.split())
_ALWAYS = re.compile(
    r"(?:^|\b(?:i|we|you|please|should|must|to|ich|wir|du|bitte|je|tu|vous|yo|tú) )"
    r"(?:always|never|whenever|immer|nie|niemals|toujours|jamais|siempre|nunca)\b|^(?:don't|do not) "
)


class Learnt(NamedTuple):
    """One thing to keep."""

    section: str
    text: str
    """The line, without its mark and without when it was said."""
    value: float


def sentences_said(raw: Raw) -> list[str]:
    """What a message says beside greetings and filler."""
    _, text = greeted(raw.text)
    return [bare for sentence in sentences_in(text) if not is_filler(bare := without_opener(sentence))]


def learnt_from(sentences: list[str], raw: Raw, who: str) -> list[Learnt]:
    """The most that is worth keeping, in the order in which it was said."""
    found = [learnt for sentence in sentences if (learnt := _learnt(sentence, raw, who))]
    best = sorted(range(len(found)), key=lambda at: (-found[at].value, at))[:_MOST]
    notes = [at for at in best if found[at].section == "Notes"][:1]
    return [found[at] for at in sorted(best) if found[at].section != "Notes" or at in notes]


def _learnt(sentence: str, raw: Raw, who: str) -> Learnt | None:
    if task := _task(sentence, raw, who):
        return Learnt("Tasks", short(task), 12.0)
    if is_question(sentence):
        return None
    section = _section(sentence, raw)
    if section == "Entities":
        return Learnt(section, short(_entity(sentence, who, raw.role)), 11.0)
    told = told_of(sentence, who, "User" if raw.role == "assistant" else "")
    if section == "Timeline":
        told = _dated(told)
    return (
        Learnt(section, short(told), worth(sentence) + (10.0 if section == "Decisions" else 0.0)) if section else None
    )


def _dated(told: str) -> str:
    """What happens on a day, behind that day, which need not be said again at the end."""
    days = [day for day in days_in(told) if not day.name.startswith("-")]
    if not days:
        return told
    before, at_end = told[: days[-1].start], len(days) == 1 and not told[days[-1].end :].strip(" .!")
    lead = _UP_TO_DAY.search(before) if at_end else None
    rest = before[: lead.start()] if lead and len(before[: lead.start()].split()) > 1 else told
    return f"{days[-1].name} – {rest}"


def _section(sentence: str, raw: Raw) -> str:
    told = raw.role != "assistant"
    days, value = days_in(sentence), worth(sentence)
    tests = (
        ("Decisions", decides(sentence)),
        ("Entities", told and bool(_entity(sentence, "", raw.role))),
        ("Preferences", told and _prefers(sentence)),
        ("Timeline", bool(days)),
        ("Facts", told and value >= _WORTH_A_FACT and (bool(facts_in(sentence)) or len(words_of(sentence)) < _CHATTY)),
        ("Notes", value >= _WORTH_A_NOTE),
    )
    return next((section for section, holds in tests if holds), "")


def _task(sentence: str, raw: Raw, who: str) -> str:
    """What is to be done, if the sentence says so and an answer alone does not do it."""
    requested = task_in(sentence, who)
    if requested:
        verb = requested.split(" ")[0].lower()
        waits = verb not in _ANSWERED or bool(days_in(sentence))
        return requested if raw.role != "assistant" and waits and not _prefers(sentence) else ""
    if is_question(sentence) or raw.role == "assistant":
        return ""
    if (asked := asked_elsewhere(sentence)) and not _prefers(sentence):
        return asked[:1].upper() + asked[1:]
    sentence = _TODO.sub("", sentence, count=1) if (marked := _TODO.match(sentence)) else sentence
    return told_of(sentence, who) if marked or (assigns(sentence) and not decides(sentence)) else ""


def _prefers(sentence: str) -> bool:
    small = sentence[:600].lower().replace("’", "'")
    return (
        not _PREFERRED.isdisjoint(words_of(sentence))
        or _LIKES.search(small) is not None
        or _ALWAYS.search(small) is not None
        or any(map(small.__contains__, (*_STANDING, *LIKES_UNSPACED)))
    )


_STANDING = tuple(phrase for phrase in STANDING_PHRASES if phrase not in _OF_ONCE and not phrase.endswith("you to"))


def _entity(sentence: str, who: str, role: str) -> str:
    """A name and whose it is."""
    head = sentence[:200].replace("’", "'")
    called = _CALLED.search(head) or _CALLED_UNSPACED.search(head)
    if called:
        return f"{called['name']} – {role}"
    found = _IS.match(head)
    if not found or found["name"].split(" ")[0].lower() in _NO_NAMES or len(sentence) > 120:
        return ""
    what = found["what"].rstrip(" .!")
    return f"{found['name']} – {re.sub(r'^my ', f'{who}’s ', what)}"


def short(text: str) -> str:
    """The text as a line has it."""
    first = text.partition(" ")[0]
    text = text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text
    return cut(text.rstrip(" .!。"), _WIDEST)
