"""Extraction: the lines of a context document that rules find in one message."""

import re
from typing import NamedTuple

from ctxwrap.documents.sentences import (
    RawMessage,
    capitalised,
    cut,
    decides,
    is_filler,
    one_line,
    without_opener,
    words_of,
)
from ctxwrap.documents.vocabulary import (
    NAMED_PERSONS,
    NO_NAMES,
    OTHER_PERSONS,
    STATE_VERBS,
    TO_DO,
    UNCERTAIN,
    UNRESOLVED,
)
from ctxwrap.language.dates import Day, days_in
from ctxwrap.language.lexicon import FREQUENCY_ADVERBS, PAST_FORMS
from ctxwrap.language.rules import MASK, AssertedSentence, Statement
from ctxwrap.language.slots import name_in
from ctxwrap.language.statements import asserted_sentences, statements_of

_TOKEN = re.compile(r"[\w'’]+")
_I = re.compile(
    rf"I (?P<adverb>(?:{'|'.join(FREQUENCY_ADVERBS.split())}) )?(?P<verb>[a-z]+(?:['’]t)?)\b(?P<rest>.*)", re.S
)
_SHORT = re.compile(r"I['’](?P<verb>m|ve|ll) (?P<rest>.*)", re.S)
_MY = re.compile(r"My (?P<rest>.*)", re.S)
_SECOND_VERB = re.compile(r"\b(?:and|but|or)\b|[,;]")
_SELVES, _OTHERS = frozenset(NAMED_PERSONS.split()), frozenset(OTHER_PERSONS.split())
_AMBIGUOUS = frozenset(["put", "read", "set", "quit", "cut", "hurt", "let", "left", "found"])
"""They are of the present or of the past, or other verbs altogether."""
_PAST = frozenset(PAST_FORMS.split()) - _AMBIGUOUS | frozenset(
    ["was", "can", "can't", "cannot", "will", "won't", "must"]
)
_PRESENT = dict(
    pair.split(":")
    for pair in [
        "am:is",
        "have:has",
        "don't:doesn't",
        "haven't:hasn't",
        "live:lives",
        "work:works",
        "like:likes",
        "love:loves",
        "hate:hates",
        "need:needs",
        "want:wants",
        "use:uses",
        "prefer:prefers",
        "play:plays",
        "speak:speaks",
        "teach:teaches",
        "own:owns",
        "drive:drives",
        "m:is",
        "ve:has",
    ]
)


def speaks_of_oneself(sentence: str) -> bool:
    """Whether `I`, `my` or the like stands in it, in one of some languages."""
    return not _SELVES.isdisjoint(_words(sentence)) or "我" in sentence.replace("我们", "")


def in_third_person(sentence: str, name: str) -> str | None:
    """The sentence with a name for its speaker; as it is if it tells of no person, None if that cannot be done.

    Only an `I` or `My` at the start is replaced, in a sentence of no other person: `her` behind a name may be the
    named one's.
    """
    words = _words(sentence)
    selves = sum(word in _SELVES for word in words)
    if "我" in sentence:
        return None
    if not selves:
        return sentence if _OTHERS.isdisjoint(words) else None
    if selves > 1 or not _OTHERS.isdisjoint(words) or re.search(r"[\"“”„«»]", sentence):
        return None
    if found := _MY.fullmatch(sentence):
        return f"{name}'s {found['rest']}"
    found = _SHORT.fullmatch(sentence) or _I.fullmatch(sentence)
    return _with_name(found, name) if found else None


def _with_name(found: re.Match[str], name: str) -> str | None:
    verb, rest = found["verb"].replace("’", "'"), found["rest"]
    adverb = found.groupdict().get("adverb") or ""
    if verb == "ll":
        return f"{name} will {rest}"
    if verb in _PAST or (verb.endswith("ed") and verb != "need"):
        return f"{name} {adverb}{verb}{rest}"
    if verb not in _PRESENT or _SECOND_VERB.search(rest):
        return None
    space = "" if rest.startswith((" ", ".", "!")) else " "
    return f"{name} {adverb}{_PRESENT[verb]}{space}{rest}"


def _words(sentence: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _TOKEN.findall(sentence[:600])]


SILENT = frozenset({"tool", "function", "system", "developer"})
"""From them nothing is learnt: what they say can be had again, and anybody may have written it."""

_MOST = 6
"""So many lines come from one message."""

_LONGEST = 220
"""So many characters of a sentence go into a line."""

_LONGEST_FACT = 160

_SECTIONS = {"preference": "Preferences", "instruction": "Preferences", "constraint": "Preferences"}
_USER = re.compile(r"(?:the )?user\b(?!-)", re.I)
_TASK = re.compile(r"The user (?:needs to|wants to be reminded to|asks to remember to) (?=\w)")
_DECIDED = re.compile(r"The user(?: and others)? decided to (?=\w)|Decided: (?=\w)")
_NAME = r"[A-ZÀ-ÖØ-Þ][\w'\-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\w'\-]{1,30}){0,2}"
_CALLED = re.compile(rf"\b(?i:ich heiße|mein name ist|je m'appelle|me llamo|mi nombre es) (?P<name>{_NAME})")
_IS = re.compile(
    rf"(?P<name>{_NAME}) (?:is|ist|est|es) "
    r"(?P<what>(?:our|my|the|unser|unsere|mein|meine|notre|mon|ma|nuestro|nuestra|mi) [^\d:;,]{3,80})"
)
_DOES = re.compile(
    rf"(?P<name>{_NAME}) (?P<what>(?:leads|heads|manages|runs|owns|does|handles|is responsible for|is in charge of) "
    r"[^\d:;,]{3,60})"
)
_DECIDES = re.compile(
    rf"(?:(?i:we|the [a-z]{{2,20}}(?: [a-z]{{2,20}})?)|{_NAME})(?: (?:have|has|all|both|finally|just)){{0,2}} "
    r"(?:decided|agreed|approved|chose|settled|resolved) \w"
    r"|(?i:(?:ok )?final answer|we(?:'ll| will)? go with|we(?:'re| are) going with|wir haben|nous avons|hemos)\b"
)
_CLAUSE = re.compile(r",? and (?=[A-Z])|[,;] (?=[A-Z])")
_PLEASE = re.compile(
    r"(?i:please (?:don't forget to |remember to )?|(?:can|could) you (?:please )?)"
    rf"(?P<what>(?i:{'|'.join(TO_DO.split())})\b.*)"
)
_NOT_PLEASE = re.compile(r"(?i:please )?(?P<what>(?i:don't|do not) (?!forget|worry|think|know|you)[a-z]{3,20} .*)")
_TO_CHAT = re.compile(r"\w+ (?:me|us)\b")
_ASKED_ELSEWHERE = re.compile(r"(?i:bitte|merci de|por favor) (?P<what>[^\W\d_]{3,20} \w.*)")
_NEEDS = re.compile(rf"{_NAME} (?:needs|has) to (?!be\b|know\b|say\b)[a-z]{{2,20}} \w.*|(?:[Ii]l faut|[Hh]ay que) \w.*")
_UP_TO_DAY = re.compile(
    r"(?<!\bnot)(?<!\bhasta)(?<!\bdesde)(?<!\bpara)(?<!\bdepuis)(?<!\bavant)(?<!\bback)(?<!\bup)"
    r"(?:\s(?:is|will be|ist|est|es|sera|será))?\s(?:on|to|for|am|zum|le|au|el|al)\s$"
)
_NO_SUBJECTS = frozenset({"i", "you", "we", "since", "when", "after", "before", "while", "because", "as", "plus"})
_UNCERTAIN, _UNRESOLVED = frozenset(UNCERTAIN.split()), frozenset(UNRESOLVED.split())
_STATE_VERBS, _NO_NAMES = frozenset(STATE_VERBS.split()), frozenset(NO_NAMES.split())


class DocumentLine(NamedTuple):
    """One thing to keep, without its mark and without when it was said."""

    section: str
    text: str


def lines_from(raw: RawMessage, who: str) -> list[DocumentLine]:
    """What a message of a user's says that lasts, in its order."""
    found: dict[DocumentLine, None] = {}
    for sentence in asserted_sentences(raw.text):
        stated = [_stated(each, who) for each in statements_of(sentence)]
        lines = stated or _lines_in(sentence, who, raw.role)
        found |= dict.fromkeys(DocumentLine(section, _short(text)) for section, text in lines)
    return list(found)[:_MOST]


def remembered(type: str, content: str, who: str) -> DocumentLine:
    """The line of a memory item, in the words of whoever wrote that."""
    content = one_line(content, 2 * _LONGEST)
    section, text = _stated(Statement(type.strip().casefold(), "working", 0.5, content), who)
    return DocumentLine(section, _short(text))


def _stated(told: Statement, who: str) -> DocumentLine:
    text = told.content.rstrip(" .。")
    if told.type == "identity" and (name := name_in(told.content)):
        return DocumentLine("Participants", f"{name} – user")
    if told.type == "decision":
        return DocumentLine("Decisions", _named(_DECIDED.sub("", text, count=1), who))
    if told.type == "task":
        return DocumentLine("Tasks", _named(_TASK.sub("", text, count=1), who))
    if told.type in ("deadline", "event", "date") and (days := _days_of(text)):
        return DocumentLine("Timeline", _dated(_named(text, who), days))
    return DocumentLine(_SECTIONS.get(told.type, "Facts"), _named(text, who))


def _named(text: str, who: str) -> str:
    found = _USER.match(text)
    return f"{who}{text[found.end() :]}" if found else text


def _lines_in(sentence: AssertedSentence, who: str, role: str) -> list[DocumentLine]:
    """What a sentence says that no rule about its author knows; words that rules cannot resolve make it nothing."""
    text = without_opener(sentence.text)
    words = words_of(text)
    if MASK in text or is_filler(text) or not words or text.endswith(":"):
        return []
    if task := _task(text, sentence.asks):
        return [DocumentLine("Tasks", task)]
    if sentence.asks or words[0] in _UNRESOLVED or not _UNCERTAIN.isdisjoint(words):
        return []
    said = f"{who}: {text}" if speaks_of_oneself(text) else text
    if _DECIDES.match(text) and decides(text):
        return [DocumentLine("Decisions", said)]
    if people := _people(text, who, role):
        return people
    if days := _days_of(text):
        return [DocumentLine("Timeline", _dated(said, _days_of(said)))] if "you" not in words and len(days) < 3 else []
    if found := _NOT_PLEASE.match(text):
        return [DocumentLine("Preferences", found["what"])]
    return [DocumentLine("Facts", said)] if _is_plain_fact(text, words) else []


def _task(text: str, asks: bool) -> str:
    if found := _PLEASE.match(text) or (_ASKED_ELSEWHERE.match(text) if not asks else None):
        is_answered = _TO_CHAT.match(found["what"]) or (asks and found.re is _PLEASE)
        return found["what"] if not is_answered or _days_of(text) else ""
    return text if not asks and _NEEDS.match(text) else ""


def _people(text: str, who: str, role: str) -> list[DocumentLine]:
    if called := _CALLED.search(text[:200]):
        return [DocumentLine("Participants", f"{called['name']} – {role}")]
    clauses = _CLAUSE.split(text) if len(text) <= _LONGEST_FACT else []
    found = [_IS.fullmatch(clause) or _DOES.fullmatch(clause) for clause in clauses]
    return [
        DocumentLine("Participants", f"{each['name']} – {_role(each['what'], who)}")
        for each in found
        if each and each["name"].split(" ")[0].lower() not in _NO_NAMES
    ]


def _role(what: str, who: str) -> str:
    return f"{who}’s {what[3:]}" if what.startswith("my ") else what


def _is_plain_fact(text: str, words: list[str]) -> bool:
    """Whether something is said to be or to have something, and a number or the like is in it."""
    has_value = not _STATE_VERBS.isdisjoint(words[1:]) and any(map(str.isdigit, text))
    return has_value and len(text) <= _LONGEST_FACT and words[0] not in _NO_SUBJECTS and "you" not in words


def _days_of(text: str) -> list[Day]:
    return days_in(text[: 2 * _LONGEST])


def _dated(told: str, days: list[Day]) -> str:
    """What happens on a day, behind that day, which need not be said again at the end."""
    last = days[-1]
    name = told[last.start : last.end].rstrip(".") if last.name.startswith("-") else last.name
    before, at_end = told[: last.start], len(days) == 1 and not told[last.end :].strip(" .!")
    lead = _UP_TO_DAY.search(before) if at_end else None
    rest = before[: lead.start()] if lead and len(before[: lead.start()].split()) > 1 else told
    return f"{name} – {rest}"


def _short(text: str) -> str:
    return cut(capitalised(text).rstrip(" .!。"), _LONGEST)
