"""Arguments of OpenAI's and Anthropic's SDKs: plain JSON skips their walks, and what they make of the others is kept.

A method such as `create` makes a request of its arguments and posts it; `post` makes options of that. Both depend on
nothing but their arguments and, with Anthropic, the client's timeout. So each is called once with a recorder instead of
its client, and later calls with the same arguments start from what was recorded.
"""

import sys
from collections.abc import Callable, Generator, Mapping
from functools import partial
from inspect import unwrap
from itertools import chain
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

_VERSIONS = {"openai": ("1", "2", "3"), "anthropic": ("0", "1", "2")}
"""The major versions of the SDKs whose types and methods were checked; with others nothing is hidden or kept."""

_HIDDEN = {
    "openai.resources": {
        "create": frozenset(
            {
                *("model", "messages", "input", "prompt", "instructions", "tools", "tool_choice", "stop"),
                *("response_format", "stream_options", "metadata", "reasoning", "text", "include"),
                *("user", "safety_identifier", "prompt_cache_key", "previous_response_id", "conversation"),
            }
        ),
        "parse": frozenset({"model", "messages", "input"}),
    },
    "anthropic.resources.messages": {  # the methods of the beta API read messages and tools
        "create": frozenset({"messages", "system", "tools", "tool_choice", "stop_sequences", "metadata"}),
    },
}
"""The arguments that the methods of a package pass on unread; `parse` reads some, and Anthropic's read the model."""

_MOST_KEPT = 64
"""Requests of a method that are kept; a caller who varies further arguments more often gains nothing."""


class Opaque:
    """A value that the SDK sees, but does not read."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Opaque"


def hidden_arguments(method: Callable[..., Any]) -> frozenset[str]:
    """The arguments of an SDK's method that can be hidden."""
    if not _is_unpatched(method):
        return frozenset()
    module = unwrap(method).__module__
    packages = [methods for package, methods in _HIDDEN.items() if module.startswith(f"{package}.")]
    return packages[0].get(method.__name__, frozenset()) if packages else frozenset()


def hide(keywords: dict[str, Any], names: frozenset[str]) -> None:
    """Replace what is plain JSON by opaque copies."""
    for name in names.intersection(keywords):
        value = keywords[name]
        if type(value) in _HIDEABLE:
            try:
                keywords[name] = Opaque(_copy(value))
            except (_NotPlain, RecursionError):
                continue


class PlainBody(dict[str, Any]):
    """A body of plain JSON that its caller can no longer change."""


def revealed(body: Any) -> Any:
    """`body` with its hidden values."""
    if not isinstance(body, dict) or type(body) is PlainBody:
        return body
    return {name: value.value if type(value) is Opaque else value for name, value in body.items()}


class SdkRequest(NamedTuple):
    """A call of a client's `post`, as a method of the SDK makes it; an async method awaits it."""

    path: str
    body: dict[str, Any]
    options: Mapping[str, Any]
    rest: dict[str, Any]

    def __await__(self) -> Generator[Any, None, "SdkRequest"]:
        return self
        yield  # makes this a generator, as `await` requires

    def filled(self, keywords: Mapping[str, Any]) -> PlainBody:
        """The body with the hidden values, and others of several parts, of another call."""
        filled = PlainBody(self.body)
        for name, value in keywords.items():
            if type(value) is Opaque:
                filled[name] = value.value
            elif type(value) not in _SCALARS:
                filled[name] = _copy(value)
        return filled

    def options_with(self, headers: dict[str, str]) -> Mapping[str, Any]:
        return {**self.options, "headers": {**self.options.get("headers", {}), **headers}} if headers else self.options


class SdkMethod:
    """A method of the SDK, with the requests that it made of earlier arguments."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._is_repeatable = method.__name__ == "create" and bool(hidden_arguments(method))
        self._asks_client = self._is_repeatable and "_client" in unwrap(method).__code__.co_names
        self._kept: dict[tuple[str, str], SdkRequest | None] = {}

    def request(self, client: Any, keywords: dict[str, Any]) -> SdkRequest | None:
        """What the method makes of `keywords` besides their hidden values; None if it must be called."""
        if not self._is_repeatable or not _are_comparable(keywords):
            return None
        key = repr(keywords), repr(client.timeout) if self._asks_client else ""
        if key not in self._kept:
            _make_room(self._kept)
            self._kept[key] = request_made_by(self._method, client, keywords)
        return self._kept.get(key)


def request_made_by(method: Callable[..., Any], client: Any, keywords: dict[str, Any]) -> SdkRequest | None:
    """What a method posts; None if it fails, warns, or does more with its arguments than to post them."""
    marked = {name: Opaque(None) if type(value) is Opaque else value for name, value in keywords.items()}
    if _recorded(_unable_to_warn(method), client, marked) is None:
        return None
    made = _recorded(method, client, marked)
    if not isinstance(made, SdkRequest) or not isinstance(made.body, dict):
        return None
    body = {name: value for name, value in made.body.items() if not is_left_out(value)}
    passed_on = {name: value for name, value in marked.items() if type(value) not in _SCALARS}
    others = {name: value for name, value in body.items() if type(value) not in _SCALARS}
    return made._replace(body=body) if others == passed_on else None


def _unable_to_warn(method: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a method that fails instead of warning its caller, as the SDK does of old models."""
    own: Any = unwrap(method)
    copied = FunctionType(own.__code__, {**own.__globals__, "warnings": None}, None, own.__defaults__, own.__closure__)
    copied.__kwdefaults__ = own.__kwdefaults__
    return copied


class SdkOptions(NamedTuple):
    """A call of a client's `request`, as its `post` makes it; an async `post` awaits it."""

    cast_to: Any
    options: Any
    rest: dict[str, Any]

    def __await__(self) -> Generator[Any, None, "SdkOptions"]:
        return self
        yield  # makes this a generator, as `await` requires


class SdkPost:
    """`post` of an SDK's client, with the options that it made of earlier arguments; they do not depend on the body."""

    def __init__(self, post: Callable[..., Any]) -> None:
        self._post = post
        self._is_repeatable = _is_unpatched(post)
        self._kept: dict[Any, SdkOptions | None] = {}

    def __call__(self, client: Any, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> Any:
        made = self.options(path, body, options or {}, rest) if self._is_repeatable else None
        if made is None:
            return self._post(client, path, body=body, options=options, **rest)
        changed = {"json_data": body}
        if type(made.options.headers) is dict:
            changed["headers"] = made.options.headers.copy()  # a client's `_prepare_options` may change them
        return client.request(made.cast_to, made.options.model_copy(update=changed), **made.rest)

    def options(self, path: str, body: Any, options: dict[str, Any], rest: dict[str, Any]) -> SdkOptions | None:
        """What `post` makes of the arguments, with any body; None if it must be called."""
        if not isinstance(body, dict) or not _JSON_TYPES.issuperset(map(type, body.values())):
            return None
        try:
            timeout = type(options.get("timeout"))  # those of httpx and httpx2 look alike
            key = path, repr(options), timeout, *rest.items()
            if key not in self._kept:
                copied = _copy_option(options)
                _make_room(self._kept)
                made = _recorded(self._post, None, {"path": path, "body": {}, "options": copied, **rest})
                is_model = isinstance(made, SdkOptions) and hasattr(made.options, "model_copy")
                self._kept[key] = made if is_model else None
            return self._kept.get(key)
        except Exception:  # options that cannot be compared, or shown
            return None


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()


class _Recorder:
    """Stands in for the object whose method is called, and returns what the method passes on."""

    def __init__(self, client: Any) -> None:
        self._client = SimpleNamespace()
        calculate = getattr(type(client), "_calculate_nonstreaming_timeout", None)
        if calculate is not None and _is_unpatched(calculate):
            self._client.timeout = client.timeout
            self._client._calculate_nonstreaming_timeout = partial(calculate, client)

    def _post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> SdkRequest:
        return SdkRequest(path, body, options or {}, rest)

    def request(self, cast_to: Any, options: Any, **rest: Any) -> SdkOptions:
        return SdkOptions(cast_to, options, rest)


def _recorded(method: Callable[..., Any], client: Any, arguments: dict[str, Any]) -> Any:
    """What a method of `client` or of one of its resources passes on; None if it fails."""
    try:
        made = method(_Recorder(client), **arguments)
        while not isinstance(made, (SdkRequest, SdkOptions)):
            made.send(None)  # an awaitable method: it has nothing to wait for
    except StopIteration as end:
        return end.value
    except Exception:
        return None
    return made


class _NotPlain(Exception):
    pass


_SCALARS = frozenset({str, int, float, bool, type(None)})
_COMPARABLE = _SCALARS | {Opaque}
_HIDEABLE = frozenset({str, list, dict})
_JSON_TYPES = _SCALARS | _HIDEABLE
_TEXTS, _DICTS = {str}, {dict}


def are_texts(items: list[Any]) -> bool:
    """Whether all items are dicts of texts, as most messages are."""
    if not _DICTS.issuperset(map(type, items)):
        return False
    values = chain.from_iterable(map(dict.values, items))
    return _TEXTS.issuperset(map(type, chain(chain.from_iterable(items), values)))


def _copy(value: Any) -> Any:
    """A copy, as the SDK makes one: the caller may change the original during the call."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return list(map(dict.copy, value)) if are_texts(value) else [_copy(item) for item in value]
    if kind is not dict or not _TEXTS.issuperset(map(type, value)):
        raise _NotPlain
    if _TEXTS.issuperset(map(type, value.values())):
        return value.copy()
    return {name: _copy(item) for name, item in value.items()}


def _copy_option(value: Any) -> Any:
    """A copy of options, which beside plain JSON may have timeouts and constants of the SDK."""
    kind = type(value)
    if kind is dict and _TEXTS.issuperset(map(type, value)):
        return {name: _copy_option(item) for name, item in value.items()}
    if kind in _SCALARS or is_left_out(value) or _is_constant(value):
        return value
    return kind(value) if is_timeout(value) else _copy(value)


def _is_constant(value: Any) -> bool:
    """Whether this is a function that a module of an SDK defines."""
    if type(value) is not FunctionType or not is_sdk(value.__module__):
        return False
    return getattr(sys.modules.get(value.__module__), value.__name__, None) is value


def is_timeout(value: Any) -> bool:
    """Whether this is a timeout of httpx or httpx2, which SDKs show as their own."""
    kind = type(value)
    if kind.__name__ != "Timeout":
        return False
    return any(getattr(sys.modules.get(name), "Timeout", None) is kind for name in ("httpx", "httpx2"))


def is_left_out(value: Any) -> bool:
    """Whether this is the SDK's placeholder for an argument that was not given."""
    return type(value).__name__ in ("Omit", "NotGiven")


def _are_comparable(keywords: dict[str, Any]) -> bool:
    """Whether the representation of `keywords` says all of them; what is extra varies too often to be compared."""
    if _COMPARABLE.issuperset(map(type, keywords.values())):  # as in most calls
        return True
    others = {name: value for name, value in keywords.items() if type(value) not in _COMPARABLE}
    try:
        _copy(others)
    except (_NotPlain, RecursionError):
        return False
    return not any(name.startswith("extra_") for name in others)


def _is_unpatched(method: Any) -> bool:
    """Whether `method` and all it wraps is the SDK's own; a wrapper of others may read the arguments."""
    while type(method) is FunctionType and is_sdk(method.__globals__["__name__"]):
        if not hasattr(method, "__wrapped__"):
            return True
        method = method.__wrapped__
    return False


def is_sdk(module: str) -> bool:
    """Whether a module is of an SDK, in a version, that is known."""
    package = module.partition(".")[0]
    version = str(getattr(sys.modules.get(package), "__version__", ""))
    return version.partition(".")[0] in _VERSIONS.get(package, ())
