"""Sentences of raw messages: splitting, how informative each is, and filler."""

import re
import unicodedata
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from ctxwrap.documents.vocabulary import (
    ABBREVIATIONS,
    DECIDED,
    DECIDED_PHRASES,
    FILLER,
    FILLER_UNSPACED,
    FINITE,
    FUNCTION_WORDS,
    GREETING,
    NO_NAMES,
    OPENERS,
    PRAISE,
    TASK,
    TASK_PHRASES,
    UNDECIDED,
    YES_OR_NO,
)
from ctxwrap.language.dates import days_in
from ctxwrap.language.vocabulary import FIRST_PERSON, STANDING, STOP, TIME
from ctxwrap.language.words import normalise_word


class Summary(str):
    """One message in short, for finding it again; nothing may be learnt from it."""

    __slots__ = ()


class RawMessage(NamedTuple):
    """One message as it was said: what a context document grows from, beside memory."""

    number: int
    role: str
    text: str
    time: str = ""
    """When it was said, as ISO 8601 has it."""
    speaker: str = ""
    """The name of who said it, if it has one beside the role."""

    @property
    def day(self) -> str:
        """When it was said, as YYYY-MM-DD, or nothing."""
        year, month, day = self.time[:4], self.time[5:7], self.time[8:10]
        return f"{year}-{month}-{day}" if len(day) == 2 and (year + month + day).isdecimal() else ""


class MemoryLine(NamedTuple):
    """An item of memory, in the words of whoever wrote it: the model, the user or a rule."""

    type: str
    """Such as fact, preference, decision, task or deadline."""
    content: str


def must_be_raw(entry: object) -> RawMessage:
    """The entry itself; `TypeError` if it is, or is made of, a summary: nothing may grow from those."""
    if isinstance(entry, Summary) or (isinstance(entry, RawMessage) and isinstance(entry.text, Summary)):
        raise TypeError("a summary stands where a raw message is wanted: documents grow from raw messages only")
    if not isinstance(entry, RawMessage):
        raise TypeError(f"a Raw is wanted, not a {type(entry).__name__}")
    return entry


HEAD, TAIL = 16_000, 8_000
"""So many characters at the start and at the end of a text are read; in between, a longer one is not."""

ELLIPSIS = "…"

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)")
_BULLET = re.compile(r"^\s{0,40}(?:#{1,6}\s|>\s|[-*+•‣–]\s|\(?\d{1,3}[.)]\s|\[[ xX]\]\s)")
_GAP = re.compile(r"(?<=[.!?…\"'”’»)\]*])\s+|(?<=[。！？؟۔।॥｡．።፧။])(?![」』”’）)])|(?<=[。！？｡][」』”’）)])")
_CLOSERS = "\"'”’»)]*」』）"
_ENDS = ".!?…。！？؟۔।॥｡．።፧။"
_LAST_WORD = re.compile(r"[\w.\-]*$")
_ABBREVIATIONS = frozenset(ABBREVIATIONS.split())
_WORD = re.compile(r"[\w'\-]+")
_READ = 600
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
_STEPS = 64
"""A character of more marks than that is no character to spare."""


def readable(text: str) -> str:
    """The text without what cannot be printed, and without the middle of one that is too long to read."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() or each in _JOINERS else _blank(each) for each in text)
    )


def _blank(character: str) -> str:
    return "\n" if character in "\n\r\u2028\u2029\x0b\x0c\x85" else " "


def sentences_in(text: str) -> list[str]:
    """The sentences, each on one line and without the marks of a list; code between fences is none."""
    found: list[str] = []
    fenced = False
    for line in readable(text).split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip():
            found += _in_line(_bare(line))
    return [sentence for sentence in found if any(map(str.isalnum, sentence)) or _is_symbol(sentence)]


def _bare(line: str) -> str:
    for _ in range(3):
        mark = _BULLET.match(line)
        line = line[mark.end() :] if mark and mark.end() < len(line) else line
    return " ".join(line.replace("**", "").replace("`", "").split())


def _is_symbol(sentence: str) -> bool:
    """Whether it is an emoji or the like, rather than a rule or a stray mark."""
    return any(unicodedata.category(each) == "So" for each in sentence[:40])


def _in_line(line: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    for gap in _GAP.finditer(line):
        if gap.start() > start and _is_end(line, gap.start(), gap.end()):
            pieces.append(line[start : gap.start()].strip())
            start = gap.end()
    return [*pieces, rest] if (rest := line[start:].strip()) else pieces


def _is_end(line: str, end: int, following: int) -> bool:
    before = line[max(0, end - 40) : end].rstrip(_CLOSERS)
    if not before or before[-1] not in _ENDS:
        return False
    return before[-1] != "." or not _is_abbreviated(before[:-1], line[following : following + 20])


def _is_abbreviated(before: str, after: str) -> bool:
    """Whether the dot behind `before` belongs to a word: an abbreviation, an initial, the day of a date."""
    found = _LAST_WORD.search(before)
    word = found[0].lower() if found else ""
    if word.isdecimal() and len(word) <= 2:
        return after[:1].islower() or bool(days_in(f"{word}. {after}"))
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i" and word.isascii())


def words_of(sentence: str) -> list[str]:
    """The words in lower case, of as much of a sentence as is ever looked at."""
    return _WORD.findall(sentence[:_READ].lower().replace("’", "'"))


def one_line(text: str, limit: int) -> str:
    return cut(" ".join(readable(text).split()), limit)


def in_one_line(raw: RawMessage) -> RawMessage:
    """The message with a role and a speaker that can stand in a line."""
    return raw._replace(role=one_line(raw.role, 30), speaker=one_line(raw.speaker, 60))


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and `…`, of no more characters than that, and none of them torn apart."""
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    kept = text[: whole(text, limit - 1)]
    border = kept.rfind(" ")
    return (kept[:border] if border > len(kept) * 2 // 3 else kept).rstrip(" ,;:–-") + ELLIPSIS


def whole(text: str, at: int) -> int:
    """The next place at or before `at` that does not part a character from what is joined to it."""
    for place in range(at, max(-1, at - _STEPS), -1):
        if not _is_joined(text, place):
            return place
    return at


def _is_joined(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    next_one, last = text[at], text[at - 1]
    return (
        unicodedata.category(next_one)[0] == "M"
        or next_one in _JOINERS
        or last == "\u200d"
        or "\U0001f3fb" <= next_one <= "\U0001f3ff"
        or (_is_half_a_flag(next_one) and _halves_before(text, at) % 2 == 1)
    )


def _is_half_a_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _halves_before(text: str, at: int) -> int:
    """How many halves of flags stand in a row before a place."""
    return sum(1 for _ in takewhile(_is_half_a_flag, reversed(text[max(0, at - 2 * _STEPS) : at])))


_FILLER, _PRAISE, _FUNCTION = (frozenset(each.split()) for each in (FILLER, PRAISE, FUNCTION_WORDS))
_KNOWN = _FILLER | _PRAISE | _FUNCTION
_YES_OR_NO, _TIME = frozenset(YES_OR_NO.split()), frozenset(TIME.split())
_LONGEST = 80
_UNSPACED = re.compile(rf"(?:{'|'.join(FILLER_UNSPACED)}|[，、！!。～~ ])+")
_POLITE = re.compile(
    r"(?:please )?(?:let me know if|feel free to|don't hesitate|(?:i )?hope (?:this|that) helps|(?:i )?hope you"
    r"|is there anything else|i'm happy to help|happy to help|glad to help|i'd be happy to|looking forward to"
    r"|great question|good question|what a great|sag bescheid|melde dich, wenn|don't worry|no worries|never mind"
    r"|(?:so )?sorry for the (?:late|delayed|slow) |(?:good|nice|great|lovely) to (?:see|meet|hear from) you"
    r"|(?:i'm )?(?:so |very )?sorry to hear|(?:i )?apologi[sz]e for|how (?:have|are) you"
    r"|have a (?:great|good|nice|lovely) "
    r"|n'hésite[sz]? pas|no dudes en|si necesitas algo|me alegro)\b"
)
_THANKS = re.compile(r"(?:many |big |and )?(?:thanks|thank you|thx|danke|merci|gracias)\b(?! to\b)[^:;]{0,70}$")
_GREAT = re.compile(
    r"that(?:'s| is) (?:a |so |such a |really )?(?:great|good|awesome|amazing|nice|wonderful)(?: \w+)?[.! ]*$"
)
_CALLS = frozenset(
    [
        "thanks",
        "thank",
        "thx",
        "hi",
        "hey",
        "hello",
        "wow",
        "bye",
        "goodbye",
        "congrats",
        "congratulations",
        "happy",
        "that's",
        "danke",
    ]
)
_NEGATION = re.compile(r"\b(?:not|never|nicht|kein\w*|pas)\b|n't\b")

_GREETING = "|".join(GREETING.split())
_GREETED = re.compile(
    rf"\s{{0,20}}(?i:{_GREETING})"
    r"(?: (?i:there|all|everyone|team|morning|afternoon|evening|morgen|tag|abend|zusammen|días|tardes)){0,2}"
    r"(?P<name>(?: [A-Z][\w'’\-]{1,20}){1,2})?\s?[,!.:;–\-\n]{1,3}\s{1,5}(?=\S)"
)
_OPENER = re.compile(
    rf"(?i:{'|'.join(each.strip() for each in OPENERS.split('|'))})\s?[,:–!.]\s{{1,3}}(?=\S)"
    r"|(?i:hi|hey|hello),? (?=(?i:can|could|would|will|i|i'm|im|we|what|how|where|when|who|is|are|do|please)\b)"
    r"|(?i:actually,?|(?:please )?(?:remember|note|keep in mind|be aware)(?: that|,)|just so you know,?) (?=\w)"
)


def informative_in(text: str) -> list[str]:
    """The sentences that say something, each once, without greetings and openers."""
    _, rest = greeted(text)
    bare = (without_opener(sentence) for sentence in sentences_in(rest))
    return list(dict.fromkeys(sentence for sentence in bare if not is_filler(sentence)))


def is_filler(sentence: str) -> bool:
    """Whether it is a greeting, a thank you, praise or the like, and nothing else."""
    if len(sentence) > _LONGEST:
        return False
    words = words_of(sentence)
    if not words or _UNSPACED.fullmatch(sentence):
        return True
    small = sentence.lower().replace("’", "'")
    if any(map(str.isdigit, sentence)) or (len(words) < 3 and not _YES_OR_NO.isdisjoint(words)):
        return False
    names = _names_in(sentence)
    if (_POLITE.match(small) or _THANKS.match(small) or _GREAT.match(small)) and not names:
        return True
    unknown = [word for word in words if word not in _KNOWN and word not in names]
    said = not (_FILLER | _PRAISE).isdisjoint(words) and (not _NEGATION.search(small) or words == ["not", "bad"])
    return said and not unknown and len(names) <= (words[0] in _CALLS)


def _names_in(sentence: str) -> set[str]:
    """The words behind the first one that have a capital and may be names, in lower case."""
    found = {word.strip(".,!?;:\"'()").rstrip("’") for word in sentence.split()[1:]}
    return {
        word.lower() for word in found if word[:1].isupper() and word.lower() not in _KNOWN | {"i'll", "i'd", "i've"}
    }


def greeted(text: str) -> tuple[str, str]:
    """Whom a message greets by name, if anybody, and the message without the greeting."""
    found = _GREETED.match(text[:200])
    if not found:
        return "", text
    return (found["name"] or "").strip(), capitalised(text[found.end() :])


def without_opener(sentence: str) -> str:
    """The sentence without a first word that only leads to it."""
    found = _OPENER.match(sentence[:60])
    rest = sentence[found.end() :] if found else ""
    return capitalised(rest) if len(rest.split()) > 2 or len(rest) > 20 else sentence


def capitalised(text: str) -> str:
    """The text with a capital at its start, of the same length; an address or a name such as iPhone stays."""
    first = text.partition(" ")[0]
    is_word = first.isalpha() and first.islower() and len(text[:1].upper()) == 1
    return text[:1].upper() + text[1:] if is_word else text


"""So many characters of a sentence are looked at; no more of it is ever kept."""

_SCORED_WORD = re.compile(r"\d[\d.,:]*\d(?![\w\-/])|\w[\w'’.\-/@+#%€$]*")
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+|\b[\w.+\-]{1,64}@[\w\-]{1,64}\.[\w.\-]{1,64}")
_QUOTED = re.compile(r"[\"“„«「『]([^\"“”„«»「」『』]{2,80})[\"”“»」』]")
_FOREIGN = re.compile(r"[ァ-ヴー]{2,20}|(?<![A-Za-z])[A-Za-z][A-Za-z0-9]{1,20}")
_SCRIPTS_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_STOP, _DECIDED, _TASK, _CLOCK_TIME = (
    frozenset(STOP.split()),
    frozenset(DECIDED.split()),
    frozenset(TASK.split()),
    frozenset(TIME.split()),
)
_FINITE, _NO_NAMES = frozenset(FINITE.split()), frozenset(f"{NO_NAMES} {STOP}".split())
_PERSONAL = frozenset(FIRST_PERSON.split()) | frozenset(STANDING.split())


def addresses_in(sentence: str) -> frozenset[str]:
    return frozenset(address.rstrip(".,;:)") for address in ADDRESS.findall(sentence))


def facts_in(sentence: str) -> frozenset[str]:
    """What it names: people and things by a capital, days, numbers, ids, addresses, titles between quotes."""
    return _facts_in(sentence[:_READ])


@lru_cache(maxsize=1024)
def _facts_in(sentence: str) -> frozenset[str]:
    found = {day.name for day in days_in(sentence)}
    found |= addresses_in(sentence)
    found |= set(_QUOTED.findall(sentence))
    found |= set(_FOREIGN.findall(sentence)) if _SCRIPTS_WITHOUT_SPACES.search(sentence) else set()
    words = [word.rstrip(".'’-/") for word in _SCORED_WORD.findall(sentence)]
    found |= {word for word in words if any(map(str.isdigit, word)) or any(map(str.isupper, word[1:]))}
    found |= {word for word in words[1:] if _may_be_name(word)}
    if len(words) > 1 and _may_be_name(words[0]) and words[1] in _FINITE:
        found.add(words[0])  # what begins a sentence has a capital anyway
    return frozenset(found)


def _may_be_name(word: str) -> bool:
    return word[:1].isupper() and normalise_word(word) not in _STOP and word.lower() not in _NO_NAMES


def salience(sentence: str) -> float:
    """From 0 for filler up; what counts are the facts, and what was decided or is to be done."""
    return _worth(sentence[:_READ])


@lru_cache(maxsize=1024)
def _worth(sentence: str) -> float:
    if is_filler(sentence):
        return 0.0
    words = set(words_of(sentence))
    total = 2.0 * len(facts_in(sentence)) + 4.0 * decides(sentence) + 3.0 * assigns(sentence)
    total += (not _CLOCK_TIME.isdisjoint(words)) + (not _PERSONAL.isdisjoint(words))
    return total + 0.5 + 0.05 * min(len(words - _STOP), 20)


def is_informative(sentence: str) -> bool:
    """Whether it names something, or says what was decided or is to be done."""
    return bool(facts_in(sentence)) or decides(sentence) or assigns(sentence)


def decides(sentence: str) -> bool:
    """Whether it tells what was decided, rather than asks or doubts it."""
    return (
        not is_question(sentence) and _has(sentence, _DECIDED, DECIDED_PHRASES) and not _has(sentence, _UNDECIDED, ())
    )


_MUST = re.compile(
    r"\b(?:[Ii]|[Ww]e|(?!It\b|This\b|That\b)[A-Z][a-z]{1,20}) must (?!not\b|be\b|have\b|say\b|admit\b)"
    r"|\b[Ii](?:['’]ll| will) (?!be\b|have\b|not\b|never\b|always\b)"
    r"|\b(?:have|has) to (?!say\b|admit\b|do with\b|be\b)"
)
_UNDECIDED = frozenset(UNDECIDED.split())


def assigns(sentence: str) -> bool:
    """Whether it tells what is to be done."""
    return _has(sentence, _TASK, TASK_PHRASES) or _MUST.search(sentence[:_READ]) is not None


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’») ").endswith(("?", "？", "؟"))


def _has(sentence: str, words: frozenset[str], phrases: tuple[str, ...]) -> bool:
    small = sentence[:_READ].lower().replace("’", "'")
    return not words.isdisjoint(words_of(small)) or any(map(small.__contains__, phrases))
