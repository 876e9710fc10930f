"""Reads values with the punctuation of other languages: quotes, brackets, comments, literals and numbers."""

import re
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import han_number, in_ascii
from ctxwrap.protocol.repair.strict import BLOCK_COMMENT, COMMAS, ELLIPSES, GAP, LITERALS, ZERO_WIDTH, Unreadable, spend
from ctxwrap.protocol.repair.strict import skip as skip_blank
from ctxwrap.protocol.repair.tokens import decode_string, scan_string
from ctxwrap.protocol.vocabulary import MAX_DEPTH

_TOKEN = lazy_pattern(
    rf"""
    (?P<string>   "(?:[^"\\]|\\.)*+"? )
    | (?P<comments> //[^\n]* | \#[^\n]* | {BLOCK_COMMENT} )
    | (?P<commas>   [{COMMAS}](?:{GAP}[{COMMAS}])* (?P<last>{GAP}(?=[}}\]｝］]))? )
    | (?P<marks>    => | -> | [=：＝｛｝［］] )
    | (?P<spaces>   [^\S \t\r\n]+ | [{ZERO_WIDTH}]+ | (?:\\[nrt])++(?=[\s"{{}}\[\],]|\Z) )
    | (?P<word>     [^\s"{{}}\[\],:;，；、：＝=｛｝［］{ZERO_WIDTH}]++ )
    """,
    re.VERBOSE | re.DOTALL,
)
_LONGEST = 60
"""Maximum length of a number."""
_MARKS = {"｛": "{", "｝": "}", "［": "[", "］": "]"}
_NUMBER = lazy_pattern(r"(?P<sign>[+-]?)0*+(?P<whole>\d*)(?P<rest>(?:\.\d+)?(?:[eE][+-]?\d+)?)[fFdDlL]?", re.ASCII)
STRICT_NUMBER = lazy_pattern(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def repunctuate(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace foreign punctuation by JSON's, and name the repairs. Strings stay unchanged."""
    names: dict[str, None] = {}

    def mended(match: re.Match[str]) -> str:
        spend(1)
        kind, token = match.lastgroup, match[0]
        if kind == "string" or (token == "," and match["last"] is None):
            return token
        if kind == "comments":
            # "and so on" is not a comment: reading it needs the previous state
            names["comments"] = None
            return token if any(mark in token for mark in ELLIPSES) else " "
        if kind == "word":
            return plain_word(token, names)
        names[str(kind)] = None
        if kind == "commas":
            return "," if match["last"] is None else ""
        return " " if kind == "spaces" else _MARKS.get(token, ":")

    return _TOKEN.sub(mended, text), tuple(names)


def plain_word(word: str, names: dict[str, None]) -> str:
    """Return a number or literal in JSON form; other words unchanged."""
    if word in ("null", "true", "false") or len(word) > _LONGEST or STRICT_NUMBER.fullmatch(word):
        return word
    if word.lower() in LITERALS:
        names["literals"] = None
        return {None: "null", True: "true", False: "false"}[LITERALS[word.lower()]]
    if not word.isascii():
        spend(2)
        if not any(char == "两" or char.isnumeric() for char in word):
            return word
    number = _NUMBER.fullmatch(han_number(word) or in_ascii(word))
    if number is None or not (number["whole"] or number["rest"].startswith(".")):
        return word
    names["numbers"] = None
    return f"{number['sign'].strip('+')}{number['whole'] or '0'}{number['rest']}"


_STRING = lazy_pattern(
    r'"""(?P<triple>(?:[^"\\]|\\.|"(?!""))*+)"""|' + r"'''(?P<triples>(?:[^'\\]|\\.|'(?!''))*+)'''"
    r'|"(?P<double>(?:[^"\\]|\\.)*+)"|\'(?P<single>(?:[^\'\\\n]|\\.)*+)\'|`(?P<back>(?:[^`\\]|\\.)*+)`',
    re.DOTALL,
)
_MARK = lazy_pattern(r"=>|->|:=|::|[:=：＝]")
_COMMAS = ",;，；、"
_WORD = lazy_pattern(r"[^\s\"'`{}\[\]()（）,;，；、:：=＝｛｝［］]{1,60}+")
_NAME = lazy_pattern(r":?([^\W\d][\w.-]{0,59}+):?")
_CLOSERS = {"{": "}｝", "｛": "}｝", "[": "]］", "［": "]］", "(": ")）", "（": ")）"}
_ALL_CLOSERS = "}｝]］)）"
_LITERALS = {"null": None, "true": True, "false": False}
_DIGITS = 60
_SCALARS = (str, int, float)


class BareWord(str):
    """An unquoted word that is no number or literal; it may be a key."""

    __slots__ = ()


class Relaxed(NamedTuple):
    """A value and its end."""

    value: Any
    end: int


def state_starts(text: str) -> list[int]:
    """Return where a state may begin: at the first bracket of each kind, including a class name before it."""
    found = (re.search(pattern, text) for pattern in (r"(?<![\w.])[\w.]{0,60}+\(|\(", r"\[", r"[{｛]"))
    return sorted(match.start() for match in found if match)


def relaxed_value(text: str, at: int = 0) -> Relaxed:
    """Read the value at `at`; raise Unreadable if its end or meaning would be a guess."""
    value, end = _value(text, skip_space(text, at), MAX_DEPTH)
    if isinstance(value, BareWord):
        raise Unreadable("a word stands without quotes")
    return Relaxed(value, end)


def skip_space(text: str, at: int) -> int:
    """Skip white space and comments, but not "and so on", which needs the previous state."""
    end = skip_blank(text, at)
    if end - at > 3 and any(mark in text[at:end] for mark in ELLIPSES):
        raise Unreadable("something was left out")
    return end


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    spend(4)
    if depth == 0:
        raise Unreadable(f"it is nested deeper than {MAX_DEPTH}")
    char = text[at : at + 1]
    if char in _CLOSERS:
        return _container(text, at, depth)
    string = _STRING.match(text, at + (char in ("u", "b") and text[at + 1 : at + 2] in ("'", '"')))
    if string is not None:
        return _text(string), string.end()
    word = _WORD.match(text, at)
    if word is None:
        raise Unreadable("a value is missing")
    following = text[word.end() : word.end() + 1]
    if following in ("(", "{") and following and _NAME.fullmatch(word[0]):  # a class or function call around it
        return _container(text, word.end(), depth, named=True)
    return _scalar(word[0]), word.end()


def _text(string: re.Match[str]) -> str:
    if string["double"] is not None:
        try:
            return scan_string(string.string, string.start() + 1, False)[0] if "\\" in string[0] else string[0][1:-1]
        except ValueError:
            pass
    raw = next(group for group in string.groups() if group is not None)
    return decode_string(raw)[0]


def _scalar(word: str) -> Any:
    plain = plain_word(word, {})
    if plain in _LITERALS:
        return _LITERALS[plain]
    if not STRICT_NUMBER.fullmatch(plain):
        return BareWord(word)
    return float(plain) if not plain.lstrip("-").isdigit() else int(plain[:_DIGITS])


_TEXTS = frozenset(
    ("version", "id", "type", "content", "active_task", "tags", "name", "scope", "datetime", "startup_at")
)


def convert_plain(text: str, key: str) -> Any:
    """Convert plain text to a number or literal, unless the key holds text."""
    value = _scalar(text) if key not in _TEXTS and len(text) <= 60 and not re.search(r"\s", text) else text
    return text if isinstance(value, BareWord) else value


def _container(text: str, at: int, depth: int, *, named: bool = False) -> tuple[Any, int]:
    opener, closers = text[at], _CLOSERS[text[at]]
    pairs: dict[str, Any] = {}
    values: list[Any] = []
    at = skip_space(text, at + 1)
    while text[at : at + 1] not in closers or at >= len(text):
        at, key, value = _element(text, at, depth)
        if key is None:
            values.append(value)
        elif key in pairs:
            raise Unreadable(f"{key} stands twice")
        else:
            pairs[key] = value
        at = _after_comma(text, at)
    if pairs and values:
        raise Unreadable("pairs and values stand in one place")
    if any(isinstance(value, BareWord) for value in (*values, *pairs.values())):
        raise Unreadable("a word stands without quotes")
    if named and len(values) == 1 and isinstance(values[0], dict):
        return values[0], at + 1  # a call with one argument
    return pairs if pairs or (not values and opener in "{｛") else values, at + 1


def _element(text: str, at: int, depth: int) -> tuple[int, str | None, Any]:
    """Read a pair or a value; return its end, its key if any, and the value."""
    symbol = text[at : at + 1] == ":"
    first, end = _value(text, at + symbol, depth - 1)
    if isinstance(first, list) and len(first) == 1 and isinstance(first[0], str):
        bracketed = _MARK.match(text, skip_space(text, end))
        first = first[0] if bracketed else first
    mark = _MARK.match(text, skip_space(text, end))
    if mark is None:
        return end, None, first
    if not isinstance(first, _SCALARS):
        raise Unreadable("a key is no word")
    value, end = _value(text, skip_space(text, mark.end()), depth - 1)
    return end, str(first), value


def _after_comma(text: str, at: int) -> int:
    """Return where the next element begins; raise Unreadable if none may."""
    end = skip_space(text, at)
    found = False
    while end < len(text) and text[end] in _COMMAS:
        end, found = skip_space(text, end + 1), True
    if not found and (end >= len(text) or text[end] not in _ALL_CLOSERS) and "\n" not in text[at:end]:
        raise Unreadable("a comma is missing")
    if end >= len(text):
        raise Unreadable("it has no end")
    return end
