"""Repairs unknown damage with the smallest edits that yield a valid snapshot."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.instructions import VERSION
from ctxwrap.protocol.repair.by_keys import Draft
from ctxwrap.protocol.repair.strict import Ambiguous, remaining_steps, spend, strict_prefix
from ctxwrap.protocol.vocabulary import CAPABILITY_KEYS, ID_LISTS, ITEM_KEYS, OPTIONAL_KEYS, ROOT_KEYS, TIERS

_MAX_PLACES = 8
_MARKS = '{}[],:"'
_TOKEN = lazy_pattern(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++|"', re.DOTALL)
_STRINGLESS = lazy_pattern(r'[{}\[\],:"]|[^\s{}\[\],:"]++')
_REACH = 14
"""Maximum tokens between an edit and the failure, unless it concerns an open bracket."""
_NEAR = 3
"""The same if two neighbours show where the damage is."""
_QUOTE_FITS = lazy_pattern(r"(?=\s*[,:}\]])|(?<=[,:{\[ ])(?=\S)")
_BAD_ESCAPE = lazy_pattern(r"(?<!\\)(?:\\\\)*\\(?:[^\"\\/bfnrtu]|u(?![0-9a-fA-F]{4}))")
"""Damage that no edit of a mark can repair."""
_KEY = lazy_pattern(r'"\s*:')
_FEW_KEYS = 5
"""With fewer keys, more than a few marks are damaged."""
_OTHER_MARK = lazy_pattern(r"[{}\[\],:]")
_SAFE = lazy_pattern(r'\{\s*"id"\s*:|"(?:core|working|ephemeral|capabilities|active_task)"\s*:')
"""The start of a new part, before which the text can be judged by itself."""
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(strict=False).scan_once  # type: ignore[attr-defined]

Accept = Callable[[dict[str, Any]], bool]


class Edit(NamedTuple):
    """Replace the text from `start` to `end` by `put`."""

    start: int
    end: int
    put: str

    def applied(self, text: str) -> str:
        return text[: self.start] + self.put + text[self.end :]


def repair_marks(text: str, is_part: Accept, is_whole: Accept) -> dict[str, Any] | None:
    """Read `text` if few marks are wrong, missing or superfluous, each far from the next.

    One edit that yields a whole snapshot is enough; otherwise the edit that repairs the part around the failure is
    made, and reading continues. Raise Ambiguous if several edits are equally good.
    """
    if _BAD_ESCAPE.search(text) or len(_KEY.findall(text)) < _FEW_KEYS:
        return None
    reserve = remaining_steps() // 2  # reserved for reading by keys
    for _ in range(_MAX_PLACES):
        wholes, parts = _Region(text, _reach(text)).candidates(is_part, is_whole, reserve)
        if len(wholes) > 1:
            raise Ambiguous(f"{len(wholes)} readings are equally good")
        if wholes:
            return wholes[0].value
        if len(parts) != 1:
            return None
        text = parts[0].edit.applied(text)
    return None


class _TriedEdit(NamedTuple):
    edit: Edit
    value: dict[str, Any]

    @property
    def oddity(self) -> tuple[int, bool]:
        return _oddity(self.value), self.edit.put != "\\"


def _best(candidates: Iterable[_TriedEdit]) -> list[_TriedEdit]:
    """Return the candidates with the fewest oddities, one per value."""
    found: list[_TriedEdit] = []
    for candidate in candidates:
        if all(candidate.value != other.value for other in found):
            found.append(candidate)
    least = min((candidate.oddity for candidate in found), default=None)
    return [candidate for candidate in found if candidate.oddity == least]


class _Region:
    """The tokens shortly before a failure; `stub` replaces what precedes them, with the same open brackets."""

    def __init__(self, text: str, failed_at: int) -> None:
        self.text = text
        self.failed_at = failed_at
        spend(failed_at // 8)
        tokens = [match.span() for match in _tokens(text, failed_at + 1)]
        first = max(0, len(tokens) - _REACH)
        while first and text[tokens[first - 1][0]] not in ",{[":
            first -= 1
        self.tokens = tokens[first:]
        self.start = self.tokens[0][0] if self.tokens else 0
        open_before = self._walk(tokens[:first], [])
        self.stub = "".join('{"":' if text[at] == "{" else "[" for at in open_before)
        if open_before and text[open_before[-1]] == "{":
            self.stub = self.stub.removesuffix('"":')
        self.closed = -1
        self.openers = self._walk(self.tokens, open_before)

    def _walk(self, tokens: list[tuple[int, int]], openers: list[int]) -> list[int]:
        """Return the brackets that are open after `tokens`."""
        openers = list(openers)
        for start, _ in tokens:
            if self.text[start] in "{[":
                openers.append(start)
            elif self.text[start] in "}]" and openers:
                self.closed = openers.pop()
        return openers

    def candidates(self, is_part: Accept, is_whole: Accept, reserve: int) -> tuple[list[_TriedEdit], list[_TriedEdit]]:
        """Return the best edits for the whole text, and for the part around the failure."""
        wholes, parts = [], []
        start, frame = self._part_start()
        safe = _SAFE.search(self.text, self.failed_at + 1)
        end = safe.start() if safe else -1
        tried: set[Edit] = set()
        for edit in self._edits():
            if edit in tried:
                continue
            tried.add(edit)
            reach = self._reach(edit)
            if remaining_steps() < reserve:
                return [], []  # an untried edit might be as good
            if reach > len(self.text):
                wholes += _read(edit, edit.applied(self.text), is_whole)
            elif reach >= end >= edit.start >= start:
                moved = Edit(edit.start - start, edit.end - start, edit.put)
                parts += _read(edit, _closed(frame + moved.applied(self.text[start:end])), is_part)
        return _best(wholes), _best(parts)

    def _reach(self, edit: Edit) -> int:
        """Return how far strict reading gets after an edit; beyond the end if it succeeds."""
        if edit.start < self.start:
            return _reach(edit.applied(self.text))
        moved = Edit(edit.start - self.start, edit.end - self.start, edit.put)
        reach = _reach(self.stub + moved.applied(self.text[self.start :]))
        return reach - len(self.stub) + self.start - len(edit.put) + edit.end - edit.start

    def _part_start(self) -> tuple[int, str]:
        """Return the start of the failing item, or of the one before, and the surrounding frame."""
        openers = self.openers if len(self.openers) > 3 else [*self.openers, self.closed]
        if len(openers) < 4:
            return 0, ""
        tier = re.search(r'"(\w+)"\s*:\s*\Z', self.text[: openers[2]])
        return openers[3], f'{{"memory":{{"{tier[1] if tier else ""}":['

    def _edits(self) -> Iterator[Edit]:
        for at in (*self.openers[-2:], self.closed):
            if 0 <= at < self.start:
                yield from _of_bracket(self.text, at)
        if self.failed_at >= len(self.text.rstrip()):
            yield from (Edit(len(self.text), len(self.text), mark) for mark in "}]")
            return
        near = self.tokens[-_NEAR:] if self._clashes() else self.tokens
        following = _TOKEN.search(self.text, near[-1][1] if near else 0)
        for start, end in (*near, *([following.span()] if following else [])):
            yield from self._of_token(start, end)

    def _clashes(self) -> bool:
        """Whether two tokens that can never be neighbours cause the failure: then one of them is wrong."""
        kinds = [_kind(self.text[start]) for start, _ in self.tokens[-2:]]
        return len(kinds) == 2 and "".join(kinds) not in _PAIRS

    def _of_token(self, start: int, end: int) -> Iterator[Edit]:
        """Yield edits of a token's marks, next to it and in it, after which it fits its neighbours."""
        text = self.text
        for at in sorted({start, end - 1}):
            if text[at] in _MARKS:
                yield from self._fitting(at, at + 1, ("", *_MARKS))
        for at in (start, end):
            yield from self._fitting(at, at, _MARKS)
        if text[start] == '"':
            yield Edit(end - 1, end - 1, "\\")
            yield from (Edit(at.start(), at.start(), '"') for at in _QUOTE_FITS.finditer(text, start + 1, end - 1))
            yield from (Edit(*at.span(), '"') for at in _OTHER_MARK.finditer(text, start + 1, end - 1))

    def _fitting(self, start: int, end: int, marks: Iterable[str]) -> Iterator[Edit]:
        before = _kind(self.text[max(0, start - 80) : start].rstrip()[-1:])
        after = _kind(self.text[end : end + 80].lstrip()[:1])
        quoted = '"' in self.text[start:end]
        for mark in marks:
            if mark == '"' or before + mark + after in _LEGAL or (quoted and not mark):
                yield Edit(start, end, mark)


def _tokens(text: str, end: int) -> Iterator[re.Match[str]]:
    """Yield the tokens of `text` up to `end`; an unterminated string is the last."""
    at = 0
    for match in _TOKEN.finditer(text, 0, end):
        yield match
        at = match.end()
        if match[0] == '"':
            break
    yield from _STRINGLESS.finditer(text, at, end)


_FOLLOWS = {"{": '"}', "[": '{["]v', "}": ",}]", "]": ",}]", ",": '"{[v', ":": '"{[v', '"': ":,}]", "v": ",}]"}
"""What may follow each kind of token; v is a number or a word."""

_PAIRS = {left + right for left, rights in _FOLLOWS.items() for right in rights}
_LEGAL = frozenset((*_FOLLOWS, *_PAIRS, *(one + other[1] for one in _PAIRS for other in _PAIRS if one[1] == other[0])))
"""Sequences of one to three token kinds that are allowed."""


def _kind(char: str) -> str:
    return char if not char or char in _MARKS else "v"


def _of_bracket(text: str, at: int) -> Iterator[Edit]:
    """Yield edits of an earlier bracket that may cause the failure."""
    yield Edit(at, at + 1, "")
    yield Edit(at, at + 1, "[" if text[at] == "{" else "{")
    yield from (Edit(place, place, mark) for place in (at, at + 1) for mark in "{[")


def _closed(text: str) -> str:
    """Close the brackets that are open at the end of `text`."""
    text = text.rstrip().removesuffix(",")
    spend(len(text) // 8)
    openers: list[str] = []
    for match in _tokens(text, len(text)):
        if match[0] in ("{", "["):
            openers.append(match[0])
        elif match[0] in ("}", "]") and openers:
            openers.pop()
    return text + "".join("}" if opener == "{" else "]" for opener in reversed(openers))


def _reach(text: str) -> int:
    """Return where strict reading of `text` fails; beyond its end if it does not."""
    spend(8 + len(text) // 1000)
    try:
        _, end = _scan(text, 0)
    except json.JSONDecodeError as error:
        is_open = error.msg.startswith("Unterminated")  # then it was read to its end
        spend((len(text) if is_open else error.pos) // 24)
        return error.pos
    except StopIteration as stop:
        return int(stop.value)
    except RecursionError:
        return 0
    spend(end // 24)
    return end if ":" in text[end:] else len(text) + 1


def _read(edit: Edit, text: str, accept: Accept) -> list[_TriedEdit]:
    spend(20 + len(text) // 32)
    try:
        value, _ = strict_prefix(text, control=True)
    except ValueError:
        return []
    return [_TriedEdit(edit, value)] if accept(value) else []


_EDGES = {'"': 3, **dict.fromkeys("{}[],:", 2), **dict.fromkeys(" \t\r\n", 1)}
"""How odd a character is at the start or end of a string."""


def _oddity(value: Any) -> int:
    """Rate how much the strings look as if they contained surrounding marks."""
    if isinstance(value, str):
        return _EDGES.get(value[:1], 0) + _EDGES.get(value[-1:], 0)
    if isinstance(value, (dict, list)):
        return sum(map(_oddity, value.values() if isinstance(value, dict) else value))
    return 0


_WORD = lazy_pattern(r'[^",:{}\[\]\n]+')
_NAME = lazy_pattern(r"[A-Za-z_]\w*")
_NOTHING: dict[str, Any] = {
    "version": VERSION,
    "runtime": {"round": 0, "datetime": "", "startup_at": ""},
    "capabilities": [],
    "active_task": "",
}


def is_part(data: dict[str, Any]) -> bool:
    """Whether `data` is valid as far as it goes, without marks in words or keys."""
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
    """Whether `data` is a complete snapshot."""
    return data.keys() - {*OPTIONAL_KEYS} == {*ROOT_KEYS} and is_part(data) and data["memory"].keys() == {*TIERS}


def objection_to(draft: Draft) -> str:
    """Return an objection to a reading by keys, or ""."""
    if draft.swallowed:
        return "a text holds what belongs behind it"
    if not all(_WORD.fullmatch(word) for word in _words(draft.data) if word):
        return "a word holds what belongs around it"
    if not all(_NAME.fullmatch(key) for item in items_of(draft.data) for key in item):
        return "a key is no name"
    return ""


def items_of(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all items of a memory, by tier or flat."""
    memory = data.get("memory", {})
    return memory if isinstance(memory, list) else [item for tier in memory.values() for item in tier]


def _words(data: dict[str, Any]) -> Iterator[str]:
    """Yield ids, types, tags and capability values that are strings."""
    for ids in (data.get(name) for name in ID_LISTS):
        yield from (id for id in ids if isinstance(id, str)) if isinstance(ids, list) else ()
    for item in items_of(data):
        tags = item.get("tags")
        every = (item.get("id"), item.get("type"), *(tags if isinstance(tags, list) else ()))
        yield from (word for word in every if isinstance(word, str))
    for entry in data.get("capabilities", ()):
        if isinstance(entry, dict):
            yield from (word for word in entry.values() if isinstance(word, str))
