"""Finds the end of a snapshot: of JSON that streams in, and the plausible end of damaged JSON."""

import re
from bisect import bisect_left, bisect_right
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.grammar import ANY_QUOTE, OWN_KEY
from ctxwrap.protocol.repair.strict import value_at
from ctxwrap.protocol.separator import SeparatorMatch, json_continues, separator_in_line, separators_in
from ctxwrap.protocol.vocabulary import KNOWN_KEYS, MAX_DEPTH

_FREE_CHARACTERS, _FAILED_COST = 64 * 1024, 1024
"""Budget for strict parsing beyond twice the text's length, and the cost of a failed attempt."""
_SURE_KEY = lazy_pattern(
    rf"\b(?:runtime|capabilities|active[_ -]?task|ephemeral|decay|startup_at){ANY_QUOTE}?\s{{0,4}}[:=：]", re.IGNORECASE
)
"""A key that by itself identifies a snapshot."""
_KEY = lazy_pattern(rf"{ANY_QUOTE}(?:{'|'.join(sorted(KNOWN_KEYS))}){ANY_QUOTE}\s{{0,4}}[:=：]", re.IGNORECASE)
_YAML = lazy_pattern(
    r"(?:[ \t]{0,64}\n|[ \t-][^\n]*+(?:\n|\Z)|(?:```|---)[^\n]*+\n"
    rf"|(?:{'|'.join(sorted(KNOWN_KEYS))})\s?:[^\n]*+(?:\n|\Z))*+",
    re.IGNORECASE,
)

_BLOB = lazy_pattern(r"(?<![\w+/=%-])[\w+/=%-]{160}")
_UP_TO_BRACKET = lazy_pattern(r'(?s)(?:[\s,:\d.+\-a-zE]++|"(?:[^"\\\x00-\x1f]++|\\.)*+"(?!"))*+')
"""Complete tokens between the brackets of strict JSON."""
_IN_STRING = lazy_pattern(r'(?s)(?:[^"\\\x00-\x1f]++|\\.)*+')
_BRACKET = lazy_pattern(r'"(?:[^"\\\n]++|\\.)*+"|\\.|[{}\[\]｛｝［］]')
_CLOSER = lazy_pattern(r'"(?:[^"\\\n]++|\\.)*+"|\\.|[}\]｝］]')
_CLOSING_LINE = lazy_pattern(r"(?:[^\n]*[}\]｝］])?+(?:[\s,;\"'`”’]{0,80}[}\]｝］])*+")
_VALUE = lazy_pattern(r"""\s{0,4}(?:"(?:[^"\\\n]++|\\.)*+"|[\w.+-]{1,40}|\[\])[ \t,]{0,8}\n[ \t\r]{0,8}\n""")
_PARAGRAPH_ENDS = lazy_pattern(
    r"""(?:[}\]｝］][ \t\r,;]{0,8}|["'”’\d][ \t\r,;]{0,8}\n[ \t\r]{0,8})\n\s{0,64}"""
    r"""(?=[^\s"'“{}\[\]｛｝［］,:]|\{\w{1,40}\})"""
)
_LINE_IS_OVER = lazy_pattern(r"[\s,;\"'`”’]{0,80}(?:\n|\Z)")


def own_keys(text: str, start: int = 0, end: int | None = None) -> int:
    """Count the distinct snapshot keys between `start` and `end`."""
    found = OWN_KEY.finditer(text, start, len(text) if end is None else end)
    return len({match[1].lower() for match in found})


def is_snapshot(text: str, start: int, end: int, match: SeparatorMatch) -> bool:
    """Whether the text there is intended as a snapshot."""
    return match.bare or _has_own_keys(text, start, end, 1 if match.exact else 2)


def _has_own_keys(text: str, start: int, end: int, least: int) -> bool:
    """Like `own_keys(...) >= least`, but stops early."""
    found: set[str] = set()
    for match in OWN_KEY.finditer(text, start, end):
        found.add(match[1].lower())
        if len(found) >= least:
            return True
    return False


def is_blob(text: str) -> bool:
    """Whether the text contains encoded data."""
    return _BLOB.search(text) is not None


class ObjectEnd:
    """Finds the end of a strict JSON object that arrives in pieces."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._in_string = False
        self._after_string = False
        self._escaped = False
        self.failed = False
        self.at = 0
        """How far the last piece was read."""

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self._open)

    def feed(self, text: str, at: int) -> int:
        """Return where the object ends in `text`; -1 if it does not, or is not strict JSON."""
        size = len(text)
        while at < size and not self.failed:
            if self._in_string:
                at = self._string(text, at)
                continue
            plain = _UP_TO_BRACKET.match(text, at)
            if plain and plain.end() > at:
                at = plain.end()
                self._after_string = text[at - 1] == '"'
            if at < size:
                self._sign(text[at])
                at += 1
                if not self._open and not self.failed:
                    self.at = at
                    return at
        self.at = at
        return -1

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        inside = _IN_STRING.match(text, at)
        at = inside.end() if inside else at
        if at < len(text):
            sign = text[at]
            self._in_string = self._escaped = sign == "\\"
            self._after_string = sign == '"'
            self.failed = sign not in '"\\'
            at += 1
        return at

    def _sign(self, sign: str) -> None:
        if sign == '"':
            self._in_string, self.failed = True, self._after_string
        elif sign in "{[":
            self._open.append("}" if sign == "{" else "]")
            self.failed = len(self._open) > MAX_DEPTH
        else:
            self.failed = sign not in "}]" or self._open.pop() != sign


def strict_end(text: str, at: int) -> int:
    """Return where the strict JSON object at `at` ends; -1 if there is none."""
    end = ObjectEnd().feed(text, at)  # before the decoder, whose errors count the lines of the whole text
    return end if end >= 0 and strict_object(text[at:end]) is not None else -1


def strict_object(text: str) -> dict[str, Any] | None:
    """Return the strict JSON object that `text` is; None if it is something else."""
    found = whole_object(text, 0)
    return found[0] if found is not None and found[1] == len(text) else None


def whole_object(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the strict JSON object at `at` and its end, as `ObjectEnd` finds it; None if it is not all there."""
    try:
        value, end = value_at(text, at)
    except ValueError:
        return None
    brackets = text.count("{", at, end) + text.count("[", at, end)
    if not isinstance(value, dict) or (brackets > MAX_DEPTH and is_too_deep(value)):
        return None
    return value, end


def is_too_deep(value: Any) -> bool:
    """Whether `value` is nested too deeply for a snapshot."""
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = [each.values() if isinstance(each, dict) else each for each in level]
        level = [child for part in parts for child in part if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


class Landmarks:
    """Positions in a text that bound a damaged snapshot, found once in linear time."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._keys = [match.end() for match in _KEY.finditer(text, at)]
        self._sure = [match.start() for match in _SURE_KEY.finditer(text, at)]
        self._last_key = max((match.start() for match in OWN_KEY.finditer(text, at)), default=-1)
        places = separators_in(text, at)
        self._places = [match.start for match in places]
        self.looked_to = at
        """How far the last search for an end read."""
        self._readable: list[int] = []
        """Starts of readable snapshots; no earlier snapshot extends beyond one."""
        left = 2 * len(text) + _FREE_CHARACTERS
        for match in places:
            if left > 0 and match.object_at >= 0:
                end = strict_end(text, match.object_at)
                left -= max(end - match.object_at, _FAILED_COST)
                if end >= 0 and is_snapshot(text, match.end, end, match) and self._is_over(end):
                    self._readable.append(match.start)

    def _is_over(self, end: int, *, more: bool = False) -> bool:
        """Whether neither JSON nor a string continues at `end`; with `more`, also not in text still to come."""
        continues = json_continues(self._text, end, more=more)
        return continues is False and self._text[end : end + 1] not in ('"', "'", "\\", "”", "’")

    def has_keys(self, at: int) -> bool:
        """Whether a snapshot key follows `at`."""
        return self._last_key >= at

    def next_separator(self, match: SeparatorMatch) -> int:
        """Return the next separator with a snapshot, or the end of the text."""
        following = bisect_right(self._places, match.start)
        begins = self._places[following] if following < len(self._places) else len(self._text)
        in_line = separator_in_line(self._text, match.end, begins)
        return begins if in_line < 0 else in_line

    def end_of(self, match: SeparatorMatch) -> tuple[int, bool]:
        """Return the plausible end of the snapshot at `match`, and whether it is closed there."""
        readable = bisect_right(self._readable, match.start)
        limit = self._readable[readable] if readable < len(self._readable) else len(self._text)
        if match.object_at < 0 and (yaml := self._yaml_end(match, limit)) > 0:
            return yaml, True
        end = self.looked_to = self._balanced(match.object_at, limit) if match.object_at >= 0 else -1
        if end < 0:
            self.looked_to = limit
            end = self._by_keys(match, limit)
            if end >= 0 and not self._is_over(end, more=True):
                end = -1
        return (limit, False) if end < 0 else (end, True)

    def _yaml_end(self, match: SeparatorMatch, limit: int) -> int:
        lines = _YAML.match(self._text, match.end, limit)
        if lines is None or own_keys(self._text, match.end, lines.end()) < 2:
            return -1
        return match.end + len(self._text[match.end : lines.end()].rstrip())

    def _balanced(self, at: int, limit: int) -> int:
        """Return where the brackets are balanced, or -1 if more of the snapshot follows."""
        depth = 0
        for token in _BRACKET.finditer(self._text, at, limit):
            sign = token[0]
            if len(sign) > 1:
                continue
            depth += 1 if sign in "{[｛［" else -1
            if depth == 0:
                end = token.end()
                if json_continues(self._text, end, more=False) or self._has_more(end, limit):
                    if own_keys(self._text, at, end) or not self._text[end : end + 80].lstrip().startswith(("{", "｛")):
                        return -1
                    continue
                return end
        return -1

    def _has_more(self, end: int, limit: int) -> bool:
        """Whether snapshot keys follow before the next separator."""
        following = bisect_left(self._places, end)
        if following < len(self._places):
            limit = min(limit, self._places[following])
        key = bisect_left(self._sure, end)
        return key < len(self._sure) and self._sure[key] < limit

    def _by_keys(self, match: SeparatorMatch, limit: int) -> int:
        """Return the end of the line that closes the last known key's value, before the next or a later separator."""
        start = match.end
        first, last = bisect_right(self._places, match.start), bisect_left(self._places, limit)
        for stop in (*self._places[first:last], limit):
            end = self._closed(start, stop, is_last=stop == limit)
            if end >= 0:
                return end
            start = stop
        return -1

    def _closed(self, start: int, stop: int, *, is_last: bool) -> int:
        own = bisect_left(self._sure, stop) - 1
        if own >= 0 and self._sure[own] >= start:
            paragraph = _PARAGRAPH_ENDS.search(self._text, self._sure[own], stop)
            if paragraph:
                return paragraph.start() + 1
        known = bisect_right(self._keys, stop) - 1
        if known < 0 or self._keys[known] <= start:
            return -1
        key = self._keys[known]
        value = _VALUE.match(self._text, key, stop)
        if value:
            return len(self._text[: value.end()].rstrip())
        for token in _CLOSER.finditer(self._text, key, stop):
            if len(token[0]) == 1:
                line = _CLOSING_LINE.match(self._text, token.start(), stop)
                end = line.end() if line else token.end()
                return end if is_last or _LINE_IS_OVER.match(self._text, end, stop) else -1
        return -1
