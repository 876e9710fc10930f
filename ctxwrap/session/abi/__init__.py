"""The vocabulary of the Context Runtime ABI, and everything that can be wrong with a text that should follow it."""

from ctxwrap.session.abi.control import STATES, ControlName, budget_in, control_issues
from ctxwrap.session.abi.derived import RECORDS, RecordKind, pack_issues, record_issues
from ctxwrap.session.abi.names import (
    CONTEXT_FILES,
    SESSION_FILES,
    SourceFault,
    blob_name,
    is_legal_name,
    legal_name,
    named_by,
    source_issue,
)
from ctxwrap.session.abi.reading import Issue, Kind
from ctxwrap.session.abi.streams import (
    ERROR_CODES,
    EVENT_TYPES,
    OWN_EVENT_TYPES,
    PROVIDER_NATIVE,
    ROLES,
    event_issues,
    issues_in_record,
    message_issues,
)

__all__ = [
    "CONTEXT_FILES",
    "ERROR_CODES",
    "EVENT_TYPES",
    "OWN_EVENT_TYPES",
    "PROVIDER_NATIVE",
    "RECORDS",
    "ROLES",
    "SESSION_FILES",
    "STATES",
    "ControlName",
    "Issue",
    "Kind",
    "RecordKind",
    "SourceFault",
    "blob_name",
    "budget_in",
    "control_issues",
    "event_issues",
    "is_legal_name",
    "issues_in_record",
    "legal_name",
    "message_issues",
    "named_by",
    "pack_issues",
    "record_issues",
    "source_issue",
]
