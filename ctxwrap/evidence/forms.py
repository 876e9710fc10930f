"""What every record has in common: no unknown field, no number that is none, and no claim beyond context."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from ctxwrap.evidence.vocabulary import SCHEMA_VERSION, Target

_DECLARING = re.compile(
    r"(?:(?:turn|task|tool|run|step|action|final)_?)?"
    r"(?:status|state|complet(?:e|ed|ion)|finished|done|succe(?:ss|eded)|failed|outcome|result|answer|approv(?:ed|al))"
)
"""Names of what the runtime may say of a turn, a task or a tool, and a context record may not."""


def declares(name: str) -> bool:
    """Whether a field of this name would say how a turn, a task or a tool ended."""
    return _DECLARING.fullmatch(re.sub(r"[^a-z]+", "_", name.lower()).strip("_")) is not None


def _declaring_nothing(value: dict[str, Any]) -> dict[str, Any]:
    names = [name for name, _ in _fields(value) if declares(name)]
    if names:
        raise ValueError(f"{names[0]!r} is for the runtime to say: no context record declares how something ended")
    return value


def _fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of a value, and of all that lies in it."""
    found: list[tuple[str, Any]] = []
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            found += each.items()
            pending += each.values()
        elif isinstance(each, list):
            pending += each
    return found


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time needs its zone, such as Z")
    return text


Id = Annotated[str, Field(min_length=1)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Moment = Annotated[
    str,
    Field(
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$",
        json_schema_extra={"format": "date-time"},
    ),
    AfterValidator(_moment),
]
Open = Annotated[dict[str, JsonValue], AfterValidator(_declaring_nothing)]
"""Fields that the standard leaves open."""

Visibility = tuple[Target, ...]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _told(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what says nothing, unless it has to be there."""
        fields = type(self).model_fields
        told = handler(self).items()
        return {name: value for name, value in told if value not in _NOTHING or fields[name].is_required()}


_NOTHING: tuple[Any, ...] = (None, "", (), [], {})


class Versioned(Strict):
    schema_version: Literal["0.1.1"]


VERSION: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
