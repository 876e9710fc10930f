"""Shortcuts through SDKs of OpenAI's kind, for the classes of wrapped clients: the same results in less time.

They stand in for methods without a public name; an SDK that has no such method keeps its own way.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from inspect import iscoroutinefunction, signature
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from ctxwrap.clients.kept_request import is_sdks_own, keep_requests
from ctxwrap.clients.sdk_arguments import PlainBody


def add_shortcuts(client_class: Any, sdk_class: Any) -> None:
    """Add the shortcuts to a class of wrapped clients, a subclass of the SDK's class."""
    build_models = getattr(sdk_class, "_process_response_data", None)
    if build_models and "extra" in signature(BaseModel.model_validate).parameters:  # since pydantic 2.12
        client_class._process_response_data = _building_by_validation(build_models)
    if is_sdks_own(sdk_class):
        keep_requests(client_class, sdk_class)
        prepare = getattr(sdk_class, "_copy_and_prepare", None)
        if prepare:
            client_class._copy_and_prepare = _passing_plain_bodies(prepare)
        tracer = getattr(sdk_class, "_tracer", None)
        if isinstance(tracer, property) and tracer.fget:
            client_class._tracer = property(_tracing_only_for_somebody(tracer.fget))


def _passing_plain_bodies(prepare_by_sdk: Any) -> Any:
    """Pass on options whose body is plain JSON and known to nobody else, of which the SDK would make an equal copy."""

    def is_prepared(client: Any, options: Any) -> bool:
        is_plain = type(options.json_data) is PlainBody and not (options.extra_json or options.params)
        return is_plain and not client._middleware  # which may change the body

    def prepare(self: Any, options: Any) -> Any:
        return options if is_prepared(self, options) else prepare_by_sdk(self, options)

    async def prepare_async(self: Any, options: Any) -> Any:
        return options if is_prepared(self, options) else await prepare_by_sdk(self, options)

    return prepare_async if iscoroutinefunction(prepare_by_sdk) else prepare


def _tracing_only_for_somebody(tracer_of_sdk: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Leave out the span of a call that nobody traces: the SDK collects all that it says before it finds that out."""

    def tracer(self: Any) -> Any:
        from ctxwrap.turn.telemetry import is_used  # loaded by the first call

        made, trace = tracer_of_sdk(self), sys.modules.get("opentelemetry.trace")
        is_applications = type(made) is getattr(trace, "ProxyTracer", object)  # else the client has one of its own
        return None if is_applications and not is_used(trace) and not _has_trace_headers() else made

    return tracer


def _has_trace_headers() -> bool:
    """Whether OpenTelemetry adds headers to requests even without a span, such as those of its baggage."""
    propagate, headers = sys.modules.get("opentelemetry.propagate"), dict[str, str]()
    try:
        propagate.inject(headers)  # type: ignore[union-attr]
    except Exception:  # the SDK, which loads it with its first span, says so
        return True
    return bool(headers)


def _building_by_validation(build_by_sdk: Any) -> Any:
    """Build the models of responses and stream events with pydantic's validator.

    The SDK builds them field by field in Python, so that data which does not fit its types is kept; for a short reply
    that takes a sixth of the call. Where all data fits and no field is unknown, the validator builds the same model in
    a few microseconds. Of a union, the SDK's first try is the validator, which tries all types; `type` tells the one
    that can succeed.
    """

    def build(self: Any, *, data: object, cast_to: Any, **rest: Any) -> Any:
        if type(data) is dict and not self._strict_response_validation:
            is_model, variants = _known_type(cast_to)
            tag = data.get("type") if variants else None
            try:
                if is_model:
                    cast_to.model_validate(data, strict=True, extra="forbid")  # unknown fields would not be the same
                    return cast_to.model_validate(data, strict=True)
                if type(tag) is str and tag in variants:
                    return variants[tag].model_validate(data)
            except ValidationError:
                pass
        return build_by_sdk(self, data=data, cast_to=cast_to, **rest)

    return build


@cache
def _known_type(cast_to: Any) -> tuple[bool, Mapping[str, Any]]:
    """Whether this is a plain model, and the variants of a union."""
    return _is_plain_model(cast_to), _variants_of(cast_to)


def _is_plain_model(cast_to: Any) -> bool:
    """Whether this is a model that neither builds itself nor has validators, which the SDK would not run."""
    if not isinstance(cast_to, type) or not issubclass(cast_to, BaseModel) or hasattr(cast_to, "build"):
        return False
    decorators = cast_to.__pydantic_decorators__
    return not (decorators.validators or decorators.field_validators or decorators.model_validators)


def _variants_of(cast_to: Any) -> Mapping[str, Any]:
    """The models of a union by their `type`; none unless it tells all of them apart."""
    union = get_args(cast_to)[0] if get_origin(cast_to) is Annotated else cast_to
    if get_origin(union) not in (Union, UnionType):
        return {}
    variants: dict[str, Any] = {}
    for variant in get_args(union):
        field = getattr(variant, "model_fields", {}).get("type")
        tags = get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()
        if field is None or field.alias or not tags or not variants.keys().isdisjoint(tags):
            return {}
        variants |= dict.fromkeys(tags, variant)
    return variants
