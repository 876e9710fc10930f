"""Offers: texts of the caller's own for the next call of a session."""

from collections.abc import Sequence

from ctxwrap.errors import InvalidInput, unknown_name
from ctxwrap.kinds import names_of
from ctxwrap.redaction.visibility import ALONE, TARGETS, check_target
from ctxwrap.session import scope
from ctxwrap.stores.names import check_id
from ctxwrap.types import Offer, SessionKey

_LONGEST_SOURCE = 1024
_LONGEST_TEXT = 1024 * 1024


def offer(
    kind: str,
    text: str,
    *,
    source: str = "",
    priority: float = 0.5,
    visibility: Sequence[str] = ALONE,
    session: str | None = None,
    tenant: str | None = None,
    agent: str | None = None,
) -> None:
    """Offer a text for the next call of a session: a page, a document's part, what a team knows.

    `kind` is knowledge_pack_item, document_excerpt, browser_state, team_memory or external_resource; `source` says
    where the text comes from; `priority` is from 0 to 1, as in a working set. The session is the one that `using(...)`
    names, or the one named here; tenant and agent are "default" unless either names them. The offer goes where
    `contextvars` go and ends with the block of `using`. A call that gets no answer leaves it for the next one.
    """
    if kind not in (offered := names_of("offer")):
        raise unknown_name("kind of offer", kind, offered)
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_TEXT:
        raise InvalidInput(f"an offer needs a text of 1 to {_LONGEST_TEXT} characters")
    if not isinstance(source, str) or len(source) > _LONGEST_SOURCE:
        raise InvalidInput(
            f"an offer's source must be a text of at most {_LONGEST_SOURCE} characters, not {source!r:.60}"
        )
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        raise InvalidInput(f"an offer's priority must be from 0 to 1, not {priority!r}")
    seen = [visibility] if isinstance(visibility, str) else visibility
    named = {check_target(each) for each in seen}
    targets = tuple(target for target in TARGETS if target in named)
    scope.add_offer(Offer(_key(session, tenant, agent), kind, source or kind, text, float(priority), targets))


def _key(session: str | None, tenant: str | None, agent: str | None) -> SessionKey:
    """Whose offer it is: an offer for nobody could reach anybody's call."""
    here = scope.current()
    session = here.session if session is None else session
    if session is None:
        raise InvalidInput("an offer needs a session: offer(..., session=...), or inside of using(session=...)")
    return SessionKey(
        check_id("tenant", tenant or here.tenant or "default"),
        check_id("agent", agent or here.agent or "default"),
        check_id("session", session),
    )
