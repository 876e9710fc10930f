"""Shortcuts through SDKs of OpenAI's kind, for the classes of wrapped clients: the same results in less time.

They stand in for methods without a public name; an SDK that has no such method keeps its own way.
"""

from functools import cache
from inspect import signature
from typing import Any

from pydantic import BaseModel, ValidationError


def add_shortcuts(client_class: Any) -> None:
    """Add the shortcuts to a class of wrapped clients."""
    build_models, join_url = (getattr(client_class, name, None) for name in ("_process_response_data", "_prepare_url"))
    if build_models and "extra" in signature(BaseModel.model_validate).parameters:  # since pydantic 2.12
        client_class._process_response_data = _building_by_validation(build_models)
    if join_url and join_url.__module__.endswith("._base_client"):  # others depend on more than the base URL
        client_class._ctxwrap_url = None, "", None
        client_class._prepare_url = _keeping_url(join_url)


def _building_by_validation(build_by_sdk: Any) -> Any:
    """Build the models of responses and stream events with pydantic's validator.

    The SDK builds them field by field in Python, so that data which does not fit its types is kept; for a short reply
    that takes a sixth of the call. Where all data fits and no field is unknown, the validator builds the same model in
    a few microseconds.
    """

    def build(self: Any, *, data: object, cast_to: Any, **rest: Any) -> Any:
        if type(data) is dict and not self._strict_response_validation and _is_plain_model(cast_to):
            try:
                cast_to.model_validate(data, strict=True, extra="forbid")  # unknown fields would not be built the same
                return cast_to.model_validate(data, strict=True)
            except ValidationError:
                pass
        return build_by_sdk(self, data=data, cast_to=cast_to, **rest)

    return build


@cache
def _is_plain_model(cast_to: Any) -> bool:
    """Whether this is a model that neither builds itself nor has validators, which the SDK would not run."""
    if not isinstance(cast_to, type) or not issubclass(cast_to, BaseModel) or hasattr(cast_to, "build"):
        return False
    decorators = cast_to.__pydantic_decorators__
    return not (decorators.validators or decorators.field_validators or decorators.model_validators)


def _keeping_url(join_url: Any) -> Any:
    """Keep the last URL that was joined from the client's base URL and a path; URLs do not change."""

    def join(self: Any, url: str) -> Any:
        base, path, joined = self._ctxwrap_url
        if base is not self.base_url or path != url:
            base, joined = self.base_url, join_url(self, url)
            self._ctxwrap_url = base, url, joined
        return joined

    return join
