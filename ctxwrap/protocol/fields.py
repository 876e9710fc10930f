"""Accepts other layouts of the snapshot's fields, and values of the wrong type."""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import han_number, in_ascii
from ctxwrap.protocol.repair.strict import LONE_SURROGATE, value_at
from ctxwrap.protocol.vocabulary import (
    ID_LISTS,
    ITEM_KEYS,
    KNOWN_KEYS,
    MAX_QUESTION,
    MAX_WORD,
    OPTIONAL_KEYS,
    ROOT_KEYS,
    canonical_key,
    canonical_tier,
    is_ellipsis,
    normalise_key,
)
from ctxwrap.types import Severity

_MAX_DEPTH = 4
_PACKED = ("memory", "runtime", "capabilities", *ID_LISTS)
_ROOT = frozenset((*ROOT_KEYS, *OPTIONAL_KEYS))
_TIER_FIELDS = frozenset(
    (
        *("tier", "level", "layer", "bucket", "store", "stage", "memory_tier", "memory_level", "memory_layer"),
        *("nivel", "niveau", "ebene", "stufe", "уровень", "livello", "poziom"),
        *("层级", "层", "層", "層級", "階層", "계층"),
    )
)
_NAME_FIELDS = _TIER_FIELDS | {"name", "key"}


def arrange_state(data: Any) -> tuple[dict[str, Any], str] | None:
    """Return the state with canonical keys and memory by tier, and the repair's name; None if it is not a state."""
    found = _root(data, _MAX_DEPTH)
    if found is None:
        return None
    root, name = found
    root |= {key: parse_packed(root[key]) for key in _PACKED if key in root}
    memory = _by_tier(root["memory"], _MAX_DEPTH)
    if memory is None:
        return (root, name) if root["memory"] == {} else None
    return {**root, "memory": memory}, name or ("memory-shape" if memory is not root["memory"] else "")


def _root(data: Any, depth: int) -> tuple[dict[str, Any], str] | None:
    """Find the object that has a memory, and its wrapper."""
    if isinstance(data, list) and data and depth:
        data = data[0] if len(data) == 1 else _from_pairs(data)
    if not isinstance(data, dict) or not depth:
        return None
    root = {canonical_key(key): value for key, value in data.items()}
    if len(root) < len(data):
        return None
    if isinstance(parse_packed(root.get("memory")), (dict, list)):
        return root, "key-spelling" if list(root) != list(data) else ""
    tiers = {key: value for key, value in data.items() if _is_tier(key, value)}
    if tiers and "memory" not in root:
        rest = {key: value for key, value in root.items() if key not in tiers}
        return {**rest, "memory": tiers}, "memory-shape"
    inner = [found for value in data.values() if (found := _root(parse_packed(value), depth - 1))]
    if len(inner) == 1 and "memory" not in root:
        return {**{key: value for key, value in root.items() if key in _ROOT}, **inner[0][0]}, "wrapped"
    if "memory" not in root and not inner and root.keys() >= {"version", "dropped"}:
        return {**root, "memory": {}}, ""
    return None


def parse_packed(value: Any) -> Any:
    """Parse a string that is nothing but the JSON of an object or list; return other values unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        inner, end = value_at(value.strip(), 0)
    except ValueError:
        return value
    return inner if end == len(value.strip()) else value


def _is_tier(key: str, value: Any) -> bool:
    return isinstance(value, (dict, list)) and canonical_key(key) not in _ROOT and bool(canonical_tier(key))


def _from_pairs(entries: list[Any]) -> dict[str, Any] | None:
    """Accept pairs as `{"key": …, "value": …}`, `[…, …]` or objects with one key."""
    pairs = [_pair(entry) for entry in entries]
    keys = {pair[0] for pair in pairs if pair is not None}
    return dict(pair for pair in pairs if pair is not None) if len(keys) == len(entries) else None


def _pair(entry: Any) -> tuple[str, Any] | None:
    values = list(entry.values()) if isinstance(entry, dict) else entry
    if isinstance(entry, dict) and len(entry) == 1:
        return next(iter(entry.items()))
    if isinstance(values, list) and len(values) == 2 and isinstance(values[0], str):
        return (values[0], values[1]) if canonical_key(values[0]) in KNOWN_KEYS or canonical_tier(values[0]) else None
    return None


def _by_tier(memory: Any, depth: int) -> dict[str, Any] | None:
    """Return `memory` as an object with a list per tier."""
    if not depth:
        return None
    if isinstance(memory, list):
        return _of_groups(memory) or flat_items(memory) or (_by_tier(_from_pairs(memory), depth - 1))
    if not isinstance(memory, dict) or not memory:
        return None
    if any(canonical_tier(key) for key in memory):
        return memory
    if all(isinstance(item, dict) for item in memory.values()):
        by_id = flat_items([{"id": id, **item} for id, item in memory.items()])
        if by_id is not None:
            return by_id
    inner = [found for value in memory.values() if (found := _by_tier(value, depth - 1))]
    return inner[0] if len(inner) == 1 else None


def _of_groups(entries: list[Any]) -> dict[str, Any] | None:
    """Accept entries that each name a tier and hold a list."""
    tiers: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, dict) or {"content", "id"} & entry.keys():
            return None
        lists = [(key, value) for key, value in entry.items() if isinstance(value, list)]
        names = [value for key, value in entry.items() if normalise_key(key) in _NAME_FIELDS and isinstance(value, str)]
        tier = canonical_tier(names[0] if names else lists[0][0] if lists else "")
        if len(lists) != 1 or not tier or tier in tiers:
            return None
        tiers[tier] = lists[0][1]
    return tiers or None


def flat_items(entries: list[Any]) -> dict[str, Any] | None:
    """Group items by the tier that each names; None if one does not."""
    tiers: dict[str, list[Any]] = {}
    for entry in entries:
        found = _tier_of(entry) if isinstance(entry, dict) else None
        if found is None:
            return None
        key, tier = found
        tiers.setdefault(tier, []).append({name: value for name, value in entry.items() if name != key})
    return tiers or None


def _tier_of(item: Mapping[str, Any]) -> tuple[str, str] | None:
    for key, value in item.items():
        if key not in ITEM_KEYS and is_tier_field(key) and isinstance(value, str) and canonical_tier(value):
            return key, canonical_tier(value)
    return None


def is_tier_field(key: str) -> bool:
    """Whether a field of this name holds an item's tier."""
    return normalise_key(key) in _TIER_FIELDS


def as_items(value: dict[str, Any]) -> list[Any]:
    """Accept a tier written as one item, items by id, columns, or a list under another name."""
    keys = {canonical_key(key) for key in value}
    columns = [column for column in value.values() if isinstance(column, list)]
    if keys >= {"id", "content"} and len(columns) == len(value) and len({*map(len, columns)}) == 1:
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    if keys & {"id", "content"}:
        return [value]
    if len(value) == 1 and columns:
        return columns[0]
    return [{"id": id, **item} if isinstance(item, dict) else item for id, item in value.items()]


def as_item(value: Any) -> Any:
    """Accept an item written as JSON text, as pairs, in short form, or as its content only."""
    value = parse_packed(value)
    match value:
        case [str(id), int() | float() as decay, str(content)]:
            return {"id": id, "decay": decay, "content": content}
        case [_, *_]:
            return _from_pairs(value) or value
        case str() if _SENTENCE.search(value) and not is_ellipsis(value):
            return {"content": value}
    return value


_SENTENCE = lazy_pattern(r"\w[\w'’,-]* \w|[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]{4}")
"""Several words, or as much in a script without spaces."""


def as_rows(value: list[Any]) -> list[Any]:
    """Accept a tier written as rows below column names."""
    head = value[0] if value else None
    if not isinstance(head, list) or not all(isinstance(row, list) and len(row) == len(head) for row in value):
        return value
    names = [canonical_key(name) if isinstance(name, str) else "" for name in head]
    is_table = {"id", "content"} <= {*names} and len({*names}) == len(names)
    return [dict(zip(names, row, strict=True)) for row in value[1:]] if is_table else value


_NUMBER = lazy_pattern(r"\s*[+-]?(?:\d{1,18}(?:[.,]\d{0,18})?|\.\d{1,18})\s*%?\s*")
_TAG_COMMA = lazy_pattern("[,，、;；]")


def _number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > MAX_WORD:
        return value
    given, value = value, han_number(value.strip()) or in_ascii(value)
    if not _NUMBER.fullmatch(value):
        return given
    number = float(value.strip().rstrip("% ").replace(",", "."))
    return number / 100 if value.strip().endswith("%") else number


def _decay(value: Any) -> Any:
    value = _number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return value
    return value if 0 <= value <= 1 else float(value > 0)


def _round(value: Any) -> Any:
    value = _number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _tags(value: Any) -> Any:
    if isinstance(value, str):
        return [tag.strip() for tag in _TAG_COMMA.split(value) if tag.strip()]
    if value == {}:
        return []  # notations with one kind of bracket
    return [as_text(tag) for tag in value] if isinstance(value, list) else value


def as_text(value: Any) -> Any:
    """Convert a number to text, and replace lone surrogates, which no file can hold."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value


COERCIONS: Mapping[str, Callable[[Any], Any]] = {
    "id": as_text,
    "type": as_text,
    "content": as_text,
    "decay": _decay,
    "round": _round,
    "tags": _tags,
}


_SEVERITIES = get_args(Severity)
_ASKED = ("user", "operator", "tool")


def question_in(given: Any) -> dict[str, str] | None:
    """Return the question in canonical form without empty fields; None if there is none."""
    fields = {normalise_key(str(key)): value for key, value in given.items()} if isinstance(given, dict) else {}
    question = _words(fields.get("question") if fields else given)
    if not question:
        return None
    found = {"question": question, "needed_for": _words(fields.get("needed_for")), "asked": _asked(fields.get("asked"))}
    if fields.get("severity") is not None:
        found["severity"] = _severity(fields["severity"])
    return {name: text for name, text in found.items() if text}


def _words(value: Any) -> str:
    text = as_text(value)
    return text.strip()[:MAX_QUESTION].rstrip() if isinstance(text, str) else ""


def _severity(value: Any) -> str:
    word = normalise_key(value) if isinstance(value, str) else ""
    return word if word in _SEVERITIES else "medium"


def _asked(value: Any) -> str:
    word = normalise_key(value) if isinstance(value, str) else ""
    return word if word in _ASKED else ""
