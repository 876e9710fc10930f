"""Redaction: secrets in texts are recognised and replaced by placeholders."""

from ctxwrap.redaction.policy import Redacted as Redacted
from ctxwrap.redaction.policy import Redaction as Redaction
