"""Budget: how many tokens a call may take, what of it is taken already, and who may claim how much of the rest."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ctxwrap.settings import Shares
from ctxwrap.tokens import TooLong
from ctxwrap.types import Record


class Limit(NamedTuple):
    """A number of tokens that a request may take at most, and who says so."""

    tokens: int
    set_by: str


@dataclass(frozen=True, slots=True)
class Budget:
    limit: int
    set_by: str
    """Whose limit it is: the smallest of all that there are."""
    reply: int
    """What is kept free for the answer, if the model's window sets the limit."""
    fixed: int
    """What is sent in any case: the caller's system prompt, tools and newest turn, the protocol, the runtime fields."""
    counter: str = "estimate"
    exact: bool = False

    @property
    def effective(self) -> int:
        """What there is for everything that could be left out."""
        return max(0, self.limit - self.fixed)


def reckon(limits: list[Limit], fixed: int, *, reply: int, counter: str, exact: bool) -> Budget:
    """The budget under the smallest of the limits, of equals the first."""
    smallest = min(limits, key=lambda limit: limit.tokens)
    return Budget(max(0, smallest.tokens), smallest.set_by, reply, fixed, counter, exact)


def limit_told(told: TooLong, taken: int, reply: int) -> Limit:
    """What a request may take after one that took `taken` tokens, as we count, was too long for the provider.

    As much less as the provider's own numbers say, since counts differ; half, if it tells none. `reply` is what the
    answer is to have, if anybody says so: a provider that did not count it in may do so as soon as the rest fits.
    """
    limit, size, reply = told.limit or 0, told.size or 0, reply or told.reply
    left = limit - reply if told.reply or reply < limit else limit
    if not limit:
        tokens = taken / 2
    elif size > limit:
        tokens = taken * min(1.0, left / max(1, size - told.reply))
    else:
        tokens = min(taken / 2, left)
    return Limit(max(0, int(tokens * _SAFE)), "the provider")


_SAFE = 0.9
"""Counts differ: a little less than what is said to fit does."""


_STEPS = 32

_TALK = {"recent": 0.4, "memory": 0.45, "retrieved": 0.25}
"""What belongs to the conversation, and its shares where that is limited as a whole."""


@dataclass(slots=True)
class Ledger:
    """Claims on a budget, one after the other: nobody gets more than is left, and none more than its share."""

    budget: Budget
    shares: Shares
    talk: int | None = None
    """What recent messages, memory and what is found may take together, if that is limited."""
    spent: dict[str, int] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.budget.effective - sum(self.spent.values())

    def hold(self, kind: str, tokens: int) -> None:
        """Keep up to its share for one who comes later, so that those before it do not take all."""
        self._held[kind] = min(tokens, self._share(kind))

    def room(self, kind: str) -> int:
        """How much one may claim now: its share, or what is left in whole steps.

        What is cut to fit is so cut at the same place in many calls, although these leave a little more or less.
        """
        rest, share = self.rest(kind), self._share(kind)
        whole = self.budget.limit if self.talk is None or kind not in _TALK else self.talk
        return share if share <= rest else rest - rest % max(1, whole // _STEPS)

    def rest(self, kind: str) -> int:
        """All that is left and not kept for others."""
        held = {other: tokens for other, tokens in self._held.items() if other != kind and other not in self.spent}
        rest = self.left - sum(held.values())
        if self.talk is not None and kind in _TALK:
            taken = sum(each.get(other, 0) for other in _TALK for each in (self.spent, held))
            rest = min(rest, self.talk - taken)
        return max(0, rest)

    def spend(self, kind: str, tokens: int) -> None:
        self.spent[kind] = self.spent.get(kind, 0) + tokens

    def _share(self, kind: str) -> int:
        share = int(getattr(self.shares, kind) * self.budget.limit)
        return share if self.talk is None or kind not in _TALK else min(share, int(_TALK[kind] * self.talk))

    def as_json(self) -> Record:
        budget = self.budget
        return {
            "limit": budget.limit,
            "set_by": budget.set_by,
            "reply": budget.reply,
            "fixed": budget.fixed,
            "effective": budget.effective,
            "used": sum(self.spent.values()),
            "spent": dict(self.spent),
            "counter": budget.counter,
            "exact": budget.exact,
        }
