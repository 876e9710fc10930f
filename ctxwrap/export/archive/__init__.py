"""Session archives: one zip file per session, for backup or transfer between stores."""

from ctxwrap.export.archive.format import ArchiveLimits
from ctxwrap.export.archive.importer import Imported, import_session
from ctxwrap.export.archive.writer import Exported, export_session

__all__ = ["ArchiveLimits", "Exported", "Imported", "export_session", "import_session"]
