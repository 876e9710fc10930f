"""Export and import: archives of sessions, copies between stores, and evidence in the records of Agent Context.

A session's log enters and a file or another store's log leaves, or the reverse. Files that come from elsewhere are
untrusted: they are checked completely before anything is written. Begin with `archive` (one zip per session), `copy`
(store to store) or `evidence` (what each request contained).
"""

from ctxwrap.export.archive import ArchiveLimits, Exported, Imported, export_session, import_session
from ctxwrap.export.copy import Copied, copy_sessions

__all__ = ["ArchiveLimits", "Copied", "Exported", "Imported", "copy_sessions", "export_session", "import_session"]
