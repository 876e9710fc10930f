"""Secrets in texts: how they are recognised, and what stands in their place."""

from ctxwrap.redaction.policy import Redacted as Redacted
from ctxwrap.redaction.policy import Redaction as Redaction
