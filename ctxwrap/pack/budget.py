"""The token budget of a call, and the ledger in which kinds of pack items claim their shares of it."""

from functools import lru_cache
from typing import NamedTuple

from ctxwrap.kinds import KINDS, Share
from ctxwrap.settings import Shares
from ctxwrap.tokens import ContextWindow, TooLong
from ctxwrap.types import Record


class Limit(NamedTuple):
    """The most tokens that a request may take, and who set that."""

    tokens: int
    set_by: str


_UNLIMITED = Limit(10**9, "nothing")


class TokenBudget(NamedTuple):
    limit: int
    set_by: str
    reply: int
    """Tokens kept free for the reply, where the model's window sets the limit."""
    fixed: int
    """Tokens that are always sent: the caller's system prompt, tools and newest turn, the protocol, the runtime."""
    counter: str = "estimate"
    exact: bool = False


@lru_cache(maxsize=256)
def smallest_limit(model: str, window: ContextWindow, reply: int, budget: int, own: int | None, given: int) -> Limit:
    """The smallest of the limits of the model, the settings and the session; the first one, if several are equal.

    `budget` is what the settings say and `own` what `context/budget` says. `given` are the tokens of the caller's
    system prompt, tools and newest turn. An agent's tools may take more than the budget, so half of it is always left
    for the conversation and memory.
    """
    limits = [Limit(window.input_tokens - reply, f"the window of {model}")] if window.known else []
    if own is None and budget:
        limits.append(Limit(max(budget, given + budget // 2), "settings"))
    elif own:
        limits.append(Limit(own, "context/budget"))
    return min(limits, key=lambda limit: limit.tokens, default=_UNLIMITED)


_SAFE = 0.9
"""The provider counts differently, so a request that should just fit is made a little smaller."""


def limit_after_rejection(error: TooLong, taken: int, reply: int) -> Limit:
    """The limit of the next request, after the provider rejected one of `taken` tokens, by our count, as too long.

    The request shrinks in proportion to the provider's own numbers, or by half if it gives none. `reply` is the output
    limit of the caller, if there is one: a provider that did not count it may do so once the rest fits.
    """
    limit, size, reply = error.limit or 0, error.size or 0, reply or error.reply
    left = limit - reply if error.reply or reply < limit else limit
    if not limit:
        tokens = taken / 2
    elif size > limit:
        tokens = taken * min(1.0, left / max(1, size - error.reply))
    else:
        tokens = min(taken / 2, left)
    return Limit(max(0, int(tokens * _SAFE)), "the provider")


_STEPS = 32

_OF_CONVERSATION = {row.share.name: row.share for row in KINDS.values() if row.share.of_conversation}


class Ledger:
    """Claims of kinds on a budget, in turn: none gets more than is left, and none more than its share."""

    def __init__(self, budget: TokenBudget, shares: Shares, conversation: int | None = None) -> None:
        self.budget, self.shares = budget, shares
        self.conversation = conversation
        """The most that recent messages, memory and retrieved passages take together, if that is limited."""
        self.spent: dict[str, int] = {}
        """Tokens by name of the share."""
        self._taken: dict[str, int] = {}
        """What shares have spent or, before that, hold."""
        self._sizes: dict[str, int] = {}
        """The tokens of shares."""
        self._effective = max(0, budget.limit - budget.fixed)
        """Tokens that are left for everything optional."""

    @property
    def left(self) -> int:
        return self._effective - sum(self.spent.values())

    def hold(self, kind: str, tokens: int) -> None:
        """Reserve up to its share for a kind that claims later."""
        share = KINDS[kind].share
        if share.name not in self.spent:
            self._taken[share.name] = min(tokens, self._tokens(share))

    def spend(self, kind: str, tokens: int) -> None:
        name = KINDS[kind].share.name
        self._taken[name] = self.spent[name] = self.spent.get(name, 0) + tokens

    def share(self, kind: str) -> int:
        """The tokens of a kind's share."""
        return self._tokens(KINDS[kind].share)

    def claimable(self, kind: str, spare: int = 0) -> int:
        """The most that a kind may claim now: its share, or what is left, without `spare` tokens, in whole steps.

        Steps keep the place of a cut the same over many calls, although each leaves slightly more or less.
        """
        share = KINDS[kind].share
        free, within = self._left_for(share)
        most, left = self._tokens(share), max(0, free - spare if within is None else min(free - spare, within))
        whole = self.budget.limit if within is None else self.conversation or 0
        return most if most <= left else left - left % max(1, whole // _STEPS)

    def needed(self, kind: str, need: float, most: int) -> int:
        """What a kind which may exceed the limit for the conversation claims of `most`, given its need, from 0 to 1."""
        share, conversation = KINDS[kind].share, self.conversation
        within = share.part * self.budget.limit if conversation is None else int(share.of_conversation * conversation)
        return int(most if most <= within else within + need * (most - within))

    def unreserved(self, kind: str) -> int:
        """All tokens that are left and not reserved for other kinds."""
        free, within = self._left_for(KINDS[kind].share)
        return max(0, free if within is None else min(free, within))

    def _left_for(self, share: Share) -> tuple[int, int | None]:
        """What others leave of the budget and, if it applies to a share, of the limit for the conversation."""
        taken, conversation = self._taken, self.conversation
        held = taken.get(share.name, 0) - self.spent.get(share.name, 0)
        free = self._effective - sum(taken.values()) + held
        if conversation is None or share.may_exceed or not share.of_conversation:
            return free, None
        within = conversation + held
        for name, tokens in taken.items():
            each = _OF_CONVERSATION.get(name)
            if each:
                within -= min(tokens, int(each.of_conversation * conversation)) if each.may_exceed else tokens
        return free, within

    def _tokens(self, share: Share) -> int:
        tokens = self._sizes.get(share.name)
        if tokens is None:
            part, limit, conversation = getattr(self.shares, share.name, None), self.budget.limit, self.conversation
            tokens = share.tokens(limit) if part is None else int(part * limit)
            if conversation is not None and share.of_conversation and not share.may_exceed:
                tokens = min(tokens, int(share.of_conversation * conversation))
            self._sizes[share.name] = tokens
        return tokens

    def as_json(self) -> Record:
        budget = self.budget
        return {
            "limit": budget.limit,
            "set_by": budget.set_by,
            "reply": budget.reply,
            "fixed": budget.fixed,
            "effective": self._effective,
            "used": sum(self.spent.values()),
            "spent": dict(self.spent),
            "counter": budget.counter,
            "exact": budget.exact,
        }
