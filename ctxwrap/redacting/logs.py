"""The process's log lines: an error that somebody else wrote may quote a secret."""

import logging

from ctxwrap.redacting.policy import Redaction

_formatter = logging.Formatter()


class _RedactedLines(logging.Filter):
    """Redacts a line when it is written: its words, what they are filled with, and its traceback."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self.redaction = redaction

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redacted(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = self._redacted(_formatter.formatException(record.exc_info)), None
        return True

    def _redacted(self, text: str) -> str:
        return self.redaction.redacted(text, quiet=True).text


def redact_lines(redaction: Redaction) -> None:
    """Let no line of ours be written from now on that shows what a policy is about. Once is enough for each policy."""
    logger = logging.getLogger("ctxwrap")
    if not any(isinstance(each, _RedactedLines) and each.redaction == redaction for each in logger.filters):
        logger.addFilter(_RedactedLines(redaction))
