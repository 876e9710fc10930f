"""A state in the elements of XML or HTML."""

import html
import re
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.effort import spend
from ctxwrap.protocol.repair.relaxed import typed
from ctxwrap.protocol.repair.strict import Unreadable
from ctxwrap.protocol.words import ID_LISTS, ITEM_KEYS, MAX_DEPTH, TIERS, canonical_key, canonical_tier

_TAG = lazy_pattern(
    r"<!\[CDATA\[(?P<data>.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"
    r"|<(?P<end>/?)(?P<name>[^\W\d][\w:.-]{0,60})(?P<attributes>(?:\s+[\w:.-]{1,60}\s?=\s?(?:\"[^\"<]*\"|'[^'<]*'))*+)\s*(?P<empty>/?)>",
    re.DOTALL,
)
_ATTRIBUTE = lazy_pattern(r"([\w:.-]+)\s?=\s?(?:\"([^\"]*)\"|'([^']*)')")
_ELEMENT = lazy_pattern(r"<(?:memory|core|working|ephemeral)\b[^>]{0,200}>", re.IGNORECASE)
_LISTS = ("tags", "capabilities", *ID_LISTS, "missing", "working_set")
_NAMES = ("item", "entry", "element", "li", "object", "key", "field", "tier", "property")


@dataclass
class _Element:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["_Element"] = field(default_factory=list)
    text: str = ""


def looks_like_markup(text: str) -> bool:
    return text.lstrip()[:1] == "<" and _ELEMENT.search(text) is not None


def read_markup(text: str) -> dict[str, Any]:
    """The state in `text`; Unreadable if an element has no end, or text beside others."""
    root = _elements(text)
    while len(root.children) == 1 and canonical_key(root.children[0].name) not in ("memory", *TIERS):
        root = root.children[0]
    value = _value(root)
    if not isinstance(value, dict):
        raise Unreadable("there is nothing of a snapshot in it")
    return value


def _elements(text: str) -> _Element:
    path = [_Element("")]
    at = 0
    for tag in _TAG.finditer(text):
        spend(4)
        path[-1].text += html.unescape(text[at : tag.start()]) + (tag["data"] or "")
        at = tag.end()
        if tag["name"] is None:
            continue
        if tag["end"]:
            if path.pop().name != tag["name"] or not path:
                raise Unreadable(f"an element {tag['name']} ends that did not begin")
            continue
        attributes = {name: html.unescape(one or other) for name, one, other in _ATTRIBUTE.findall(tag["attributes"])}
        element = _Element(tag["name"], attributes)
        path[-1].children.append(element)
        if not tag["empty"]:
            path.append(element)
        if len(path) > MAX_DEPTH:
            raise Unreadable(f"it is nested deeper than {MAX_DEPTH}")
    if len(path) > 1 or path[0].text.strip("`~ \t\r\n") or text[at:].strip("`~ \t\r\n"):
        raise Unreadable("an element has no end, or text stands outside of all")
    return path[0]


def _value(element: _Element) -> Any:
    text = element.text.strip()
    own = {canonical_key(key): value for key, value in element.attributes.items()}
    if not element.children:
        if _is_list(element) and not own:
            return text if text else []
        return (
            {**own, **({"content": text} if text else {})}
            if own.keys() & {*ITEM_KEYS, "name", "scope", "round"}
            else typed(text, canonical_key(element.name))
        )
    if text:
        raise Unreadable("text stands beside elements")
    if _is_list(element) and not any(canonical_key(child.name) in ("id", "content") for child in element.children):
        return [_named(child) for child in element.children]
    return {**own, **_pairs(element)}


def _pairs(element: _Element) -> dict[str, Any]:
    pairs: dict[str, list[Any]] = {}
    for child in element.children:
        generic = child.name.lower() in _NAMES and "name" in child.attributes
        name = child.attributes.pop("name") if generic else child.name
        child = _Element(name, child.attributes, child.children, child.text)
        value = _value(child)
        if child.name.lower() in ("item", "entry", "memory_item") and isinstance(value, dict) and "tier" in value:
            name = canonical_tier(value.pop("tier")) or name
            child.name = name
        pairs.setdefault(name, []).append(value)
    if any(len(values) > 1 and not canonical_tier(name) for name, values in pairs.items()):
        raise Unreadable("an element stands twice")
    return {name: values[0] if len(values) == 1 else values for name, values in pairs.items()}


def _named(child: _Element) -> Any:
    """A child of a list; its name is its id if it has no other."""
    value = _value(child)
    name = child.name
    if isinstance(value, dict) and "content" in value and "id" not in value and re.search(r"\d", name):
        return {"id": name, **value}
    return value


def _is_list(element: _Element) -> bool:
    return canonical_key(element.name) in _LISTS or (
        bool(canonical_tier(element.name)) and canonical_key(element.name) != "active_task"
    )
