"""Where the trailer begins: the separator alone at the start of a line, with the JSON behind it."""

from ctxwrap.protocol.text import SEPARATOR

_BLANK = " \t"
SPACE = " \t\r\n"


def find_trailer(text: str, start: int = 0, *, fresh_line: bool = True) -> int:
    """Where the first separator at or behind `start` stands that a trailer follows or may yet follow, else -1.

    `fresh_line` says whether `text` itself begins at the start of a line.
    """
    at = text.find(SEPARATOR, start)
    while at >= 0:
        if _starts_line(text, at, fresh_line) and _opens_json(text, at + len(SEPARATOR)):
            return at
        at = text.find(SEPARATOR, at + 1)
    return -1


def last_trailer(text: str) -> int:
    """Where the last separator stands that a trailer may follow, else -1."""
    last, at = -1, find_trailer(text)
    while at >= 0:
        last, at = at, find_trailer(text, at + 1)
    return last


def safe_length(text: str, fresh_line: bool) -> int:
    """How much of `text` can be shown now: what no continuation could make part of a trailer.

    White space at the end is held, too, since a trailer takes the white space before it along.
    """
    keep = len(text)
    partial = _partial_separator(text)
    if partial and _starts_line(text, keep - partial, fresh_line):
        keep -= partial
    return len(text[:keep].rstrip(SPACE))


def _starts_line(text: str, at: int, fresh_line: bool) -> bool:
    line = text.rfind("\n", 0, at) + 1
    return not text[line:at].strip(_BLANK) and (line > 0 or fresh_line)


def _opens_json(text: str, at: int) -> bool:
    while text[at : at + 1] and text[at] in SPACE:
        at += 1
    return text[at : at + 1] in ("{", "`", "")


def _partial_separator(text: str) -> int:
    """Length of the longest end of `text` that begins, but does not complete, the separator."""
    if "<" not in text[1 - len(SEPARATOR) :]:
        return 0
    for length in range(min(len(SEPARATOR) - 1, len(text)), 0, -1):
        if text.endswith(SEPARATOR[:length]):
            return length
    return 0
