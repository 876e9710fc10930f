"""Splits raw messages into sentences, rates how informative they are, and detects filler."""

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
from ctxwrap.language.patterns import has_any, lazy_pattern
from ctxwrap.language.vocabulary import FIRST_PERSON, STANDING, STOP, TIME, split_phrases
from ctxwrap.language.words import normalise_word


class MessageSummary(str):
    """A short version of a message, for search only; nothing may be derived from it."""

    __slots__ = ()


class RawMessage(NamedTuple):
    """A message as it was said, the source of the context document."""

    number: int
    role: str
    text: str
    time: str = ""
    """ISO 8601."""
    speaker: str = ""
    """The author's name, if known."""

    @property
    def day(self) -> str:
        """The day as YYYY-MM-DD, or ""."""
        year, month, day = self.time[:4], self.time[5:7], self.time[8:10]
        return f"{year}-{month}-{day}" if len(day) == 2 and (year + month + day).isdecimal() else ""


class MemoryLine(NamedTuple):
    """A memory item, as the model, the user or a rule wrote it."""

    type: str
    """Such as fact, preference, decision, task or deadline."""
    content: str


def require_raw(entry: object) -> RawMessage:
    """Return the entry; raise `TypeError` for a summary: documents must not grow from summaries."""
    if type(entry) is RawMessage and type(entry.text) is str:  # as all but a mistake
        return entry
    if isinstance(entry, MessageSummary) or (isinstance(entry, RawMessage) and isinstance(entry.text, MessageSummary)):
        raise TypeError("expected a raw message, not a summary: documents grow from raw messages only")
    if not isinstance(entry, RawMessage):
        raise TypeError(f"expected a RawMessage, not a {type(entry).__name__}")
    return entry


MAX_HEAD, MAX_TAIL = 16_000, 8_000
"""Characters read from the start and the end of a text; the middle of a longer one is skipped."""

ELLIPSIS = "…"

_FENCE = lazy_pattern(r"^ {0,3}(?:```|~~~)")
_BULLET = lazy_pattern(r"^\s{0,40}(?:#{1,6}\s|>\s|[-*+•‣–]\s|\(?\d{1,3}[.)]\s|\[[ xX]\]\s)")
_GAP = lazy_pattern(r"(?<=[.!?…\"'”’»)\]*])\s+|(?<=[。！？؟۔।॥｡．።፧။])(?![」』”’）)])|(?<=[。！？｡][」』”’）)])")
_CLOSERS = "\"'”’»)]*」』）"
_ENDS = ".!?…。！？؟۔।॥｡．።፧။"
_LAST_WORD = lazy_pattern(r"[\w.\-]*$")
_ABBREVIATIONS = frozenset(ABBREVIATIONS.split())
_WORD = lazy_pattern(r"[\w'\-]+")
MAX_READ = 600
"""Characters read from a sentence."""
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
_MAX_MARKS = 64
"""Limit for combining marks of one character."""


def readable(text: str) -> str:
    """Remove unprintable characters, and the middle of a very long text."""
    if len(text) > MAX_HEAD + MAX_TAIL:
        text = f"{text[:MAX_HEAD]}\n{text[-MAX_TAIL:]}"
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() or each in _JOINERS else _blank(each) for each in text)
    )


def _blank(character: str) -> str:
    return "\n" if character in "\n\r\u2028\u2029\x0b\x0c\x85" else " "


def sentences_in(text: str) -> list[str]:
    """Return the sentences, one line each, without list marks and fenced code."""
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
    return " ".join(without_marks(line).split())


def without_marks(text: str) -> str:
    """Remove the marks of bold text and code."""
    return text.replace("**", "").replace("`", "")


def _is_symbol(sentence: str) -> bool:
    """Whether it contains an emoji or another symbol, not just punctuation."""
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
    """Whether the dot after `before` belongs to an abbreviation, an initial or a date."""
    found = _LAST_WORD.search(before)
    word = found[0].lower() if found else ""
    if word.isdecimal() and len(word) <= 2:
        return after[:1].islower() or bool(days_in(f"{word}. {after}"))
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i" and word.isascii())


def words_of(sentence: str) -> list[str]:
    """Return the words in lower case, up to the reading limit."""
    return words_in(sentence[:MAX_READ])


def words_in(text: str) -> list[str]:
    """Return the words of a text of any length in lower case."""
    return _WORD.findall(lowered(text))


def lowered(text: str) -> str:
    """The text in which words are looked for."""
    return text.lower().replace("’", "'")


def one_line(text: str, limit: int) -> str:
    return shorten(" ".join(readable(text).split()), limit)


def in_one_line(raw: RawMessage) -> RawMessage:
    """Make role and speaker fit in one line."""
    if raw.role in ("user", "assistant") and not raw.speaker:  # most are like that
        return raw
    return raw._replace(role=one_line(raw.role, 30), speaker=one_line(raw.speaker, 60))


def shorten(text: str, limit: int) -> str:
    """Shorten the text to `limit` characters with `…`, without splitting combined characters."""
    if len(text) <= limit:
        return text
    if limit < 1:
        return ""
    kept = text[: character_boundary(text, limit - 1)]
    border = kept.rfind(" ")
    return (kept[:border] if border > len(kept) * 2 // 3 else kept).rstrip(" ,;:–-") + ELLIPSIS


def character_boundary(text: str, at: int) -> int:
    """Return the nearest position up to `at` that does not split a combined character."""
    for place in range(at, max(-1, at - _MAX_MARKS), -1):
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
    """Count the flag halves in a row before a position."""
    return sum(1 for _ in takewhile(_is_half_a_flag, reversed(text[max(0, at - 2 * _MAX_MARKS) : at])))


_FILLER, _PRAISE, _FUNCTION = (frozenset(each.split()) for each in (FILLER, PRAISE, FUNCTION_WORDS))
_KNOWN = _FILLER | _PRAISE | _FUNCTION
_YES_OR_NO, _TIME = frozenset(YES_OR_NO.split()), frozenset(TIME.split())
_MAX_FILLER = 80
_UNSPACED = lazy_pattern(rf"(?:{'|'.join(split_phrases(FILLER_UNSPACED))}|[，、！!。～~ ])+")
_POLITE = lazy_pattern(
    r"(?:please )?(?:let me know if|feel free to|don't hesitate|(?:i )?hope (?:this|that) helps|(?:i )?hope you"
    r"|is there anything else|i'm happy to help|happy to help|glad to help|i'd be happy to|looking forward to"
    r"|great question|good question|what a great|sag bescheid|melde dich, wenn|don't worry|no worries|never mind"
    r"|(?:so )?sorry for the (?:late|delayed|slow) |(?:good|nice|great|lovely) to (?:see|meet|hear from) you"
    r"|(?:i'm )?(?:so |very )?sorry to hear|(?:i )?apologi[sz]e for|how (?:have|are) you"
    r"|have a (?:great|good|nice|lovely) "
    r"|n'hésite[sz]? pas|no dudes en|si necesitas algo|me alegro)\b"
)
_THANKS = lazy_pattern(r"(?:many |big |and )?(?:thanks|thank you|thx|danke|merci|gracias)\b(?! to\b)[^:;]{0,70}$")
_GREAT = lazy_pattern(
    r"that(?:'s| is) (?:a |so |such a |really )?(?:great|good|awesome|amazing|nice|wonderful)(?: \w+)?[.! ]*$"
)
_INTERJECTIONS_WORDS = """
    thanks thank thx hi hey hello wow bye goodbye congrats congratulations happy that's danke
"""
_INTERJECTIONS = frozenset(_INTERJECTIONS_WORDS.split())
_NEGATION = lazy_pattern(r"\b(?:not|never|nicht|kein\w*|pas)\b|n't\b")

_GREETING = "|".join(GREETING.split())
_GREETED = lazy_pattern(
    rf"\s{{0,20}}(?i:{_GREETING})"
    r"(?: (?i:there|all|everyone|team|morning|afternoon|evening|morgen|tag|abend|zusammen|días|tardes)){0,2}"
    r"(?P<name>(?: [A-Z][\w'’\-]{1,20}){1,2})?\s?[,!.:;–\-\n]{1,3}\s{1,5}(?=\S)"
)
_OPENER = lazy_pattern(
    rf"(?i:{'|'.join(split_phrases(OPENERS))})\s?[,:–!.]\s{{1,3}}(?=\S)"
    r"|(?i:hi|hey|hello),? (?=(?i:can|could|would|will|i|i'm|im|we|what|how|where|when|who|is|are|do|please)\b)"
    r"|(?i:actually,?|(?:please )?(?:remember|note|keep in mind|be aware)(?: that|,)|just so you know,?) (?=\w)"
)


def informative_in(text: str) -> list[str]:
    """Return the informative sentences once each, without greetings and openers."""
    _, rest = split_greeting(text)
    bare = (strip_opener(sentence) for sentence in sentences_in(rest))
    return list(dict.fromkeys(sentence for sentence in bare if not is_filler(sentence)))


def is_filler(sentence: str) -> bool:
    """Whether the sentence is only a greeting, thanks, praise or the like."""
    if len(sentence) > _MAX_FILLER:
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
    return said and not unknown and len(names) <= (words[0] in _INTERJECTIONS)


def _names_in(sentence: str) -> set[str]:
    """Return possible names, capitalised words after the first, in lower case."""
    found = {word.strip(".,!?;:\"'()").rstrip("’") for word in sentence.split()[1:]}
    return {
        word.lower() for word in found if word[:1].isupper() and word.lower() not in _KNOWN | {"i'll", "i'd", "i've"}
    }


def split_greeting(text: str) -> tuple[str, str]:
    """Return the name that a message greets, if any, and the message without the greeting."""
    found = _GREETED.match(text[:200])
    if not found:
        return "", text
    return (found["name"] or "").strip(), capitalise(text[found.end() :])


def strip_opener(sentence: str) -> str:
    """Remove an introductory word."""
    found = _OPENER.match(sentence[:60])
    rest = sentence[found.end() :] if found else ""
    return capitalise(rest) if len(rest.split()) > 2 or len(rest) > 20 else sentence


def capitalise(text: str) -> str:
    """Capitalise the first letter; addresses and names such as iPhone stay."""
    first = text.partition(" ")[0]
    is_word = first.isalpha() and first.islower() and len(text[:1].upper()) == 1
    return text[:1].upper() + text[1:] if is_word else text


_SCORED_WORD = lazy_pattern(r"\d[\d.,:]*\d(?![\w\-/])|\w[\w'’.\-/@+#%€$]*")
ADDRESS = lazy_pattern(r"\b(?:https?://|www\.)\S+|\b[\w.+\-]{1,64}@[\w\-]{1,64}\.[\w.\-]{1,64}")
_ADDRESS_HINTS = ("@", "://", "www.")
_QUOTED = lazy_pattern(r"[\"“„«「『]([^\"“”„«»「」『』]{2,80})[\"”“»」』]")
_FOREIGN = lazy_pattern(r"[ァ-ヴー]{2,20}|(?<![A-Za-z])[A-Za-z][A-Za-z0-9]{1,20}")
_SCRIPTS_WITHOUT_SPACES = lazy_pattern(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_DECIDED_PHRASES, _TASK_PHRASES = split_phrases(DECIDED_PHRASES), split_phrases(TASK_PHRASES)
_STOP, _DECIDED, _TASK = (frozenset(words.split()) for words in (STOP, DECIDED, TASK))
_FINITE, _NO_NAMES = frozenset(FINITE.split()), frozenset(f"{NO_NAMES} {STOP}".split())
_PERSONAL = frozenset(FIRST_PERSON.split()) | frozenset(STANDING.split())


def addresses_in(sentence: str) -> frozenset[str]:
    if not has_any(sentence, _ADDRESS_HINTS):  # as most
        return frozenset()
    return frozenset(address.rstrip(".,;:)") for address in ADDRESS.findall(sentence))


def facts_in(sentence: str) -> frozenset[str]:
    """Return what the sentence names: capitalised words, days, numbers, ids, addresses, quoted titles."""
    return _facts_in(sentence[:MAX_READ])


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
        found.add(words[0])  # the first word is capitalised anyway
    return frozenset(found)


def _may_be_name(word: str) -> bool:
    return word[:1].isupper() and normalise_word(word) not in _STOP and word.lower() not in _NO_NAMES


def salience(sentence: str) -> float:
    """Rate a sentence from 0 for filler upwards, by facts, decisions and tasks."""
    return _salience(sentence[:MAX_READ])


@lru_cache(maxsize=1024)
def _salience(sentence: str) -> float:
    if is_filler(sentence):
        return 0.0
    words = set(words_of(sentence))
    total = 2.0 * len(facts_in(sentence)) + 4.0 * decides(sentence) + 3.0 * assigns(sentence)
    total += (not _TIME.isdisjoint(words)) + (not _PERSONAL.isdisjoint(words))
    return total + 0.5 + 0.05 * min(len(words - _STOP), 20)


def decides(sentence: str) -> bool:
    """Whether it states a decision, without question or doubt."""
    return (
        not is_question(sentence) and _has(sentence, _DECIDED, _DECIDED_PHRASES) and not _has(sentence, _UNDECIDED, ())
    )


_MUST = lazy_pattern(
    r"\b(?:[Ii]|[Ww]e|(?!It\b|This\b|That\b)[A-Z][a-z]{1,20}) must (?!not\b|be\b|have\b|say\b|admit\b)"
    r"|\b[Ii](?:['’]ll| will) (?!be\b|have\b|not\b|never\b|always\b)"
    r"|\b(?:have|has) to (?!say\b|admit\b|do with\b|be\b)"
)
_UNDECIDED = frozenset(UNDECIDED.split())


def assigns(sentence: str) -> bool:
    """Whether it states a task."""
    return _has(sentence, _TASK, _TASK_PHRASES) or _MUST.search(sentence[:MAX_READ]) is not None


def is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’») ").endswith(("?", "？", "؟"))


def _has(sentence: str, words: frozenset[str], phrases: tuple[str, ...]) -> bool:
    small = sentence[:MAX_READ].lower().replace("’", "'")
    return not words.isdisjoint(words_of(small)) or any(map(small.__contains__, phrases))
