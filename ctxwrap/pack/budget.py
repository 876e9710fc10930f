"""The token budget of a call, and the ledger in which kinds of pack items claim their shares of it."""

from typing import NamedTuple

from ctxwrap.kinds import KINDS, Share
from ctxwrap.settings import Settings, Shares
from ctxwrap.tokens import TooLong, window_of
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

    @property
    def effective(self) -> int:
        """Tokens that are left for everything optional."""
        return max(0, self.limit - self.fixed)


_REPLY_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def limits_of(model: str, settings: Settings, own: int | None, reply: int, given: int) -> list[Limit]:
    """The limits of the model, the settings and the session; `own` is what `context/budget` says.

    `given` are the tokens of the caller's system prompt, tools and newest turn. An agent's tools may take more than the
    budget, so half of it is always left for the conversation and memory.
    """
    window = window_of(model, settings.windows)
    limits = [Limit(window.input_tokens - reply, f"the window of {model}")] if window.known else []
    if own is None and settings.budget:
        limits.append(Limit(max(settings.budget, given + settings.budget // 2), "settings"))
    elif own:
        limits.append(Limit(own, "context/budget"))
    return limits


def budget_within(limits: list[Limit], fixed: int, *, reply: int, counter: str, exact: bool) -> TokenBudget:
    """The budget under the smallest limit; the first one, if several are equal."""
    smallest = min(limits, key=lambda limit: limit.tokens, default=_UNLIMITED)
    return TokenBudget(max(0, smallest.tokens), smallest.set_by, reply, fixed, counter, exact)


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

_OF_CONVERSATION = {row.share.name: row.share for row in KINDS.values() if row.share and row.share.of_conversation}


class Ledger:
    """Claims of kinds on a budget, in turn: none gets more than is left, and none more than its share."""

    def __init__(self, budget: TokenBudget, shares: Shares, conversation: int | None = None) -> None:
        self.budget, self.shares = budget, shares
        self.conversation = conversation
        """The most that recent messages, memory and retrieved passages take together, if that is limited."""
        self.spent: dict[str, int] = {}
        """Tokens by name of the share."""
        self._held: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        """The tokens of shares."""
        self._effective = budget.effective

    @property
    def left(self) -> int:
        return self._effective - sum(self.spent.values())

    def hold(self, kind: str, tokens: int) -> None:
        """Reserve up to its share for a kind that claims later."""
        share = _share(kind)
        self._held[share.name] = min(tokens, self._tokens(share))

    def share(self, kind: str) -> int:
        """The tokens of a kind's share."""
        return self._tokens(_share(kind))

    def claimable(self, kind: str, spare: int = 0) -> int:
        """The most that a kind may claim now: its share, or what is left, without `spare` tokens, in whole steps.

        Steps keep the place of a cut the same over many calls, although each leaves slightly more or less.
        """
        share = _share(kind)
        free, within = self._left_for(share)
        most, left = self._tokens(share), max(0, min(free - spare, within))
        limit = self._conversation_of(share)
        whole = self.budget.limit if limit is None else limit
        return most if most <= left else left - left % max(1, whole // _STEPS)

    def needed(self, kind: str, need: float) -> int:
        """The most that a kind which may exceed the limit for the conversation claims, given its need, from 0 to 1."""
        share, most = _share(kind), self.claimable(kind)
        within = share.part * self.budget.limit if self.conversation is None else self._within_conversation(share)
        return int(most if most <= within else within + need * (most - within))

    def unreserved(self, kind: str) -> int:
        """All tokens that are left and not reserved for other kinds."""
        return max(0, min(self._left_for(_share(kind))))

    def _left_for(self, share: Share) -> tuple[int, int]:
        """What is left of the budget, and of the limit for the conversation, without what other shares reserve."""
        spent, free = self.spent, self.left
        held: dict[str, int] = {}
        for name, tokens in self._held.items():
            if name != share.name and name not in spent:
                held[name] = tokens
                free -= tokens
        within = self._conversation_of(share)
        if within is None:
            return free, free
        for name, each in _OF_CONVERSATION.items():
            taken = spent[name] if name in spent else held.get(name, 0)
            within -= min(taken, self._within_conversation(each)) if taken and each.may_exceed else taken
        return free, within

    def spend(self, kind: str, tokens: int) -> None:
        name = _share(kind).name
        self.spent[name] = self.spent.get(name, 0) + tokens

    def _tokens(self, share: Share) -> int:
        name, limit = share.name, self.budget.limit
        if name not in self._sizes:
            part = getattr(self.shares, name, None)
            tokens = share.tokens(limit) if part is None else int(part * limit)
            is_free = self._conversation_of(share) is None
            self._sizes[name] = tokens if is_free else min(tokens, self._within_conversation(share))
        return self._sizes[name]

    def _conversation_of(self, share: Share) -> int | None:
        """The limit for the conversation, if it applies to a share."""
        return self.conversation if share.of_conversation and not share.may_exceed else None

    def _within_conversation(self, share: Share) -> int:
        return int(share.of_conversation * (self.conversation or 0))

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


def _share(kind: str) -> Share:
    share = KINDS[kind].share
    assert share is not None, f"{kind} has no share of the budget"
    return share
