"""The SDKs' streams, as objects that go when their last reader lets them go."""

from copy import copy
from typing import Any


def without_cycle(stream: Any) -> Any:
    """`stream`, which a generator over itself no longer keeps: it is closed when it is dropped.

    An SDK's stream may hold the generator that reads it, and that the stream, so that one which was dropped goes on
    having its session, and its connection, until garbage is collected. Here a copy of the stream is what is read.
    """
    iterator: Any = getattr(stream, "__dict__", {}).get("_iterator")
    frame = getattr(iterator, "gi_frame", None) or getattr(iterator, "ag_frame", None)
    if frame is not None and frame.f_locals.get("self") is stream:
        read = copy(stream)
        del read._iterator
        stream._iterator = getattr(read, iterator.__name__)()
    return stream
