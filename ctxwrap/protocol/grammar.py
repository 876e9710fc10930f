"""Regular expressions for text that is not complete yet: they match, too, where the text ends in the middle of them."""

import re

from ctxwrap.patterns import lazy_pattern


def char(some: str) -> str:
    """A character of a class."""
    return rf"(?:{some}|\Z)"


def chars(some: str, least: int, most: int) -> str:
    """So many characters of a class, as many as there are."""
    return rf"(?:{some}{{{least},{most}}}+|{some}{{0,{least - 1}}}+\Z)" if least else rf"{some}{{0,{most}}}+"


def literal(text: str) -> str:
    return "".join(char(re.escape(each)) for each in text)


def word(text: str) -> str:
    """`text` in upper or lower case."""
    return f"(?i:{literal(text)})"


def words(*some: str) -> str:
    return either(*map(word, some))


def either(*parts: str) -> str:
    """The first part that matches, and none of the others then."""
    return f"(?>{'|'.join(parts)})"


def times(part: str, least: int, most: int) -> str:
    """So many times, as often as it goes."""
    return f"(?:{part}){{{least},{most}}}+"


def maybe(part: str) -> str:
    return times(part, 0, 1)


def named(name: str, part: str) -> str:
    return f"(?P<{name}>{part})"


def pattern(*parts: str, last: str) -> re.Pattern[str]:
    """All `parts` and then a character `last`; if that group is empty, the text has ended before."""
    return lazy_pattern("".join(parts) + named("last", char(last)))
