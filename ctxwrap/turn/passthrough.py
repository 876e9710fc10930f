"""Calls that run without a turn: no session is named, recording is off, or the turn could not be opened."""

from collections.abc import Callable

from ctxwrap.providers.base import ProviderAdapter
from ctxwrap.turn.binding import CallScope, ClientBinding
from ctxwrap.turn.redactor import TurnRedactor
from ctxwrap.types import Body, Report, TurnRecord

UNCHANGED_MODES = ("disabled", "shadow")
"""The modes in which the caller's request is sent as it is."""


class PassthroughCall:
    """A call without a turn. `body` is what to send if redaction changed it, else None; `record` says why."""

    def __init__(
        self,
        scope: CallScope,
        reason: str,
        *,
        body: Body | None = None,
        error: str = "",
        not_saved: tuple[str, ...] = (),
    ) -> None:
        key, self.body = scope.key, body
        self.record = TurnRecord(
            id="",
            mode="disabled",
            session=key.session if key else "",
            tenant=key.tenant if key else "",
            agent=key.agent if key else "",
            round=0,
            snapshot=None,
            operations=(),
            violations=(),
            repairs=(),
            pack=(),
            report=Report(status="complete", reason=reason, mode_asked=scope.mode, error=error, not_saved=not_saved),
        )


def passthrough(
    binding: ClientBinding, adapter: ProviderAdapter, scope: CallScope, body: Callable[[], Body]
) -> PassthroughCall | None:
    """The call as one without a turn, if it needs none."""
    if scope.key is None:
        return PassthroughCall(scope, "no session was named", body=redacted_body(binding, adapter, scope, body))
    if scope.mode == "disabled" and not binding.settings.record:
        return PassthroughCall(scope, "disabled, and record is off")
    return None


def redacted_body(
    binding: ClientBinding, adapter: ProviderAdapter, scope: CallScope, body: Callable[[], Body]
) -> Body | None:
    """What to send of a call without a turn; None if the caller's request is sent as it is."""
    redaction = binding.settings.redaction
    if redaction is None or scope.mode in UNCHANGED_MODES:
        return None
    return TurnRedactor(redaction).body(body(), adapter.field_names)
