"""The keys by which a provider knows a request that it has had: one with other content has another key."""

from collections.abc import Mapping
from typing import Any

_HEADERS = ("headers", "extra_headers")
_HEADER = "idempotency-key"


def with_other_key(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with another key where the caller gave one: the same for the same, so that it still works.

    An SDK's own keys are new with every call.
    """
    changed = dict(options)
    if isinstance(changed.get("idempotency_key"), str):
        changed["idempotency_key"] = _other(changed["idempotency_key"])
    for name in _HEADERS:
        if isinstance(changed.get(name), Mapping):
            changed[name] = {header: _header(header, value) for header, value in changed[name].items()}
    return changed


def _header(name: str, value: Any) -> Any:
    return _other(value) if name.lower() == _HEADER and isinstance(value, str) else value


def _other(key: str) -> str:
    return f"{key}-smaller"
