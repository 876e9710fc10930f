"""The time and the ids of turns."""

import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


def new_turn_id() -> str:
    """Unique, and in the order of time."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(5)}"


def utc_now() -> datetime:
    return datetime.now(UTC)
