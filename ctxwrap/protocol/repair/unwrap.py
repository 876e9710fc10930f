"""What models put around and over the JSON of a trailer, taken off again."""

import re

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.keys import KNOWN_KEY

_FENCE = lazy_pattern(r"[`~]{1,5}\s*\w*")


def unwrapped(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` from its first brace or key on, without what lies over it, and the names of what was taken off."""
    before, text = _split_at_start(text.strip().lstrip("\ufeff\u200b\u2060").strip())
    if not before or before == '"':  # the end of a string literal that was decoded
        return text, ()
    return text, ("code-fence" if _FENCE.fullmatch(before) else "markup" if before[0] == "<" else "text-before",)


def names_of_rest(rest: str, wrappings: tuple[str, ...]) -> tuple[str, ...]:
    """The names for what stands behind the JSON; the end of a wrapping has none of its own."""
    rest = rest.strip()
    if not rest or (wrappings and re.fullmatch(r"[\s`~}\])>]*(?:</\w[^>\n]*>)?[\s`~]*", rest)):
        return ()
    return ("code-fence",) if not rest.strip("`~") else ("text-after",)


def _split_at_start(text: str) -> tuple[str, str]:
    start = re.search(r"[{｛]", text)
    if start is None or KNOWN_KEY.match(text):
        return "", text
    return text[: start.start()].strip(), text[start.start() :]


def without_fence(text: str) -> str:
    """`text` without the code fence around it."""
    fenced = _FENCED.fullmatch(text.strip())
    return fenced[1] if fenced else text


_FENCED = lazy_pattern(r"(?:`{3,9}|~{3,9})\w*[ \t]*\n(.*?)\n[ \t]*(?:`{3,9}|~{3,9})", re.DOTALL)
