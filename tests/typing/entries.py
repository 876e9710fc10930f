"""Only type-checked, never run: a summary is no raw message; strict mypy minds an ignore that nothing needs."""

from ctxwrap.documents.document import EMPTY, grow
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.documents.summary import fit_summary, summarise_message

summary = fit_summary("User lives in Ghent.")
grow(EMPTY, [summary])  # type: ignore[list-item]
summarise_message(summary)  # type: ignore[arg-type]
grow(EMPTY, [RawMessage(1, "user", "I live in Ghent.")])
