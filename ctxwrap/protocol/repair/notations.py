"""Reads notations other than a single JSON object: XML or HTML elements, YAML, several objects in a row."""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.fields import flat_items
from ctxwrap.protocol.repair.outline import looks_like_outline, read_outline
from ctxwrap.protocol.repair.relaxed import convert_plain
from ctxwrap.protocol.repair.strict import Unreadable, spend, value_at
from ctxwrap.protocol.vocabulary import ID_LISTS, ITEM_KEYS, MAX_DEPTH, TIERS, canonical_key, canonical_tier

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
    """Read the state; raise Unreadable for an unclosed element or text next to elements."""
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
            else convert_plain(text, canonical_key(element.name))
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
    """Return a child of a list; its name becomes its id if it has none."""
    value = _value(child)
    name = child.name
    if isinstance(value, dict) and "content" in value and "id" not in value and re.search(r"\d", name):
        return {"id": name, **value}
    return value


def _is_list(element: _Element) -> bool:
    return canonical_key(element.name) in _LISTS or (
        bool(canonical_tier(element.name)) and canonical_key(element.name) != "active_task"
    )


_YAML_PAIR = lazy_pattern(r"\A\s*(?:---\s*\n)?(?:version|runtime|memory)\s*:[\s\w\"'.]*\n", re.IGNORECASE)


def looks_like_yaml(text: str) -> bool:
    return _YAML_PAIR.match(text) is not None


def read_yaml(text: str) -> dict[str, Any]:
    """Read a mapping; raise Unreadable if there is none, or it uses anchors, aliases or tags."""
    import yaml  # type: ignore[import-untyped]

    depth = 0
    try:
        for event in yaml.parse(text, Loader=_loader()):
            spend(4)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            marked = getattr(event, "anchor", None) or getattr(event, "tag", None)
            if marked or isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
                raise Unreadable("YAML with references, tags or depths is not read")
        value = yaml.load(text, Loader=_loader())  # a safe loader
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"no YAML either: {error}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Unreadable("it is no mapping")
    return value


@cache
def _loader() -> Any:
    """Return a safe loader limited to JSON's types: dates stay text."""
    import yaml

    class Plain(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    for kind, pattern, first in (
        ("null", r"null|Null|NULL|~|", "nN~"),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
        (
            "float",
            r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)(?=[eE]))(?:[eE][-+]?[0-9]+)?",
            "-+.0123456789",
        ),
    ):
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), [*first])
    return Plain


_NEXT = lazy_pattern(r"[\s,]*")
_OBJECTS = lazy_pattern(r"\s*+\{[^\n]*\}(\s*+,?+\s*+)\{")


def looks_like_parts(text: str) -> bool:
    found = _OBJECTS.match(text)
    return found is not None and "\n" in found[1]


def read_parts(text: str) -> dict[str, Any]:
    """Read the state; raise Unreadable if two objects share a key, or one is unknown."""
    root: dict[str, Any] = {}
    items: list[Any] = []
    at = _NEXT.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        spend(4)
        try:
            value, at = value_at(text, at)
        except ValueError:
            raise Unreadable("an object cannot be read") from None
        at = _NEXT.match(text, at).end()  # type: ignore[union-attr]
        if isinstance(value, dict) and flat_items([value]):
            items.append(value)
        else:
            _join(root, value)
    if items:
        _join(root, {"memory": items})
    return root


def _join(root: dict[str, Any], value: Any) -> None:
    if not isinstance(value, dict):
        raise Unreadable("a part is no object")
    for key, part in value.items():
        if canonical_key(key) in root:
            raise Unreadable(f"{key[:40]} stands in two parts")
        root[canonical_key(key)] = part


class Notation(NamedTuple):
    name: str
    looks_like: Callable[[str], bool]
    read: Callable[[str], dict[str, Any]]


NOTATIONS = (
    Notation("yaml", looks_like_yaml, read_yaml),
    Notation("parts", looks_like_parts, read_parts),
    Notation("xml", looks_like_markup, read_markup),
    Notation("outline", looks_like_outline, read_outline),
)
