"""The marks of JSON in all the forms in which models write them."""

import re

from ctxwrap.patterns import lazy_pattern

ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
OPENERS, CLOSERS = "{｛[［", "}｝]］"
BRACES = "{｛"
COMMAS = ",;，；、"
COLON = r"(?:=>|->|[:=：＝])"
ELLIPSES = ("...", "…")

LITERALS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "none", "nil", "undefined", "nan", "infinity", "-infinity", "+infinity")),
    **dict.fromkeys(("true", "yes"), True),
    **dict.fromkeys(("false", "no"), False),
}

CLOSING = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": '”“"',
    "”": '”“"',
    "„": '”“"',
    "‟": '”“"',
    "‘": "’‘'",
    "’": "’‘'",
    "＂": "＂",
    "＇": "＇",
    "«": "»",
    "「": "」",
}
"""The quotes that may close a string, for each that may open it."""

QUOTES = "".join(CLOSING)
QUOTE = f"[{re.escape(''.join(sorted({*QUOTES, *''.join(CLOSING.values())})))}]"
GAP = rf"[\s{ZERO_WIDTH}]*+"

_COMMENT = 400
BLOCK_COMMENT = rf"/\*[^*]{{0,{_COMMENT}}}+(?:\*(?!/)[^*]{{0,{_COMMENT}}}+){{0,20}}+\*/"
_NEVER_BLANK = frozenset("{}[],:\"'0123456789abcdefghijklmnopqrstuvwxyz")
_BLANK = lazy_pattern(rf"(?:[\s{ZERO_WIDTH}]|//[^\n]{{0,{_COMMENT}}}|#[^\n]{{0,{_COMMENT}}}|{BLOCK_COMMENT})*")


def skip(text: str, at: int) -> int:
    """Behind white space of any kind, and comments."""
    if at < len(text) and text[at] in _NEVER_BLANK:
        return at
    match = _BLANK.match(text, at)
    return match.end() if match else at


def skip_commas(text: str, at: int) -> int:
    """Behind the commas that stand here, one or more, and what is blank between them."""
    at = skip(text, at)
    while is_at(text, at, COMMAS):
        at = skip(text, at + 1)
    return at


def is_at(text: str, at: int, marks: str) -> bool:
    """Whether one of `marks` stands here."""
    return at < len(text) and text[at] in marks
