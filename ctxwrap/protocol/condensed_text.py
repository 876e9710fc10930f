"""Text from which parts are removed: white space around them is reduced, and source positions are kept."""

from typing import NamedTuple

SPACE = " \t\r\n"
_SPACE_OR_NOTHING = ("", *SPACE)


class _Space(NamedTuple):
    """White space and its position."""

    text: str = ""
    at: int = 0

    @property
    def height(self) -> tuple[int, int]:
        return self.text.count("\n"), len(self.text)


class CondensedText:
    """The remaining text, with reduced white space around removed parts."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._space: list[str] = []
        """White space directly before `at`."""
        self.at = 0
        """The number of source characters processed."""
        self._before = _Space()
        self._is_cut = False
        self._has_spoken = False
        self.follows_cut = False
        """Whether text follows a removed part."""
        self.spans: list[tuple[int, int]] = []
        """Source positions of the remaining text, in order."""

    def say(self, text: str) -> None:
        """Add text, holding back its final white space."""
        body = text.rstrip(SPACE)
        if body:
            words = body.lstrip(SPACE)
            self._pass(body[: len(body) - len(words)])
            for space in self._gap():
                self._give(space.text, space.at)
            self._give(words, self.at)
            self.at += len(words)
            self._space.clear()
            self.follows_cut |= self._is_cut
            self._is_cut, self._has_spoken = False, True
        self._pass(text[len(body) :])

    def passes(self, text: str) -> bool:
        """Add text if it passes unchanged; return whether it did."""
        if self._is_cut or self._space or text[-1:] in _SPACE_OR_NOTHING:
            return False
        end = self.at + len(text)
        if self.spans and self.spans[-1][1] == self.at:
            self.spans[-1] = self.spans[-1][0], end
        else:
            self.spans.append((self.at, end))
        self.at = end
        self._has_spoken = True
        return True

    def cut(self, length: int) -> None:
        """Remove `length` characters here."""
        before, self._before = self._before if self._is_cut else _Space(), self._kept()
        self._before = max(before, self._before, key=lambda space: space.height)
        self._space.clear()
        self.at += length
        self._is_cut = True

    def take(self) -> str:
        """Return the text added since the last call."""
        said = "".join(self._out)
        self._out.clear()
        return said

    def end(self) -> str:
        """Return the rest, including white space unless it follows a removed part."""
        if not self._is_cut:
            space = self._kept()
            self._give(space.text, space.at)
            self._space.clear()
        return self.take()

    def _pass(self, space: str) -> None:
        if space:
            self._space.append(space)
            self.at += len(space)

    def _kept(self) -> _Space:
        text = "".join(self._space)
        return _Space(text, self.at - len(text))

    def _give(self, text: str, at: int) -> None:
        if not text:
            return
        self._out.append(text)
        if self.spans and self.spans[-1][1] == at:
            self.spans[-1] = self.spans[-1][0], at + len(text)
        else:
            self.spans.append((at, at + len(text)))

    def _gap(self) -> tuple[_Space, ...]:
        """Return the white space between two words: that with more lines, and the second word's indentation."""
        before, after = self._before, self._kept()
        if not self._is_cut:
            return (after,)
        lines = after.text.rfind("\n") + 1
        indent = _Space(after.text[lines:], after.at + lines) if lines else _Space()
        if not self._has_spoken:
            return (indent,)
        if after.height >= before.height:
            return (after,)
        return before._replace(text=before.text[: before.text.rfind("\n") + 1] or before.text), indent
