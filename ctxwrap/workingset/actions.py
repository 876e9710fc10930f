"""Removes working-set actions, which a model writes as YAML, from its answer while that streams.

A block is a fenced `yaml` code block, or lines at the start of a line outside of code, that hold nothing but actions:
`action:` with a known name first, then other known keys, comments and blank lines. Everything else stays text.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.origin import CondensedText
from ctxwrap.types import ParsedReply, TextStream
from ctxwrap.workingset.requests import ACTIONS, requests_in_text

_KEYS = ("action", "path", "priority", "why", "role", "truncate_strategy", "max_lines")
_ACTION = lazy_pattern(rf"""action:[ \t]+["']?(?:{"|".join(ACTIONS)})["']?\s*""")
_KEY = lazy_pattern(rf"({'|'.join(_KEYS)}):[ \t]+[^\s|>&*!{{\[@%`]")
_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})([^`]*)")
_FENCE_BEGINS = lazy_pattern(r" {0,3}(?:`{1,2}|`{3,}[^`]*|~{1,2}|~{3,}.*)?")
_LONGEST_LINE, _LONGEST_FENCE = 1200, 100
_LONGEST_BLOCK, _MOST_BLOCKS = 16 * 1024, 20
"""Blocks beyond these limits are text."""


class ActionStream:
    """A text stream without actions; `is_copy` says whether a block only repeats a text of the request.

    The output does not depend on how the text is cut into chunks. A line is held back while it may belong to a block.
    """

    def __init__(self, inner: TextStream, is_copy: Callable[[str], bool]) -> None:
        self._inner, self._is_copy = inner, is_copy
        self._voice = CondensedText()
        self._shown: list[str] = []
        self._blocks: list[str] = []
        self._state: Literal["text", "code", "fenced", "bare"] = "text"
        """Outside of code, in other code, or in a possible block of actions, with or without a fence."""
        self._fence = ""
        self._line = ""
        """The unfinished line, while it may belong to a block."""
        self._passes = False
        """Whether the rest of the line is text."""
        self._held: list[str] = []
        """The lines of a possible block, or comments that may begin one."""
        self._between: list[str] = []
        """Comments and blank lines after an action: they belong to a bare block if another action follows."""
        self._size = 0
        """The characters of both."""
        self._keys: set[str] = set()
        """The keys of its last action so far."""
        self._compared = 0
        """The number of blocks that were searched for in the request, which may be long."""
        self._reading: ParsedReply | None = None

    def feed(self, chunk: str) -> str:
        return self._show(self._take(self._inner.feed(chunk)))

    def passes(self, chunk: str) -> bool:
        """Never: every line is checked first."""
        return False

    def hides(self, chunk: str) -> bool:
        return self._inner.hides(chunk)

    def close(self) -> str:
        if self._reading is not None:
            return ""
        text = self._take(self._inner.close())
        if self._line:
            self._take_line(self._line)
        if self._state == "bare":
            self._end_bare()
        self._release()
        text = self._show(text + self._voice.end())
        reading = self._inner.reading
        self._reading = reading._replace(visible="".join(self._shown), actions=tuple(self._blocks))
        return text

    def whole(self, text: str) -> str:
        return self.feed(text) + self.close()

    @property
    def reading(self) -> ParsedReply:
        self.close()
        assert self._reading is not None
        return self._reading

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        return list(_composed(self._inner.spans, self._voice.spans))

    def _show(self, text: str) -> str:
        self._shown.append(text)
        return text

    def _take(self, text: str) -> str:
        for piece in _lines(text):
            is_whole = piece.endswith("\n")
            if self._passes:
                self._voice.say(piece)
                self._passes = not is_whole
                continue
            self._line += piece
            if is_whole:
                self._take_line(self._line)
            elif not self._may_matter(self._line):
                line, self._line = self._line, ""
                self._pass(line)
                self._passes = True
        return self._voice.take()

    def _may_matter(self, line: str) -> bool:
        """Whether a line with this beginning may be a fence, or belong to a block."""
        if self._state == "code":
            return len(line) <= _LONGEST_FENCE and not line.strip(f" \t\r{self._fence[0]}")
        if len(line) <= _LONGEST_FENCE and _FENCE_BEGINS.fullmatch(line):
            return True
        if len(line) > _LONGEST_LINE or self._compared >= _MOST_BLOCKS:
            return False
        is_comment = line[:1] == "#" and line[:2] != "##"
        if self._state == "text":
            return is_comment or _may_be_action(line)
        if is_comment or not line.strip() or "---".startswith(line.rstrip()):
            return True
        if not self._keys or (self._state == "bare" and self._between):
            return _may_be_action(line)
        key, colon, _ = line.partition(":")
        return _may_be_action(line) or (key in _KEYS[1:] if colon else any(name.startswith(key) for name in _KEYS))

    def _take_line(self, line: str) -> None:
        self._line = ""
        if not self._may_matter(line.removesuffix("\n")):
            self._pass(line)
            return
        fence = _FENCE.fullmatch(line.rstrip()) if len(line) <= _LONGEST_FENCE else None
        if self._state == "text":
            self._begin(line, fence[1] if fence else "", fence[2].strip().lower() if fence else "")
        elif fence and self._state != "bare":
            self._close_code(line, fence[1], fence[2])
        elif self._state == "code" or not self._belongs(line):
            if self._state == "bare":
                self._end_bare()
                self._take_line(line)
            else:
                self._pass(line)

    def _begin(self, line: str, fence: str, info: str) -> None:
        """Handle a line outside of code that may begin a block."""
        if _ACTION.fullmatch(line):
            self._state, self._keys = "bare", {"action"}
            self._hold(line)
        elif fence:
            self._release()
            self._fence = fence
            is_ours = info in ("yaml", "yml") and self._compared < _MOST_BLOCKS
            self._state, self._keys = "fenced" if is_ours else "code", set()
            self._hold(line)
            if not is_ours:
                self._release()
        elif line[0] == "#" and self._size + len(line) <= _LONGEST_BLOCK:
            self._hold(line)
        else:
            self._pass(line)

    def _close_code(self, line: str, fence: str, info: str) -> None:
        """Handle a fence inside of a code block: its end, or text."""
        if info.strip() or not fence.startswith(self._fence):
            self._pass(line)
            return
        self._hold(line)
        if self._state == "fenced" and self._is_block():
            self._cut()
        self._release()
        self._state = "text"

    def _belongs(self, line: str) -> bool:
        """Add a line to the block if it continues that; returns whether it does."""
        if self._size + len(line) > _LONGEST_BLOCK:
            return False
        key = _KEY.match(line)
        if key is None:
            is_filler = not line.strip() or line[0] == "#" or line.strip() == "---"
            if is_filler:
                self._size += len(line)
                (self._between if self._state == "bare" else self._held).append(line)
            return is_filler
        if key[1] == "action":
            if not _ACTION.fullmatch(line) or (self._keys and "path" not in self._keys):
                return False
            self._keys = {"action"}
        elif not self._keys or key[1] in self._keys or self._between:
            return False
        self._keys.add(key[1])
        self._held += self._between
        self._between.clear()
        self._hold(line)
        return True

    def _hold(self, line: str) -> None:
        self._held.append(line)
        self._size += len(line)

    def _pass(self, line: str) -> None:
        """Show a line, or the beginning of one; it ends a block."""
        if self._state == "bare":
            self._end_bare()
        if self._state == "fenced":
            self._state = "code"
        self._release()
        self._voice.say(line)

    def _end_bare(self) -> None:
        if self._is_block():
            self._cut()
        self._release()
        self._state = "text"
        between, self._between = self._between, []
        for line in between:
            self._take_line(line)

    def _is_block(self) -> bool:
        """Whether the held lines are actions only, and not copied from the request."""
        if "path" not in self._keys:
            return False
        text = self._actions()
        requests = requests_in_text(text)
        lines = sum(_ACTION.fullmatch(line) is not None for line in self._held)
        if len(requests) != lines or any(each.fault or not each.path for each in requests):
            return False
        self._compared += 1
        return not self._is_copy(text.strip())

    def _actions(self) -> str:
        """The held lines without their fences."""
        return "".join(self._held[1:-1] if self._state == "fenced" else self._held)

    def _cut(self) -> None:
        self._blocks.append(self._actions())
        self._voice.cut(sum(map(len, self._held)))
        self._held.clear()

    def _release(self) -> None:
        """Show the held lines."""
        for line in self._held:
            self._voice.say(line)
        self._held.clear()
        self._size = 0


def _lines(text: str) -> list[str]:
    """The lines of a text, with their line feeds."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _may_be_action(line: str) -> bool:
    """Whether a line with this beginning may be the first of an action."""
    name = line[len("action:") :].strip(" \t\r\n\"'")
    return "action:".startswith(line[: len("action:")]) and any(each.startswith(name) for each in ACTIONS)


def _composed(first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans of a text after two cuts; `second` has positions in the text that `first` leaves."""
    at, kept = 0, 0
    for start, end in first:
        until = kept + end - start
        while at < len(second) and second[at][0] < until:
            left = max(second[at][0], kept), min(second[at][1], until)
            if left[0] < left[1]:
                yield start + left[0] - kept, start + left[1] - kept
            if second[at][1] > until:
                break
            at += 1
        kept = until
