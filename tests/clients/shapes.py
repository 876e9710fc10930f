"""Plain JSON in every shape that the types of an SDK's arguments allow."""

import types
from typing import Annotated, Any, Literal, Required, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict

SCALARS = {str: "text", int: 7, float: 0.5, bool: True, type(None): None}


def shapes(hint: Any, inside: tuple[Any, ...] = ()) -> list[Any]:
    """Plain JSON for each shape that a type of the SDK allows; a type that holds itself is entered once."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in inside:
        return []
    if is_typeddict(hint):
        fields = get_type_hints(hint, include_extras=True)
        choices = {name: found for name, field in fields.items() if (found := shapes(field, (*inside, hint)))}
        rows = range(max(map(len, choices.values()), default=1))
        return [{name: found[row % len(found)] for name, found in choices.items()} for row in rows]
    if origin in (Union, types.UnionType):
        return [shape for each in arguments for shape in shapes(each, inside)]
    if origin is Literal:
        return list(arguments)
    if origin is dict:
        return [{f"key {at}": shape for at, shape in enumerate(shapes(arguments[1], inside))}]
    if origin in (Required, Annotated) or str(origin).endswith(".Required"):
        return shapes(arguments[0], inside)
    if origin is not None and arguments:  # a list, an iterable, a sequence
        return [shapes(arguments[0], inside)]
    if hint in (object, Any):
        return [{"any": ["thing", 1, None, {"type": "object", "from_": 2.5}]}]
    return [SCALARS[hint]] if hint in SCALARS else []
