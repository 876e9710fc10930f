"""Reads a snapshot from a trailer: strict JSON as it is, and what is damaged by the steps of `repair`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ctxwrap.protocol.repair.strict import (
    Ambiguous,
    Effort,
    Exhausted,
    RecoveredObject,
    Unreadable,
    limit_effort,
    read_strictly,
)
from ctxwrap.protocol.snapshot import added_size, normalise, stale_round
from ctxwrap.protocol.vocabulary import MAX_ADDED, MAX_FAULTS
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
    try:
        if value is not None:
            found = RecoveredObject(value)
        else:
            with limit_effort(effort or Effort()):
                found = _read_object(text.strip(), previous or {})
        returned = found.data.get("runtime")
        injected = dict(runtime if runtime is not None else returned if isinstance(returned, dict) else {})
        read = normalise(found.data, injected, previous or {})
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
    repairs = found.repairs
    if read.repairs:
        repairs += tuple([name for name in read.repairs if name not in repairs])
    is_small = not repairs and read.whole and len(text) <= MAX_ADDED // _MOST_PER_CHARACTER
    added = 0 if is_small else added_size(read.snapshot, previous or {})
    if added > MAX_ADDED:
        fault = f"the snapshot adds {added} characters to memory, and one reply may add {MAX_ADDED}"
        return Recovery("rejected", violations=(fault,))
    status: Status = "partial" if found.cut or not read.whole else "repaired" if repairs else "clean"
    return Recovery(status, read.snapshot, repairs, _limit(read.violations), returned)


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
