"""Request bodies as the bytes that an SDK makes of them, by a faster encoder where it makes the same."""

from collections.abc import Callable
from functools import cache
from gc import get_referents
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from ctxwrap.clients.sdk_arguments import PlainBody


@cache
def encoding_of(library: Any) -> Callable[[Any], bytes]:
    """The encoding of an HTTP library, for SDKs without their own."""
    return lambda body: bytes(library.Request("POST", "http://localhost", json=body).content)


def encode_like(encode: Callable[[Any], bytes], body: dict[str, Any]) -> bytes:
    """What `encode` makes of a body: by a faster encoder, if that is known to make the same of it."""
    if type(body) is PlainBody and _is_compact(encode) and _is_exact(body):
        try:
            return to_json(body)
        except PydanticSerializationError:  # lone surrogates, values nested deeply
            pass
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


def _is_exact(body: PlainBody) -> bool:
    """Whether both encoders write all parts of a body alike. Of floats they write some in another way."""
    parts = list(body.values())
    while parts:
        kinds = set(map(type, parts))
        if not kinds <= _JSON_TYPES:
            return False
        if float in kinds and not all(repr(part).encode() == to_json(part) for part in parts if type(part) is float):
            return False
        parts = get_referents(*parts)  # the keys and items of all of them, found without a loop
    return True


_JSON_TYPES = frozenset({str, int, float, bool, type(None), list, dict})
