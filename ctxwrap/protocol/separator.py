"""Where a trailer may begin: the separator as models really spell it, with the snapshot's opening behind it."""

import re
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import (
    AFTER,
    COLOUR,
    DECORATED,
    GAP,
    INDENT,
    KEYS,
    LINE_END,
    PROSE,
    QUOTE,
    SEPARATOR,
    SNAPSHOT,
    SPACE,
    char,
    chars,
    either,
    literal,
    maybe,
    named,
    pattern,
    times,
    word,
    words,
)

_RULE = INDENT + either(*(chars(sign, 3, 80) for sign in ("-", r"\*", "_", "="))) + LINE_END
_FENCE = INDENT + named("fence", either(chars("`", 3, 16), chars("~", 3, 16)))
_INFO = chars(r"[^\n`<]", 0, 80)

_NUMBER = QUOTE + literal("2.") + char(r"\d") + QUOTE
_VERSION = QUOTE + word("version") + QUOTE + GAP + char(":") + GAP + _NUMBER + GAP + char(",")
_BARE = INDENT + named("bare", char(r"\{")) + SPACE + _VERSION + SPACE + QUOTE + words(*KEYS) + QUOTE + GAP

_HEAD = pattern(
    maybe(_RULE + SPACE),
    maybe(_FENCE + _INFO + char(r"\n") + SPACE),
    either(named("separator", times(DECORATED, 1, 2)) + maybe(PROSE) + SNAPSHOT, _BARE),
    last="[{｛:]",
)
_HEAD_ALONE = pattern(
    maybe(_RULE + SPACE),
    chars(r"[ \t#>*_`~]", 0, 8),
    named("separator", literal(SEPARATOR) + chars(r"[ \t\r:*_`~#]", 0, 16) + char(r"\n")),
    SPACE,
    last=r"\S",
)
"""The separator as it is asked for, alone on its line, with anything at all behind it."""
_HEAD_IN_LINE = pattern(named("separator", literal(SEPARATOR) + AFTER), SNAPSHOT, last="[{｛:]")
_BLOCK_BEGINS = pattern(_FENCE, _INFO, last=r"\n")
_BLOCK_ENDS = pattern(_FENCE, chars(r"[ \t\r]", 0, 8), last=r"\n")
_ANY = r"(?s:.)"
_TAG = (
    chars("<", 1, 3)
    + either(
        char("/") + named("closes", chars(r"[\w:-]", 1, 40)),
        char("[|｜]") + chars(r"[^<>\n]", 1, 40),
        word("end") + r"(?![^\W_])",
    )
    + chars(r"[^<>\n]", 0, 40)
    + chars(">", 1, 3)
)
_GOES_ON = pattern(SPACE, maybe(_TAG), SPACE, last=_ANY)
"""More than white space and a closing tag."""
_SPOT = lazy_pattern(
    r"(?m)(?P<line>^[ \t]{0,8}+(?![^\w\s{]{1,2}\n)(?:(?P<tick>[`~])|[^\w\s]|[cC_]|\Z))"
    rf"|{SEPARATOR}|<(?=[{SEPARATOR}]{{0,12}}\Z)"
)
"""Where it is worth looking: lines of more than two marks that do not begin like prose, and the separator itself."""
_FENCE_SPOT = lazy_pattern(r"(?m)^[ \t]{0,8}+(?:[`~]|\Z)")

# What may stand behind the JSON of a snapshot.
_CONTINUES = pattern(
    SPACE,
    chars(r"[}\]]", 0, 16),
    SPACE,
    either(
        char("[,:]"),
        char('"') + chars(r"[\w -]", 1, 40) + char('"') + GAP + char(":"),
        char(r"[{\[]") + SPACE + char(r"""["'{\[]"""),
    ),
    last=_ANY,
)
_MARKS = pattern(SPACE, either(chars(r"[}\],;]", 1, 16), COLOUR), last=_ANY)
_TAG_BEHIND = pattern(SPACE, _TAG, last=_ANY)
_TICKS_BEHIND = pattern(SPACE, named("ticks", chars("[`~]", 3, 16)), chars(r"[ \t\r]", 0, 8), last=r"\n")
_FENCE_BEHIND = pattern(
    SPACE,
    named("ticks", chars("[`~]", 3, 16)),
    chars(r"[ \t\r]", 0, 8),
    char(r"\n"),
    chars(r"[ \t\r]", 0, 8),
    last=r"\n",
)
_SEPARATOR_BEHIND = pattern(SPACE, named("separator", literal(SEPARATOR)), chars(r"[ \t\r*_#`:]", 0, 16), last=r"\n")
_CLOSING_NAMES = frozenset({"context", "snapshot", "state", "memory", "json", "output", "s", "ctxwrap-context"})
_CUT_HEAD = lazy_pattern(
    rf"[\s>#*_`~|/-]{{0,40}}{SEPARATOR}[\s:*_`~]{{0,64}}(?<=[\s:*_`~>])(?:(?<=[`~])\w{{0,10}})?\s{{0,64}}\Z"
)


def has_spot(text: str, at: int) -> bool:
    """Whether it is worth looking anywhere from `at` on, which is in a line that is no such place."""
    return _SPOT.search(text, at) is not None


class SeparatorMatch(NamedTuple):
    """Where a trailer may begin: `start` ends the visible text, at `end` begins what is to be read."""

    start: int
    end: int
    object_at: int = -1
    """Where its brace stands, if it begins with one."""
    exact: bool = False
    """The separator is spelled as asked for and begins a line."""
    bare: bool = False
    """There is no separator."""
    fence: str = ""
    """What began the code block that it stands in."""
    covers_fence: bool = False
    """The block's beginning belongs to it."""
    ticks: str = ""
    """The fence, or the backticks, between the separator and the JSON."""
    tag: str = ""
    """The name of a tag between the separator and the JSON."""
    alone: bool = False
    """The separator stands alone on its line, and what follows does not begin like a snapshot."""

    def moved(self, by: int) -> "SeparatorMatch":
        at = self.object_at + by if self.object_at >= 0 else -1
        return self._replace(start=self.start + by, end=self.end + by, object_at=at)


class Scan:
    """A walk through a text that finds its places; it can stop where the text ends for now, and go on with more."""

    def __init__(self, at: int = 0, fence: str = "") -> None:
        self.at = at
        """What is before needs no second look, but for the character right before it."""
        self.fence = fence
        self.place: SeparatorMatch | None = None

    def run(self, text: str, *, more: bool = False) -> int:
        """Go on to the next place, to the end, or to where it depends on what follows.

        From the result on, `text` may be a trailer's.
        """
        self.place = None
        for spot in _SPOT.finditer(text, self.at):
            start = spot.start()
            if start < self.at:
                continue
            head = self._head(text, spot)
            if head is not None and not head["last"] and not more:
                head = head.re.match(text[start:] + "\0")  # nothing goes on behind the end
                self.place = self.place_of(head).moved(start) if head is not None and head["last"] else None
            elif head is not None and head["last"]:
                self.place = self.place_of(head)
            if self.place is not None:
                self.at = start
                return start
            if head is not None and more:
                self.at = start
                return start
            if spot["tick"] and not self._pass_fence(text, start, more):
                self.at = start
                return len(text)
        self.at = len(text)
        return len(text)

    def _head(self, text: str, spot: re.Match[str]) -> re.Match[str] | None:
        """The head at `spot`, complete or not. In a code block, a fence ends the block and wraps nothing."""
        if spot["line"] is None:
            return _HEAD_IN_LINE.match(text, spot.start())
        if self.fence and spot["tick"]:
            return None
        head = _HEAD.match(text, spot.start()) or _HEAD_ALONE.match(text, spot.start())
        return None if head is not None and self.fence and head.groupdict().get("fence") else head

    def place_of(self, head: re.Match[str]) -> SeparatorMatch:
        groups = head.groupdict()
        separator = groups.get("separator")
        return SeparatorMatch(
            start=head.start(),
            end=head.end("separator") if separator else head.start("bare"),
            object_at=head.start("bare") if not separator else head.start("last") if head["last"] == "{" else -1,
            exact=head.re.pattern in (_HEAD.pattern, _HEAD_ALONE.pattern) and SEPARATOR in (separator or ""),
            alone=head.re.pattern == _HEAD_ALONE.pattern,
            bare=not separator,
            fence=self.fence or groups.get("fence") or "",
            covers_fence=not self.fence,
            ticks=groups.get("inner") or "",
            tag=groups.get("tag") or "",
        )

    def _pass_fence(self, text: str, start: int, more: bool) -> bool:
        """Mind the code block that begins or ends at `start`; False if it takes more text to tell."""
        line = (_BLOCK_ENDS if self.fence else _BLOCK_BEGINS).match(text, start)
        if line is None or not line["last"]:
            return line is None or not more
        if not self.fence:
            self.fence = line["fence"]
        elif line["fence"].startswith(self.fence):
            self.fence = ""
        return True


class BlockEnd(NamedTuple):
    """The line that ends a code block."""

    start: int
    end: int
    goes_on: bool
    """More than white space and a closing tag follows."""


def block_end(text: str, at: int, fence: str, *, more: bool) -> BlockEnd | int | None:
    """Where the code block ends; None if it does not, or the line that it takes more text to judge."""
    for spot in _FENCE_SPOT.finditer(text, at):
        line = _BLOCK_ENDS.match(text, spot.start())
        if line is None or (line["fence"] and not fence.startswith(line["fence"][: len(fence)])):
            continue
        if not line["last"]:
            return spot.start() if more else None
        if not line["fence"].startswith(fence):
            continue
        following = _GOES_ON.match(text, line.end())
        goes_on = following is not None and bool(following["last"])
        return BlockEnd(spot.start(), line.end(), goes_on) if goes_on or not more else spot.start()
    return None


def without_examples(text: str) -> str:
    """`text` without the code blocks behind which it goes on."""
    kept, block, fence = list[str](), list[str](), ""
    lines = text.splitlines(keepends=True)
    last = max((at for at, line in enumerate(lines) if line.strip()), default=-1)
    for at, line in enumerate(lines):
        mark = _FENCE_MARK.match(line)
        block.append(line)
        if not fence:
            fence = mark[1] if mark else ""
        elif mark and mark[1].startswith(fence):
            fence = ""
            if at < last:
                block.clear()
        if not fence:
            kept += block
            block.clear()
    return "".join([*kept, *block])


_FENCE_MARK = lazy_pattern(r"[ \t]{0,8}(`{3,16}|~{3,16})")


def continues(text: str, at: int, *, more: bool) -> bool | None:
    """Whether the JSON goes on behind what looked like its end; None if it takes more text to tell."""
    following = _CONTINUES.match(text, at)
    if following is None:
        return False
    return True if following["last"] else None if more else False


def behind(text: str, at: int, place: SeparatorMatch, *, more: bool) -> tuple[int, bool]:
    """Where what closes a snapshot ends, from the end of its JSON on, and whether that is sure."""
    closers = [_quick_ticks, _marks, _ticks, _tag, _separator]
    while closers:
        for closer in closers:
            found = closer(text, at, place, more)
            if found is not None:
                break
        else:
            return at, True
        if found.end < 0:
            return at, False
        at = found.end
        closers.remove(closer)
    return at, True


class _Closing(NamedTuple):
    """Something that closes a snapshot; where it ends, or -1 if it takes more text to tell."""

    end: int


_WAIT = _Closing(-1)


def _matched(match: re.Match[str] | None, more: bool) -> _Closing | None:
    if match is None:
        return None
    end = match.end("ticks") if "ticks" in match.re.groupindex else match.start("last")
    return _Closing(end) if match["last"] or not more else _WAIT


def _marks(text: str, at: int, place: SeparatorMatch, more: bool) -> _Closing | None:
    return _matched(_MARKS.match(text, at), more)


def _tag(text: str, at: int, place: SeparatorMatch, more: bool) -> _Closing | None:
    match = _TAG_BEHIND.match(text, at)
    if match is None:
        return None
    name = (match["closes"] or "").lower()
    if name and (match["last"] or not more) and name not in _CLOSING_NAMES and name != place.tag.lower():
        return None
    return _matched(match, more)


def _quick_ticks(text: str, at: int, place: SeparatorMatch, more: bool) -> _Closing | None:
    """Backticks in the line of the JSON, as many as before it."""
    ticks = place.ticks
    if not ticks or not (text.startswith(ticks, at) or (more and ticks.startswith(text[at:]))):
        return None
    return _Closing(at + len(ticks)) if text.startswith(ticks, at) else _WAIT


def _ticks(text: str, at: int, place: SeparatorMatch, more: bool) -> _Closing | None:
    """The end of a fence; where none was opened, it is one only if it does not seem to begin a block."""
    is_open = place.fence or len(place.ticks) > 2
    return _matched((_TICKS_BEHIND if is_open else _FENCE_BEHIND).match(text, at), more)


def _separator(text: str, at: int, place: SeparatorMatch, more: bool) -> _Closing | None:
    """The separator once more, with no snapshot behind it."""
    match = _SEPARATOR_BEHIND.match(text, at)
    if match is None:
        return None
    if match["separator"]:
        start = match.start("separator")
        head = _HEAD.match(text, start) or _HEAD_IN_LINE.match(text, start)
        if head is not None and (head["last"] or more):
            return None if head["last"] else _WAIT
    return _matched(match, more)


def is_cut_head(text: str, at: int) -> bool:
    """Whether all that is left of `text` is a separator at the start of a line, and nothing of a snapshot."""
    return _CUT_HEAD.match(text, at) is not None


def separator_in_line(text: str, at: int, end: int) -> int:
    """Where the next separator stands, within a line or not, that a snapshot follows; -1 if there is none."""
    while (at := text.find(SEPARATOR, at, end)) >= 0:
        head = _HEAD_IN_LINE.match(text, at)
        if head is not None and head["last"]:
            return at
        at += len(SEPARATOR)
    return -1


def separated_places(text: str, at: int) -> list[SeparatorMatch]:
    """Every place from `at` on where a separator begins a line, in code blocks and JSON as well."""
    scan = Scan()
    found = []
    for spot in _SPOT.finditer(text, at):
        if spot["line"] is not None:
            head = _HEAD.match(text, spot.start())
            if head is not None and head["last"] and head["separator"]:
                found.append(scan.place_of(head))
    return found
