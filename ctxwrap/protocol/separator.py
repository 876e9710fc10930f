"""Where a trailer may begin: the separator as models really spell it, with the snapshot's opening behind it."""

import re
from typing import NamedTuple

from ctxwrap.protocol.grammar import char, chars, either, literal, maybe, named, pattern, times, word, words
from ctxwrap.protocol.text import SEPARATOR

SPACE = " \t\r\n"

# Every repetition is bounded: so is the work at each place, and what a stream has to hold back.
_ZERO = r"\u200b-\u200d\u2060\ufeff\u00ad"
_GAP = chars(rf"[ \t{_ZERO}]", 0, 3)
_SPACE = chars(rf"[\s{_ZERO}]", 0, 64)
_INDENT = chars(r"[ \t]", 0, 8)
_LINE_END = chars(r"[ \t\r]", 0, 8) + char(r"\n")


def _chevron(signs: str, name: str, code: str) -> str:
    """An angle bracket, or what stands for it in HTML and Markdown."""
    entity = char("&") + maybe(literal("amp;")) + words(f"{name};", f"#{ord(signs[0])};", f"#x{code};")
    return either(char(f"[{signs}]"), literal(f"\\{signs[0]}"), entity)


_LESS = maybe(char("`")) + _chevron("<＜〈〈⟨《≪«‹❮", "lt", "3c") + _GAP
_MORE = _GAP + _chevron(">＞〉〉⟩》≫»›❯", "gt", "3e") + maybe(char("`") + maybe(literal("{=html}")))
_NAME = word("context") + maybe(char("[ _-]") + words("snapshot", "state")) + _GAP + maybe(char(":"))
_SPELLING = either(
    times(_LESS, 2, 7) + _NAME + times(_MORE, 0, 7),
    _LESS + _NAME + times(_MORE, 1, 7),
    _NAME + times(_MORE, 2, 7),
    chars(r"[\[({=|【「『-]", 2, 7) + _GAP + _NAME + _GAP + chars(r"[\])}=|】」』-]", 2, 7),
)
_DECORATED = chars(rf"[ \t>#*_`~{_ZERO}]", 0, 8) + _SPELLING + chars(rf"[:*_\s{_ZERO}]", 0, 64)

_RULE = _INDENT + either(*(chars(sign, 3, 80) for sign in ("-", r"\*", "_", "="))) + _LINE_END
_FENCE = _INDENT + named("fence", either(chars("`", 3, 16), chars("~", 3, 16)))
_INFO = chars(r"[^\n`<]", 0, 80)

_KEYS = "version", "runtime", "memory"
_PROSE = rf"(?!(?i:{'|'.join(_KEYS)})\s?:)" + chars(r"[^\n{]", 1, 160) + char("(?<=[:：])") + char(r"\n") + _SPACE
_WRAPPING = (
    maybe(char(">") + _GAP)
    + maybe(char("<") + char(r"\w") + chars(r"[^<>\n]", 0, 40) + char(">") + _SPACE)
    + maybe(named("inner", chars("[`~]", 1, 16)) + chars(r"\w", 0, 10) + _SPACE)
    + maybe(char(r"[\[\\]") + _SPACE)
)
_QUOTE = maybe(char("""["'“”‘’]"""))
_KEY = maybe(literal("---") + _LINE_END) + _QUOTE + words(*_KEYS) + _QUOTE + _GAP
_SNAPSHOT = _WRAPPING + either(_KEY, maybe(char('"')))
_NUMBER = _QUOTE + literal("2.") + char(r"\d") + _QUOTE
_VERSION = _QUOTE + word("version") + _QUOTE + _GAP + char(":") + _GAP + _NUMBER + _GAP + char(",")
_BARE = _INDENT + named("bare", char(r"\{")) + _SPACE + _VERSION + _SPACE + _QUOTE + words(*_KEYS) + _QUOTE + _GAP

_HEAD = pattern(
    maybe(_RULE + _SPACE),
    maybe(_FENCE + _INFO + char(r"\n") + _SPACE),
    either(named("separator", times(_DECORATED, 1, 2)) + maybe(_PROSE) + _SNAPSHOT, _BARE),
    last="[{｛:]",
)
_HEAD_IN_LINE = pattern(named("separator", literal(SEPARATOR)), _SPACE, _SNAPSHOT, last="[{｛:]")
_BLOCK_BEGINS = pattern(_FENCE, _INFO, last=r"\n")
_BLOCK_ENDS = pattern(_FENCE, chars(r"[ \t\r]", 0, 8), last=r"\n")
_GOES_ON = pattern(_SPACE, maybe(chars("<", 1, 3) + chars(r"[^<>\n]", 0, 60) + chars(">", 1, 3)), _SPACE, last=r"[^\0]")
"""More than white space and a closing tag."""
_SPOT = re.compile(
    rf"(?m)(?P<line>^[ \t]{{0,8}}+(?:(?P<tick>[`~])|[^\w\s]|[cC_]|\Z))|{SEPARATOR}|<(?=[{SEPARATOR}]{{0,12}}\Z)"
)
"""Where it is worth looking: lines that do not begin like prose, and the separator itself."""


class Place(NamedTuple):
    """Where a trailer may begin: `start` ends the visible text, at `end` begins what is to be read."""

    start: int
    end: int
    exact: bool = False
    """The separator is spelled as asked for and begins a line."""
    bare: bool = False
    """There is no separator."""
    in_block: bool = False


class Scan:
    """A walk through a text that finds its places; it can stop where the text ends for now, and go on with more."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        """What is before needs no second look, but for the character right before it."""
        self.places: list[Place] = []
        self._fence = ""

    def run(self, text: str, *, more: bool = False) -> int:
        """Go on to the end, or to where it depends on what follows; from the result on, `text` may be a trailer's.

        With `more` text to come, the first place is enough.
        """
        for spot in _SPOT.finditer(text, self.at):
            start = spot.start()
            if start < self.at:
                continue
            head = self._head(text, spot)
            if head is not None and head["last"]:
                self._add(head, more)
                if more and not self.places[0].in_block:
                    return start
            elif head is not None and more:
                self.at = start
                return start
            elif spot["tick"] and not self._pass_fence(text, start, more):
                self.at = start
                return len(text)
        self.at = len(text)
        return len(text)

    def forget(self, count: int) -> None:
        """Go on with a text that lacks its first `count` characters."""
        self.at -= count
        self.places = [place._replace(start=place.start - count, end=place.end - count) for place in self.places]

    def _head(self, text: str, spot: re.Match[str]) -> re.Match[str] | None:
        """The head at `spot`, complete or not. In a code block, a fence ends the block and wraps nothing."""
        if spot["line"] is None:
            return _HEAD_IN_LINE.match(text, spot.start())
        if self._fence and spot["tick"]:
            return None
        head = _HEAD.match(text, spot.start())
        return None if head is not None and self._fence and head["fence"] else head

    def _add(self, head: re.Match[str], more: bool) -> None:
        groups = head.groupdict()
        fence, inner, separator = groups.get("fence"), groups.get("inner"), groups.get("separator")
        self._fence = self._fence or fence or ""
        place = Place(
            start=head.start(),
            end=head.end("separator") if separator else head.start("bare"),
            exact=head.re is _HEAD and SEPARATOR in (separator or ""),
            bare=not separator,
            in_block=bool(self._fence),
        )
        self._fence = self._fence or inner or ""
        self.at = head.end()
        if not (more and self.places):
            self.places.append(place)

    def _pass_fence(self, text: str, start: int, more: bool) -> bool:
        """Mind the code block that begins or ends at `start`; False if it takes more text to tell.

        What stands in a code block behind which the text goes on is an example.
        """
        line = (_BLOCK_ENDS if self._fence else _BLOCK_BEGINS).match(text, start)
        if line is None or not line["last"]:
            return line is None or not more
        if not self._fence:
            self._fence = line["fence"]
        elif line["fence"].startswith(self._fence):
            if self.places and self.places[-1].in_block:
                following = _GOES_ON.match(text, line.end())
                if following is None or not following["last"]:
                    return not more
                while self.places and self.places[-1].in_block:
                    self.places.pop()
            self._fence = ""
        return True


def places(text: str) -> list[Place]:
    """Every place in `text` where a trailer may begin."""
    scan = Scan()
    scan.run(text + "\0")  # so that nothing seems to go on behind the end
    return scan.places
