"""Builds the models of an SDK's responses with pydantic's validator.

SDKs of OpenAI's kind build them field by field in Python, so that data which does not fit its types is kept; for a
short reply that takes a sixth of the whole call. Where all data fits and no field is unknown, the validator builds the
same model in a few microseconds. The rest is left to the SDK.
"""

from functools import cache
from inspect import signature
from typing import Any

from pydantic import BaseModel, ValidationError

_METHOD = "_process_response_data"
"""The method by which a client builds models of whole responses and of stream events."""


def build_by_validation(client_class: Any) -> None:
    """Let clients of this class, one of ours, build the models that they can with the validator."""
    build_by_sdk = getattr(client_class, _METHOD, None)
    if build_by_sdk is None or "extra" not in signature(BaseModel.model_validate).parameters:  # pydantic before 2.12
        return

    def build(self: Any, *, data: object, cast_to: Any, **rest: Any) -> Any:
        if type(data) is dict and not self._strict_response_validation and _is_plain_model(cast_to):
            try:
                cast_to.model_validate(data, strict=True, extra="forbid")  # unknown fields are not built the same
                return cast_to.model_validate(data, strict=True)
            except ValidationError:
                pass
        return build_by_sdk(self, data=data, cast_to=cast_to, **rest)

    setattr(client_class, _METHOD, build)


@cache
def _is_plain_model(cast_to: Any) -> bool:
    """Whether this is a model that neither builds itself nor has validators, which the SDK would not run."""
    if not isinstance(cast_to, type) or not issubclass(cast_to, BaseModel) or hasattr(cast_to, "build"):
        return False
    decorators = cast_to.__pydantic_decorators__
    return not (decorators.validators or decorators.field_validators or decorators.model_validators)
