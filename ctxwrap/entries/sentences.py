"""Sentences: a text of any script in the pieces that can stay or go, and cuts that spoil no character."""

import re
import unicodedata
from itertools import takewhile

from ctxwrap.entries.raw import Raw
from ctxwrap.entries.vocabulary import ABBREVIATIONS
from ctxwrap.language.dates import days_in

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


def in_one_line(raw: Raw) -> Raw:
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
