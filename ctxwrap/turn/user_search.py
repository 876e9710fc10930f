"""Passages of a user's other sessions that are about the newest message."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxwrap.kinds import EXCERPTS
from ctxwrap.redaction.visibility import MODEL_ONLY
from ctxwrap.retrieval.selection import Passage
from ctxwrap.session.owner import Owner
from ctxwrap.session.threads import defer_finalizers
from ctxwrap.tokens.measure import estimate_tokens
from ctxwrap.types import Offer, SessionKey

if TYPE_CHECKING:
    from ctxwrap.turn.binding import ClientBinding

logger = logging.getLogger("ctxwrap")

_MOST_SESSIONS = 20
"""The newest sessions of the user that are searched."""

_MOST_PASSAGES, _MOST_TOKENS = 6, 800
"""The most that is shown of other sessions."""


def find_elsewhere(binding: "ClientBinding", owner: Owner, key: SessionKey, question: str) -> list[Offer]:
    """Passages about a question from the user's other sessions, best first, each with its date and title.

    Messages that contain, or were derived from, text that no participant wrote are left out.
    """
    others = [other for other in owner.sessions if other != key][-_MOST_SESSIONS:]
    found = [each for other in others for each in _found_in(binding, other, question)]
    found.sort(key=lambda each: -each[0].score)
    return [_offer(key, *each) for each in _fitting(found[:_MOST_PASSAGES])]


def _found_in(binding: "ClientBinding", key: SessionKey, question: str) -> list[tuple[Passage, SessionKey, str]]:
    session = binding.session(key)
    try:
        with defer_finalizers(), session.locked():
            chosen = session.retrieve(question, session.next_message, _MOST_TOKENS, estimate_tokens).chosen
            title = session.state.derived.collected.title or key.session
    except Exception as error:
        logger.warning("ctxwrap: session %r was not searched: %s", key.session, error)
        return []
    return [(passage, key, title) for passage in chosen if not passage.origin]


def _fitting(
    found: Iterable[tuple[Passage, SessionKey, str]],
) -> Iterable[tuple[Passage, SessionKey, str]]:
    left = _MOST_TOKENS
    for each in found:
        left -= estimate_tokens(each[0].text)
        if left >= 0:
            yield each


def _offer(key: SessionKey, passage: Passage, other: SessionKey, title: str) -> Offer:
    head = f"From another conversation of this user, {passage.heading}, {title!r}. The {passage.speaker} said:"
    source = f"session:{other.session}/messages:{passage.number}-{passage.number}"
    return Offer(key, EXCERPTS, source, f"{head}\n{passage.text}", 0.5, MODEL_ONLY)
