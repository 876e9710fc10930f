"""What the service takes: each argument as it is used, or an error that says what it may be."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from ctxwrap.errors import InvalidInput

ROLES = ("user", "assistant")
"""Whose messages are stored: a tool's result without the call it answers would be sent to no provider."""

_TITLE, _DESCRIPTION = 50, 500
_TAGS, _TAG_NAME, _TAG = 32, 64, 256
_REQUEST = 200
_TYPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VAULT = re.compile(r"[A-Za-z0-9-]+")


def text(name: str, value: Any, longest: int, *, empty: bool = False) -> str:
    """A text of one or more lines that can be shown anywhere."""
    if not isinstance(value, str) or not (empty or value.strip()):
        raise InvalidInput(f"{name} must be a text{'' if empty else ' that is not empty'}, not {_shown(value)}")
    if len(value) > longest:
        raise InvalidInput(f"{name} must have at most {longest} characters, and has {len(value)}")
    return readable(name, value)


def readable(name: str, value: str) -> str:
    """The text, unless it holds what no document may: control characters, halves of characters, noncharacters."""
    for at, each in enumerate(value):
        if each not in "\n\r\t" and (unicodedata.category(each) in ("Cc", "Cs") or _is_noncharacter(each)):
            raise InvalidInput(f"{name} holds U+{ord(each):04X} at character {at + 1}, which is no text: remove it")
    return value


def title(value: Any) -> str:
    return text("title", value, _TITLE).strip()


def vault_title(value: Any) -> str:
    title = text("title", value, _TITLE)
    if not _VAULT.fullmatch(title):
        raise InvalidInput(f"the title of a vault has letters, digits and hyphens only, not {_shown(title)}")
    return title


def description(value: Any) -> str:
    return text("description", value, _DESCRIPTION, empty=True)


def memory_type(value: Any) -> str:
    """The type, in lower case: it names a directory of prompts, so nothing else may be in it."""
    kind = value.strip().lower() if isinstance(value, str) else ""
    if not _TYPE.fullmatch(kind):
        raise InvalidInput(
            f"a memory type has up to 32 letters, digits, hyphens and underscores, such as chat, not {_shown(value)}"
        )
    return kind


def role(value: Any) -> str:
    if value not in ROLES:
        raise InvalidInput(f"role must be one of {', '.join(ROLES)}, not {_shown(value)}")
    return str(value)


def count(name: str, value: Any, most: int) -> int:
    """A number from 1 to `most`; as a text, too, since some clients send all arguments so."""
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,6}\s*", value) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most}, not {_shown(value)}")
    return number


def version(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"a version is a whole number from 0 up, not {value!r}")
    return value


def tags(value: Mapping[str, Any] | None) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > _TAGS:
        raise InvalidInput(f"tags must be an object of at most {_TAGS} names with their values")
    return {text("the name of a tag", name, _TAG_NAME): _tag(name, each) for name, each in value.items()}


def request_id(value: Any) -> str:
    return "" if value is None else text("request_id", value, _REQUEST)


def _tag(name: str, value: Any) -> str:
    told = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text(f"tag {name!r}", told, _TAG, empty=True)


def _is_noncharacter(each: str) -> bool:
    return ord(each) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(each) <= 0xFDEF


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
