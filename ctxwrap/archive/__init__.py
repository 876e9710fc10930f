"""A session as one file, to keep or to carry to another store."""

from ctxwrap.archive.form import Limits
from ctxwrap.archive.reading import Imported, import_session
from ctxwrap.archive.writing import Exported, export_session

__all__ = ["Exported", "Imported", "Limits", "export_session", "import_session"]
