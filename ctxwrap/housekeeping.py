"""Housekeeping on request: what was derived from a session's log and is of no use is shown, and removed."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ctxwrap.session import gc
from ctxwrap.session.clock import utc_now
from ctxwrap.session.finding import Place, existing, key_for
from ctxwrap.threads import undisturbed


class Collectable(NamedTuple):
    """One file that is of no use."""

    name: str
    size: int
    """In bytes; a second name of a content that stays frees none of them."""
    reason: str
    removed: bool
    problem: str = ""
    """Why it is still there though it was to go, if so."""


@dataclass(frozen=True, slots=True)
class GarbageReport:
    dry_run: bool
    policy: gc.Policy
    files: tuple[Collectable, ...]

    @property
    def size(self) -> int:
        """Of all these files, in bytes."""
        return sum(file.size for file in self.files)


def collect_garbage(
    session: str,
    *,
    dry_run: bool = True,
    store: Place = None,
    tenant: str = "default",
    agent: str = "default",
    now: datetime | None = None,
) -> GarbageReport:
    """What of a session's derived files is of no use, by its `context/gc.policy`; removed only without `dry_run`.

    Messages, events, what they refer to, children and your own files in `context/` are never among it, and `rebuild`
    brings back what is removed, but for a pack, which every call makes anew.
    """
    log, moment = existing(key_for(session, tenant, agent), store).log, now or utc_now()
    with undisturbed():
        policy = gc.policy_of(log.files)
        if dry_run:
            files = tuple(Collectable(*garbage, removed=False) for garbage in gc.plan(log, moment))
        else:
            done = gc.collect(log, moment)
            files = tuple(Collectable(*each.garbage, not each.problem, each.problem) for each in done)
    return GarbageReport(dry_run, policy, files)
