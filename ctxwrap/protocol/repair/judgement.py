"""What speaks for and against a reading that was not there word by word: a wrong one is worse than none."""

from collections.abc import Iterator
from typing import Any

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.bykeys import Draft
from ctxwrap.protocol.text import VERSION
from ctxwrap.protocol.words import CAPABILITY_KEYS, ID_LISTS, ITEM_KEYS, OPTIONAL_KEYS, ROOT_KEYS, TIERS

_WORD = lazy_pattern(r'[^",:{}\[\]\n]+')
_NAME = lazy_pattern(r"[A-Za-z_]\w*")
_NOTHING: dict[str, Any] = {
    "version": VERSION,
    "runtime": {"round": 0, "datetime": "", "startup_at": ""},
    "capabilities": [],
    "active_task": "",
}


def is_part(data: dict[str, Any]) -> bool:
    """Whether `data` is valid as far as it goes, and no word or key of it holds a mark that belongs around it."""
    from ctxwrap.protocol.models import is_valid

    memory = data.get("memory", {})
    if not isinstance(memory, dict):
        return False
    if not is_valid({**_NOTHING, **data, "memory": {**{tier: [] for tier in TIERS}, **memory}}):
        return False
    items = items_of(data)
    return (
        len({item["id"] for item in items}) == len(items)
        and all(_WORD.fullmatch(word) for word in _words(data))
        and all(_NAME.fullmatch(key) for item in items for key in item if key not in ITEM_KEYS)
        and all(isinstance(entry, str) or set(entry) == {*CAPABILITY_KEYS} for entry in data.get("capabilities", ()))
    )


def is_whole(data: dict[str, Any]) -> bool:
    """Whether `data` is a snapshot with nothing missing."""
    return data.keys() - {*OPTIONAL_KEYS} == {*ROOT_KEYS} and is_part(data) and data["memory"].keys() == {*TIERS}


def doubt(draft: Draft) -> str:
    """What speaks against a reading by keys, or nothing."""
    if draft.swallowed:
        return "a text holds what belongs behind it"
    if not all(_WORD.fullmatch(word) for word in _words(draft.data) if word):
        return "a word holds what belongs around it"
    if not all(_NAME.fullmatch(key) for item in items_of(draft.data) for key in item):
        return "a key is no name"
    return ""


def items_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """All items of a memory, by tiers or not."""
    memory = data.get("memory", {})
    return memory if isinstance(memory, list) else [item for tier in memory.values() for item in tier]


def _words(data: dict[str, Any]) -> Iterator[str]:
    """Ids, types, tags, and what capabilities say, as far as they are texts."""
    for ids in (data.get(name) for name in ID_LISTS):
        yield from (id for id in ids if isinstance(id, str)) if isinstance(ids, list) else ()
    for item in items_of(data):
        tags = item.get("tags")
        every = (item.get("id"), item.get("type"), *(tags if isinstance(tags, list) else ()))
        yield from (word for word in every if isinstance(word, str))
    for entry in data.get("capabilities", ()):
        if isinstance(entry, dict):
            yield from (word for word in entry.values() if isinstance(word, str))
