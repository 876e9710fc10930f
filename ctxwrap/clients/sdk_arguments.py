"""Arguments of OpenAI's SDK: plain JSON skips its walk over types, and what it makes of the others is kept.

A method such as `create` makes a request of its arguments and posts it; `post` makes options of that. Both depend on
nothing but their arguments. So each is called once with a recorder instead of its client, and later calls with the same
arguments start from what was recorded.
"""

import sys
from collections.abc import Callable, Generator, Mapping
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple

_VERSIONS = ("1", "2", "3")
"""The major versions of the SDK whose types were checked; with others nothing is hidden."""

_HIDDEN = {
    "create": frozenset(
        {
            *("model", "messages", "input", "prompt", "instructions", "tools", "tool_choice", "stop"),
            *("response_format", "stream_options", "metadata", "reasoning", "text", "include"),
            *("user", "safety_identifier", "prompt_cache_key", "previous_response_id", "conversation"),
        }
    ),
    "parse": frozenset({"model", "messages", "input"}),
}
"""The arguments that a method passes on unread; `parse` reads some."""

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
    names = _HIDDEN.get(method.__name__, frozenset())
    return names if names and _is_unpatched(method) else frozenset()


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
        """The body with the hidden values of another call."""
        filled = PlainBody(self.body)
        for name, value in keywords.items():
            if type(value) is Opaque:
                filled[name] = value.value
        return filled

    def options_with(self, headers: dict[str, str]) -> Mapping[str, Any]:
        return {**self.options, "headers": headers} if headers else self.options


class SdkMethod:
    """A method of the SDK, with the requests that it made of earlier arguments."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self._is_repeatable = method.__name__ == "create" and bool(hidden_arguments(method))
        self._kept: dict[str, SdkRequest | None] = {}

    def request(self, keywords: dict[str, Any]) -> SdkRequest | None:
        """What the method makes of `keywords` besides their hidden values; None if it must be called."""
        if not self._is_repeatable or not _COMPARABLE.issuperset(map(type, keywords.values())):
            return None
        key = repr(keywords)
        if key not in self._kept:
            _make_room(self._kept)
            self._kept[key] = request_made_by(self._method, keywords)
        return self._kept.get(key)


def request_made_by(method: Callable[..., Any], keywords: dict[str, Any]) -> SdkRequest | None:
    """What a method posts; None if it fails, or does more with its arguments than to post them."""
    hidden = {name for name, value in keywords.items() if type(value) is Opaque}
    marked = {name: Opaque(None) if name in hidden else value for name, value in keywords.items()}
    made = _recorded(method, marked)
    if not isinstance(made, SdkRequest) or not isinstance(made.body, dict):
        return None
    is_plain = _COMPARABLE.issuperset(map(type, made.body.values()))
    return made if is_plain and {name for name, value in made.body.items() if type(value) is Opaque} == hidden else None


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
        return client.request(made.cast_to, made.options.model_copy(update={"json_data": body}), **made.rest)

    def options(self, path: str, body: Any, options: dict[str, Any], rest: dict[str, Any]) -> SdkOptions | None:
        """What `post` makes of the arguments, with any body; None if it must be called."""
        if not isinstance(body, dict) or not _JSON_TYPES.issuperset(map(type, body.values())):
            return None
        try:
            key = path, repr(_copy(options)), *rest.items()
            if key not in self._kept:
                _make_room(self._kept)
                made = _recorded(self._post, {"path": path, "body": {}, "options": _copy(options), **rest})
                is_model = isinstance(made, SdkOptions) and hasattr(made.options, "model_copy")
                self._kept[key] = made if is_model else None
            return self._kept.get(key)
        except (_NotPlain, TypeError, RecursionError):  # options that cannot be compared
            return None


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MOST_KEPT:
        kept.clear()


class _Recorder:
    """Stands in for the object whose method is called, and returns what the method passes on."""

    def _post(self, path: str, *, body: Any = None, options: Any = None, **rest: Any) -> SdkRequest:
        return SdkRequest(path, body, options or {}, rest)

    def request(self, cast_to: Any, options: Any, **rest: Any) -> SdkOptions:
        return SdkOptions(cast_to, options, rest)


def _recorded(method: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """What a method passes on; None if it fails."""
    try:
        made = method(_Recorder(), **arguments)
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


def _is_unpatched(method: Any) -> bool:
    """Whether `method` and all it wraps is the SDK's own; a wrapper of others may read the arguments."""
    if _version() not in _VERSIONS:
        return False
    while type(method) is FunctionType and method.__globals__["__name__"].partition(".")[0] == "openai":
        if not hasattr(method, "__wrapped__"):
            return True
        method = method.__wrapped__
    return False


def _version() -> str:
    """The major version of OpenAI's SDK, if it is loaded."""
    return str(getattr(sys.modules.get("openai"), "__version__", "")).partition(".")[0]
