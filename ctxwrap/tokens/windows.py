"""How many tokens a model takes and gives, from the table that litellm ships."""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ctxwrap.tokens.litellm_files import model_row, model_rows

UNKNOWN_INPUT = 8192
UNKNOWN_OUTPUT = 4096
REPLY = 4096
"""What a reply is left, unless the caller or the model says less."""

_TEXT_MODES = frozenset({"chat", "completion", "responses", None})


class Window(NamedTuple):
    input_tokens: int
    """The most a request may hold; with many providers the reply is to fit into it as well."""
    output_tokens: int
    """The most a reply may hold."""
    known: bool
    """Whether it is this model's, not merely a guess."""


_UNKNOWN = Window(UNKNOWN_INPUT, UNKNOWN_OUTPUT, known=False)


def window_of(model: str, overrides: Mapping[str, int | Window] | None = None) -> Window:
    """The window of a model by any of its names; `overrides` gives windows by name, or how much goes in."""
    if overrides:
        own = {name.lower(): window for name, window in overrides.items()}
        for name in spellings(model):
            if name in own:
                return _as_window(own[name])
    return _listed(model)


def reply_reserve(model: str, asked_for: int | None = None, overrides: Mapping[str, int | Window] | None = None) -> int:
    """How much of the window is to be left to the reply: what was asked for, else some room.

    A provider counts all that was asked for against the window, however little of it the reply takes.
    """
    window = window_of(model, overrides)
    if asked_for is None or asked_for <= 0:
        return min(REPLY, window.output_tokens, window.input_tokens // 4)
    most = window.output_tokens if window.known else asked_for
    return min(asked_for, most, window.input_tokens)


_SUFFIXES = re.compile(
    r"(?:-latest|[-@]\d{4}-?\d{2}-?\d{2}|[-@]\d{2}-\d{2}|[-@]\d{4}|-v\d+:\d+|[:@][\w.-]+"
    r"|-preview|-exp|-maas|-versatile)$"
)
_REGION_OR_VENDOR = re.compile(r"[a-z][a-z0-9-]*\.(?=[a-z])")


def spellings(model: str) -> Iterator[str]:
    """A model's name, then shorter and shorter forms of it: without providers, dates, versions, regions, vendors."""
    name = model.strip().lower()
    seen = set[str]()
    for start in _starts(name):
        shorter: str | None = start
        while shorter:
            if shorter not in seen:
                seen.add(shorter)
                yield shorter
            shorter = _without_suffix(shorter)


def _starts(name: str) -> Iterator[str]:
    yield name
    while "/" in name:
        name = name.partition("/")[2]
        yield name
    if name.startswith("ft:"):
        name = name.split(":")[1]
        yield name
    while _REGION_OR_VENDOR.match(name):
        name = name.partition(".")[2]
        yield name


def _without_suffix(name: str) -> str | None:
    shorter = _SUFFIXES.sub("", name)
    return shorter if shorter and shorter != name else None


@lru_cache(maxsize=1024)
def _listed(model: str) -> Window:
    names = list(spellings(model))
    if sizes := _sizes(model_row(names[0])) if names else None:  # parsing the whole table takes far longer than a call
        return Window(*sizes, known=True)
    found = next((_window_table()[name] for name in names if name in _window_table()), None)
    found = found or next((_shortened()[_dashed(name)] for name in names if _dashed(name) in _shortened()), None)
    return Window(*found, known=True) if found else _UNKNOWN


@cache
def _window_table() -> dict[str, tuple[int, int]]:
    return {name.lower(): sizes for name, row in model_rows().items() if (sizes := _sizes(row))}


@cache
def _shortened() -> dict[str, tuple[int, int]]:
    """The table by the shortest forms of its names, for models that another provider has too; the smallest of them."""
    shortened: dict[str, tuple[int, int]] = {}
    for name, sizes in _window_table().items():
        shortest = _dashed(list(spellings(name))[-1])
        shortened[shortest] = min(sizes, shortened.get(shortest, sizes))
    return shortened


def forget_windows() -> None:
    """Read the table anew."""
    for cached in (_listed, _window_table, _shortened):
        cached.cache_clear()


def _sizes(row: Any) -> tuple[int, int] | None:
    """`max_tokens` is the reply's limit where there is another for the request, else it is all there is."""
    if not isinstance(row, dict) or row.get("mode") not in _TEXT_MODES:
        return None
    most, taken, given = (_size(row.get(name)) for name in ("max_tokens", "max_input_tokens", "max_output_tokens"))
    taken = taken or most
    return (taken, given or min(most or UNKNOWN_OUTPUT, taken)) if taken else None


def _size(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0


def _as_window(window: int | Window) -> Window:
    return window if isinstance(window, Window) else Window(window, min(window, UNKNOWN_OUTPUT), known=True)


def _dashed(name: str) -> str:
    """Versions are written with points here and with hyphens there."""
    return name.replace(".", "-")
