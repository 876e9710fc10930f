"""What a call was sent, in the portable records of Agent Context: projections of the log, never a second truth."""

from ctxwrap.evidence.diffing import Diff, diff_of
from ctxwrap.evidence.document import Evidence
from ctxwrap.evidence.envelope import envelope_of
from ctxwrap.evidence.integrity import faults_in
from ctxwrap.evidence.keeping import check_envelope, import_envelope
from ctxwrap.evidence.schemas import schema_of

__all__ = ["Diff", "Evidence", "check_envelope", "diff_of", "envelope_of", "faults_in", "import_envelope", "schema_of"]
