"""The session: an append-only log, and what can be read out of it."""

from ctxwrap.session.session import Session

__all__ = ["Session"]
