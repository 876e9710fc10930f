"""Every knob of ctxwrap, once, with its default and what it is for."""

import os
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from ctxwrap.errors import SettingsError, unknown_name

Mode = Literal["enabled", "disabled", "readonly", "shadow"]
MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    context_mode: Mode = "enabled"
    """What a call does unless it says otherwise: enabled, disabled, readonly or shadow."""

    record: bool = True
    """Whether calls in `disabled` mode that name a session are still written to its log."""

    strict: bool = False
    """Raise when ctxwrap itself cannot do its work, before the provider is called; else the call goes on bare."""

    history: Literal["log", "caller"] = "log"
    """`log` gives callers who send only their newest message the recent history; `caller` adds none."""

    history_tokens: int = 8000
    """How much history from the log may be added to a call, in estimated tokens."""

    snapshot_reserve: int = 1024
    """Tokens added to a small output limit of the caller's, so that the trailer does not eat the answer; 0 is off."""

    max_reasks: int = 1
    """How often the model is asked again for a snapshot that could not be used, in calls of their own; 0 is never."""

    on_missing: Literal["keep", "reask"] = "keep"
    """What a reply without any snapshot does: `keep` leaves memory as it was, `reask` asks for one."""

    def __post_init__(self) -> None:
        for name in ("context_mode", "history", "on_missing"):
            _check_choice(name, getattr(self, name), get_args(_HINTS[name]))
        for name in ("record", "strict"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name in ("history_tokens", "snapshot_reserve", "max_reasks"):
            _check_count(name, getattr(self, name))


_HINTS: dict[str, Any] = {field.name: field.type for field in fields(Settings)}


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise unknown_name(name, value, choices)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} must be a whole number from 0 up, not {value!r}")


def check_mode(value: object) -> Mode:
    """`value` as a mode, or an error that names the modes there are."""
    if isinstance(value, str) and value in MODES:
        return value  # type: ignore[return-value]  # narrowed by the line above
    raise unknown_name("context_mode", value, MODES)


def settings_from(base: Settings | None = None, /, **overrides: Any) -> Settings:
    """`base`, else the process's defaults, with `overrides`; `contextMode` is a spelling of `context_mode`."""
    if "contextMode" in overrides:
        overrides["context_mode"] = overrides.pop("contextMode")
    for name in overrides:
        if name not in _HINTS:
            raise unknown_name("setting", name, _HINTS)
    if base is None:
        base = Settings(context_mode=check_mode(os.environ.get("CTXWRAP_MODE", "enabled")))
    return replace(base, **overrides) if overrides else base
