"""Models: tokenizer families, and context windows and prices from the table that litellm ships."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple


class Family(NamedTuple):
    """Models whose tokenizer is not available: their token counts as multiples of an available encoding's."""

    base: str
    latin: float
    """Tokens per token of the base encoding, in ASCII text."""
    other: float
    """The same in other text."""
    single_digits: bool = False
    """Whether every digit is a token; the encodings join up to three."""
    margin: float = 0.2


_CLAUDE = Family("cl100k_base", 1.2, 1.15)
_CLAUDE_SINCE_OPUS_4_7 = Family("cl100k_base", 1.65, 1.15)
"""The newer tokenizer makes about half as many tokens again of Latin script, and as many of other scripts."""

_SMALL_VOCABULARY = Family("cl100k_base", 1.15, 1.1, single_digits=True, margin=0.25)
"""A vocabulary of 32 000 tokens, as in Llama 2 and earlier Mistral models."""

UNKNOWN = Family("o200k_base", 1.15, 1.3, single_digits=True, margin=0.25)

_BY_PREFIX: dict[str, str | Family] = {
    "gpt-4o": "o200k_base",
    "gpt-4.1": "o200k_base",
    "gpt-4.5": "o200k_base",
    "gpt-5": "o200k_base",
    "gpt-oss": "o200k_base",  # o200k_harmony differs only in special tokens
    "chatgpt-4o": "o200k_base",
    "o1": "o200k_base",
    "o3": "o200k_base",
    "o4-mini": "o200k_base",
    "codex-mini": "o200k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
    "gpt-35-turbo": "cl100k_base",
    "davinci-002": "cl100k_base",
    "babbage-002": "cl100k_base",
    "text-embedding-ada-002": "cl100k_base",
    "text-embedding-3": "cl100k_base",
    "text-davinci-003": "p50k_base",
    "text-davinci-002": "p50k_base",
    "code-davinci-002": "p50k_base",
    "gpt-": Family("o200k_base", 1.0, 1.0, margin=0.15),
    "claude": _CLAUDE_SINCE_OPUS_4_7,
    "claude-instant": _CLAUDE,
    "claude-v1": _CLAUDE,
    "claude-v2": _CLAUDE,
    "claude-2": _CLAUDE,
    "claude-3": _CLAUDE,
    "claude-4": _CLAUDE,
    "claude-opus-4": _CLAUDE,
    "claude-sonnet-4": _CLAUDE,
    "claude-haiku-4": _CLAUDE,
    **{
        f"claude-{name}": _CLAUDE_SINCE_OPUS_4_7
        for version in ("4-7", "4.7", "4-8", "4.8", "4-9", "4.9")
        for name in (version, f"opus-{version}", f"sonnet-{version}", f"haiku-{version}")
    },
    "gemini": Family("o200k_base", 1.05, 1.0, single_digits=True),
    "gemma": Family("o200k_base", 1.05, 1.0, single_digits=True),
    "llama": Family("o200k_base", 1.05, 1.25),
    "llama-2": _SMALL_VOCABULARY,
    "llama2": _SMALL_VOCABULARY,
    "codellama": _SMALL_VOCABULARY,
    "mistral": _SMALL_VOCABULARY,
    "mixtral": _SMALL_VOCABULARY,
    "ministral": _SMALL_VOCABULARY,
    "codestral": _SMALL_VOCABULARY,
    "magistral": _SMALL_VOCABULARY,
    "devstral": _SMALL_VOCABULARY,
    "pixtral": _SMALL_VOCABULARY,
    "deepseek": Family("o200k_base", 1.05, 1.15),
    "qwen": Family("o200k_base", 1.05, 1.2, single_digits=True),
    "qwq": Family("o200k_base", 1.05, 1.2, single_digits=True),
}

_LONGEST_FIRST = sorted(_BY_PREFIX, key=len, reverse=True)


def family_of(model: str) -> str | Family:
    """The encoding of a model, or the family that estimates its counts."""
    prefix = known_prefix(model, _LONGEST_FIRST)
    return _BY_PREFIX[prefix] if prefix else UNKNOWN


def known_prefix(model: str, longest_first: list[str]) -> str:
    """The longest known prefix of a model's name without provider, region and vendor; empty if there is none."""
    for name in _beginnings(model):
        for prefix in longest_first:
            if name.startswith(prefix) and not _splits_a_number(prefix, name):
                return prefix
    return ""


def _beginnings(model: str) -> Iterator[str]:
    """Candidates for a model's own name: those in the last path segment first, from the left.

    After a hyphen a name needs two letters, so that parts such as `-o1` of another name are not mistaken for one.
    """
    name = model.strip().lower()
    last = name.rpartition("/")[2]
    for text in (last, name):
        yield text
        for at, character in enumerate(text):
            tail = text[at + 1 :]
            if character in ":./@" or (character in "-_" and tail[:1].isalpha() and tail[1:2].isalpha()):
                yield tail


def _splits_a_number(prefix: str, name: str) -> bool:
    return prefix[-1].isdigit() and name[len(prefix) : len(prefix) + 1].isdigit()


_TABLE = "model_prices_and_context_window_backup.json"
_LONGEST_ROW = 64 * 1024
_NO_MODELS = frozenset({"sample_spec", "fallback_generalizations"})


def litellm_directory() -> Path | None:
    """The directory of the installed litellm, or None."""
    try:
        spec = util.find_spec("litellm")
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) if places else None


def model_rows() -> dict[str, Any]:
    """litellm's table: a row for each model name. Empty if there is no table."""
    try:
        rows = json.loads(_table())
    except ValueError:
        return {}
    return {name: row for name, row in rows.items() if name not in _NO_MODELS} if isinstance(rows, dict) else {}


def model_row(name: str) -> Any:
    """The row of a model by its lower-case name, without parsing the whole table; None if it is not found."""
    table = _table().lower()
    at = table.rfind(f"\n    {json.dumps(name)}: {{".encode())
    if at < 0 or name in _NO_MODELS:
        return None
    with suppress(ValueError):
        return json.JSONDecoder().raw_decode(table[table.index(b"{", at) : at + _LONGEST_ROW].decode("ascii"))[0]
    return None


def _table() -> bytes:
    directory = litellm_directory()
    try:
        return (directory / _TABLE).read_bytes() if directory else b"{}"
    except OSError:
        return b"{}"


UNKNOWN_INPUT = 8192
UNKNOWN_OUTPUT = 4096
REPLY = 4096
"""Tokens reserved for a reply, unless the caller or the model sets less."""

_TEXT_MODES = frozenset({"chat", "completion", "responses", None})


class ContextWindow(NamedTuple):
    input_tokens: int
    """The most tokens of a request; many providers count the reply in."""
    output_tokens: int
    """The most tokens of a reply."""
    known: bool
    """Whether the numbers are the model's; otherwise they are a guess."""


_UNKNOWN = ContextWindow(UNKNOWN_INPUT, UNKNOWN_OUTPUT, known=False)


def window_of(model: str, overrides: Mapping[str, int | ContextWindow] | None = None) -> ContextWindow:
    """The window of a model by any of its names; `overrides` maps names to windows or to input tokens."""
    if overrides:
        own = {name.lower(): window for name, window in overrides.items()}
        for name in spellings(model):
            if name in own:
                return _as_window(own[name])
    return _listed(model)


def reply_reserve(window: ContextWindow, asked_for: int | None = None) -> int:
    """The tokens of a window that are reserved for the reply: the request's limit, or a default.

    A provider counts the whole limit against the window, however short the reply is.
    """
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
    """A model's name, then shorter forms of it without provider, date, version, region and vendor."""
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
def _listed(model: str) -> ContextWindow:
    names = list(spellings(model))
    if sizes := _sizes(model_row(names[0])) if names else None:  # parsing the whole table is slow
        return ContextWindow(*sizes, known=True)
    found = next((_window_table()[name] for name in names if name in _window_table()), None)
    found = found or next((_shortened()[_dashed(name)] for name in names if _dashed(name) in _shortened()), None)
    return ContextWindow(*found, known=True) if found else _UNKNOWN


@cache
def _window_table() -> dict[str, tuple[int, int]]:
    return {name.lower(): sizes for name, row in model_rows().items() if (sizes := _sizes(row))}


@cache
def _shortened() -> dict[str, tuple[int, int]]:
    """The table by the shortest forms of its names; of several providers' windows for a model, the smallest."""
    shortened: dict[str, tuple[int, int]] = {}
    for name, sizes in _window_table().items():
        shortest = _dashed(list(spellings(name))[-1])
        shortened[shortest] = min(sizes, shortened.get(shortest, sizes))
    return shortened


def forget_windows() -> None:
    """Drop the cached table, so that it is read again."""
    for cached in (_listed, _window_table, _shortened):
        cached.cache_clear()


def _sizes(row: Any) -> tuple[int, int] | None:
    """Input and output sizes. `max_tokens` is the output limit if there is an input limit, otherwise the only limit."""
    if not isinstance(row, dict) or row.get("mode") not in _TEXT_MODES:
        return None
    most, taken, given = (_size(row.get(name)) for name in ("max_tokens", "max_input_tokens", "max_output_tokens"))
    taken = taken or most
    return (taken, given or min(most or UNKNOWN_OUTPUT, taken)) if taken else None


def _size(value: Any) -> int:
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0


def _as_window(window: int | ContextWindow) -> ContextWindow:
    return (
        window if isinstance(window, ContextWindow) else ContextWindow(window, min(window, UNKNOWN_OUTPUT), known=True)
    )


def _dashed(name: str) -> str:
    """A name with hyphens in versions, which some providers write with points."""
    return name.replace(".", "-")


class Price(NamedTuple):
    """US dollars per token."""

    input: float
    output: float
    cached: float
    """Of input tokens read from the provider's cache."""
    written: float
    """Of input tokens written to the cache."""


def price_of(model: str) -> Price | None:
    """The price of a model by any of its names, or None if the table has none."""
    return next((_price_table()[name] for name in spellings(model) if name in _price_table()), None)


@cache
def _price_table() -> dict[str, Price]:
    return {name.lower(): price for name, row in model_rows().items() if (price := _price(row))}


def _price(row: Any) -> Price | None:
    if not isinstance(row, dict):
        return None
    given, taken = (_number(row.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
    if given is None or taken is None:
        return None
    cached, written = (_number(row.get(f"cache_{name}_input_token_cost")) for name in ("read", "creation"))
    return Price(given, taken, given if cached is None else cached, given if written is None else written)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None
