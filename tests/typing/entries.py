"""Only type-checked, never run: a summary is no raw message; strict mypy minds an ignore that nothing needs."""

from ctxwrap.entries.document import EMPTY, grown
from ctxwrap.entries.raw import Raw
from ctxwrap.entries.summary import fitted, summary_of

summary = fitted("User lives in Ghent.")
grown(EMPTY, [summary])  # type: ignore[list-item]
summary_of(summary)  # type: ignore[arg-type]
grown(EMPTY, [Raw(1, "user", "I live in Ghent.")])
