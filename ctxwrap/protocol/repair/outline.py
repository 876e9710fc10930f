"""Reads a state written in lines: sections or headings with pairs, lists of pairs, tables, or paths."""

import re
from collections.abc import Iterator
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.repair.relaxed import convert_plain, relaxed_value
from ctxwrap.protocol.repair.strict import Ambiguous, Unreadable, spend
from ctxwrap.protocol.repair.tokens import KNOWN_KEY, KNOWN_NAME
from ctxwrap.protocol.vocabulary import (
    CAPABILITY_KEYS,
    ITEM_KEYS,
    OPTIONAL_KEYS,
    ROOT_KEYS,
    RUNTIME_KEYS,
    TIERS,
    canonical_key,
    canonical_tier,
)

_BULLET = r"(?:[-*+•‣–]\s{1,4}|\d{1,4}[.)]\s{1,4})?"
_EMPHASIS = r"[*_`]{0,3}"
_PAIR = lazy_pattern(
    rf"{_BULLET}{_EMPHASIS}\"?([^\W\d][\w \-]{{0,39}}?)\"?{_EMPHASIS}\s{{0,9}}(?:=>|->|:=|[:=：＝]){_EMPHASIS}"
    r"(?:\s+|(?=\S)|$)(.*)"
)
_STEP = r"(?:[\w-]{1,60}+|\[(?:\d{1,4}|\"[\w-]{1,60}\")\])"
_PATH = lazy_pattern(rf"\$?\.?({_STEP}(?:[./]?{_STEP}){{1,9}})\s{{0,9}}[:=]\s{{0,9}}(.*)")
_HEADING = lazy_pattern(
    rf"(?:\#{{1,6}}\s*|={{2,6}}\s*|{_BULLET})[*_`\[(【<]{{0,3}}(?P<name>[^\[\]=*`:：<>()【】]{{1,120}})"
    r"[*_`\])】>]{0,3}\s*[:：]?[*_`]{0,3}\s*(?:=+|\#+)?"
)
_RULE = lazy_pattern(r"[-=*_~+|:\s]{3,}|[`~]{3,}\w*|---|\.\.\.")
_PART = lazy_pattern(r"[\w-]+")
_ESCAPED = lazy_pattern(r"\\[nrtu\"\\]")
_INLINE_KEYS = (*ITEM_KEYS, *CAPABILITY_KEYS)
_INLINE = lazy_pattern(rf"[\s,;|·]+{_EMPHASIS}({'|'.join(_INLINE_KEYS)}){_EMPHASIS}\s?[:=]{_EMPHASIS}\s?")
_MORE = lazy_pattern(r"=|: ")
"""Shows that a word is more than one."""
_KNOWN_LINE = lazy_pattern(rf"(?mi)^[ \t>#*\-\[|`+.\d)]{{0,12}}+(?:[\w-]{{1,30}}+\.){{0,4}}\"?(?:{KNOWN_NAME})\b")
_LISTS = (*TIERS, "capabilities")
_FEW_LINES = 6


def looks_like_outline(text: str) -> bool:
    """Whether many lines begin with a snapshot key, and the text not with a brace."""
    start = text.lstrip()[:1]
    return start not in ("{", "") and len(_KNOWN_LINE.findall(text)) >= _FEW_LINES


def read_outline(text: str) -> dict[str, Any]:
    """Read the state; raise Unreadable if a line contains nothing known."""
    outline = _Outline()
    for line in text.split("\n"):
        spend(6 + len(line) // 16)
        outline.read(line.strip())
    return outline.state()


class _Outline:
    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._paths: dict[str, Any] = {}
        self._section = ""
        self._item: dict[str, Any] | None = None
        self._title = ""
        self._columns: list[str] = []
        self._opening: dict[str, str] = {}
        """The first key of every item in a section."""

    def state(self) -> dict[str, Any]:
        if self._paths:
            if self._root:
                raise Unreadable("paths and sections stand side by side")
            return dict(_listed(self._paths))
        if "memory" not in self._root:
            raise Unreadable("there is no tier in it")
        return self._root

    def read(self, line: str) -> None:
        if line.startswith("|") or (self._columns and line.count("|") >= len(self._columns) - 1):
            self._row(line)
            return
        self._columns = self._columns if not line else []
        if not line or _RULE.fullmatch(line):
            return
        path, pair = _PATH.fullmatch(line), _PAIR.fullmatch(line)
        parts = _known_path(path[1]) if path is not None else []
        if path is not None and parts:
            _put_path(self._paths, parts, _value(path[2].rstrip(";"), canonical_key(parts[-1])))
        elif pair is not None and (pair[2] or canonical_key(pair[1]) not in (*_LISTS, "memory", "runtime")):
            self._line_of_pairs(pair[1], pair[2])
        elif not self._heading(line) and (self._root or self._paths or KNOWN_KEY.search(line)):
            raise Unreadable("a line says nothing known")

    def _heading(self, line: str) -> bool:
        """Enter the section that a line names; False if it names none."""
        heading = _HEADING.fullmatch(line) or re.fullmatch(r"\[{1,2}(?P<name>[^\[\]]{1,160})\]{1,2}", line)
        if heading is None or not (line[0] in "#=[*_`" or line[-1] in ":：" or _names_section(heading["name"])):
            return False
        known = False
        for part in re.split(r"[./:>]+", heading["name"].strip("\"' ")):
            known = self._part(part.strip(" \"'"), known) or known
        if line.startswith("[[") and self._section in _LISTS:
            self._begin("")
        return known or not self._root

    def _part(self, part: str, below: bool) -> bool:
        key, tier = canonical_key(part), canonical_tier(part)
        if tier and key not in ROOT_KEYS:
            self._enter(tier)
        elif key in ("memory", "runtime", "capabilities"):
            self._enter(key)
        elif self._section in _LISTS and part and (below or self._section in TIERS):
            self._begin("" if re.fullmatch(r"(?i)\d+|(?:item|entry|memory)?[ #_]*\d+", part) else part)
        else:
            return not self._root or key in ROOT_KEYS
        return True

    def _enter(self, section: str) -> None:
        self._section, self._item, self._title = section, None, ""
        if section in TIERS:
            self._root.setdefault("memory", {}).setdefault(section, [])
        elif section == "capabilities":
            self._root.setdefault("capabilities", [])

    def _begin(self, title: str) -> None:
        self._item = {"id": title} if title else {}
        self._title = title
        holder = self._root["memory"] if self._section in TIERS else self._root
        holder[self._section].append(self._item)

    def _line_of_pairs(self, key: str, value: str) -> None:
        """Read a line with one pair, or with all pairs of an item."""
        for name, raw in _pairs(canonical_key(key), key, value):
            self._pair(name, _value(raw, name))

    def _pair(self, key: str, value: Any) -> None:
        if key in ("version", "active_task", "datetime", "startup_at") or (key in OPTIONAL_KEYS and value != ""):
            holder = self._root.setdefault("runtime", {}) if key in RUNTIME_KEYS else self._root
            self._put(holder, key, value)
        elif self._section == "runtime":
            self._put(self._root.setdefault("runtime", {}), key, value)
        elif self._section in _LISTS:
            self._field(key, value)
        elif key in TIERS and value in ("", [], "[]"):
            self._enter(key)
        elif key in ("memory", "runtime", "capabilities"):
            self._put(self._root, key, value)
        elif self._root:
            raise Unreadable("a pair belongs to nothing")

    def _field(self, key: str, value: Any) -> None:
        first = self._opening.setdefault(self._section, key if self._title == "" else "")
        if self._item is None or (key == first and key in self._item):
            if self._item is None and key != first and first:
                raise Unreadable("an item begins with another key")
            self._begin("")
        assert self._item is not None
        if key == "id" and self._title:
            self._title = ""
            self._item["id"] = value
        self._put(self._item, key, value)

    def _put(self, holder: dict[str, Any], key: str, value: Any) -> None:
        if holder.get(key, value) != value:
            raise Unreadable(f"{key} stands twice with different values")
        holder[key] = value

    def _row(self, line: str) -> None:
        if _RULE.fullmatch(line):
            return
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))]
        if not self._columns:
            self._columns = [canonical_key(cell.strip("*_` ")) for cell in cells]
            if len({*self._columns}) < len(cells):
                raise Unreadable("a column stands twice")
            return
        if len(cells) != len(self._columns):
            raise Unreadable("a row has more or fewer cells than the table")
        row = dict(zip(self._columns, cells, strict=True))
        if self._columns[1:] and self._section in _LISTS:
            self._begin("")
            assert self._item is not None
            self._item.update({key: _value(_cell(cell), key) for key, cell in row.items()})
            self._item = None
        elif "tier" in row and canonical_tier(row["tier"]):
            section, self._section = self._section, canonical_tier(row.pop("tier"))
            self._enter(self._section)
            self._begin("")
            assert self._item is not None
            self._item.update({key: _value(_cell(cell), key) for key, cell in row.items()})
            self._section, self._item = section, None
        elif len(cells) == 2:
            for key, cell in (self._columns, cells) if self._columns[0] in ROOT_KEYS else (cells,):
                self._pair(canonical_key(key), _value(_cell(cell), key))
        else:
            raise Unreadable("a table belongs to no tier")


def _names_section(name: str) -> bool:
    return bool(canonical_tier(name)) or canonical_key(name) in ROOT_KEYS


def _cell(cell: str) -> str:
    return re.sub(r"<br\s?/?>", "\n", cell.replace("\\|", "|")).strip("`") if cell != "`" else cell


def _pairs(key: str, written: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs in a line; everything after `content` belongs to it."""
    key = (
        key
        if key in (*ITEM_KEYS, *ROOT_KEYS, *OPTIONAL_KEYS, *RUNTIME_KEYS, *TIERS, "name", "scope")
        else written.strip()
    )
    while key in _INLINE_KEYS and key != "content" and value[:1] not in ("[", "{", '"', "'"):
        following = _INLINE.search(value)
        if following is None:
            break
        yield key, value[: following.start()]
        key, value = following[1], value[following.end() :]
    yield key, value


def _value(raw: str, key: str = "") -> Any:
    """Read a value: with its marks, or as plain text."""
    raw = raw.strip()
    if raw[:1] in ('"', "'", "[", "{"):
        try:
            value, end = relaxed_value(raw)
            if not raw[end:].strip(" ,;"):
                return value
        except Unreadable:
            pass
        if key == "tags" and raw[0] == "[" and raw[-1] == "]":
            return raw[1:-1]
        raise Unreadable("a value cannot be read")
    if _ESCAPED.search(raw):
        raise Ambiguous("a text without quotes holds escapes")
    if key in _INLINE_KEYS and key != "content" and _MORE.search(raw):
        raise Unreadable("a word holds a pair")
    return convert_plain(raw, key)


def _known_path(path: str) -> list[str]:
    """Return the parts of a path from a root key on; empty if there is none."""
    parts = _PART.findall(path)
    start = next((at for at, part in enumerate(parts[:3]) if canonical_key(part) in ROOT_KEYS), len(parts))
    return parts[start:]


def _listed(value: Any) -> Any:
    """Convert objects with keys counting from 0 to lists."""
    if not isinstance(value, dict):
        return value
    inner = {key: _listed(item) for key, item in value.items()}
    return list(inner.values()) if inner and list(inner) == [str(at) for at in range(len(inner))] else inner


def _put_path(holder: dict[str, Any], parts: list[str], value: Any) -> None:
    for part in parts[:-1]:
        holder = holder.setdefault(part, {})
        if not isinstance(holder, dict):
            raise Unreadable("a path leads through a value")
    if parts[-1] in holder:
        raise Unreadable("a path stands twice")
    holder[parts[-1]] = value
