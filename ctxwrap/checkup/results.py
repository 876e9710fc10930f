"""What a checkup found, whether the model works with ctxwrap, and what to set for it."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from ctxwrap.checkup.script import Finding
from ctxwrap.inspection import Cost
from ctxwrap.protocol.text import SEPARATOR
from ctxwrap.types import TurnRecord

Snapshot = Literal["delta", "full"]

ENOUGH, HARDLY = 0.8, 0.2
"""The shares of replies with a state that can be used: from the first on memory works, below the second it does not."""

_USABLE = ("clean", "repaired", "partial")
_DETAIL = re.compile(r"'[^']*'|\d+")
_LONGEST_FORM = 100


class Heard(NamedTuple):
    """One turn as the caller had it."""

    turn: TurnRecord
    text: str
    seconds: float
    behind: float | None = None
    """The seconds from the last visible text of a stream to its end."""


class Advice(NamedTuple):
    """What to set for this model, and why."""

    settings: dict[str, str]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    model: str
    snapshot: Snapshot
    """What the model was asked for."""
    turns: int
    clean: int
    """Replies whose state was as it should be,"""
    repaired: int
    """was mended or taken in part,"""
    unusable: int
    """could not be read at first,"""
    missing: int
    """or was not there."""
    asked_again: int
    """Questions for a state that could not be used."""
    rescued: int
    """Replies that could be used after that."""
    forms: dict[str, int]
    """What was mended or broken, and in how many replies."""
    leaks: int
    """Answers in which the user could see a separator,"""
    blank: int
    """and answers that were empty."""
    findings: tuple[Finding, ...]
    tokens_in: int
    cached: int | None
    """Of these, what the provider says its cache gave; None if it tells no usage."""
    tokens_out: int
    snapshot_tokens: int
    """Of the tokens out, those of the states."""
    dollars: float | None
    seconds: float
    snapshot_seconds: float | None
    """What a streamed reply took on average after its visible text."""

    @property
    def usable(self) -> float:
        """The share of replies with a state that could be used, at last."""
        return (self.clean + self.repaired + self.rescued) / self.turns

    @property
    def is_remembered(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def works(self) -> bool:
        return self.usable >= ENOUGH and self.is_remembered and not self.leaks and not self.blank

    @property
    def advice(self) -> Advice:
        other: Snapshot = "full" if self.snapshot == "delta" else "delta"
        kept = {"snapshot": self.snapshot, "on_missing": "rules"}
        if self.usable < HARDLY:
            return Advice({"context_mode": "readonly"}, "it hardly writes a state that can be used")
        if self.usable < ENOUGH and self.missing >= self.unusable - self.rescued:
            return Advice(kept | {"on_missing": "reask"}, "it often writes no state, and may when asked again")
        if self.usable < ENOUGH:
            return Advice(kept | {"snapshot": other}, "many of its states cannot be used; the other form may be easier")
        if not self.is_remembered:
            return Advice(kept | {"snapshot": other}, "its states do not say what matters; the other form may help")
        return Advice(kept, "it writes states that can be used")

    def as_json(self) -> dict[str, Any]:
        told = asdict(self) | {"findings": {finding.what: finding.holds for finding in self.findings}}
        return told | {"usable": self.usable, "works": self.works, "advice": self.advice._asdict()}


def summed_up(model: str, snapshot: Snapshot, heard: list[Heard], found: Iterable[Finding], cost: Cost) -> Checkup:
    turns = [each.turn for each in heard]
    at_once = Counter(turn.report.reading for turn in turns if not turn.report.reasks)
    again = [turn for turn in turns if turn.report.reasks]
    behind = [each.behind for each in heard if each.behind is not None]
    spent = cost.sent.total
    return Checkup(
        model=model,
        snapshot=snapshot,
        turns=len(turns),
        clean=at_once["clean"],
        repaired=at_once["repaired"] + at_once["partial"],
        unusable=at_once["rejected"] + at_once["ambiguous"] + len(again),
        missing=at_once["missing"],
        asked_again=sum(turn.report.reasks for turn in turns),
        rescued=sum(turn.report.reading in _USABLE for turn in again),
        forms=dict(Counter(form for turn in turns for form in _forms(turn)).most_common()),
        leaks=sum(SEPARATOR in each.text for each in heard),
        blank=sum(not each.text.strip() for each in heard),
        findings=tuple(found),
        tokens_in=spent.tokens_in,
        cached=spent.cached if cost.reported else None,
        tokens_out=spent.tokens_out,
        snapshot_tokens=cost.snapshot,
        dollars=spent.money,
        seconds=sum(each.seconds for each in heard),
        snapshot_seconds=sum(behind) / len(behind) if behind else None,
    )


def _forms(turn: TurnRecord) -> Iterator[str]:
    """What was mended or broken in a reply, each once and without its details."""
    told = (*turn.repairs, *turn.violations)
    yield from dict.fromkeys(_DETAIL.sub("…", form)[:_LONGEST_FORM] for form in told)
