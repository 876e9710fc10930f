"""Reads a damaged snapshot by its keys, which determine the structure; brackets are only hints."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.fields import is_tier_field
from ctxwrap.protocol.repair.strict import (
    BRACES,
    CLOSERS,
    COMMAS,
    ELLIPSES,
    LITERALS,
    OPENERS,
    QUOTES,
    Ambiguous,
    Unreadable,
    is_at,
    skip,
    skip_commas,
    spend,
    value_at,
)
from ctxwrap.protocol.repair.tokens import decode_string, ends_element, ends_value, is_cut_key, key_at, read_string
from ctxwrap.protocol.vocabulary import (
    CAPABILITY_KEYS,
    ID_LISTS,
    ITEM_KEYS,
    KNOWN_KEYS,
    MAX_DEPTH,
    OPTIONAL_KEYS,
    ROOT_KEYS,
    RUNTIME_KEYS,
    TIERS,
    canonical_key,
    canonical_tier,
)

_SECTIONS = ("runtime", "memory", "capabilities")
FLAT = "items"
"""The section of items that name their tiers themselves."""
_HOLDERS = (*TIERS, FLAT)
_LISTS = (*_HOLDERS, "capabilities")
_QUOTE = lazy_pattern(f"[{re.escape(QUOTES)}]")
_NUMBER = lazy_pattern(r"[+-]?(?:\d+(?:\.\d*|,\d+(?=\s*[,;，；}｝\n]))?|\.\d+)(?:[eE][+-]?\d+)?")
_AFTER_NUMBER = lazy_pattern(r"[fFdDlL%]?\s*(?:[,;，；}\]｝］\n]|//|/\*|#|$)|\s+[^\s\w]|\s*[\"“＂'`]")
_WORD = lazy_pattern(r"[^\s,;，；}\]｝］\n]+")
_PHRASE = lazy_pattern(r"[^,;}\]\n]+")
_TAG = lazy_pattern(rf"[^,;，；\]］\n{re.escape(QUOTES)}]+")
_NO_TAG = lazy_pattern(r'[\n\]"]|,\s*$')
_PAIR_INSIDE = lazy_pattern(r'(?<!\\)"\s*[,;，]\s*"?\w+"?\s*[:：]')
_OBJECT_INSIDE = lazy_pattern(r"\{[^{}]*\}")
_ALL_FIELDS = frozenset(ITEM_KEYS)
_AFTER_WORDS = frozenset((*ITEM_KEYS, *ROOT_KEYS))
_CUT = object()
"""Marks a value that the end of the text cuts off."""


@dataclass
class Draft:
    """What was read of a snapshot."""

    data: dict[str, Any] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)
    cut: bool = False
    """The text ended before the snapshot did."""
    swallowed: bool = False
    """A string with a guessed end contains what looks like the next pair."""
    ended_tiers: set[str] = field(default_factory=set)
    elided_tiers: set[str] = field(default_factory=set)
    """Tiers with "and so on"."""

    def mend(self, name: str) -> None:
        if name and name not in self.repairs:
            self.repairs.append(name)


def read_by_keys(text: str) -> Draft:
    """Read the snapshot at the start of `text`."""
    reader = _KeyReader(text)
    while not reader.done:
        spend(4)
        reader.step()
    reader.finish()
    return reader.draft


class _KeyReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.draft = Draft()
        self.done = False
        self._at = 0
        self._depth = 0
        self._section = ""
        self._item: dict[str, Any] | None = None
        self._item_open = False
        self._brace_before = False
        self._id = ""
        """The id of the next item, if it was written as a key."""

    def step(self) -> None:
        self._skip()
        if self._at >= len(self.text):
            self.done = True
        elif self._is_at(COMMAS):
            self._at = skip_commas(self.text, self._at)
        elif abs(self._depth) > MAX_DEPTH:
            raise Unreadable(f"it is nested deeper than {MAX_DEPTH}")
        elif self._is_at(OPENERS):
            self._open()
        elif self._is_at(CLOSERS):
            self._close()
        elif self.text.startswith(ELLIPSES, self._at):
            self._elide()
        else:
            self._pair()

    def finish(self) -> None:
        draft = self.draft
        memory = draft.data.get("memory", {})
        if FLAT in memory and (len(memory) > 1 or draft.elided_tiers):
            raise Ambiguous("items stand beside tiers")
        if not self._is_complete() and self._depth > 0:
            draft.cut = True
        if draft.cut and self._section == "capabilities":
            draft.data.pop("capabilities", None)
        elif draft.cut and self._section in _HOLDERS and self._item is not None and self._item_open:
            draft.data["memory"][self._section].pop()
        if FLAT in memory:
            if draft.cut:
                raise Ambiguous("it ends within items that belong to no tier")
            draft.data["memory"] = memory[FLAT]
        draft.mend("cut" if draft.cut else "brackets" if self._depth else "")

    def _is_at(self, marks: str) -> bool:
        return is_at(self.text, self._at, marks)

    def _is_complete(self) -> bool:
        return all(key in self.draft.data for key in ("memory", "capabilities", "active_task"))

    def _skip(self) -> None:
        start, self._at = self._at, skip(self.text, self._at)
        between = self.text[start : self._at]
        if "/" in between or "#" in between:
            self.draft.mend("comments")
            if self._section in _HOLDERS and not self._item_open and any(mark in between for mark in ELLIPSES):
                self.draft.elided_tiers.add(self._section)

    def _open(self) -> None:
        if self._section in _HOLDERS and not self._is_inside_item() and self._take_intact():
            return
        self._brace_before = self._is_at(BRACES) and self._section in _LISTS
        self._at += 1
        self._depth += 1

    def _take_intact(self) -> bool:
        """Take an undamaged item at once."""
        spend(4 + self._at // 1000)  # an error counts lines from the start of the text
        try:
            item, end = value_at(self.text, self._at)
        except ValueError:
            return False
        if not isinstance(item, dict) or not item.keys() >= _ALL_FIELDS:
            return False
        following = skip(self.text, end)
        if following < len(self.text) and not is_at(self.text, following, COMMAS + CLOSERS):
            return False
        self._begin_item()
        self.draft.data["memory"][self._section][-1] = self._item = item
        self._item_open, self._at = False, end
        return True

    def _close(self) -> None:
        self._depth -= 1
        if self._is_at("]］"):
            if self._section in _HOLDERS:
                self.draft.ended_tiers.add(self._section)
        else:
            self._item_open = False
            self.done = self._depth <= 0 and self._is_complete()
        self._at += 1

    def _elide(self) -> None:
        rest = re.compile(r"[}\]\n]|\Z").search(self.text, self._at)
        self._at = rest.start() if rest else len(self.text)
        self.draft.mend("ellipsis")
        if self._section in _HOLDERS:
            self.draft.elided_tiers.add(self._section)

    def _pair(self) -> None:
        found = key_at(self.text, self._at)
        if found is None:
            self._skip_unknown()
            return
        name, self._at = found
        key = canonical_key(name)
        tier = canonical_tier(name) if self._section in ("memory", *TIERS) and not self._is_inside_item() else ""
        if tier or (key in TIERS and "memory" in self.draft.data):
            self._enter_tier(tier or key)
        elif key in _SECTIONS:
            self._enter(key)
        elif self._is_root_key(key):
            self._put(self.draft.data, key, self._words() if key in ID_LISTS else self._value())
            self._section = ""
        elif self._section == "runtime" or (key in RUNTIME_KEYS and key != "round"):
            self._put(self.draft.data.setdefault("runtime", {}), key, self._value())
        elif self._section == "memory" and (key in ITEM_KEYS or is_tier_field(name)):
            self._section = FLAT
            self._field(key)
        elif self._section in _LISTS:
            self._field(key if key in KNOWN_KEYS else name)
        elif not self._is_at(BRACES):  # else it is a name around the whole object
            self._value()

    def _is_root_key(self, key: str) -> bool:
        """Whether the key belongs to the root, even if the item before it was not closed."""
        if key in ("version", "active_task") or (key in OPTIONAL_KEYS and self._is_at("[［")):
            return True
        return key in (*ROOT_KEYS, *OPTIONAL_KEYS) and not self._is_inside_item()

    def _is_inside_item(self) -> bool:
        return self._item is not None and self._item_open and not self._brace_before

    def _enter(self, section: str) -> None:
        self._section, self._item, self._brace_before = section, None, False
        if self._is_at(OPENERS):
            self.draft.data.setdefault(section, [] if section == "capabilities" else {})
        elif self._at < len(self.text):
            self._value()

    def _enter_tier(self, tier: str) -> None:
        self._section, self._item, self._brace_before = tier, None, False
        items = self.draft.data.setdefault("memory", {}).setdefault(tier, [])
        if self._at < len(self.text) and not self._is_at(OPENERS) and self._value() is None and not items:
            self.draft.ended_tiers.add(tier)

    def _field(self, key: str) -> None:
        known = ITEM_KEYS if self._section in _HOLDERS else CAPABILITY_KEYS
        if key not in known and not self._is_inside_item() and self._is_at(BRACES):
            self._id = key
            return
        if self._item is None or (self._brace_before and self._item) or (key == known[0] and key in self._item):
            self._begin_item()
        assert self._item is not None
        self._put(self._item, key, self._words() if key == "tags" else self._value())

    def _begin_item(self) -> None:
        self._item = {"id": self._id} if self._id else {}
        self._id = ""
        self._item_open, self._brace_before = True, False
        holder = self.draft.data.setdefault("memory", {}) if self._section in _HOLDERS else self.draft.data
        holder.setdefault(self._section, []).append(self._item)

    def _put(self, holder: dict[str, Any], key: str, value: Any) -> None:
        if value is _CUT:
            self.draft.cut = True
            return
        if key in holder and holder[key] != value and not (holder is self._item and key == "id"):
            raise Unreadable(f"{key} stands twice with different values")
        holder[key] = value
        self._brace_before = False

    def _value(self) -> Any:
        self._at = skip(self.text, self._at)
        if self._at >= len(self.text):
            return _CUT
        if self._is_at(QUOTES):
            return self._string()
        return self._nested() if self._is_at(OPENERS) else self._bare()

    def _may_end_value(self, text: str, at: int) -> bool:
        spend(4)
        return ends_value(text, at) and not self._repeats_key(skip(text, at))

    def _repeats_key(self, at: int) -> bool:
        """Whether the item already has the key that follows: then the apparent pair is part of a text."""
        if self._section not in TIERS or self._item is None or at >= len(self.text):
            return False
        is_after_comma = self._is_comma(at)
        found = key_at(self.text, skip_commas(self.text, at))
        key = canonical_key(found.name) if found else ""
        return key in ITEM_KEYS and key in self._item and not (key == "id" and is_after_comma)

    def _is_comma(self, at: int) -> bool:
        return is_at(self.text, at, COMMAS)

    def _may_end_element(self, text: str, at: int) -> bool:
        spend(4)
        return ends_element(text, at)

    def _string(self) -> Any:
        read = read_string(self.text, self._at, self._may_end_value)
        if read is None:
            self._at = len(self.text)
            return _CUT
        self._check(self._at, read.end, read.repair)
        plus = skip(self.text, self._at)
        if not is_at(self.text, plus, "+") or not is_at(self.text, skip(self.text, plus + 1), QUOTES):
            return read.value
        self._at = skip(self.text, plus + 1)
        self.draft.mend("joined-strings")
        rest = self._string()
        return _CUT if rest is _CUT else read.value + rest

    def _check(self, start: int, end: int, repair: str) -> None:
        """Continue after a string, and note if its guessed end may be wrong."""
        self._at = end
        self.draft.mend(repair)
        if (
            repair
            and self.text[end - 1] == '"'
            and _PAIR_INSIDE.search(_OBJECT_INSIDE.sub("", self.text[start + 1 : end - 1]))
        ):
            self.draft.swallowed = True

    def _nested(self) -> Any:
        try:
            value, self._at = value_at(self.text, self._at)
        except ValueError:
            raise Unreadable("the value of an unknown key cannot be read") from None
        return value

    def _bare(self) -> Any:
        number = _NUMBER.match(self.text, self._at)
        if number and _AFTER_NUMBER.match(self.text, number.end()):
            return self._number(number)
        word = _WORD.match(self.text, self._at)
        if word and word[0].lower() in LITERALS and ends_value(self.text, word.end()):
            self._at = word.end()
            self.draft.mend("" if word[0] in ("null", "true", "false") else "literals")
            return LITERALS[word[0].lower()]
        return self._unquoted()

    def _number(self, number: re.Match[str]) -> Any:
        self._at = number.end()
        if self._at >= len(self.text):
            return _CUT
        self._at += self._is_at("fFdDlL")
        try:
            return json.loads(number[0])
        except ValueError:
            self.draft.mend("numbers")
            value = float(number[0].replace(",", "."))
            return int(value) if value.is_integer() and not re.search("[.,]", number[0]) else value

    def _unquoted(self) -> Any:
        """Read a string without an opening quote, or without both."""
        line_end = self.text.find("\n", self._at) % (len(self.text) + 1)
        last = _QUOTE.search(self.text, line_end)
        until = last.end() if last else len(self.text)
        spend((until - self._at) // 100)
        for close in _QUOTE.finditer(self.text, self._at, until):
            if self._may_end_value(self.text, close.end()):
                raw = self.text[self._at : close.start()]
                self.draft.swallowed |= '"' in raw or raw.startswith((":", ",", *OPENERS, *CLOSERS))
                self._check(self._at, close.end(), "missing-quote")
                return decode_string(raw)[0]
        phrase = _PHRASE.match(self.text, self._at)
        if phrase is None or not ends_value(self.text, phrase.end()):
            raise Unreadable("a value cannot be read")
        self._at = phrase.end()
        self.draft.mend("missing-quotes")
        return phrase[0].strip()

    def _words(self) -> Any:
        """Read a list of tags or ids."""
        self._at = skip(self.text, self._at)
        if not self._is_at("[［"):
            return self._value()
        self._at += 1
        words: list[str] = []
        while True:
            spend(2)
            self._at = skip(self.text, self._at)
            if self._at >= len(self.text):
                return _CUT
            if self._is_at(COMMAS):
                self._at += 1
            elif self._is_at("]］"):
                self._at += 1
                return words
            elif self._are_over(bool(words)):
                self.draft.mend("brackets")
                return words
            elif not self._take_word(words):
                return _CUT

    def _are_over(self, some: bool) -> bool:
        """Whether the list ends without a closing bracket."""
        if self._is_at("}｝"):
            return True
        found = key_at(self.text, self._at)
        return found is not None and (canonical_key(found.name) in _AFTER_WORDS or (some and not self._is_at(QUOTES)))

    def _take_word(self, words: list[str]) -> bool:
        """Read one more word; False if the text ends in it."""
        if self._is_at(QUOTES):
            read = read_string(self.text, self._at, self._may_end_element)
            if read is None:
                self._at = len(self.text)
                return False
            if not _NO_TAG.search(read.value):
                self._at = read.end
                self.draft.mend(read.repair)
                words.append(read.value)
                return True
            self._at += 1  # not a word: its closing quote is missing
        word = _TAG.match(self.text, self._at)
        if word is None:
            raise Unreadable("a tag cannot be read")
        self._at = word.end() + is_at(self.text, word.end(), QUOTES)
        self.draft.mend("missing-quote")
        words.append(decode_string(word[0].strip())[0])
        return True

    def _skip_unknown(self) -> None:
        """Skip what belongs to nothing: the start of a key, or text after the end; otherwise give up."""
        if self._depth <= 0 and "memory" in self.draft.data:
            self.done = True
        elif is_cut_key(self.text, self._at):
            self._at = len(self.text)
        else:
            raise Ambiguous("there is more in it than can be placed")
