"""Text for a terminal."""

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` without the characters that move a cursor, colour a screen, or turn the direction of writing."""
    return _CONTROLS.sub("", text)
