"""A trailer that came as YAML instead of JSON."""

import re
from functools import cache
from typing import Any, ClassVar

from ctxwrap.patterns import lazy_pattern
from ctxwrap.protocol.repair.effort import spend
from ctxwrap.protocol.repair.strict import Unreadable
from ctxwrap.protocol.words import MAX_DEPTH

_YAML_PAIR = lazy_pattern(r"\A\s*(?:---\s*\n)?(?:version|runtime|memory)\s*:[\s\w\"'.]*\n", re.IGNORECASE)


def looks_like_yaml(text: str) -> bool:
    return _YAML_PAIR.match(text) is not None


def read_yaml(text: str) -> dict[str, Any]:
    """The mapping in `text`; Unreadable if there is none, or if it uses anchors, aliases or tags."""
    import yaml  # type: ignore[import-untyped]

    depth = 0
    try:
        for event in yaml.parse(text, Loader=_loader()):
            spend(4)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            marked = getattr(event, "anchor", None) or getattr(event, "tag", None)
            if marked or isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
                raise Unreadable("YAML with references, tags or depths is not read")
        value = yaml.load(text, Loader=_loader())  # a safe one
    except (yaml.YAMLError, RecursionError) as error:
        raise Unreadable(f"no YAML either: {error}") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Unreadable("it is no mapping")
    return value


@cache
def _loader() -> Any:
    """A safe loader that knows only the types of JSON: dates stay texts."""
    import yaml

    class Plain(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    for kind, pattern, first in (
        ("null", r"null|Null|NULL|~|", "nN~"),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
        (
            "float",
            r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)(?=[eE]))(?:[eE][-+]?[0-9]+)?",
            "-+.0123456789",
        ),
    ):
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), [*first])
    return Plain
