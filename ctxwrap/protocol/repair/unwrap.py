"""What models put around and over the JSON of a trailer, taken off again."""

import html
import json
import re
from collections.abc import Callable

from ctxwrap.protocol.repair.keys import KNOWN_KEY

_MARKDOWN_ESCAPE = re.compile(r"\\\\|\\([_*\[\]{}()#+\-.!|<>~`])")
_LOOKS_MARKDOWN = re.compile(r"""\\_\w+"\s*:|[:,]\s*\\[\[{]""")
_FENCE = re.compile(r"[`~]{1,5}\s*\w*")


def unwrapped(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` from its first brace or key on, without what lies over it, and the names of what was taken off."""
    names: list[str] = []
    text = text.strip().lstrip("\ufeff\u200b\u2060").strip()
    for name, take_off in _WRAPPINGS.items():
        bare = take_off(text)
        if bare != text:
            names.append(name)
            text = bare
    before, text = _split_at_start(text)
    if before:
        names.append("code-fence" if _FENCE.fullmatch(before) else "markup" if before[0] == "<" else "text-before")
    return text, tuple(names)


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


def _without_blockquote(text: str) -> str:
    quoted = text.startswith(">") and all(line.startswith(">") or not line.strip() for line in text.split("\n"))
    return re.sub(r"(?m)^> ?", "", text) if quoted else text


def _without_html_escapes(text: str) -> str:
    return html.unescape(text) if re.match(r"[^{]{0,200}\{\s*&quot;", text) else text


def _without_markdown_escapes(text: str) -> str:
    return _MARKDOWN_ESCAPE.sub(lambda match: match[1] or match[0], text) if _LOOKS_MARKDOWN.search(text) else text


def _decoded_once(text: str) -> str:
    """The JSON inside of a JSON string."""
    if not re.match(r'"\{(?:\\"|\\n)', text):
        return text
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


_WRAPPINGS: dict[str, Callable[[str], str]] = {
    "blockquote": _without_blockquote,
    "html-escapes": _without_html_escapes,
    "markdown-escapes": _without_markdown_escapes,
    "double-encoding": _decoded_once,
}
