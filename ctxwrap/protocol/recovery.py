"""From a trailer's text to a snapshot, rung by rung: strict, unwrapped, punctuated, with few edits, by its keys."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.protocol.fields import arranged
from ctxwrap.protocol.repair.by_keys import read_by_keys
from ctxwrap.protocol.repair.edits import doubt, is_part, is_whole, items_of, mended
from ctxwrap.protocol.repair.layers import Bare, is_literal, levels, names_of_rest, plainest, unwrapped, without_fence
from ctxwrap.protocol.repair.notations import NOTATIONS
from ctxwrap.protocol.repair.relaxed import punctuated, relaxed_value, starts
from ctxwrap.protocol.repair.strict import Ambiguous, Effort, Exhausted, Unreadable, limited, spend, strict_prefix
from ctxwrap.protocol.repair.tokens import KNOWN_KEY
from ctxwrap.protocol.snapshot import continued, normalise, size_of_new, stale_round
from ctxwrap.protocol.vocabulary import MAX_ADDED, MAX_FAULTS
from ctxwrap.types import Status

MAX_TRAILER = 256 * 1024
MAX_DAMAGED = 64 * 1024
"""How long a trailer may be that is not strict JSON."""

INTERNAL = "internal error"

_BESIDE = lazy_pattern(r'(?<=["\]}\s]),\s*"(working_set|missing)"\s*:\s*(?=[\[{"])')
"""Where a trailer goes on to what memory does not depend on: requests to the working set, and open questions."""

_TRIED = 4
_FEW_COMMAS, _COMMA_EVERY = 200, 6
"""How many commas a state may have, beside one for so many characters."""


class Recovery(NamedTuple):
    """How far a trailer could be read."""

    status: Status
    snapshot: dict[str, Any] | None = None
    repairs: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    runtime: Any = None
    """What the trailer itself gives for the runtime."""


class RecoveredObject(NamedTuple):
    """An object, what was mended to get it, and whether the text ended inside it."""

    data: dict[str, Any]
    repairs: tuple[str, ...] = ()
    cut: bool = False


def recover(
    text: str,
    runtime: Mapping[str, Any] | None,
    previous: Mapping[str, Any] | None,
    effort: Effort | None = None,
) -> Recovery:
    """The snapshot in `text`, which follows the separator; what is mended in it is mended with `effort`."""
    if len(text) > MAX_TRAILER:
        return Recovery("rejected", violations=(f"the trailer is longer than {MAX_TRAILER} characters",))
    try:
        with limited(effort or Effort()):
            found = _found_apart(text.strip(), previous or {})
        returned = found.data.get("runtime")
        injected = dict(runtime if runtime is not None else returned if isinstance(returned, dict) else {})
        read = normalise(found.data, injected, previous or {})
    except Exhausted:
        return Recovery("rejected", violations=("unreadable: it is damaged, and mending it takes too long",))
    except Ambiguous as error:
        return Recovery("ambiguous", violations=(f"ambiguous: {error}",))
    except Unreadable as error:
        return Recovery("rejected", violations=(f"unreadable: {error}",))
    except Exception as error:  # a fault of ours must not cost the user the reply
        return Recovery("rejected", violations=(f"{INTERNAL}: {error!r}",))
    stale = stale_round(returned, injected)
    if stale is not None:
        return Recovery("rejected", violations=(f"stale: the trailer belongs to round {stale}, an earlier one",))
    added = size_of_new(read.snapshot, previous or {})
    if added > MAX_ADDED:
        fault = f"the snapshot adds {added} characters to memory, and one reply may add {MAX_ADDED}"
        return Recovery("rejected", violations=(fault,))
    repairs = found.repairs + tuple(name for name in read.repairs if name not in found.repairs)
    status: Status = "partial" if found.cut or not read.whole else "repaired" if repairs else "clean"
    return Recovery(status, read.snapshot, repairs, _few(read.violations), returned)


def _few(violations: tuple[str, ...]) -> tuple[str, ...]:
    """The first of them; a model may break a rule as often as it likes."""
    more = len(violations) - MAX_FAULTS
    return violations if more <= 0 else (*violations[:MAX_FAULTS], f"and {more} more")


def _found_apart(text: str, previous: Mapping[str, Any]) -> RecoveredObject:
    """The object in `text`; should it be unreadable, then what stands before requests and questions at its end."""
    try:
        return _found(text, previous)
    except Unreadable as error:
        places = [*_BESIDE.finditer(text)][: -_TRIED - 1 : -1] if len(text) <= MAX_DAMAGED else []
        found = next((found for at in places if (found := _found_before(text, at, previous))), None)
        if found is None:
            raise error from None
        return found


def _found_before(text: str, at: re.Match[str], previous: Mapping[str, Any]) -> RecoveredObject | None:
    """What stands before a key, with its value as text; questions stay as they were."""
    try:
        found = _found(text[: at.start()] + "}", previous)
    except Unreadable:
        return None
    value = {"working_set": text[at.end() :]} if at[1] == "working_set" else {}
    return RecoveredObject({**found.data, **value}, (at[1].replace("_", "-"), *found.repairs), found.cut)


def _found(text: str, previous: Mapping[str, Any]) -> RecoveredObject:
    try:
        data, end = strict_prefix(text)
        if end == len(text):
            return RecoveredObject(data)
    except ValueError:
        pass
    if len(text) > MAX_DAMAGED:
        raise Unreadable("it is damaged, and too long to be mended")
    spend(1 + len(text) // 32)
    texts: list[Bare] = []
    for level in levels(text):
        texts += level
        found = _agreed([found for bare in level if (found := _surely(bare))])
        if found is not None:
            return found
    bare = plainest(texts)
    text, wrappings = unwrapped(bare.text)
    return _edited(text, (*bare.names, *wrappings)) or _by_keys(text, (*bare.names, *wrappings), previous)


def _agreed(found: list[RecoveredObject]) -> RecoveredObject | None:
    """The first, if all the others say the same."""
    if any(other.data != found[0].data for other in found):
        raise Ambiguous("it can be decoded in several ways")
    return found[0] if found else None


def _surely(bare: Bare) -> RecoveredObject | None:
    """The state in a text, if nothing of it has to be guessed."""
    if is_literal(bare.text):
        return None
    text, wrappings = unwrapped(bare.text)
    names = (*bare.names, *wrappings)
    for read in (_unedited, _repunctuated, _relaxed):
        found = read(text if read is not _relaxed else bare.text, names)
        if found is not None and arranged(found.data):
            return found
    return _noted(bare)


def _repunctuated(text: str, names: tuple[str, ...]) -> RecoveredObject | None:
    if '"' not in text:
        return None
    text, mended = punctuated(text)
    return _unedited(text, (*names, *mended))


def _relaxed(text: str, names: tuple[str, ...]) -> RecoveredObject | None:
    for start in starts(text) if text.count(",") <= _FEW_COMMAS + len(text) // _COMMA_EVERY else ():
        try:
            data, end = relaxed_value(text, start)
        except Unreadable:
            continue
        found = arranged(data)
        if found is not None and not KNOWN_KEY.search(text, end):
            data = data if isinstance(data, dict) else found[0]
            return RecoveredObject(data, (*names, "notation", *names_of_rest(text[end:], names)))
    return None


def _noted(bare: Bare) -> RecoveredObject | None:
    """The state in a notation of another kind."""
    text = without_fence(bare.text)
    spend((len(text) // 32 + text.count("\n")) // 2)
    for name, looks_like, read in NOTATIONS:
        if looks_like(text):
            try:
                data = read(text)
            except Ambiguous:
                raise
            except Unreadable:
                continue
            if arranged(data):
                return RecoveredObject(data, (*bare.names, name))
    return None


def _unedited(text: str, wrappings: tuple[str, ...]) -> RecoveredObject | None:
    """The object that `text` begins with, unless there is more of it behind its end."""
    spend(len(text) // 32)
    try:
        data, end = strict_prefix(text, control=True)
    except ValueError:
        return None
    spend((len(text) - end) // 4)
    if KNOWN_KEY.search(text, end) and not _is_repeated(data, text[end:]):
        return None
    return RecoveredObject(data, (*wrappings, *names_of_rest(text[end:], wrappings)) or ("control-characters",))


def _is_repeated(data: dict[str, Any], rest: str) -> bool:
    try:
        return strict_prefix(rest.lstrip(), control=True)[0] == data
    except ValueError:
        return False


def _edited(text: str, wrappings: tuple[str, ...]) -> RecoveredObject | None:
    data = mended(text, is_part, is_whole)
    return RecoveredObject(data, (*wrappings, "marks")) if data is not None else None


def _by_keys(text: str, wrappings: tuple[str, ...], previous: Mapping[str, Any]) -> RecoveredObject:
    draft = read_by_keys(text)
    if not draft.data.keys() & {"version", "runtime", "memory"}:
        raise Unreadable("there is nothing of a snapshot in it")
    for item in items_of(draft.data):
        item.setdefault("id", "")  # it may be the rest of another one, so it gets none
    objection = doubt(draft)
    if objection:
        raise Ambiguous(objection)
    return RecoveredObject(continued(draft, previous), (*wrappings, *draft.repairs) or ("punctuation",), draft.cut)
