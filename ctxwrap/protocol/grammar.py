"""Pattern parts that also match an incomplete end of streaming text: the separator's spellings, and numerals."""

import re
import unicodedata

from ctxwrap.language.patterns import lazy_pattern


def char(some: str) -> str:
    """Match a character of a class."""
    return rf"(?:{some}|\Z)"


def chars(some: str, least: int, most: int) -> str:
    """Match `least` to `most` characters of a class, possessively."""
    return rf"(?:{some}{{{least},{most}}}+|{some}{{0,{least - 1}}}+\Z)" if least else rf"{some}{{0,{most}}}+"


def literal(text: str) -> str:
    return "".join(char(re.escape(each)) for each in text)


def word(text: str) -> str:
    """Match `text` case-insensitively."""
    return f"(?i:{literal(text)})"


def words(*some: str) -> str:
    return either(*map(word, some))


def either(*parts: str) -> str:
    """Match the first alternative that fits, without backtracking."""
    return f"(?>{'|'.join(parts)})"


def times(part: str, least: int, most: int) -> str:
    """Match `least` to `most` times, possessively."""
    return f"(?:{part}){{{least},{most}}}+"


def maybe(part: str) -> str:
    return times(part, 0, 1)


def named(name: str, part: str) -> str:
    return f"(?P<{name}>{part})"


def pattern(*parts: str, last: str) -> re.Pattern[str]:
    """Match all `parts` and a character `last`; an empty `last` group means that the text ended before."""
    return lazy_pattern("".join(parts) + named("last", char(last)))


SEPARATOR = "<<<CONTEXT>>>"

# Every repetition is bounded, which bounds the work per position and the text that a stream holds back.
ZERO = r"\u200b-\u200d\u2060\ufeff\u00ad"
GAP = chars(rf"[ \t{ZERO}]", 0, 3)
SPACE = chars(rf"[\s{ZERO}]", 0, 64)
INDENT = chars(r"[ \t]", 0, 8)
LINE_END = chars(r"[ \t\r]", 0, 8) + char(r"\n")


def _chevron(signs: str, name: str, code: str) -> str:
    """Match an angle bracket, or its escape in HTML, Markdown and JSON."""
    entity = char("&") + maybe(literal("amp;")) + words(f"{name};", f"#{ord(signs[0])};", f"#x{code};")
    escape = char(r"\\") + either(char(signs[0]), words(f"u00{code}", f"x{code}"))
    return either(char(f"[{signs}]"), escape, entity)


LESSER, GREATER = "<＜〈〈⟨《≪«‹❮", ">＞〉〉⟩》≫»›❯"
LESS = maybe(char("`")) + _chevron(LESSER, "lt", "3c") + GAP
MORE = GAP + _chevron(GREATER, "gt", "3e") + maybe(char("`") + maybe(literal("{=html}")))
BEHIND_NAME = maybe(char("[ _-]") + words("snapshot", "state")) + GAP + maybe(char(":"))
NAME = word("context") + BEHIND_NAME
COLOUR = char("\x1b") + char(r"\[") + chars(r"[\d;]", 0, 12) + char("m")
SIGN = rf"(?:_|[^\w\s\x1b&\\\[\](){{}}=|【】「」『』\"'“”‘’,.;:!?{LESSER}-])"
"""A sign or emoji that decorates a line and begins neither a separator nor JSON."""
BEFORE = (
    INDENT
    + maybe(chars("[|-]", 1, 2) + char(r"[ \t]"))
    + times(either(COLOUR, chars(rf"(?:[ \t]|{SIGN})", 1, 16)), 0, 3)
)
AFTER = times(either(COLOUR, chars(rf"(?:[:\s{ZERO}]|(?![`~>]){SIGN})", 1, 64)), 0, 3)
OPENERS, CLOSERS = "[({=|【「『-", "])}=|】」』-"
SPELLING = either(
    BEFORE
    + either(
        times(LESS, 2, 7) + NAME + times(MORE, 0, 7),
        LESS + NAME + times(MORE, 1, 7),
        NAME + times(MORE, 2, 7),
        literal("CONTEXT") + chars(rf"(?:[: \t]|{SIGN})", 0, 16) + char(r"\n"),
    ),
    chars(rf"[ \t#>*_`~{ZERO}]", 0, 8)
    + chars(f"[{re.escape(OPENERS)}]", 1, 7)
    + GAP
    + NAME
    + GAP
    + chars(f"[{re.escape(CLOSERS)}]", 1, 7),
)
DECORATED = SPELLING + AFTER

KEYS = "version", "runtime", "memory"
PROSE = rf"(?!(?i:{'|'.join(KEYS)})\s?:)" + chars(r"[^\n{]", 1, 160) + char("(?<=[:：])") + char(r"\n") + SPACE
WRAPPING = (
    maybe(char("[>|-]") + GAP)
    + maybe(
        char("<") + named("tag", char(r"\w") + chars(r"[\w:-]", 0, 40)) + chars(r"[^<>\n]", 0, 40) + char(">") + SPACE
    )
    + maybe(named("inner", chars("[`~]", 1, 16)) + chars(r"\w", 0, 10) + SPACE)
    + maybe(char(r"[\[\\]") + SPACE)
)
QUOTE = maybe(char("""["'“”‘’]"""))
KEY = maybe(literal("---") + LINE_END) + QUOTE + words(*KEYS) + QUOTE + GAP
SNAPSHOT = WRAPPING + either(KEY, maybe(char('"')))

ANY_QUOTE = r"""(?:\\?["'“”‘’＂`]|&quot;|&#34;)"""
_OWN = "version|runtime|memory|capabilities|active[_ -]?task|core|working|ephemeral|dropped|decay|startup_at"
KEY_SIGNS = ":=："
OWN_KEY = lazy_pattern(rf"\b({_OWN}){ANY_QUOTE}?\s{{0,4}}[{KEY_SIGNS}]", re.IGNORECASE)
"""A key that other JSON hardly ever has."""


_HAN = {**{char: at for at, char in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2, "兩": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_NUMBER = lazy_pattern(rf"([{''.join(_HAN)}{''.join(_UNITS)}]{{1,9}})(?:[点點]([{''.join(_HAN)}]{{1,18}}))?")
_POINTS = {ord(point): "." for point in "．。٫·"}


def in_ascii(word: str) -> str:
    """Convert digits, decimal points and signs to ASCII."""
    if word.isascii():
        return word
    plain = "".join(str(unicodedata.decimal(char, char)) for char in word.translate(_POINTS))
    return unicodedata.normalize("NFKC", plain)


def han_number(word: str) -> str:
    """Convert a Chinese numeral to digits, or return ""."""
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
