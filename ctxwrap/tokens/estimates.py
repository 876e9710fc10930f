"""Tokens without a tokenizer: characters weighed by script, or another encoding's count and how far it is off."""

import collections
import re
from functools import lru_cache
from math import ceil

from ctxwrap.tokens.encodings import Encode, count_with
from ctxwrap.tokens.families import Family

_ASCII = ((str.islower, 0.22), (str.isupper, 0.45), (str.isdigit, 0.75), (" ".__eq__, 0.12), (str.isspace, 0.9))
_PUNCTUATION = 0.5
_RUN = 0.7
"""Per character of what looks like no language: keys, hashes, encoded bytes."""

_BLOCKS = (
    (0x0250, 1.4, 1.7),  # Latin letters with marks
    (0x0370, 1.0, 1.5),
    (0x0400, 0.46, 1.0),  # Greek
    (0x0530, 0.33, 0.53),  # Cyrillic
    (0x0590, 1.0, 1.5),
    (0x0780, 0.43, 0.95),  # Hebrew, Arabic
    (0x0900, 1.5, 2.0),
    (0x0E00, 0.42, 1.2),  # the scripts of India
    (0x0E80, 0.43, 1.0),  # Thai
    (0x1100, 1.0, 2.0),
    (0x1200, 0.8, 1.4),  # Korean
    (0x2000, 1.0, 2.0),
    (0x2E80, 1.3, 1.5),  # punctuation, arrows, symbols
    (0x3040, 0.75, 1.0),
    (0x3100, 0.9, 1.15),  # kana
    (0xA000, 0.8, 1.15),  # Chinese characters
    (0xAC00, 1.0, 2.0),
    (0xD7B0, 0.8, 1.4),  # Korean
    (0x10000, 1.0, 1.2),
    (0x110000, 1.9, 2.6),  # emoji, rare characters
)
"""The end of each range of characters, and the tokens of one of them in o200k_base and in the encodings before it,
fitted to texts of our own."""

_LONG_RUN = re.compile(r"[0-9A-Za-z+/=]{25,}")
_DIGITS = re.compile(r"[0-9]{1,3}")


def estimated(family: Family, encode: Encode | None, text: str) -> int:
    """The tokens of a text for a family, through the base's encoding if that is here."""
    if not text:
        return 0
    share = len(text.encode("ascii", "ignore")) / len(text)
    count = count_with(encode, text) if encode else weighed(text, family.base)
    tokens = count * (family.latin * share + family.other * (1 - share))
    if family.single_digits:
        groups = _DIGITS.findall(text)
        tokens += sum(map(len, groups)) - len(groups)
    return ceil(tokens)


def weighed(text: str, base: str = "o200k_base") -> float:
    """About as many tokens as an encoding has, from nothing but the characters."""
    runs = sum(map(len, _LONG_RUN.findall(text)))
    rest = _LONG_RUN.sub("", text) if runs else text
    newest = base == "o200k_base"
    return runs * _RUN + sum(_weight(character, newest) * times for character, times in collections.Counter(rest).items())


@lru_cache(maxsize=4096)
def _weight(character: str, newest: bool) -> float:
    if character.isascii():
        return next((weight for is_one, weight in _ASCII if is_one(character)), _PUNCTUATION)
    return next(new if newest else old for end, new, old in _BLOCKS if ord(character) < end)
