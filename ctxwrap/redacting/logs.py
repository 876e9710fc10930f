"""The process's log lines: an error that somebody else wrote may quote a secret."""

import logging

from ctxwrap.redacting.policy import Redaction

_formatter = logging.Formatter()

_POLICIES = 16
"""So many policies are heeded, the newest ones."""


class _RedactedLines(logging.Filter):
    """Redacts a line when it is written: its words, what they are filled with, and its traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._policies: tuple[Redaction, ...] = ()

    def heed(self, redaction: Redaction) -> None:
        others = [each for each in self._policies if each != redaction]
        self._policies = (*others, redaction)[-_POLICIES:]

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redacted(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = self._redacted(_formatter.formatException(record.exc_info)), None
        return True

    def _redacted(self, text: str) -> str:
        for redaction in self._policies:
            text = redaction.redacted(text, quiet=True).text
        return text


_lines = _RedactedLines()


def redact_lines(redaction: Redaction) -> None:
    """Let no line of ours be written from now on that shows what a policy is about."""
    _lines.heed(redaction)
    logging.getLogger("ctxwrap").addFilter(_lines)  # once, however often it is added
