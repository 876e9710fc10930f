"""Places in a text, and how searches go over it.

A search is linear in the length of the text, whatever that is: where it tries something it looks at a bounded number of
characters, and what it takes it takes once.
"""

from collections.abc import Callable, Iterable, Iterator

from ctxwrap.patterns import lazy_pattern

Span = tuple[int, int]
Find = Callable[[str], Iterable[Span]]

FREE = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
"""A place where something may begin: not within a word, though an escape such as `\\n` may stand before it."""

_FREE = lazy_pattern(FREE)


def is_free(text: str, at: int) -> bool:
    return _FREE.match(text, at) is not None


def places(text: str, *words: str) -> Iterator[int]:
    """Where one of some words in small letters is, in whatever letters; not in the order of the text."""
    lower = text.lower() if text.isascii() else text.replace("İ", "I").lower()  # as long as the text is
    for word in words:
        at = lower.find(word)
        while at >= 0:
            yield at
            at = lower.find(word, at + len(word))


def in_order(spans: Iterable[Span], text: str = "") -> Iterator[Span]:
    """Spans by their places, without those that begin within another; one that was cut at `CUT` goes on in its text."""
    done = 0
    for first, last in sorted(spans):
        if first >= done:
            rest = _REST.match(text, last) if last - first >= CUT else None
            done = rest.end() if rest else last
            yield first, done


CUT = 255
"""So many characters of a value are looked at to decide what it is."""
_REST = lazy_pattern(r"[\w+/=.~%-]*+")


_ODD = lazy_pattern("[\u00a0\u2000-\u200a\u2010-\u2015\u202f\u2212\u3000\uff01-\uff5e]")
_FOLDED = {
    **dict.fromkeys((0xA0, 0x202F, 0x3000, *range(0x2000, 0x200B)), " "),
    **dict.fromkeys((0x2212, *range(0x2010, 0x2016)), "-"),
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
}


def folded(text: str) -> str:
    """A text of the same length, with plain spaces, hyphens and full-width characters in ASCII."""
    return text if text.isascii() else _ODD.sub(lambda odd: _FOLDED[ord(odd[0])], text)
