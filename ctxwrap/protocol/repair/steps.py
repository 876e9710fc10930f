"""Reads a damaged snapshot, in steps: unwrapped, repunctuated, with few edits, by its keys."""

import re
from collections.abc import Mapping
from typing import Any

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.fields import arrange_state
from ctxwrap.protocol.repair.by_keys import read_by_keys
from ctxwrap.protocol.repair.edits import is_part, is_whole, items_of, objection_to, repair_marks
from ctxwrap.protocol.repair.layers import (
    UnwrappedText,
    is_literal,
    name_rest,
    plainest,
    strip_fence,
    strip_wrapping,
    unwrap_layers,
)
from ctxwrap.protocol.repair.notations import NOTATIONS
from ctxwrap.protocol.repair.relaxed import relaxed_value, repunctuate, state_starts
from ctxwrap.protocol.repair.strict import Ambiguous, RecoveredObject, Unreadable, read_strictly, spend, strict_prefix
from ctxwrap.protocol.repair.tokens import KNOWN_KEY
from ctxwrap.protocol.snapshot import complete_draft

MAX_DAMAGED = 64 * 1024
"""Maximum length of a trailer that is not strict JSON."""

_SIDE_FIELD = lazy_pattern(r'(?<=["\]}\s]),\s*"(working_set|missing)"\s*:\s*(?=[\[{"])')
"""The start of fields that memory does not depend on: working set requests and open questions."""

_MAX_TRIED = 4
_FEW_COMMAS, _COMMA_EVERY = 200, 6
"""Maximum commas in a state, plus one per this many characters."""


def read_damaged(text: str, previous: Mapping[str, Any]) -> RecoveredObject:
    """Read an object that is not strict JSON; if unreadable, read what precedes requests and questions at its end."""
    try:
        return _mended(text, previous)
    except Unreadable as error:
        places = [*_SIDE_FIELD.finditer(text)][: -_MAX_TRIED - 1 : -1] if len(text) <= MAX_DAMAGED else []
        found = next((found for at in places if (found := _read_before(text, at, previous))), None)
        if found is None:
            raise error from None
        return found


def _read_before(text: str, at: re.Match[str], previous: Mapping[str, Any]) -> RecoveredObject | None:
    """Read what precedes a key, and keep the key's value as text; open questions stay as they were."""
    before = text[: at.start()] + "}"
    try:
        found = read_strictly(before) or _mended(before, previous)
    except Unreadable:
        return None
    value = {"working_set": text[at.end() :]} if at[1] == "working_set" else {}
    return RecoveredObject({**found.data, **value}, (at[1].replace("_", "-"), *found.repairs), found.cut)


def _mended(text: str, previous: Mapping[str, Any]) -> RecoveredObject:
    if len(text) > MAX_DAMAGED:
        raise Unreadable("it is damaged, and too long to be mended")
    spend(1 + len(text) // 32)
    texts: list[UnwrappedText] = []
    for level in unwrap_layers(text):
        texts += level
        found = _unanimous([found for bare in level if (found := _read_certain(bare))])
        if found is not None:
            return found
    bare = plainest(texts)
    text, wrappings = strip_wrapping(bare.text)
    return _edited(text, (*bare.names, *wrappings)) or _by_keys(text, (*bare.names, *wrappings), previous)


def _unanimous(found: list[RecoveredObject]) -> RecoveredObject | None:
    """Return the first object if all others are equal."""
    if any(other.data != found[0].data for other in found):
        raise Ambiguous("it can be decoded in several ways")
    return found[0] if found else None


def _read_certain(bare: UnwrappedText) -> RecoveredObject | None:
    """Read the state if that needs no guess."""
    if is_literal(bare.text):
        return None
    text, wrappings = strip_wrapping(bare.text)
    names = (*bare.names, *wrappings)
    for read in (_unedited, _repunctuated, _relaxed):
        found = read(text if read is not _relaxed else bare.text, names)
        if found is not None and arrange_state(found.data):
            return found
    return _read_notation(bare)


def _repunctuated(text: str, names: tuple[str, ...]) -> RecoveredObject | None:
    if '"' not in text:
        return None
    text, mended = repunctuate(text)
    return _unedited(text, (*names, *mended))


def _relaxed(text: str, names: tuple[str, ...]) -> RecoveredObject | None:
    for start in state_starts(text) if text.count(",") <= _FEW_COMMAS + len(text) // _COMMA_EVERY else ():
        try:
            data, end = relaxed_value(text, start)
        except Unreadable:
            continue
        found = arrange_state(data)
        if found is not None and not KNOWN_KEY.search(text, end):
            data = data if isinstance(data, dict) else found[0]
            return RecoveredObject(data, (*names, "notation", *name_rest(text[end:], names)))
    return None


def _read_notation(bare: UnwrappedText) -> RecoveredObject | None:
    """Read a state in a notation other than JSON."""
    text = strip_fence(bare.text)
    spend((len(text) // 32 + text.count("\n")) // 2)
    for name, looks_like, read in NOTATIONS:
        if looks_like(text):
            try:
                data = read(text)
            except Ambiguous:
                raise
            except Unreadable:
                continue
            if arrange_state(data):
                return RecoveredObject(data, (*bare.names, name))
    return None


def _unedited(text: str, wrappings: tuple[str, ...]) -> RecoveredObject | None:
    """Read the object at the start of `text`, unless more of it follows its end."""
    spend(len(text) // 32)
    try:
        data, end = strict_prefix(text, control=True)
    except ValueError:
        return None
    spend((len(text) - end) // 4)
    if KNOWN_KEY.search(text, end) and not _is_repeated(data, text[end:]):
        return None
    return RecoveredObject(data, (*wrappings, *name_rest(text[end:], wrappings)) or ("control-characters",))


def _is_repeated(data: dict[str, Any], rest: str) -> bool:
    try:
        return strict_prefix(rest.lstrip(), control=True)[0] == data
    except ValueError:
        return False


def _edited(text: str, wrappings: tuple[str, ...]) -> RecoveredObject | None:
    data = repair_marks(text, is_part, is_whole)
    return RecoveredObject(data, (*wrappings, "marks")) if data is not None else None


def _by_keys(text: str, wrappings: tuple[str, ...], previous: Mapping[str, Any]) -> RecoveredObject:
    draft = read_by_keys(text)
    if not draft.data.keys() & {"version", "runtime", "memory"}:
        raise Unreadable("there is nothing of a snapshot in it")
    for item in items_of(draft.data):
        item.setdefault("id", "")  # the item may be the rest of another one, so it gets no id
    objection = objection_to(draft)
    if objection:
        raise Ambiguous(objection)
    return RecoveredObject(complete_draft(draft, previous), (*wrappings, *draft.repairs) or ("punctuation",), draft.cut)
