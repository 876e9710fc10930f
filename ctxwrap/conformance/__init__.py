"""Checks of session folders, envelopes, manifests, reports and replies against the five documents, whoever wrote them.

Each check is a row of a table: an id, the document's sentence, its level and the function that finds what breaks it.
"""

from ctxwrap.conformance.checks import DOCUMENTS, Check, Finding
from ctxwrap.conformance.runner import CHECKS, KINDS, Broken, Conformance, InputKind, conform

__all__ = ["CHECKS", "DOCUMENTS", "KINDS", "Broken", "Check", "Conformance", "Finding", "InputKind", "conform"]
