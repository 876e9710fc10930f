"""Checks of the service's arguments: each function returns the checked value or raises InvalidInput."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from ctxwrap.errors import InvalidInput

ROLES = ("user", "assistant")
"""Roles that can be stored; providers reject a tool result without the call it answers."""

_LONGEST_TITLE, _LONGEST_DESCRIPTION = 50, 500
_MOST_TAGS, _LONGEST_TAG_NAME, _LONGEST_TAG = 32, 64, 256
_LONGEST_REQUEST_ID = 200
_TYPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VAULT = re.compile(r"[A-Za-z0-9-]+")


def text(name: str, value: Any, longest: int, *, empty: bool = False) -> str:
    """Check a text of one or more lines."""
    if not isinstance(value, str) or not (empty or value.strip()):
        raise InvalidInput(f"{name} must be a {'' if empty else 'non-empty '}text, not {_short(value)}")
    if len(value) > longest:
        raise InvalidInput(f"{name} must have at most {longest} characters, but has {len(value)}")
    return readable(name, value)


def readable(name: str, value: str) -> str:
    """Check that a text has no control characters, lone surrogates or noncharacters."""
    for at, each in enumerate(value):
        if each not in "\n\r\t" and (unicodedata.category(each) in ("Cc", "Cs") or _is_noncharacter(each)):
            raise InvalidInput(f"{name} has U+{ord(each):04X} at character {at + 1}, which is not allowed: remove it")
    return value


def title(value: Any) -> str:
    return text("title", value, _LONGEST_TITLE).strip()


def vault_title(value: Any) -> str:
    title = text("title", value, _LONGEST_TITLE)
    if not _VAULT.fullmatch(title):
        raise InvalidInput(f"the title of a vault may have letters, digits and hyphens only, not {_short(title)}")
    return title


def description(value: Any) -> str:
    return text("description", value, _LONGEST_DESCRIPTION, empty=True)


def memory_type(value: Any) -> str:
    """Check a memory type and return it in lower case; it names a directory of prompts."""
    kind = value.strip().lower() if isinstance(value, str) else ""
    if not _TYPE.fullmatch(kind):
        raise InvalidInput(
            f"a memory type has up to 32 letters, digits, hyphens and underscores, such as chat, not {_short(value)}"
        )
    return kind


def role(value: Any) -> str:
    if value not in ROLES:
        raise InvalidInput(f"role must be one of {', '.join(ROLES)}, not {_short(value)}")
    return str(value)


def count(name: str, value: Any, most: int) -> int:
    """Check a number from 1 to `most`; some clients send numbers as text."""
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,6}\s*", value) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most}, not {_short(value)}")
    return number


def version(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(f"a version is a whole number from 0 up, not {value!r}")
    return value


def tags(value: Mapping[str, Any] | None) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > _MOST_TAGS:
        raise InvalidInput(f"tags must be an object of at most {_MOST_TAGS} names with their values")
    return {text("the name of a tag", name, _LONGEST_TAG_NAME): _tag(name, each) for name, each in value.items()}


def request_id(value: Any) -> str:
    return "" if value is None else text("request_id", value, _LONGEST_REQUEST_ID)


def _tag(name: str, value: Any) -> str:
    written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text(f"tag {name!r}", written, _LONGEST_TAG, empty=True)


def _is_noncharacter(each: str) -> bool:
    return ord(each) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(each) <= 0xFDEF


def _short(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:60]}…"
