"""Offers: texts that the caller adds to the next call of a session."""

from collections.abc import Sequence

from ctxwrap.errors import InvalidInput, unknown_name
from ctxwrap.kinds import offered_kinds
from ctxwrap.redaction.visibility import MODEL_ONLY, TARGETS, check_target
from ctxwrap.session import scope
from ctxwrap.stores.names import check_id
from ctxwrap.types import Offer, SessionKey

_LONGEST_SOURCE = 1024
_LONGEST_TEXT = 1024 * 1024

_USED = object()
"""The holder of an offer that a call has used."""


def offer(
    kind: str,
    text: str,
    *,
    source: str = "",
    priority: float = 0.5,
    visibility: Sequence[str] = MODEL_ONLY,
    session: str | None = None,
    tenant: str | None = None,
    agent: str | None = None,
) -> None:
    """Offer a text for the next call of a session, such as a web page, an excerpt of a document or team knowledge.

    `kind` is knowledge_pack_item, document_excerpt, browser_state, team_memory or external_resource; `source` says
    where the text comes from; `priority` is from 0 to 1, as in a working set. The session is the one named here or by
    `using(...)`; tenant and agent are "default" unless named in either place. The offer follows `contextvars` and ends
    with the block of `using`. A call that gets no reply leaves it for the next call.
    """
    if kind not in (offered := offered_kinds()):
        raise unknown_name("kind of offer", kind, offered)
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_TEXT:
        raise InvalidInput(
            f"an offer's text must be a string of 1 to {_LONGEST_TEXT} characters that are not all blank"
        )
    if not isinstance(source, str) or len(source) > _LONGEST_SOURCE:
        raise InvalidInput(
            f"an offer's source must be a string of at most {_LONGEST_SOURCE} characters, not {source!r:.60}"
        )
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        raise InvalidInput(f"an offer's priority must be from 0 to 1, not {priority!r}")
    named = {check_target(each) for each in ([visibility] if isinstance(visibility, str) else visibility)}
    targets = tuple(target for target in TARGETS if target in named)
    scope.add_offer(Offer(_key(session, tenant, agent), kind, source or kind, text, float(priority), targets))


def _key(session: str | None, tenant: str | None, agent: str | None) -> SessionKey:
    """The session that the offer is for. It is required: an offer for no session could reach any tenant's call."""
    here = scope.current()
    session = here.session if session is None else session
    if session is None:
        raise InvalidInput(
            "an offer needs a session: call offer(..., session=...), or call it inside using(session=...)"
        )
    return SessionKey(
        check_id("tenant", tenant or here.tenant or "default"),
        check_id("agent", agent or here.agent or "default"),
        check_id("session", session),
    )


def claim_of(key: SessionKey) -> "OfferClaim | None":
    """The claim of a call on the offers for its session; None if this context has no offers."""
    return OfferClaim(scope.offers_for(key)) if scope.current().offers else None


class OfferClaim:
    """The offers that one call uses; no other call of the session gets them meanwhile."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        self._offers = offers

    def take(self) -> list[Offer]:
        """Claim the offers that no other call has."""
        for offer in self._offers:
            offer.holder = offer.holder or self
        return [offer for offer in self._offers if offer.holder is self]

    def release(self, *, used: bool = False) -> None:
        """Leave the offers to the next call, unless this one used them."""
        for offer in self._offers:
            if offer.holder is self:
                offer.holder = _USED if used else None
