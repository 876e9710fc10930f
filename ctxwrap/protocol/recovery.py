"""Reads a snapshot from a trailer: strict JSON as it is, and what is damaged by the steps of `repair`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from ctxwrap.protocol.extent import is_too_deep
from ctxwrap.protocol.repair.strict import (
    Ambiguous,
    Effort,
    Exhausted,
    RecoveredObject,
    Unreadable,
    limit_effort,
    read_strictly,
)
from ctxwrap.protocol.snapshot import added_size, canonical_items, normalise, runtime_violations, stale_round
from ctxwrap.protocol.vocabulary import MAX_ADDED, MAX_DEPTH, MAX_FAULTS, TIERS
from ctxwrap.types import Status

MAX_TRAILER = 256 * 1024

INTERNAL = "internal error"

_MOST_PER_CHARACTER = 8
"""More characters of JSON than one of strict JSON becomes: `1e15` becomes 1000000000000000.0."""


class Recovery(NamedTuple):
    """The result of reading a trailer."""

    status: Status
    snapshot: dict[str, Any] | None = None
    repairs: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    runtime: Any = None
    """The runtime that the trailer states."""


def recover(
    text: str,
    runtime: Mapping[str, Any] | None,
    previous: Mapping[str, Any] | None,
    effort: Effort | None = None,
    value: dict[str, Any] | None = None,
) -> Recovery:
    """Read the snapshot in `text`, which follows the separator, with at most `effort` for repairs.

    `value` is the strict JSON that `text` is, if it was read already.
    """
    if len(text) > MAX_TRAILER:
        return Recovery("rejected", violations=(f"the trailer is longer than {MAX_TRAILER} characters",))
    repairs: tuple[str, ...] = ()
    cut = False
    try:
        if value is None:
            with limit_effort(effort or Effort()):
                value, repairs, cut = _read_object(text.strip(), previous or {})
        returned = value.get("runtime")
        injected = dict(runtime if runtime is not None else returned if isinstance(returned, dict) else {})
        read = normalise(value, injected, previous or {})
    except Exhausted:
        return Recovery("rejected", violations=("unreadable: it is damaged, and mending it takes too long",))
    except Ambiguous as error:
        return Recovery("ambiguous", violations=(f"ambiguous: {error}",))
    except Unreadable as error:
        return Recovery("rejected", violations=(f"unreadable: {error}",))
    except Exception as error:  # an error of ours must not cost the user the reply
        return Recovery("rejected", violations=(f"{INTERNAL}: {error!r}",))
    stale = stale_round(returned, injected)
    if stale is not None:
        return Recovery("rejected", violations=(f"stale: the trailer belongs to round {stale}, an earlier one",))
    if read.repairs:
        repairs += tuple([name for name in read.repairs if name not in repairs])
    is_small = not repairs and read.whole and len(text) <= MAX_ADDED // _MOST_PER_CHARACTER
    added = 0 if is_small else added_size(read.snapshot, previous or {})
    if added > MAX_ADDED:
        fault = f"the snapshot adds {added} characters to memory, and one reply may add {MAX_ADDED}"
        return Recovery("rejected", violations=(fault,))
    status: Status = "partial" if cut or not read.whole else "repaired" if repairs else "clean"
    return Recovery(status, read.snapshot, repairs, _limit(read.violations), returned)


def recover_plain(text: str, runtime: Mapping[str, Any], previous: Mapping[str, Any] | None) -> Recovery | None:
    """Read a trailer that is strict JSON in canonical form, as most are, like `recover`; None if it may be another."""
    if len(text) > MAX_TRAILER:
        return None
    try:
        value = from_json(text, allow_inf_nan=False)
        returned = value["runtime"]
        snapshot = {**value, "runtime": dict(runtime)}
        items = canonical_items(snapshot) if isinstance(returned, dict) else None
    except Exception:  # it is no such JSON, or the error is ours: `recover` reports it
        return None
    if items is None or (text.count("{") + text.count("[") > MAX_DEPTH and is_too_deep(value)):
        return None
    if len(text) > MAX_ADDED // _MOST_PER_CHARACTER and added_size(snapshot, previous or {}) > MAX_ADDED:
        return None
    # The decoder lets a key stand twice in an object. None does if there are as many keys as places where one may end.
    keys = len(value) + len(returned) + len(TIERS) + sum(map(len, items))
    for each in (*value["capabilities"], *value.get("missing", ())):
        keys += len(each) if isinstance(each, dict) else 0
    ends = _KEY_ENDS if "\n" in text or "\r" in text or "\t" in text else _KEY_ENDS[:2]
    if sum(map(text.count, ends)) != keys:
        return None
    if returned == runtime:
        return Recovery("clean", snapshot, (), (), returned)
    if stale_round(returned, runtime) is not None:
        return None
    return Recovery("clean", snapshot, (), tuple(runtime_violations(returned, runtime)), returned)


_KEY_ENDS = ('":', " :", "\n:", "\r:", "\t:")
"""A colon behind a key: behind a quote, or white space."""


def _limit(violations: tuple[str, ...]) -> tuple[str, ...]:
    """Limit the violations that are listed."""
    more = len(violations) - MAX_FAULTS
    return violations if more <= 0 else (*violations[:MAX_FAULTS], f"and {more} more")


def _read_object(text: str, previous: Mapping[str, Any]) -> RecoveredObject:
    found = read_strictly(text)
    if found is not None:
        return found
    from ctxwrap.protocol.repair.steps import read_damaged  # most processes never read a damaged snapshot

    return read_damaged(text, previous)
