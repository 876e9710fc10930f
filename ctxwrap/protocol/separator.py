"""Finds where a trailer may begin: the separator in its actual spellings, followed by the start of a snapshot."""

import re
from collections.abc import Iterator
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
"""The exact separator alone on its line, followed by anything."""
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
_TEXT_FOLLOWS = pattern(SPACE, maybe(_TAG), SPACE, last=_ANY)
"""More than white space and a closing tag."""
_CANDIDATE = lazy_pattern(
    r"(?m)(?P<line>^[ \t]{0,8}+(?![^\w\s{]{1,2}\n)(?:(?P<tick>[`~])|[^\w\s]|[cC_]|\Z))"
    rf"|{SEPARATOR}|<(?=[{SEPARATOR}]{{0,12}}\Z)"
)
"""Candidate positions: lines that do not begin like prose, and the separator itself."""
_FENCE_CANDIDATE = lazy_pattern(r"(?m)^[ \t]{0,8}+(?:[`~]|\Z)")

# What may follow the JSON of a snapshot.
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
_CLOSING_TAG = pattern(SPACE, _TAG, last=_ANY)
_CLOSING_TICKS = pattern(SPACE, named("ticks", chars("[`~]", 3, 16)), chars(r"[ \t\r]", 0, 8), last=r"\n")
_CLOSING_FENCE = pattern(
    SPACE,
    named("ticks", chars("[`~]", 3, 16)),
    chars(r"[ \t\r]", 0, 8),
    char(r"\n"),
    chars(r"[ \t\r]", 0, 8),
    last=r"\n",
)
_REPEATED_SEPARATOR = pattern(SPACE, named("separator", literal(SEPARATOR)), chars(r"[ \t\r*_#`:]", 0, 16), last=r"\n")
_CLOSING_NAMES = frozenset({"context", "snapshot", "state", "memory", "json", "output", "s", "ctxwrap-context"})
_CUT_HEAD = lazy_pattern(
    rf"[\s>#*_`~|/-]{{0,40}}{SEPARATOR}[\s:*_`~]{{0,64}}(?<=[\s:*_`~>])(?:(?<=[`~])\w{{0,10}})?\s{{0,64}}\Z"
)


def has_candidate(text: str, at: int) -> bool:
    """Whether a candidate position follows `at`, which is inside a line without one."""
    return next(_candidates(text, at), None) is not None


def _candidates(text: str, at: int) -> Iterator[re.Match[str]]:
    """Yield the candidates from `at` on: looked for only at lines and at `<`, which takes a fraction of a search."""
    line = at if not at or text[at - 1] == "\n" else _next_line(text, at)
    while True:
        sign = text.find("<", at, line)
        start = line if sign < 0 else sign
        if start > len(text):
            return
        if start == line:
            line = _next_line(text, line)
        found = _CANDIDATE.match(text, start)
        at = start + 1
        if found is not None:
            at = max(at, found.end())
            yield found


def _next_line(text: str, at: int) -> int:
    """Return the start of the next line; beyond the text if there is none."""
    return text.find("\n", at) + 1 or len(text) + 1


class SeparatorMatch(NamedTuple):
    """A possible trailer: the visible text ends at `start`, the snapshot begins at `end`."""

    start: int
    end: int
    object_at: int = -1
    """The position of the opening brace, if any."""
    exact: bool = False
    """The separator has the exact spelling and begins a line."""
    bare: bool = False
    """There is no separator."""
    fence: str = ""
    """The fence of the surrounding code block."""
    covers_fence: bool = False
    """The trailer includes the fence's opening."""
    ticks: str = ""
    """The fence or backticks between separator and JSON."""
    tag: str = ""
    """The tag between separator and JSON."""
    alone: bool = False
    """The separator is alone on its line, and no snapshot start follows."""

    def moved(self, by: int) -> "SeparatorMatch":
        at = self.object_at + by if self.object_at >= 0 else -1
        return SeparatorMatch(self.start + by, self.end + by, at, *self[3:])


class SeparatorScan:
    """Finds possible trailers in a text; it can pause at the end of the available text."""

    def __init__(self, at: int = 0, fence: str = "") -> None:
        self.at = at
        """Earlier text is done, except the character directly before."""
        self.fence = fence
        self.match: SeparatorMatch | None = None

    def run(self, text: str, *, more: bool = False) -> int:
        """Advance to the next match, the end, or a position that needs more text.

        From the returned position on, `text` may belong to a trailer.
        """
        self.match = None
        for candidate in _candidates(text, self.at):
            start = candidate.start()
            if start < self.at:
                continue
            head = self._head(text, candidate)
            if head is not None and not head["last"] and not more:
                head = head.re.match(text[start:] + "\0")  # the text ends here, so nothing can follow
                self.match = self.match_of(head).moved(start) if head is not None and head["last"] else None
            elif head is not None and head["last"]:
                self.match = self.match_of(head)
            if self.match is not None:
                self.at = start
                return start
            if head is not None and more:
                self.at = start
                return start
            if candidate["tick"] and not self._pass_fence(text, start, more):
                self.at = start
                return len(text)
        self.at = len(text)
        return len(text)

    def _head(self, text: str, candidate: re.Match[str]) -> re.Match[str] | None:
        """Return the possibly incomplete match at a candidate. Inside a code block, a fence ends the block."""
        if candidate["line"] is None:
            return _HEAD_IN_LINE.match(text, candidate.start())
        if self.fence and candidate["tick"]:
            return None
        head = _HEAD.match(text, candidate.start()) or _HEAD_ALONE.match(text, candidate.start())
        return None if head is not None and self.fence and head.groupdict().get("fence") else head

    def match_of(self, head: re.Match[str]) -> SeparatorMatch:
        groups, pattern = head.groupdict(), head.re.pattern
        separator = groups.get("separator")
        return SeparatorMatch(
            start=head.start(),
            end=head.end("separator") if separator else head.start("bare"),
            object_at=head.start("bare") if not separator else head.start("last") if head["last"] == "{" else -1,
            exact=pattern in (_HEAD.pattern, _HEAD_ALONE.pattern) and SEPARATOR in (separator or ""),
            alone=pattern == _HEAD_ALONE.pattern,
            bare=not separator,
            fence=self.fence or groups.get("fence") or "",
            covers_fence=not self.fence,
            ticks=groups.get("inner") or "",
            tag=groups.get("tag") or "",
        )

    def _pass_fence(self, text: str, start: int, more: bool) -> bool:
        """Track the code block that begins or ends at `start`; False if more text is needed."""
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
    text_follows: bool
    """More than white space and a closing tag follows."""


def block_end(text: str, at: int, fence: str, *, more: bool) -> BlockEnd | int | None:
    """Return the block's end, None if there is none, or the position of a line that needs more text."""
    for candidate in _FENCE_CANDIDATE.finditer(text, at):
        line = _BLOCK_ENDS.match(text, candidate.start())
        if line is None or (line["fence"] and not fence.startswith(line["fence"][: len(fence)])):
            continue
        if not line["last"]:
            return candidate.start() if more else None
        if not line["fence"].startswith(fence):
            continue
        following = _TEXT_FOLLOWS.match(text, line.end())
        text_follows = following is not None and bool(following["last"])
        return BlockEnd(candidate.start(), line.end(), text_follows) if text_follows or not more else candidate.start()
    return None


def strip_examples(text: str) -> str:
    """Remove code blocks that text follows."""
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


def json_continues(text: str, at: int, *, more: bool) -> bool | None:
    """Whether the JSON continues after its apparent end; None if more text is needed."""
    following = _CONTINUES.match(text, at)
    if following is None:
        return False
    return True if following["last"] else None if more else False


def closing_end(text: str, at: int, trailer: SeparatorMatch, *, more: bool) -> tuple[int, bool]:
    """Return where the closing marks after the JSON end, and whether that is certain."""
    if at == len(text):
        return at, not more
    closers = [_inline_ticks, _marks, _ticks, _tag, _separator]
    while closers:
        for closer in closers:
            found = closer(text, at, trailer, more)
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
    """The end of a closing mark, or -1 if more text is needed."""

    end: int


_WAIT = _Closing(-1)


def _matched(match: re.Match[str] | None, more: bool) -> _Closing | None:
    if match is None:
        return None
    end = match.end("ticks") if "ticks" in match.re.groupindex else match.start("last")
    return _Closing(end) if match["last"] or not more else _WAIT


def _marks(text: str, at: int, trailer: SeparatorMatch, more: bool) -> _Closing | None:
    return _matched(_MARKS.match(text, at), more)


def _tag(text: str, at: int, trailer: SeparatorMatch, more: bool) -> _Closing | None:
    match = _CLOSING_TAG.match(text, at)
    if match is None:
        return None
    name = (match["closes"] or "").lower()
    if name and (match["last"] or not more) and name not in _CLOSING_NAMES and name != trailer.tag.lower():
        return None
    return _matched(match, more)


def _inline_ticks(text: str, at: int, trailer: SeparatorMatch, more: bool) -> _Closing | None:
    """Match backticks on the line of the JSON, as many as before it."""
    ticks = trailer.ticks
    if not ticks or not (text.startswith(ticks, at) or (more and ticks.startswith(text[at:]))):
        return None
    return _Closing(at + len(ticks)) if text.startswith(ticks, at) else _WAIT


def _ticks(text: str, at: int, trailer: SeparatorMatch, more: bool) -> _Closing | None:
    """Match the end of a fence; without an open fence, only if it does not seem to begin a block."""
    is_open = trailer.fence or len(trailer.ticks) > 2
    return _matched((_CLOSING_TICKS if is_open else _CLOSING_FENCE).match(text, at), more)


def _separator(text: str, at: int, trailer: SeparatorMatch, more: bool) -> _Closing | None:
    """Match a repeated separator without a snapshot."""
    match = _REPEATED_SEPARATOR.match(text, at)
    if match is None:
        return None
    if match["separator"]:
        start = match.start("separator")
        head = _HEAD.match(text, start) or _HEAD_IN_LINE.match(text, start)
        if head is not None and (head["last"] or more):
            return None if head["last"] else _WAIT
    return _matched(match, more)


def is_bare_separator(text: str, at: int) -> bool:
    """Whether the rest of `text` is only a separator at the start of a line."""
    return _CUT_HEAD.match(text, at) is not None


def separator_in_line(text: str, at: int, end: int) -> int:
    """Return the next separator that a snapshot follows, also within a line; -1 if there is none."""
    while (at := text.find(SEPARATOR, at, end)) >= 0:
        head = _HEAD_IN_LINE.match(text, at)
        if head is not None and head["last"]:
            return at
        at += len(SEPARATOR)
    return -1


def separators_in(text: str, at: int) -> list[SeparatorMatch]:
    """Return every separator from `at` on that begins a line, also in code blocks and JSON."""
    scan = SeparatorScan()
    found = []
    for candidate in _candidates(text, at):
        if candidate["line"] is not None:
            head = _HEAD.match(text, candidate.start())
            if head is not None and head["last"] and head["separator"]:
                found.append(scan.match_of(head))
    return found
