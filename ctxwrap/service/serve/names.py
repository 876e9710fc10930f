"""Whose session a request belongs to: by its headers, else by fields of its body, as far as its token allows."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from ctxwrap.service.serve.access import Grant
from ctxwrap.service.serve.routes import RefusedRequest
from ctxwrap.session.scope import ScopeNames
from ctxwrap.types import Body

_LONGEST = 512


class RequestNames(NamedTuple):
    """What a request says about itself."""

    tenant: str
    owner: str
    """The token, or the client's own key, as a hash: sessions that the server derives are never shared by owners."""
    user: str | None
    session: str | None
    mode: str | None
    purpose: str | None = None

    def key(self, session: str) -> str:
        """The name of a session in the store: each user has sessions of their own."""
        return session if self.user is None else f"{quote(self.user, safe='')}/{session}"

    def scope(self, session: str | None) -> ScopeNames:
        """The arguments of `using(...)`; a call without a session has no context."""
        named = {
            "tenant": self.tenant,
            "session": None if session is None else self.key(session),
            "context_mode": self.mode,
            "purpose": self.purpose,
            "user": self.user,
        }
        return cast(ScopeNames, {name: value for name, value in named.items() if value is not None})


def names_of(headers: Mapping[str, str], body: Body, grant: Grant | None, tenant: str) -> RequestNames:
    user, session = _in_body(body)
    credential = headers.get("authorization") or headers.get("x-api-key") or ""
    owner = grant.id if grant is not None else hashlib.sha256(credential.encode("utf-8", "replace")).hexdigest()[:16]
    return RequestNames(
        grant.tenant if grant is not None else tenant,
        owner,
        _allowed_user(headers.get("x-ctxwrap-user"), user, grant),
        headers.get("x-ctxwrap-session") or session,
        headers.get("x-ctxwrap-mode"),
        headers.get("x-ctxwrap-purpose"),
    )


def _allowed_user(asked: str | None, found: str | None, grant: Grant | None) -> str | None:
    """The user in the header, else in the body, as far as the token allows; a token of one user speaks for them."""
    allowed = grant.users if grant is not None else frozenset()
    if not allowed:
        return asked or found
    if asked is not None and asked not in allowed:
        raise RefusedRequest(403, "this token is not for that user", "permission_error")
    if asked is None and found not in allowed:
        if len(allowed) > 1:
            raise RefusedRequest(403, "name the user of this token in the header x-ctxwrap-user", "permission_error")
        (found,) = allowed
    return asked or found


def _in_body(body: Body) -> tuple[str | None, str | None]:
    """The user and the session that a body names: `user`, `metadata`, `conversation`."""
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    user, session = _user_and_session(_text(metadata.get("user_id")))
    user = _text(body.get("user")) or user or _text(metadata.get("user"))
    session = _text(metadata.get("session_id")) or _text(metadata.get("session")) or session
    conversation = body.get("conversation")
    conversation = conversation.get("id") if isinstance(conversation, dict) else conversation
    return user, session or _text(conversation)


def _user_and_session(text: str | None) -> tuple[str | None, str | None]:
    """`metadata.user_id` of Anthropic's API, in which Claude Code writes the user and the session."""
    if text is None:
        return None, None
    user, found, session = text.rpartition("_session_")
    if found and user and session:
        return user, session
    if text.startswith("{"):
        try:
            parts: Any = json.loads(text)
        except (ValueError, RecursionError):
            return text, None
        return _text(parts.get("account_uuid")) or _text(parts.get("device_id")), _text(parts.get("session_id"))
    return text, None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST else None
