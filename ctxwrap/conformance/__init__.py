"""Conformance checks of session folders, envelopes, manifests, reports, replies and texts against five specifications.

A path or a text of any producer enters; a `Conformance` with the broken sentences of the specifications leaves. Each
check is a row of a table: an id, the specification's sentence, its level, and a function that yields findings. Begin
with `runner`, which detects the kind of an input and runs its checks. `model_check` is separate: it has a conversation
with a live model and recommends settings.
"""

from ctxwrap.conformance.checks import DOCUMENTS, Check, Finding
from ctxwrap.conformance.runner import CHECKS, KINDS, Broken, Conformance, InputKind, conform

__all__ = ["CHECKS", "DOCUMENTS", "KINDS", "Broken", "Check", "Conformance", "Finding", "InputKind", "conform"]
