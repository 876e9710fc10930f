"""What a model meant by a question in its state, as far as it says one."""

from typing import Any, get_args

from ctxwrap.protocol.coercion import as_text
from ctxwrap.protocol.words import MAX_QUESTION, spelled
from ctxwrap.types import Severity

_SEVERITIES = get_args(Severity)
_ASKED = ("user", "operator", "tool")


def question_in(given: Any) -> dict[str, str] | None:
    """The question in canonical form, without what it does not say; None if it says none."""
    fields = {spelled(str(key)): value for key, value in given.items()} if isinstance(given, dict) else {}
    question = _words(fields.get("question") if fields else given)
    if not question:
        return None
    told = {"question": question, "needed_for": _words(fields.get("needed_for")), "asked": _asked(fields.get("asked"))}
    if fields.get("severity") is not None:
        told["severity"] = _severity(fields["severity"])
    return {name: text for name, text in told.items() if text}


def _words(value: Any) -> str:
    text = as_text(value)
    return text.strip()[:MAX_QUESTION].rstrip() if isinstance(text, str) else ""


def _severity(value: Any) -> str:
    word = spelled(value) if isinstance(value, str) else ""
    return word if word in _SEVERITIES else "medium"


def _asked(value: Any) -> str:
    word = spelled(value) if isinstance(value, str) else ""
    return word if word in _ASKED else ""
