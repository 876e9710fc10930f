"""Targets: who may see the parts of a call's context."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from ctxwrap.errors import unknown_name

Target = Literal["model", "tool", "runtime", "ui", "user", "reviewer", "peer_agent", "evidence_export"]
TARGETS: tuple[Target, ...] = get_args(Target)

MODEL_ONLY: tuple[Target, ...] = ("model",)
"""The default."""

VisibilityRules = Mapping[str, Sequence[str]]
"""Targets by kind of pack item (`pinned`; `memory` is all kinds of memory items) or by source (`notes/a.md`)."""


def check_target(value: object) -> Target:
    if isinstance(value, str) and value in TARGETS:
        return value
    raise unknown_name("target", value, TARGETS)
