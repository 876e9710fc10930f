"""What is said of a text out of which something is taken: white space reduced, and where each word came from."""

from typing import NamedTuple

SPACE = " \t\r\n"
_SPACE_OR_NOTHING = ("", *SPACE)


class _Space(NamedTuple):
    """White space, and where it stands in the text."""

    text: str = ""
    at: int = 0

    @property
    def height(self) -> tuple[int, int]:
        return self.text.count("\n"), len(self.text)


class CondensedText:
    """What is said, with the white space around what is taken out of it reduced."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._space: list[str] = []
        """The white space right before `at`."""
        self.at = 0
        """How much of the text was said or taken out."""
        self._before = _Space()
        self._is_cut = False
        self._has_spoken = False
        self.follows_cut = False
        """Something was said behind what was taken out."""
        self.spans: list[tuple[int, int]] = []
        """From where to where the text was said, in order."""

    def say(self, text: str) -> None:
        """Say `text`, and keep back the white space at its end."""
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
        """Whether saying `text` gives just that; if so, it was said and taken."""
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
        """So many characters are taken out here."""
        before, self._before = self._before if self._is_cut else _Space(), self._kept()
        self._before = max(before, self._before, key=lambda space: space.height)
        self._space.clear()
        self.at += length
        self._is_cut = True

    def take(self) -> str:
        """What was said since the last time."""
        said = "".join(self._out)
        self._out.clear()
        return said

    def end(self) -> str:
        """The rest, white space included unless it follows what was taken out."""
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
        """The white space between two words: that with the most lines, and the indentation of the second."""
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
