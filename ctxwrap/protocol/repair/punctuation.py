"""JSON with the punctuation of other languages: comments, commas too many, their literals, numbers and white space."""

import re

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.numerals import han_number, in_ascii
from ctxwrap.protocol.repair.effort import spend
from ctxwrap.protocol.repair.marks import BLOCK_COMMENT, COMMAS, ELLIPSES, GAP, LITERALS, ZERO_WIDTH

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
"""How long a number may be."""
_MARKS = {"｛": "{", "｝": "}", "［": "[", "］": "]"}
_NUMBER = lazy_pattern(r"(?P<sign>[+-]?)0*+(?P<whole>\d*)(?P<rest>(?:\.\d+)?(?:[eE][+-]?\d+)?)[fFdDlL]?", re.ASCII)
STRICT_NUMBER = lazy_pattern(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)


def punctuated(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with JSON's own punctuation, and the names of what was mended. Strings stay as they are."""
    names: dict[str, None] = {}

    def mended(match: re.Match[str]) -> str:
        spend(1)
        kind, token = match.lastgroup, match[0]
        if kind == "string" or (token == "," and match["last"] is None):
            return token
        if kind == "comments":
            # "and so on" is no comment, and only one who knows what came before can read it
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
    """A number or a literal as JSON has it; any other word as it is."""
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
