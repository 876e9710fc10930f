"""Structure in JSON: the fields of requests, messages and records that are no free text."""

from typing import NamedTuple


class FieldNames(NamedTuple):
    """Names of JSON fields whose values are structure, not text."""

    words: frozenset[str]
    """Fields that hold one of a few fixed words; `Redaction.also` does not see them."""
    ids: frozenset[str]
    """Fields that link objects: an id that holds a secret is replaced by the same other id everywhere."""
    encoded: frozenset[str]
    """Fields that may hold base64, which is not searched."""
    signed: frozenset[str]
    """Types of parts, or fields that hold one, that a provider accepts only unchanged, if they carry a signature."""


SHARED_FIELDS = FieldNames(
    words=frozenset(
        {"type", "role", "model", "status", "mode", "kind", "tier", "origin", "detail", "media_type", "format"}
        | {"object", "severity", "tool_choice"}
    ),
    ids=frozenset({"id", "call_id", "tool_call_id", "tool_use_id", "item_id", "file_id", "response_id", "user_id"}),
    encoded=frozenset({"data", "signature", "encrypted_content", "file_data", "url", "image_url"}),
    signed=frozenset({"thinking", "redacted_thinking", "reasoning"}),
)
"""The names that messages and records of all APIs share."""
