"""Request bodies as the bytes that an SDK makes of them, by a faster encoder where it makes the same."""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ctxwrap.clients.sdk_arguments import PlainBody, are_texts


@cache
def encoding_of(library: Any) -> Callable[[Any], bytes]:
    """The HTTP library's own encoding of a body."""
    return lambda body: bytes(library.Request("POST", "http://localhost", json=body).content)


def encode_like(encode: Callable[[Any], bytes], body: dict[str, Any]) -> bytes:
    """What `encode` makes of a body: by a faster encoder, if that is known to make the same of it."""
    try:
        return to_json(body) if _is_compact(encode) and _is_exact(body) else encode(body)
    except (PydanticSerializationError, RecursionError):  # lone surrogates, values nested deeply
        return encode(body)


@cache
def _is_compact(encode: Callable[[Any], bytes]) -> bool:
    """Whether an encoder leaves out all white space, and writes characters and numbers as the faster one does."""
    texts = "".join(map(chr, range(0x800))), "\u2028\u2029\ufeff\uffff\U0001f600"
    probe = {text: [text, {}, [], {"a": None, "b": True, "c": False}, 0, -1, 1 << 80] for text in texts}
    try:
        return encode(probe) == to_json(probe)
    except Exception:  # an encoder that refuses some of it
        return False


def _is_exact(value: Any) -> bool:
    """Whether both encoders write a value alike; of floats they write some in another way."""
    kind = type(value)
    if kind is list:
        return are_texts(value) or all(map(_is_exact, value))
    if kind is dict or kind is PlainBody:
        return _TEXT.issuperset(map(type, value)) and all(map(_is_exact, value.values()))
    return kind in _EXACT or (kind is float and to_json(value) == repr(value).encode())


_TEXT, _EXACT = frozenset({str}), frozenset({str, int, bool, type(None)})
