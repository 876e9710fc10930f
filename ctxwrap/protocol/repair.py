"""From the trailer's text to a JSON object, mending what can be mended without guessing."""

import json
import re
from typing import Any

MAX_DEPTH = 32
_PAIR = re.compile(r"""["'”]\s*[:=]""")


class Unreadable(ValueError):
    """The text is no JSON object that can be read with certainty."""


def read_object(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The object in `text` and the names of the repairs it took.

    Three safe repairs: a code fence around the object, text behind it, and commas before a closing bracket.
    """
    repairs: list[str] = []
    body = text.strip()
    if body.startswith("```"):
        body = body.partition("\n")[2].strip()
        repairs.append("code-fence")
    try:
        value, end = _strict(body)
    except Unreadable:
        mended = _without_trailing_commas(body)
        if mended == body:
            raise
        body = mended
        value, end = _strict(body)
        repairs.append("trailing-comma")
    rest = body[end:].strip().strip("`").strip()
    if _PAIR.search(rest):
        raise Unreadable("there is more of it behind its end")
    if rest:
        repairs.append("trailing-text")
    return value, tuple(repairs)


def _strict(text: str) -> tuple[dict[str, Any], int]:
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    if not isinstance(value, dict):
        raise Unreadable("the trailer is no JSON object")
    if _depth(value) > MAX_DEPTH:
        raise Unreadable(f"the trailer is nested deeper than {MAX_DEPTH}")
    return value, end


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return depth


def _without_trailing_commas(text: str) -> str:
    kept: list[str] = []
    in_string = escaped = False
    for at, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char == "," and text[at + 1 :].lstrip()[:1] in ("}", "]"):
            continue
        kept.append(char)
    return "".join(kept)
