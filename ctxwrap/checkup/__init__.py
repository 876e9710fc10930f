"""Whether ctxwrap works with a model: a short conversation with it, and what became of its memory."""

from ctxwrap.checkup.results import Advice, Checkup
from ctxwrap.checkup.running import Estimate, check_model, estimate
from ctxwrap.checkup.script import Finding

__all__ = ["Advice", "Checkup", "Estimate", "Finding", "check_model", "estimate"]
