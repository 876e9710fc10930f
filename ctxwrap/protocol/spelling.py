"""The separator as models really spell it, and how a snapshot opens behind it."""

import re

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.grammar import char, chars, either, literal, maybe, named, times, word, words

SEPARATOR = "<<<CONTEXT>>>"

# Every repetition is bounded: so is the work at each place, and what a stream has to hold back.
ZERO = r"\u200b-\u200d\u2060\ufeff\u00ad"
GAP = chars(rf"[ \t{ZERO}]", 0, 3)
SPACE = chars(rf"[\s{ZERO}]", 0, 64)
INDENT = chars(r"[ \t]", 0, 8)
LINE_END = chars(r"[ \t\r]", 0, 8) + char(r"\n")


def _chevron(signs: str, name: str, code: str) -> str:
    """An angle bracket, or what stands for it in HTML, Markdown and JSON."""
    entity = char("&") + maybe(literal("amp;")) + words(f"{name};", f"#{ord(signs[0])};", f"#x{code};")
    escape = char(r"\\") + either(char(signs[0]), words(f"u00{code}", f"x{code}"))
    return either(char(f"[{signs}]"), escape, entity)


LESSER, GREATER = "<＜〈〈⟨《≪«‹❮", ">＞〉〉⟩》≫»›❯"
LESS = maybe(char("`")) + _chevron(LESSER, "lt", "3c") + GAP
MORE = GAP + _chevron(GREATER, "gt", "3e") + maybe(char("`") + maybe(literal("{=html}")))
NAME = word("context") + maybe(char("[ _-]") + words("snapshot", "state")) + GAP + maybe(char(":"))
COLOUR = char("\x1b") + char(r"\[") + chars(r"[\d;]", 0, 12) + char("m")
SIGN = rf"(?:_|[^\w\s\x1b&\\\[\](){{}}=|【】「」『』\"'“”‘’,.;:!?{LESSER}-])"
"""A sign or an emoji that decorates a line, and begins neither a spelling nor JSON."""
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
OWN_KEY = lazy_pattern(rf"\b({_OWN}){ANY_QUOTE}?\s{{0,4}}[:=：]", re.IGNORECASE)
"""A key that hardly any other JSON has."""
