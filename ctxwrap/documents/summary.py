"""Summaries by rules: the informative sentences of one message, never longer than the message itself.

The words are those of the message. Rules cannot tell who `he` is, so pronouns stay, but for an `I` that is certainly
the speaker. Speaker and day are named as far as there is room for them.
"""

import re
from collections.abc import Iterable, Sequence

from ctxwrap.documents.extraction import in_third_person, speaks_of_oneself
from ctxwrap.documents.sentences import (
    ELLIPSIS,
    HEAD,
    TAIL,
    RawMessage,
    Summary,
    cut,
    facts_in,
    greeted,
    in_one_line,
    informative_in,
    must_be_raw,
    one_line,
    salience,
    sentences_in,
)

LONGEST = 512

_NAMED = re.compile(r"^[-*•] (?P<name>[^\s–][^–\n]{0,60}?) – (?P<role>user|assistant)\b", re.M)
_ENDS = ".!?…。！？؟۔।"
_UNSPACED_ENDS = "。！？｡．"
_REPORTED = 1.4
"""So much longer than the message may one sentence about a request be: as it is in the example that it follows."""
_STATED = re.compile(r"(?:[Oo]ur|[Tt]he) (?P<what>.{3,200})[.!]", re.S)
_ASKED = re.compile(r"(?:[Pp]lease|[Cc](?:an|ould) you(?: please)?) (?P<what>[a-z]{3,20} .{3,200})[.!?]", re.S)


def summary_of(raw: RawMessage, document: str = "") -> Summary:
    """A message in short. `document` is what is known already: the name of who speaks, if the message has none."""
    raw = must_be_raw(raw)
    who, room = _who(raw, document), min(LONGEST, len(raw.text))
    if reported := _reported(raw, who):
        return Summary(reported)
    sentences = informative_in(raw.text)
    if not sentences:
        return Summary(
            cut(" ".join(sentences_in(raw.text)[:1]) or one_line(raw.text, room), room) or (raw.text and ELLIPSIS)
        )
    is_read = len(raw.text) <= HEAD + TAIL
    fitting = (text for text in _forms(sentences, who, raw.day) if is_read and len(text) <= room)
    return Summary(next(fitting, "") or _shortened(sentences, f"{who}: ", room))


def fitted(text: str) -> Summary:
    """A summary that somebody wrote: as it is, or without the sentences that tell the least, and with `…`."""
    if len(text) <= LONGEST:
        return Summary(text)
    if len(line := " ".join(text.split())) <= LONGEST:
        return Summary(line)
    sentences = list(dict.fromkeys(sentences_in(text))) or [one_line(text, LONGEST * 2)]
    return Summary(_shortened(sentences, "", LONGEST))


def _who(raw: RawMessage, document: str) -> str:
    raw = in_one_line(raw)
    return raw.speaker or one_line(_names_in(document).get(raw.role, ""), 60) or raw.role.capitalize() or "Somebody"


def _names_in(document: str) -> dict[str, str]:
    """By their roles the names of user and assistant, where a document has exactly one."""
    found = [(match["role"], match["name"].strip("* ")) for match in _NAMED.finditer(document[:20_000])]
    roles = [role for role, _ in found]
    return {role: name for role, name in found if roles.count(role) == 1}


def _reported(raw: RawMessage, who: str) -> str:
    """`Who stated … and asked Sam to …` for one statement and one request to somebody who is greeted by name."""
    name, text = greeted(raw.text)
    sentences = sentences_in(text) if name and len(text) < LONGEST else []
    if len(sentences) != 2 or any(
        in_third_person(each, "") != each for each in (sentences[0].partition(" ")[2], *sentences[1:])
    ):
        return ""
    stated, asked = _STATED.fullmatch(sentences[0]), _ASKED.fullmatch(sentences[1])
    told = f"{who} stated the {stated['what']} and asked {name} to {asked['what']}." if stated and asked else ""
    return told if len(told) <= min(LONGEST, _REPORTED * len(raw.text)) else ""


def _forms(sentences: Sequence[str], who: str, day: str) -> Iterable[str]:
    """The sentences with more or less beside them, the most telling form first."""
    if any(map(speaks_of_oneself, sentences)):
        named = [in_third_person(sentence, who) for sentence in sentences]
        if None not in named:
            told = _joined([sentence for sentence in named if sentence])
            yield from ([f"{day}: {told}"] if day else [])
            yield told
    told = _joined(sentences)
    yield from ([f"{who}, {day}: {told}"] if day else [])
    yield f"{who}: {told}"
    yield told
    yield " ".join(sentences)


def _joined(sentences: Sequence[str]) -> str:
    """The sentences in one line; what has no end, such as an item of a list, is parted by a semicolon."""
    parts = []
    for sentence in sentences[:-1]:
        last = sentence.rstrip("\"'”’»)]*")[-1:]
        parts.append(f"{sentence}{'' if last in _UNSPACED_ENDS else ' ' if last in f'{_ENDS}:,;' else '; '}")
    return "".join([*parts, *sentences[-1:]])


def _shortened(sentences: Sequence[str], lead: str, room: int) -> str:
    """As many of the sentences as fit, those that tell the most, and `…`."""
    lead = lead if len(lead) < room // 4 else ""
    kept = _most_telling(sentences, room - len(lead) - len(ELLIPSIS))
    return cut(f"{lead}{_joined(kept)}".rstrip(".。 …;") + ELLIPSIS, room)


def _most_telling(sentences: Sequence[str], room: int) -> list[str]:
    """Those that tell the most for their length and fit, in their order; the beginning of the best if none fits."""
    order = sorted(range(len(sentences)), key=lambda at: (-salience(sentences[at]) / (len(sentences[at]) + 40), at))
    taken: set[int] = set()
    known: set[str] = set()
    for fresh in (True, False):  # first what adds to the facts, then what there is room for
        for at in order:
            size = len(sentences[at]) + 2
            adds = bool(facts_in(sentences[at]) - known) or not fresh
            if at not in taken and size <= room + 2 and adds and salience(sentences[at]):
                taken.add(at)
                known |= facts_in(sentences[at])
                room -= size
    kept = [sentences[at] for at in sorted(taken)]
    return kept or [cut(sentences[order[0]], room + 1).removesuffix(ELLIPSIS)]
