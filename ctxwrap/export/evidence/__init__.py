"""Evidence of what each call was sent, in the portable records of Agent Context 0.1.1.

A session's log or an evidence file of another system enters; a document of records (`Evidence`), a diff of two turns or
a JSON Schema leaves. Everything is computed from the log; nothing is stored but imported files. Begin with `envelope`,
which composes a document from the records that `projection` (requests), `delivery` (blocks and injections) and
`lifecycle` (events, compactions, missing context) build. `objects` and `vocabulary` define the record types.
"""

from ctxwrap.export.evidence.diff import Diff, diff_of
from ctxwrap.export.evidence.document import Evidence, faults_in, schema_of
from ctxwrap.export.evidence.envelope import check_envelope, envelope_of, import_envelope

__all__ = ["Diff", "Evidence", "check_envelope", "diff_of", "envelope_of", "faults_in", "import_envelope", "schema_of"]
