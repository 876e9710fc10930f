"""Undoes what was applied to a trailer as a whole: encodings, escapes, fences, and marks at line edges."""

import base64
import binascii
import quopri
import re
import urllib.parse
from collections.abc import Callable, Iterator
from html.entities import html5
from typing import NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.repair.strict import spend
from ctxwrap.protocol.repair.tokens import KNOWN_KEY, KNOWN_NAME

_MAX_LAYERS = 4
_MAX_TEXTS = 10


class UnwrappedText(NamedTuple):
    """A text, and the layers that were removed to get it."""

    text: str
    names: tuple[str, ...] = ()


def unwrap_layers(text: str) -> Iterator[list[UnwrappedText]]:
    """Yield `text`, then the texts below one layer, two layers, and so on; each text once."""
    seen = {text}
    level = [UnwrappedText(text)]
    for _ in range(_MAX_LAYERS + 1):
        yield level
        below: list[UnwrappedText] = []
        for over in level:
            spend(len(over.text) // 8 + over.text.count("\n"))
            for name, take_off in _LAYERS.items():
                for under in take_off(over.text):
                    if under not in seen and len(seen) < _MAX_TEXTS:
                        seen.add(under)
                        below.append(
                            UnwrappedText(under, (*over.names, name) if name not in over.names else over.names)
                        )
        if not below:
            return
        level = below


def plainest(texts: list[UnwrappedText]) -> UnwrappedText:
    """Return the first text, unless one below it has many more keys in JSON form."""
    best = max(texts, key=lambda bare: (_plain_keys(bare), -len(bare.names)))
    return best if _plain_keys(best) >= _plain_keys(texts[0]) + _MANY_KEYS else texts[0]


def _plain_keys(bare: UnwrappedText) -> int:
    return len({*_PLAIN_KEY.findall(bare.text)})


_PLAIN_KEY = lazy_pattern(rf'(?<!["\\])"({KNOWN_NAME})"\s{{0,9}}:')
_MANY_KEYS = 7


def is_literal(text: str) -> bool:
    """Whether `text` is a string literal, so that its escapes are not yet those of JSON."""
    quote = text[:1]
    return quote in ("'", '"') and text[-1:] == quote and _QUOTED_WHOLE.match(text) is not None and "\\" in text


_ESCAPED_KEY = lazy_pattern(rf"(?<!\\)\\++(?:[\"']|u0022|x22)(?:{KNOWN_NAME})\\++(?:[\"']|u0022|x22)")
_QUOTED_WHOLE = lazy_pattern(r"""["'`]\s{0,9}(?:\{|\\n\s{0,9}\{|\\+u007b)""")
_ESCAPE = lazy_pattern(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/"}
_EVEN_BEFORE_QUOTE = lazy_pattern(r'(?<!\\)(?:\\\\)++"')


def _unescaped(text: str) -> Iterator[str]:
    """Yield the text of a string literal; if the quotes contradict full escaping, only quotes were escaped."""
    quoted = _QUOTED_WHOLE.match(text) is not None
    if _STRINGS.fullmatch(text) and '"' in text[1:-1]:
        yield "".join(map(_literal, _ONE_STRING.findall(text)))
        return
    if not quoted and not _ESCAPED_KEY.search(text):
        return
    if not quoted and _EVEN_BEFORE_QUOTE.search(text):
        yield text.replace('\\"', '"')
        return
    inner = text[1:-1] if quoted and text[-1:] == text[0] else text
    if text[0] == "'" and "\\'" not in inner and "''" in inner:
        yield inner.replace("''", "'")
        return
    yield _literal(f'"{inner}"')


_ONE_STRING = lazy_pattern(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_STRINGS = lazy_pattern(r'(?:"(?:[^"\\]|\\.)*+"\s*+[+,.\\&]?\s*+)++', re.DOTALL)
"""One string, or several that are joined."""


def _literal(string: str) -> str:
    plain = _ESCAPE.sub(_meaning, string[1:-1])
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _meaning(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) > 1 and (code := int(escape[1:], 16)) < 0x110000:
        return chr(code)
    return _MEANINGS.get(escape, match[0])


_DOUBLED_KEY = lazy_pattern(rf"([\"'])\1(?:{KNOWN_NAME})\1\1(?!\1)")


def _undoubled(text: str) -> Iterator[str]:
    """Undo doubled quotes, as in CSV or SQL."""
    doubled = _DOUBLED_KEY.search(text)
    if doubled is not None:
        quote = doubled[1]
        inner = text[1:-1] if text[:1] == text[-1:] == quote and text[1:2] != quote else text
        yield inner.replace(quote * 2, quote)


_ENTITY = lazy_pattern(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,31}));")
_ENTITY_KEY = lazy_pattern(
    rf"&(?:amp;|#38;){{0,3}}(?:quot|#0*34|#[xX]0*22|apos|#0*39|#[xX]0*27);(?:{KNOWN_NAME})&", re.I
)
_QUOTE_ENTITY = lazy_pattern(r"&(?:quot|#0*34|#x0*22);", re.IGNORECASE)
_RAW_SIGN = lazy_pattern(r"[<>]|&(?!#\d{1,7};|#[xX][0-9a-fA-F]{1,6};|\w{2,31};)")


def _without_entities(text: str) -> Iterator[str]:
    if not _ENTITY_KEY.search(text):
        return
    yield _ENTITY.sub(_character, text)
    if _RAW_SIGN.search(text):  # not everything was escaped: perhaps only the quotes
        yield _QUOTE_ENTITY.sub('"', text)


def _character(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:
        return html5.get(f"{name};") or html5.get(f"{name.lower()};") or match[0]
    code = int(decimal or hexadecimal, 10 if decimal else 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else match[0]


_PERCENT_KEY = lazy_pattern(rf"%(?:25)?(?:22|27)(?:{KNOWN_NAME}|active%5[Ff]task)%(?:25)?(?:22|27)")


def _without_percents(text: str) -> Iterator[str]:
    if _PERCENT_KEY.search(text):
        is_form = "+" in text and "%20" not in text and " " not in text
        try:
            yield urllib.parse.unquote(text.replace("+", " ") if is_form else text, errors="strict")
        except UnicodeDecodeError:
            return


_BASE64 = lazy_pattern(r"(?<![\w+/=-])(?:e[yw]|W)[A-Za-z0-9+/_\s-]{60,}+={0,2}(?![A-Za-z0-9])")
_HEX = lazy_pattern(r"(?<![0-9A-Fa-f])(?:7[bB]|5[bB])(?:[\s:]?[0-9A-Fa-f]{2}){40,}+(?![0-9A-Fa-f])")


def _without_base64(text: str) -> Iterator[str]:
    if '"' in text:
        return
    for pattern, decode in ((_HEX, _from_hex), (_BASE64, _from_base64)):
        found = pattern.search(text)
        if found is not None:
            try:
                yield decode(found[0]).decode("utf-8")
            except (ValueError, binascii.Error):
                continue
            return


def _from_base64(text: str) -> bytes:
    text = re.sub(r"[\s=]+", "", text).replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(re.sub(r"[\s:]+", "", text))


_ANSI = lazy_pattern(r"(?:\x1b|\\x1b|\\u001b|\\033|\\e|␛)\[[0-9;?]{0,20}[A-Za-z]")


def _without_colours(text: str) -> Iterator[str]:
    if "\x1b" in text or "␛" in text:
        yield re.sub(r"\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)", "", _ANSI.sub("", text))


_JSON_MARKS = "{}[]\"',:\\"
_HEAD = lazy_pattern(r"[^{}\"'\n]{1,60}(?=\{)")
_BLANK_LINE = lazy_pattern(r"\s*|[`~]{3,}\w*")


def _without_prefixes(text: str) -> Iterator[str]:
    """Remove what every line begins with; numbers count as equal."""
    lines = text.split("\n")
    filled = [line for line in lines if not _BLANK_LINE.fullmatch(line)]
    if len(filled) < 3:
        return
    for rest in (filled, filled[1:]):
        prefix = _prefix(rest)
        if prefix is not None:
            yield "\n".join(prefix.sub("", line, count=1) for line in lines)
            return


def _prefix(lines: list[str]) -> re.Pattern[str] | None:
    """Return the pattern of a common prefix that is more than white space."""
    head = _HEAD.match(lines[0])
    shared = head[0] if head else ""
    if not shared.strip():
        shared = _common_start(lines)
        shared = shared[: next((at for at, char in enumerate(shared) if char in _JSON_MARKS), len(shared))]
    shared = shared.rstrip()
    if not shared or re.fullmatch(r"[\s\w]*[a-zA-Z_]\w*", shared):
        return None
    parts = re.findall(r"\d+|\s+|[^\d\s]+", shared.lstrip())
    body = "".join(
        r"\d{1,9}" if part.isdigit() else r"\s{0,9}" if part.isspace() else re.escape(part) for part in parts
    )
    pattern = re.compile(rf"\s{{0,9}}{body}(?:[ \t]|\Z|(?=\S))")
    return pattern if all(pattern.match(line) for line in lines) else None


def _common_start(lines: list[str]) -> str:
    first, last = min(lines), max(lines)
    return first[
        : next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]


def _without_suffixes(text: str) -> Iterator[str]:
    """Remove what every line but the last ends with."""
    lines = [line.rstrip() for line in text.split("\n")]
    filled = [line for line in lines if not _BLANK_LINE.fullmatch(line)]
    if len(filled) < 4:
        return
    shared = _common_start([line[::-1][:20] for line in filled[:-1]])
    mark = re.match(r"""(?:>[^<>]{1,8}<|[^\w\s{}\[\]"',:;()])+""", shared)
    if mark is not None:
        suffix = mark[0][::-1]
        bare = [line.removesuffix(suffix) for line in lines]
        if not any(_OPEN_STRING.search(line) for line in bare):
            yield "\n".join(bare)


_OPEN_STRING = lazy_pattern(r'\A[^"]*+(?:"(?:[^"\\]|\\.)*+"[^"]*+)*+"')
"""A line that ends within a string, to which a suffix would belong."""

_QUOTED_PRINTABLE = lazy_pattern(r"=\r?\n|=(?:22|3D|7B)")

_FEW = 2


def _unquoted_printable(text: str) -> Iterator[str]:
    if len(_QUOTED_PRINTABLE.findall(text)) > _FEW and text.isascii() and ("=\n" in text or '"' not in text):
        try:
            yield quopri.decodestring(text.encode()).decode()
        except UnicodeDecodeError:
            return


_MARKDOWN_ESCAPE = lazy_pattern(r"\\\\|\\([_*\[\]{}()#+\-.!|<>~`])")
_LOOKS_MARKDOWN = lazy_pattern(r"""\\_\w{1,30}"\s{0,9}:|[:,]\s{0,9}\\[\[{]""")


def _without_markdown(text: str) -> Iterator[str]:
    if _LOOKS_MARKDOWN.search(text):
        yield _MARKDOWN_ESCAPE.sub(lambda match: match[1] or match[0], text)


_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_ASCII_LETTER = lazy_pattern("[A-Za-z]")


def _narrowed(text: str) -> Iterator[str]:
    """Convert full-width characters, if there are no others: then no text had any of its own."""
    if "ｍｅｍｏｒｙ" in text.lower() and not _ASCII_LETTER.search(text):
        yield text.translate(_WIDE)


_LAYERS: dict[str, Callable[[str], Iterator[str]]] = {
    "colours": _without_colours,
    "line-prefix": _without_prefixes,
    "line-suffix": _without_suffixes,
    "html-escapes": _without_entities,
    "double-encoding": _unescaped,
    "doubled-quotes": _undoubled,
    "percent-encoding": _without_percents,
    "base64": _without_base64,
    "quoted-printable": _unquoted_printable,
    "markdown-escapes": _without_markdown,
    "full-width": _narrowed,
}


_FENCE = lazy_pattern(r"[`~]{1,5}\s*\w*")


def strip_wrapping(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` from its first brace or key on, and the names of the removed wrappings."""
    before, text = _split_at_start(text.strip().lstrip("\ufeff\u200b\u2060").strip())
    if not before or before == '"':  # the end of a decoded string literal
        return text, ()
    return text, ("code-fence" if _FENCE.fullmatch(before) else "markup" if before[0] == "<" else "text-before",)


def name_rest(rest: str, wrappings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names for what follows the JSON; the end of a wrapping has none."""
    rest = rest.strip()
    if not rest or (wrappings and re.fullmatch(r"[\s`~}\])>]*(?:</\w[^>\n]*>)?[\s`~]*", rest)):
        return ()
    return ("code-fence",) if not rest.strip("`~") else ("text-after",)


def _split_at_start(text: str) -> tuple[str, str]:
    start = re.search(r"[{｛]", text)
    if start is None or KNOWN_KEY.match(text):
        return "", text
    return text[: start.start()].strip(), text[start.start() :]


def strip_fence(text: str) -> str:
    """Remove the code fence around `text`."""
    fenced = _FENCED.fullmatch(text.strip())
    return fenced[1] if fenced else text


_FENCED = lazy_pattern(r"(?:`{3,9}|~{3,9})\w*[ \t]*\n(.*?)\n[ \t]*(?:`{3,9}|~{3,9})", re.DOTALL)
