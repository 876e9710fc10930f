"""Numbers as people write them: in the digits of any script, or in Chinese characters."""

import unicodedata

from ctxwrap.patterns import lazy_pattern

_HAN = {**{char: at for at, char in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2, "兩": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_NUMBER = lazy_pattern(rf"([{''.join(_HAN)}{''.join(_UNITS)}]{{1,9}})(?:[点點]([{''.join(_HAN)}]{{1,18}}))?")
_POINTS = {ord(point): "." for point in "．。٫·"}


def in_ascii(word: str) -> str:
    """`word` with the digits of its script, its points and its signs as ASCII has them."""
    if word.isascii():
        return word
    plain = "".join(str(unicodedata.decimal(char, char)) for char in word.translate(_POINTS))
    return unicodedata.normalize("NFKC", plain)


def han_number(word: str) -> str:
    """A number in Chinese characters, in digits; nothing if it is none."""
    match = _HAN_NUMBER.fullmatch(word)
    whole = _whole(match[1]) if match else None
    if match is None or whole is None:
        return ""
    return f"{whole}.{''.join(str(_HAN[char]) for char in match[2])}" if match[2] else str(whole)


def _whole(word: str) -> int | None:
    if not any(char in _UNITS for char in word):
        return int("".join(str(_HAN[char]) for char in word))
    total, digit, last = 0, -1, 10_000
    for char in word:
        if char in _HAN:
            if digit > 0:
                return None
            digit = _HAN[char]
        elif _UNITS[char] >= last or (digit < 0 and (total or char != "十")):
            return None
        else:
            last = _UNITS[char]
            total += last * (digit if digit > 0 else 1)
            digit = -1
    return total + max(digit, 0)
