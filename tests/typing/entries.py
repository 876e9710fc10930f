"""Only type-checked, never run: a summary is no raw message; strict mypy minds an ignore that nothing needs."""

from ctxwrap.documents.document import EMPTY, grown
from ctxwrap.documents.sentences import RawMessage
from ctxwrap.documents.summary import fitted, summary_of

summary = fitted("User lives in Ghent.")
grown(EMPTY, [summary])  # type: ignore[list-item]
summary_of(summary)  # type: ignore[arg-type]
grown(EMPTY, [RawMessage(1, "user", "I live in Ghent.")])
