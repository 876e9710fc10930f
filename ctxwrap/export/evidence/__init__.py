"""What a call was sent, in the portable records of Agent Context: projections of the log, never a second truth."""

from ctxwrap.export.evidence.diff import Diff, diff_of
from ctxwrap.export.evidence.document import Evidence, faults_in, schema_of
from ctxwrap.export.evidence.envelope import envelope_of
from ctxwrap.export.evidence.imports import check_envelope, import_envelope

__all__ = ["Diff", "Evidence", "check_envelope", "diff_of", "envelope_of", "faults_in", "import_envelope", "schema_of"]
