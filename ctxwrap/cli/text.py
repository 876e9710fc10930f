"""Text for a terminal."""

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` without the characters that move a cursor, colour a screen, turn the direction of writing, or are none."""
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """`text`, printable, with every run of white space as one space."""
    return " ".join(printable(text).split())
