"""Finds the document lines in one message by rules."""

import re
from functools import lru_cache
from typing import NamedTuple

from ctxwrap.documents.sentences import (
    RawMessage,
    capitalise,
    decides,
    is_filler,
    one_line,
    shorten,
    strip_opener,
    words_of,
)
from ctxwrap.documents.vocabulary import (
    FIRST_PERSON_SINGULAR,
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
from ctxwrap.language.vocabulary import parse_pairs

_TOKEN = re.compile(r"[\w'’]+")
_I = re.compile(
    rf"I (?P<adverb>(?:{'|'.join(FREQUENCY_ADVERBS.split())}) )?(?P<verb>[a-z]+(?:['’]t)?)\b(?P<rest>.*)", re.S
)
_SHORT = re.compile(r"I['’](?P<verb>m|ve|ll) (?P<rest>.*)", re.S)
_MY = re.compile(r"My (?P<rest>.*)", re.S)
_SECOND_VERB = re.compile(r"\b(?:and|but|or)\b|[,;]")
_FIRST_PERSON, _OTHERS = frozenset(FIRST_PERSON_SINGULAR.split()), frozenset(OTHER_PERSONS.split())
_AMBIGUOUS = frozenset(["put", "read", "set", "quit", "cut", "hurt", "let", "left", "found"])
"""Present and past are equal, or it is also another verb."""
_PAST = frozenset(PAST_FORMS.split()) - _AMBIGUOUS | frozenset(
    ["was", "can", "can't", "cannot", "will", "won't", "must"]
)
_PRESENT_PAIRS = """
    am=is|have=has|don't=doesn't|haven't=hasn't|live=lives|work=works|like=likes|love=loves|hate=hates|need=needs
    |want=wants|use=uses|prefer=prefers|play=plays|speak=speaks|teach=teaches|own=owns|drive=drives|m=is|ve=has
"""
_PRESENT = parse_pairs(_PRESENT_PAIRS)


def is_first_person(sentence: str) -> bool:
    """Whether the sentence contains a first-person pronoun of a known language."""
    return not _FIRST_PERSON.isdisjoint(_words(sentence)) or "我" in sentence.replace("我们", "")


def in_third_person(sentence: str, name: str) -> str | None:
    """Replace the speaker by a name; return the sentence unchanged if it mentions no person, None if unsafe.

    Only an initial `I` or `My` is replaced, in a sentence without other persons: a following `her` may refer to the
    name.
    """
    words = _words(sentence)
    selves = sum(word in _FIRST_PERSON for word in words)
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


IGNORED_ROLES = frozenset({"tool", "function", "system", "developer"})
"""Roles that are ignored: their text is reproducible and may have any author."""

_MAX_LINES = 6
"""Maximum lines per message."""

_MAX_LINE = 220
"""Maximum characters of a line."""

_MAX_FACT = 160

_SECTIONS = {"preference": "Preferences", "instruction": "Preferences", "constraint": "Preferences"}
_USER = re.compile(r"(?:the )?user\b(?!-)", re.I)
_TASK = re.compile(r"The user (?:needs to|wants to be reminded to|asks to remember to) (?=\w)")
_DECIDED = re.compile(r"The user(?: and others)? decided to (?=\w)|Decided: (?=\w)")
_NAME = r"[A-ZÀ-ÖØ-Þ][\w'\-]{1,30}(?: [A-ZÀ-ÖØ-Þ][\w'\-]{1,30}){0,2}"
_CALLED = re.compile(rf"\b(?i:ich heiße|mein name ist|je m'appelle|me llamo|mi nombre es) (?P<name>{_NAME})")
_IS = re.compile(
    rf"(?P<name>{_NAME}) (?:is|ist|est|es) "
    r"(?P<what>(?:our|the|unser|unsere|notre|nuestro|nuestra) [^\d:;,]{3,80})"
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
_PLEASE_DONT = re.compile(r"(?i:please )(?P<what>(?i:don't|do not) (?!forget|worry|think|know|you)[a-z]{3,20} .*)")
_ANSWERED_IN_CHAT = re.compile(r"\w+ (?:me|us)\b")
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
    """A line without list mark and date."""

    section: str
    text: str


def extract_lines(raw: RawMessage, who: str) -> list[DocumentLine]:
    """Return the lasting information of a user's message, in order."""
    found: dict[DocumentLine, None] = {}
    for sentence in asserted_sentences(raw.text):
        stated = [_line_of_statement(each, who) for each in statements_of(sentence)]
        lines = stated or _lines_in(sentence, who, raw.role)
        found |= dict.fromkeys(DocumentLine(section, _short(text)) for section, text in lines)
    return list(found)[:_MAX_LINES]


@lru_cache(maxsize=1024)
def line_of_item(type: str, content: str, who: str) -> DocumentLine:
    """Return the line of a memory item, in its own words; most items are in one version after the other."""
    content = one_line(content, 2 * _MAX_LINE)
    section, text = _line_of_statement(Statement(type.strip().casefold(), "working", 0.5, content), who)
    return DocumentLine(section, _short(text))


def _line_of_statement(statement: Statement, who: str) -> DocumentLine:
    text = statement.content.rstrip(" .。")
    if statement.type == "identity" and (name := name_in(statement.content)):
        return DocumentLine("Participants", f"{name} – user")
    if statement.type == "decision":
        return DocumentLine("Decisions", _named(_DECIDED.sub("", text, count=1), who))
    if statement.type == "task":
        return DocumentLine("Tasks", _named(_TASK.sub("", text, count=1), who))
    if statement.type in ("deadline", "event", "date") and (days := _days_of(text)):
        return DocumentLine("Timeline", _dated(_named(text, who), days))
    return DocumentLine(_SECTIONS.get(statement.type, "Facts"), _named(text, who))


def _named(text: str, who: str) -> str:
    found = _USER.match(text)
    return f"{who}{text[found.end() :]}" if found else text


def _lines_in(sentence: AssertedSentence, who: str, role: str) -> list[DocumentLine]:
    """Return lines of a sentence that the statement rules do not cover; unresolved words yield none."""
    text = strip_opener(sentence.text)
    words = words_of(text)
    if MASK in text or is_filler(text) or not words or text.endswith(":"):
        return []
    if task := _task(text, sentence.asks):
        return [DocumentLine("Tasks", task)]
    if sentence.asks or words[0] in _UNRESOLVED or not _UNCERTAIN.isdisjoint(words):
        return []
    said = f"{who}: {text}" if is_first_person(text) else text
    if _DECIDES.match(text) and decides(text):
        return [DocumentLine("Decisions", said)]
    if people := _people(text, role):
        return people
    if days := _days_of(text):
        return [DocumentLine("Timeline", _dated(said, _days_of(said)))] if "you" not in words and len(days) < 3 else []
    if found := _PLEASE_DONT.match(text):
        return [DocumentLine("Preferences", found["what"])]
    return [DocumentLine("Facts", said)] if _is_plain_fact(text, words) else []


def _task(text: str, asks: bool) -> str:
    if found := _PLEASE.match(text) or (_ASKED_ELSEWHERE.match(text) if not asks else None):
        is_answered = _ANSWERED_IN_CHAT.match(found["what"]) or (asks and found.re is _PLEASE)
        return found["what"] if not is_answered or _days_of(text) else ""
    return text if not asks and _NEEDS.match(text) else ""


def _people(text: str, role: str) -> list[DocumentLine]:
    if called := _CALLED.search(text[:200]):
        return [DocumentLine("Participants", f"{called['name']} – {role}")]
    clauses = _CLAUSE.split(text) if len(text) <= _MAX_FACT else []
    found = [_IS.fullmatch(clause) or _DOES.fullmatch(clause) for clause in clauses]
    return [
        DocumentLine("Participants", f"{each['name']} – {each['what']}")
        for each in found
        if each and each["name"].split(" ")[0].lower() not in _NO_NAMES
    ]


def _is_plain_fact(text: str, words: list[str]) -> bool:
    """Whether the text attributes a number to a subject with `is`, `has` or the like."""
    has_value = not _STATE_VERBS.isdisjoint(words[1:]) and any(map(str.isdigit, text))
    return has_value and len(text) <= _MAX_FACT and words[0] not in _NO_SUBJECTS and "you" not in words


def _days_of(text: str) -> list[Day]:
    return days_in(text[: 2 * _MAX_LINE])


def _dated(text: str, days: list[Day]) -> str:
    """Put the day first, and drop it from the end."""
    last = days[-1]
    name = text[last.start : last.end].rstrip(".") if last.name.startswith("-") else last.name
    before, at_end = text[: last.start], len(days) == 1 and not text[last.end :].strip(" .!")
    lead = _UP_TO_DAY.search(before) if at_end else None
    rest = before[: lead.start()] if lead and len(before[: lead.start()].split()) > 1 else text
    return f"{name} – {rest}"


def _short(text: str) -> str:
    return shorten(capitalise(text).rstrip(" .!。"), _MAX_LINE)
