"""The time and the ids of turns: of the system's clock, or of the one in the settings."""

import hashlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from ctxwrap.errors import SettingsError
from ctxwrap.settings import Settings
from ctxwrap.types import SessionKey

Clock = Callable[[], datetime]


def new_turn_id() -> str:
    """Unique, and in the order of time."""
    return f"{time.time_ns() // 1_000_000:011x}{os.urandom(5).hex()}"


def reproducible_turn_id(now: datetime, key: SessionKey, events: int) -> str:
    """The same in every run: unique because the events of a session are counted, and in their order."""
    session = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{int(now.timestamp() * 1000) & 0xFFFFFFFFFFF:011x}{session[:4]}{events:06x}"


def utc_now() -> datetime:
    return datetime.now(UTC)


def clock_of(settings: Settings) -> Clock:
    if settings.clock is None:
        return utc_now
    return partial(_moment, settings.clock)


def _moment(clock: Clock | datetime) -> datetime:
    now = clock if isinstance(clock, datetime) else clock()
    if not isinstance(now, datetime) or now.tzinfo is None:
        raise SettingsError(f"clock must return a datetime with a time zone, such as datetime.now(UTC), not {now!r}")
    return now.astimezone(UTC)
