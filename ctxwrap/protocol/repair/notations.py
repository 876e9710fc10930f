"""The notations other than JSON's in which a state may come, with how each is told and read."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ctxwrap.protocol.repair.markup import looks_like_markup, read_markup
from ctxwrap.protocol.repair.outline import looks_like_outline, read_outline
from ctxwrap.protocol.repair.parts import looks_like_parts, read_parts
from ctxwrap.protocol.repair.yaml import looks_like_yaml, read_yaml


class Notation(NamedTuple):
    """A notation by its name."""

    name: str
    looks_like: Callable[[str], bool]
    read: Callable[[str], dict[str, Any]]


NOTATIONS = (
    Notation("yaml", looks_like_yaml, read_yaml),
    Notation("parts", looks_like_parts, read_parts),
    Notation("xml", looks_like_markup, read_markup),
    Notation("outline", looks_like_outline, read_outline),
)
