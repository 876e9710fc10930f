"""The redaction policy: which kinds of secrets are replaced, and what the log keeps."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctxwrap.errors import SettingsError, unknown_name

if TYPE_CHECKING:
    from ctxwrap.redaction.numbers import TextSpan

logger = logging.getLogger("ctxwrap")

POLICIES = ("keys", "emails", "ibans", "cards", "ssns", "phones")
"""The kinds of secrets, in the order of their search."""

ERROR = "[redacted:error]"
"""The placeholder for a text that could not be redacted."""

_PASSES = 5
"""Replacing a secret can uncover another one. A text with more layers than this is hostile, and replaced entirely."""

_CACHE_SIZE = 4096
"""The number of texts known to have no secrets, so that repeated history is cheap."""


class Redacted(NamedTuple):
    text: str
    found: tuple[tuple[str, int], ...] = ()
    """Kinds of secrets that were replaced, and how often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """A policy: what is replaced in texts of callers, tools, files and models before they are used or sent."""

    patterns: tuple[str, ...] = POLICIES
    """The kinds of secrets that are replaced: keys, emails, ibans, cards, ssns, phones."""

    also: Callable[[str], str | None] | None = None
    """A function of your own: takes a text and returns the redacted text, or None if there is nothing to redact.

    It runs before the patterns, may be called several times for a text and for its own results, and runs while the
    session is locked. If it raises an error, the whole text is replaced.
    """

    log: Literal["keep", "redact"] = "redact"
    """`redact` logs only redacted text; `keep` adds the original, in `messages.jsonl` only."""

    request: bool = True
    """Whether the caller's messages are redacted for the provider; otherwise only the context that ctxwrap adds is."""

    _clean: dict[tuple[int, int], None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.patterns, str) or not isinstance(self.patterns, Iterable):
            raise SettingsError(f"patterns must be some of {', '.join(POLICIES)}, not {self.patterns!r}")
        object.__setattr__(self, "patterns", tuple(self.patterns))
        for name in self.patterns:
            if name not in POLICIES:
                raise unknown_name("pattern", name, POLICIES)
        if self.log not in ("keep", "redact"):
            raise unknown_name("log", self.log, ("keep", "redact"))
        if self.also is not None and not callable(self.also):
            raise SettingsError(f"also must be a function from text to text, not {self.also!r}")
        if not isinstance(self.request, bool):
            raise SettingsError(f"request must be True or False, not {self.request!r}")

    @property
    def names(self) -> list[str]:
        """The names of the active policies."""
        return [*self.patterns, *(["also"] if self.also else [])]

    def redacted(self, text: str, *, quiet: bool = False, patterns_only: bool = False) -> Redacted:
        """The text with a placeholder such as `[redacted:email]` for each secret; redacting again changes nothing.

        `quiet` logs no error of `also`; `patterns_only` does not call it.
        """
        key = hash(text), len(text)
        if not text or (key in self._clean and (patterns_only or self.also is None)):
            return Redacted(text)
        try:
            given = text if patterns_only else self._apply_own_rule(text)
        except Exception as error:
            if not quiet:
                logger.warning("ctxwrap: replaced a whole text because `also` raised %s", type(error).__name__)
            return Redacted(ERROR, (("error", 1),))
        result = self._with_escapes_decoded(given)
        if given != text:
            return Redacted(result.text, (("also", 1), *result.found))
        if not result.found:
            self._note_clean(key)
        return result

    def _apply_own_rule(self, text: str) -> str:
        given = self.also(text) if self.also else None
        if given is not None and not isinstance(given, str):
            raise TypeError("also must return a text or None")
        return text if given is None else given

    def _note_clean(self, key: tuple[int, int]) -> None:
        if len(self._clean) >= _CACHE_SIZE:
            self._clean.clear()
        self._clean[key] = None

    def _with_escapes_decoded(self, text: str) -> Redacted:
        """Redact by patterns, and once more with JSON escapes decoded if that uncovers secrets."""
        result = self._by_patterns(text)
        if "\\u00" not in result.text:
            return result
        more = self._by_patterns(_ESCAPE.sub(_decoded, result.text))
        both = Counter(dict(result.found)) + Counter(dict(more.found))
        return Redacted(more.text, tuple(both.items())) if more.found else result

    def _by_patterns(self, text: str) -> Redacted:
        from ctxwrap.redaction.numbers import folded
        from ctxwrap.redaction.secrets import KINDS

        found, plain = Counter[str](), folded(text)
        for _ in range(_PASSES):
            before = text
            for kind in KINDS:
                for find in kind.finds if kind.policy in self.patterns else ():
                    if spans := list(find(plain)):
                        word, is_plain = f"[redacted:{kind.word}]", plain is text
                        text = _replaced(text, spans, word)
                        plain = text if is_plain else _replaced(plain, spans, word)
                        found[kind.word] += len(spans)
            if text == before:
                return Redacted(text, tuple(found.items()))
        return Redacted(ERROR, (*found.items(), ("error", 1)))


_ESCAPE = re.compile(r"(?<!\\)\\++u00(2[013-9A-Fa-f]|[346][0-9A-Fa-f]|5[0-9ABDEFabdef]|7[0-9A-Ea-e])")
"""The JSON escape of a printable character that needs none, also in JSON inside JSON."""


def _decoded(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _replaced(text: str, spans: "Iterable[TextSpan]", word: str) -> str:
    pieces, end = list[str](), 0
    for first, last in spans:
        pieces += (text[end:first], word)
        end = last
    return "".join((*pieces, text[end:]))


_formatter = logging.Formatter()

_POLICIES = 16
"""The number of policies that apply to log lines, the newest ones."""


class _RedactedLines(logging.Filter):
    """Redacts a log record's message, arguments and traceback."""

    def __init__(self) -> None:
        super().__init__()
        self._policies: tuple[Redaction, ...] = ()

    def add(self, redaction: Redaction) -> None:
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


def redact_log_lines(redaction: Redaction) -> None:
    """Redact all lines of the `ctxwrap` logger from now on."""
    _lines.add(redaction)
    logging.getLogger("ctxwrap").addFilter(_lines)  # adding it again has no effect
