"""Summaries by rules: the informative sentences of one message, never longer than the message.

The words are the message's own. Rules cannot resolve `he`, so pronouns stay, except an `I` that is certainly the
speaker. Speaker and day are added if they fit.
"""

import re
from collections.abc import Iterable, Sequence

from ctxwrap.documents.extraction import in_third_person, is_first_person
from ctxwrap.documents.sentences import (
    ELLIPSIS,
    MAX_HEAD,
    MAX_TAIL,
    MessageSummary,
    RawMessage,
    facts_in,
    in_one_line,
    informative_in,
    one_line,
    require_raw,
    salience,
    sentences_in,
    shorten,
    split_greeting,
)

MAX_SUMMARY = 512

_NAMED = re.compile(r"^[-*•] (?P<name>[^\s–][^–\n]{0,60}?) – (?P<role>user|assistant)\b", re.M)
_ENDS = ".!?…。！？؟۔।"
_UNSPACED_ENDS = "。！？｡．"
_MAX_REPORT = 1.4
"""Maximum length of a reported request relative to the message."""
_STATED = re.compile(r"(?:[Oo]ur|[Tt]he) (?P<what>.{3,200})[.!]", re.S)
_ASKED = re.compile(r"(?:[Pp]lease|[Cc](?:an|ould) you(?: please)?) (?P<what>[a-z]{3,20} .{3,200})[.!?]", re.S)


def summarise_message(raw: RawMessage, document: str = "") -> MessageSummary:
    """Summarise a message. `document` supplies the speaker's name if the message has none."""
    raw = require_raw(raw)
    who, room = _who(raw, document), min(MAX_SUMMARY, len(raw.text))
    if reported := _report_request(raw, who):
        return MessageSummary(reported)
    sentences = informative_in(raw.text)
    if not sentences:
        return MessageSummary(
            shorten(" ".join(sentences_in(raw.text)[:1]) or one_line(raw.text, room), room) or (raw.text and ELLIPSIS)
        )
    is_read = len(raw.text) <= MAX_HEAD + MAX_TAIL
    fitting = (text for text in _forms(sentences, who, raw.day) if is_read and len(text) <= room)
    return MessageSummary(next(fitting, "") or _select_and_join(sentences, f"{who}: ", room))


def fit_summary(text: str) -> MessageSummary:
    """Shorten a given summary to the limit by dropping the least informative sentences."""
    if len(text) <= MAX_SUMMARY:
        return MessageSummary(text)
    if len(line := " ".join(text.split())) <= MAX_SUMMARY:
        return MessageSummary(line)
    sentences = list(dict.fromkeys(sentences_in(text))) or [one_line(text, MAX_SUMMARY * 2)]
    return MessageSummary(_select_and_join(sentences, "", MAX_SUMMARY))


def _who(raw: RawMessage, document: str) -> str:
    raw = in_one_line(raw)
    return raw.speaker or one_line(_names_in(document).get(raw.role, ""), 60) or raw.role.capitalize() or "Somebody"


def _names_in(document: str) -> dict[str, str]:
    """Return the names of user and assistant by role, where the document has exactly one."""
    found = [(match["role"], match["name"].strip("* ")) for match in _NAMED.finditer(document[:20_000])]
    roles = [role for role, _ in found]
    return {role: name for role, name in found if roles.count(role) == 1}


def _report_request(raw: RawMessage, who: str) -> str:
    """Return `Who stated … and asked Sam to …` for one statement and one request to a person greeted by name."""
    name, text = split_greeting(raw.text)
    sentences = sentences_in(text) if name and len(text) < MAX_SUMMARY else []
    if len(sentences) != 2 or any(
        in_third_person(each, "") != each for each in (sentences[0].partition(" ")[2], *sentences[1:])
    ):
        return ""
    stated, asked = _STATED.fullmatch(sentences[0]), _ASKED.fullmatch(sentences[1])
    text = f"{who} stated the {stated['what']} and asked {name} to {asked['what']}." if stated and asked else ""
    return text if len(text) <= min(MAX_SUMMARY, _MAX_REPORT * len(raw.text)) else ""


def _forms(sentences: Sequence[str], who: str, day: str) -> Iterable[str]:
    """Yield forms of the summary, the most complete first."""
    if any(map(is_first_person, sentences)):
        named = [in_third_person(sentence, who) for sentence in sentences]
        if None not in named:
            text = _join([sentence for sentence in named if sentence])
            yield from ([f"{day}: {text}"] if day else [])
            yield text
    text = _join(sentences)
    yield from ([f"{who}, {day}: {text}"] if day else [])
    yield f"{who}: {text}"
    yield text
    yield " ".join(sentences)


def _join(sentences: Sequence[str]) -> str:
    """Join the sentences in one line; list items without an end mark are separated by semicolons."""
    parts = []
    for sentence in sentences[:-1]:
        last = sentence.rstrip("\"'”’»)]*")[-1:]
        parts.append(f"{sentence}{'' if last in _UNSPACED_ENDS else ' ' if last in f'{_ENDS}:,;' else '; '}")
    return "".join([*parts, *sentences[-1:]])


def _select_and_join(sentences: Sequence[str], lead: str, room: int) -> str:
    """Return the most informative sentences that fit, with `…`."""
    lead = lead if len(lead) < room // 4 else ""
    kept = _most_informative(sentences, room - len(lead) - len(ELLIPSIS))
    return shorten(f"{lead}{_join(kept)}".rstrip(".。 …;") + ELLIPSIS, room)


def _most_informative(sentences: Sequence[str], room: int) -> list[str]:
    """Return the most informative sentences for their length, in order; the start of the best if none fits."""
    order = sorted(range(len(sentences)), key=lambda at: (-salience(sentences[at]) / (len(sentences[at]) + 40), at))
    taken: set[int] = set()
    known: set[str] = set()
    for fresh in (True, False):  # first those with new facts, then any that fit
        for at in order:
            size = len(sentences[at]) + 2
            adds = bool(facts_in(sentences[at]) - known) or not fresh
            if at not in taken and size <= room + 2 and adds and salience(sentences[at]):
                taken.add(at)
                known |= facts_in(sentences[at])
                room -= size
    kept = [sentences[at] for at in sorted(taken)]
    return kept or [shorten(sentences[order[0]], room + 1).removesuffix(ELLIPSIS)]
