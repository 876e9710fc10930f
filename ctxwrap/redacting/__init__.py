"""Secrets in texts: how they are recognised, and what stands in their place."""

from ctxwrap.redacting.policy import Redacted as Redacted
from ctxwrap.redacting.policy import Redaction as Redaction
