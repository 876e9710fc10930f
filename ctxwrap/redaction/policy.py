"""The redaction policy: which kinds of secrets are replaced, and what the log keeps."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ctxwrap.errors import SettingsError, unknown_name
from ctxwrap.redaction.numbers import TextSpan, folded
from ctxwrap.redaction.secrets import KINDS, POLICIES

logger = logging.getLogger("ctxwrap")

ERROR = "[redacted:error]"
"""What is left of a text that could not be redacted."""

_PASSES = 5
"""Secrets that stand in each other's way come to light one by one; a text with more layers than that is made for it."""

_KNOWN = 4096
"""So many texts are known to hold nothing, so that a history that is sent again costs next to nothing."""


class Redacted(NamedTuple):
    text: str
    found: tuple[tuple[str, int], ...] = ()
    """What was replaced, by the word that stands for it, and how often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What is replaced in the texts of callers, tools, files and models before anything is made of them or sent."""

    patterns: tuple[str, ...] = POLICIES
    """The kinds of secrets that are looked for: keys, emails, ibans, cards, ssns, phones."""

    also: Callable[[str], str | None] | None = None
    """Your own: takes a text and gives it without what you look for, or None if there is nothing.

    It sees a text before the patterns do, is called for a text more than once, also for what it gave itself, and while
    the session is locked. A text that it raises an error for is replaced as a whole.
    """

    log: Literal["keep", "redact"] = "redact"
    """`redact` writes nothing else to the log; `keep` keeps what was said beside it, in `messages.jsonl` only."""

    request: bool = True
    """Whether the provider gets the caller's own words redacted, too; else only what ctxwrap makes of them is."""

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
            raise SettingsError(f"also must take a text and give one, not be {self.also!r}")
        if not isinstance(self.request, bool):
            raise SettingsError(f"request must be True or False, not {self.request!r}")

    @property
    def names(self) -> list[str]:
        """The policies that are in force, by name."""
        return [*self.patterns, *(["also"] if self.also else [])]

    def redacted(self, text: str, *, quiet: bool = False, patterns_only: bool = False) -> Redacted:
        """The text with a word such as `[redacted:email]` for each secret; the same again if it is redacted again.

        `quiet` says nothing to the log about an error of `also`; `patterns_only` does not ask it.
        """
        key = hash(text), len(text)
        if not text or (key in self._clean and (patterns_only or self.also is None)):
            return Redacted(text)
        try:
            given = text if patterns_only else self._given(text)
        except Exception as error:
            if not quiet:
                logger.warning("ctxwrap: a text was redacted as a whole: `also` raised %s", type(error).__name__)
            return Redacted(ERROR, (("error", 1),))
        result = self._however_spelled(given)
        if given != text:
            return Redacted(result.text, (("also", 1), *result.found))
        if not result.found:
            self._note_clean(key)
        return result

    def _given(self, text: str) -> str:
        given = self.also(text) if self.also else None
        if given is not None and not isinstance(given, str):
            raise TypeError("it gave no text")
        return text if given is None else given

    def _note_clean(self, key: tuple[int, int]) -> None:
        if len(self._clean) >= _KNOWN:
            self._clean.clear()
        self._clean[key] = None

    def _however_spelled(self, text: str) -> Redacted:
        """By the patterns; with characters that JSON escapes spelled out, where that brings something to light."""
        result = self._by_patterns(text)
        if "\\u00" not in result.text:
            return result
        more = self._by_patterns(_ESCAPE.sub(_spelled_out, result.text))
        both = Counter(dict(result.found)) + Counter(dict(more.found))
        return Redacted(more.text, tuple(both.items())) if more.found else result

    def _by_patterns(self, text: str) -> Redacted:
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
"""Of a printable character that need not be escaped, also in JSON within JSON."""


def _spelled_out(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _replaced(text: str, spans: Iterable[TextSpan], word: str) -> str:
    pieces, end = list[str](), 0
    for first, last in spans:
        pieces += (text[end:first], word)
        end = last
    return "".join((*pieces, text[end:]))


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
